"""All of a small state as a network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.engine.results.host import host_values
from omnigraph.engine.results.network import Network, NetworkEdge, NodeKey, check_size
from omnigraph.runtime import Counters
from omnigraph.store.table import KEY
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import check_whole


def network_of_state(pinned: Snapshot, catalog: Catalog, limit: int) -> Network:
    """Return every node and edge of a state, types by name.

    Raises:
        ViewTooLargeError: there are more than ``limit`` of them; no row was read.
    """
    check_whole("limit", limit)
    check_size("entities", sum(entry.row_count for entry in pinned.state.tables.values()), limit)
    nodes: dict[NodeKey, dict[str, Any]] = {}
    for owner in catalog.nodes.values():
        nodes.update({(owner.name, row.pop(KEY)): row for row in _rows(pinned, owner)})
    edges = [
        NetworkEdge(
            type_name=owner.name,
            key=row.pop(KEY),
            source=(owner.from_type, row.pop("src")),
            target=(owner.to_type, row.pop("dst")),
            properties=row,
        )
        for owner in catalog.edges.values()
        for row in _rows(pinned, owner)
    ]
    return Network(nodes=nodes, edges=tuple(edges))


def _rows(pinned: Snapshot, owner: NodeType | EdgeType) -> Iterator[dict[str, Any]]:
    counters = Counters()
    table = pinned.table(owner.table_key, counters)
    names = [name for name in table.schema.names if name not in table.blobs]
    for batch in table.read(names, counters=counters).sort_by(KEY).to_batches():
        columns = [host_values(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))
