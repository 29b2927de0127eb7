"""Edges around a frontier, fetched through the indexes on their ends, hop by hop."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.predicates import one_of
from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.demand import edges_cost
from omnigraph.engine.query.entities import Entities
from omnigraph.engine.query.frame import RowIds, distinct
from omnigraph.engine.query.operators.choice import demand_key
from omnigraph.engine.query.topology import Adjacency
from omnigraph.ir.model import Direction
from omnigraph.records import record
from omnigraph.store.lookup import filter_stream
from omnigraph.store.matching import rows_matching
from omnigraph.store.table import KEY, ROW_ID

_ENDS: dict[Direction, tuple[tuple[str, str], ...]] = {
    "out": (("src", "dst"),),
    "in": (("dst", "src"),),
    "both": (("src", "dst"), ("dst", "src")),
}


@record
class FetchedEdges:
    """Adjacency of some edges. Its numbers are places in ``sources``, ``targets`` and ``edges``, ascending row ids."""

    adjacency: Adjacency
    sources: RowIds
    targets: RowIds
    edges: RowIds


@record
class _Known:
    """Nodes by id, as far as the walk has met them."""

    ids: pa.Array
    row_ids: RowIds

    def row_ids_of(self, ids: pa.Array) -> RowIds:
        """Return the row ids of nodes by id, -1 for those that are not there."""
        at = pc.fill_null(pc.index_in(ids, value_set=self.ids), -1).to_numpy(zero_copy_only=False)
        return np.where(at >= 0, self.row_ids[at], -1) if len(self.row_ids) else np.full(len(at), -1, dtype=np.int64)

    def plus(self, ids: pa.Array, row_ids: RowIds) -> _Known:
        return _Known(ids=pa.concat_arrays([self.ids, ids]), row_ids=np.concatenate([self.row_ids, row_ids]))


def fetch_edges(
    context: QueryContext, edge: EdgeType, direction: Direction, sources: RowIds, hops: int
) -> FetchedEdges:
    """Fetch every edge that a walk of so many hops from the sources can use, and the nodes at its ends."""
    start, end = (edge.to_type, edge.from_type) if direction == "in" else (edge.from_type, edge.to_type)
    starts, ends = context.entities(f"node:{start}"), context.entities(f"node:{end}")
    frontier = distinct(sources)
    near = _Known(ids=starts.values(frontier, KEY), row_ids=frontier)
    far = near if edge.is_same_type else _Known(ids=pa.array([], pa.string()), row_ids=np.zeros(0, dtype=np.int64))
    pairs = [_NOTHING]
    for _ in range(hops if edge.is_same_type else 1):
        context.limits.check()
        if not len(frontier):
            break
        found = _edges_of(context, context.entities(edge.table_key), near, frontier, direction)
        context.memory.demand.spend(demand_key(context, edge, direction), edges_cost(found.num_rows))
        known_before = far.row_ids
        far = _meet(context, ends, far, pc.unique(found.column("target")))
        near = far if edge.is_same_type else near
        pairs.append(_as_numbers(found, near, far))
        frontier = np.setdiff1d(far.row_ids, known_before)
    return _assemble(np.concatenate(pairs, axis=1), near, far, is_same_type=edge.is_same_type)


# Rows: source, target, edge.
_NOTHING = np.zeros((3, 0), dtype=np.int64)


def _edges_of(context: QueryContext, edges: Entities, near: _Known, frontier: RowIds, direction: Direction) -> pa.Table:
    ids = near.ids.take(pa.array(np.flatnonzero(np.isin(near.row_ids, frontier))))
    parts = []
    for here, there in _ENDS[direction]:
        rows = _rows_where(context, edges, here, ids)
        row_ids = edges.add(rows)
        parts.append(pa.table({"source": rows[here], "target": rows[there], "edge": pa.array(row_ids)}))
    return pa.concat_tables(parts)


def _rows_where(context: QueryContext, edges: Entities, column: str, ids: pa.Array) -> pa.Table:
    names = list(dict.fromkeys([*edges.columns, "src", "dst", ROW_ID]))
    predicate = one_of(column, ids)
    if predicate is None:
        return filter_stream(
            edges.table.scan(names, counters=context.counters),
            lambda rows: pc.is_in(rows.column(column), value_set=ids),
            wanted_count=len(ids),
        )
    return rows_matching(
        edges.table, column, predicate, lambda found: pc.is_in(found, value_set=ids), names, context.counters
    )


def _meet(context: QueryContext, ends: Entities, far: _Known, ids: pa.Array) -> _Known:
    """Look up the nodes that were not met before; an id without a node is never met."""
    ids = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    fresh = ids.filter(pc.invert(pc.is_in(ids, value_set=far.ids)))
    if not len(fresh):
        return far
    rows = ends.table.lookup(fresh, ends.columns, context.counters)
    met = rows.column(KEY).combine_chunks()
    return far.plus(met.chunk(0) if isinstance(met, pa.ChunkedArray) else met, ends.add(rows))


def _as_numbers(found: pa.Table, near: _Known, far: _Known) -> np.ndarray:
    sources = near.row_ids_of(found.column("source").combine_chunks())
    targets = far.row_ids_of(found.column("target").combine_chunks())
    edges = found.column("edge").to_numpy()
    is_whole = (sources >= 0) & (targets >= 0)
    return np.stack([sources[is_whole], targets[is_whole], edges[is_whole]])


def _assemble(pairs: np.ndarray, near: _Known, far: _Known, *, is_same_type: bool) -> FetchedEdges:
    sources = distinct(near.row_ids)
    targets = sources if is_same_type else distinct(far.row_ids)
    edges = distinct(pairs[2])
    # An undirected self-loop is found from both of its ends, which are one.
    unique = np.unique(pairs, axis=1)
    adjacency = Adjacency.of_pairs(
        np.searchsorted(sources, unique[0]),
        np.searchsorted(targets, unique[1]),
        np.searchsorted(edges, unique[2]),
        node_count=len(sources),
        target_count=len(targets),
    )
    return FetchedEdges(adjacency=adjacency, sources=sources, targets=targets, edges=edges)
