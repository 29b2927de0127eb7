"""Exports hold their graph: while one runs, the graph is not deleted."""

from __future__ import annotations

from omnigraph.cluster.ledger.place import ClusterPlace


def refuse_exported(place: ClusterPlace, graph_id: str) -> None:
    """Return if no export of a graph is running."""
