"""Exports hold their graph: while one runs, the graph is not deleted."""

from __future__ import annotations

from omnigraph.cluster.declaration import graph_address
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.engine.export.holds import running_exports


def refuse_exported(place: ClusterPlace, graph_id: str) -> None:
    """Return if no export of a graph is running.

    Raises:
        ClusterStateError: ``graph_delete_export_in_progress``.
    """
    for key, hold in running_exports(place.storage, graph_id).items():
        since = "" if hold is None else f" since {hold.started_at} by process {hold.writer.pid}"
        message = (
            f"graph '{graph_id}' is being exported{since}; apply again when the export has ended, or delete "
            f"'{place.shown(key)}' if it is gone"
        )
        raise state_error("graph_delete_export_in_progress", graph_address(graph_id), message)
