"""Where a walk looks for edges: adjacency of the whole edge table, or of what was fetched around the frontier.

Both are the same kind of arrays and are walked by the same functions, so that they cannot give different rows.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.comparison import one_of
from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.entities import Entities, adjacency_price, edges_cost
from omnigraph.engine.query.frame import Positions, RowIds, distinct
from omnigraph.engine.query.topology import Adjacency, LayeredEdges, NodeNumbers, Walkable
from omnigraph.errors import InternalError, OmnigraphError
from omnigraph.ir.model import Direction
from omnigraph.records import record
from omnigraph.store.tables.lookup import filter_stream, index_coverage
from omnigraph.store.tables.pinned import KEY, ROW_ID
from omnigraph.store.tables.table import Table

_LOG = logging.getLogger(__name__)

# Beyond this many hops or sources a walk through indexes makes too many calls.
_MAX_HOPS = 6
_MAX_FRONTIER = 1024
# Building adjacency reads every edge once and sorts it.
_BUILD_COST = 1.5
# A walk through layers that may meet more than this share of all edges makes whole adjacency instead.
_LAYERED_SHARE = 8
# The tail of an edge table that no index covers is held in memory up to about this many rows, and costs no scan.
_TAIL_ROWS = 50_000


def walks_in_memory(context: QueryContext, edge: EdgeType, direction: Direction, sources: RowIds, hops: int) -> bool:
    """Whether adjacency in memory is the cheaper way for these sources; an option may force either way."""
    mode = context.options.mode
    if mode != "auto":
        return mode == "csr"
    tables = _tables_of(context, edge)
    if context.memory.topology.known_adjacency(*tables, direction) is not None:
        return True
    if context.memory.topology.layers(*tables, direction, context.limits.check) is not None:
        return True
    edges = context.entities(edge.table_key).table
    edge_count = edges.row_count
    price = adjacency_price(edge_count, context.memory.topology.unknown_rows(edges))
    if context.memory.demand.is_worth(demand_key(context, edge, direction), price):
        return True
    walked = hops if edge.is_same_type else 1
    frontier = len(distinct(sources)) if len(sources) <= 4 * _MAX_FRONTIER else len(sources)
    if walked > _MAX_HOPS or frontier > _MAX_FRONTIER:
        return True
    start = edge.to_type if direction == "in" else edge.from_type
    fanout = edge_count / max(1, context.entities(f"node:{start}").table.row_count)
    adjacency_cost = _BUILD_COST * edge_count
    # Every hop multiplies, until it follows all edges there are.
    if sum(min(frontier * fanout**hop, edge_count) for hop in range(1, walked + 1)) >= adjacency_cost:
        return True
    if _is_covered(context, edge, direction):
        return False
    return walked * edge_count >= adjacency_cost


def demand_key(context: QueryContext, edge: EdgeType, direction: Direction) -> Hashable:
    """Return under which name fetched edges are counted."""
    return (context.entities(edge.table_key).table.pin, direction)


def _is_covered(context: QueryContext, edge: EdgeType, direction: Direction) -> bool:
    """Whether indexes on the ends that are walked from cover the edge table, its small tail aside."""
    table = context.entities(edge.table_key).table
    columns = {"out": ("src",), "in": ("dst",), "both": ("src", "dst")}[direction]
    try:
        covered = frozenset.intersection(*(index_coverage(table, name) for name in columns))
    except OmnigraphError:
        _LOG.warning("could not inspect the indexes of %s; falling back to scans", edge.table_key)
        return False
    loose = sum(item.row_count for item in table.fragments if item.metadata.id not in covered)
    if loose > _TAIL_ROWS:
        _LOG.warning("%s has %d edges that no index covers; run optimize", edge.table_key, loose)
    return loose <= _TAIL_ROWS


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
    context: QueryContext, edges: Sequence[EdgeType], direction: Direction, sources: RowIds, hops: int
) -> tuple[FetchedEdges, ...]:
    """Fetch every edge that a walk of so many hops from the sources can use, and the nodes at its ends.

    The edges have the same ends, and a walk may take any of them at every hop; the nodes of all are numbered together.
    """
    edge = edges[0]
    start, end = (edge.to_type, edge.from_type) if direction == "in" else (edge.from_type, edge.to_type)
    starts, ends = context.entities(f"node:{start}"), context.entities(f"node:{end}")
    frontier = distinct(sources)
    near = _Known(ids=starts.values(frontier, KEY), row_ids=frontier)
    far = near if edge.is_same_type else _Known(ids=pa.array([], pa.string()), row_ids=np.zeros(0, dtype=np.int64))
    pairs = [[_NOTHING] for _ in edges]
    for _ in range(hops if edge.is_same_type else 1):
        context.limits.check()
        if not len(frontier):
            break
        known_before, from_here = far.row_ids, near
        for one, collected in zip(edges, pairs, strict=True):
            found = _edges_of(context.entities(one.table_key), from_here, frontier, direction)
            context.memory.demand.spend(demand_key(context, one, direction), edges_cost(found.num_rows))
            far = _meet(ends, far, pc.unique(found.column("target")))
            near = far if edge.is_same_type else near
            collected.append(_as_numbers(found, near, far))
        frontier = np.setdiff1d(far.row_ids, known_before)
    joined = (np.concatenate(collected, axis=1) for collected in pairs)
    return tuple(_assemble(entries, near, far, is_same_type=edge.is_same_type) for entries in joined)


_NO_ROWS: RowIds = np.zeros(0, dtype=np.int64)
# Rows: source, target, edge.
_NOTHING = np.zeros((3, 0), dtype=np.int64)


def _edges_of(edges: Entities, near: _Known, frontier: RowIds, direction: Direction) -> pa.Table:
    ids = near.ids.take(pa.array(np.flatnonzero(np.isin(near.row_ids, frontier))))
    parts = []
    for here, there in _ENDS[direction]:
        rows = _rows_where(edges, here, ids)
        row_ids = edges.add(rows)
        parts.append(pa.table({"source": rows[here], "target": rows[there], "edge": pa.array(row_ids)}))
    return pa.concat_tables(parts)


def _rows_where(edges: Entities, column: str, ids: pa.Array) -> pa.Table:
    names = list(dict.fromkeys([*edges.columns, "src", "dst", ROW_ID]))
    predicate = one_of(column, ids)
    if predicate is None:
        return filter_stream(
            edges.table.scan(names),
            lambda rows: pc.is_in(rows.column(column), value_set=ids),
            wanted_count=len(ids),
        )
    return edges.table.matching(column, predicate, lambda found: pc.is_in(found, value_set=ids), names)


def _meet(ends: Entities, far: _Known, ids: pa.Array) -> _Known:
    """Look up the nodes that were not met before; an id without a node is never met."""
    ids = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    fresh = ids.filter(pc.invert(pc.is_in(ids, value_set=far.ids)))
    if not len(fresh):
        return far
    rows = ends.table.lookup(fresh, ends.columns)
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


def _layers_for(
    context: QueryContext, edges: Sequence[EdgeType], direction: Direction, sources: RowIds, hops: int
) -> tuple[LayeredEdges, ...] | None:
    """Return the edges as what another version has sorted and what changed since, if that is the cheapest way.

    Whole adjacency that is in memory, or in a file as it is, is cheaper; and so is making it when a walk may meet a
    good part of all edges.
    """
    if context.options.mode != "auto":
        return None
    found = []
    for edge in edges:
        tables = _tables_of(context, edge)
        if context.memory.topology.known_adjacency(*tables, direction) is not None:
            return None
        layers = context.memory.topology.layers(*tables, direction, context.limits.check)
        if layers is None or (layers.is_exact and direction != "both"):
            return None
        found.append(layers)
    walked = hops if edges[0].is_same_type else 1
    if walked > _MAX_HOPS or len(sources) > 4 * _MAX_FRONTIER:
        return None
    start = edges[0].to_type if direction == "in" else edges[0].from_type
    count = sum(context.entities(edge.table_key).table.row_count for edge in edges)
    fanout = count / max(1, context.entities(f"node:{start}").table.row_count)
    frontier = len(distinct(sources))
    met = sum(min(frontier * fanout**hop, count) for hop in range(1, walked + 1))
    return tuple(found) if met * _LAYERED_SHARE < count else None


def _are_known(context: QueryContext, tables: Sequence[tuple[Table, Table, Table]], direction: Direction) -> bool:
    topology = context.memory.topology
    return None not in [topology.known_adjacency(*of, direction) for of in tables]


def _tables_of(context: QueryContext, edge: EdgeType) -> tuple[Table, Table, Table]:
    return (
        context.entities(edge.table_key).table,
        context.entities(f"node:{edge.from_type}").table,
        context.entities(f"node:{edge.to_type}").table,
    )


def _walk_layers(
    context: QueryContext,
    layers: Sequence[LayeredEdges],
    edge: EdgeType,
    direction: Direction,
    sources: RowIds,
    hops: int,
) -> tuple[FetchedEdges, ...]:
    """Return every edge that a walk of so many hops from the sources can use."""
    frontier = distinct(sources)
    near, far = [frontier], [_NO_ROWS]
    pairs = [[_NOTHING] for _ in layers]
    for _ in range(hops if edge.is_same_type else 1):
        if not len(frontier):
            break
        reached = [_NO_ROWS]
        for one, collected in zip(layers, pairs, strict=True):
            step = one.step(direction, frontier.view(np.uint64), context.limits.check)
            collected.append(np.stack([step.sources, step.targets, step.edges]).view(np.int64))
            reached.append(collected[-1][1])
        met = distinct(np.concatenate(reached))
        if not edge.is_same_type:
            far.append(met)
            break
        frontier = np.setdiff1d(met, np.concatenate(near), assume_unique=True)
        near.append(frontier)
    starts = distinct(np.concatenate(near))
    ends = starts if edge.is_same_type else distinct(np.concatenate(far))
    return tuple(_numbered(np.concatenate(collected, axis=1), starts, ends) for collected in pairs)


def _numbered(pairs: np.ndarray, sources: RowIds, targets: RowIds) -> FetchedEdges:
    edges = distinct(pairs[2])
    adjacency = Adjacency.of_pairs(
        np.searchsorted(sources, pairs[0]),
        np.searchsorted(targets, pairs[1]),
        np.searchsorted(edges, pairs[2]),
        node_count=len(sources),
        target_count=len(targets),
    )
    return FetchedEdges(adjacency=adjacency, sources=sources, targets=targets, edges=edges)


@record
class Neighbourhood:
    """Adjacency, and how its numbers relate to row ids.

    ``sources`` and ``targets`` hold the row ids behind the numbers of a fetched neighbourhood, ascending; those of a
    whole one are those of the images. ``links`` is what is walked: the adjacency, or that of an earlier version with
    what changed since, whose numbers are ``from_numbers`` and ``to_numbers`` where they are not those of the images.
    """

    links: Walkable
    from_entities: Entities
    to_entities: Entities
    edge_entities: Entities
    sources: RowIds | None = None
    targets: RowIds | None = None
    edges: RowIds | None = None
    from_numbers: NodeNumbers | None = None
    to_numbers: NodeNumbers | None = None

    @property
    def adjacency(self) -> Adjacency:
        """The edges, sorted."""
        if not isinstance(self.links, Adjacency):
            raise InternalError("a neighbourhood that is not sorted was taken for one that is")
        return self.links

    @property
    def is_whole(self) -> bool:
        """Whether every edge of the table is in it, and nodes have the numbers of the images."""
        return self.sources is None and self.from_numbers is None

    def source_codes(self, row_ids: RowIds) -> Positions:
        """Return the numbers of entities at which a walk starts; -1 where there is none."""
        if self.from_numbers is not None:
            return self.from_numbers.of(row_ids.view(np.uint64))
        return self.from_entities.codes(row_ids) if self.sources is None else _find(self.sources, row_ids)

    def target_codes(self, row_ids: RowIds) -> Positions:
        """Return the numbers of entities at which a walk may end; -1 where there is none."""
        if self.to_numbers is not None:
            return self.to_numbers.of(row_ids.view(np.uint64))
        return self.to_entities.codes(row_ids) if self.targets is None else _find(self.targets, row_ids)

    def target_ids(self, codes: Positions) -> RowIds:
        """Return the row ids of entities that were reached."""
        if self.to_numbers is not None:
            return self.to_numbers.row_ids(codes).view(np.int64)
        return self.to_entities.row_ids_of(codes) if self.targets is None else self.targets[codes]

    @property
    def all_edges(self) -> RowIds:
        """The row ids of the edges, by number."""
        return self.edge_entities.all_ids if self.edges is None else self.edges

    def edge_ids(self, codes: Positions) -> RowIds:
        """Return the row ids of edges."""
        return self.edge_entities.row_ids_of(codes) if self.edges is None else self.edges[codes]


def neighbourhood(
    context: QueryContext,
    edge_name: str,
    direction: Direction,
    sources: RowIds,
    *,
    hops: int = 1,
    is_sorted: bool = True,
) -> Neighbourhood:
    """Return edges in which everything can be found that lies within so many hops of the sources.

    ``is_sorted`` asks for adjacency; without it, what is walked may be that of an earlier version and what changed.
    """
    if not is_sorted and direction != "both":
        found = _overlaid(context, edge_name, direction)
        if found is not None:
            return found
    return neighbourhoods(context, (edge_name,), direction, sources, hops=hops)[0]


def _overlaid(context: QueryContext, edge_name: str, direction: Literal["out", "in"]) -> Neighbourhood | None:
    """Return all edges as an earlier version has them sorted, and what changed since, unless they are sorted anew."""
    if context.options.mode != "auto":
        return None
    edge = context.catalog.edges[edge_name]
    tables = _tables_of(context, edge)
    if context.memory.topology.known_adjacency(*tables, direction) is not None:
        return None
    layers = context.memory.topology.layers(*tables, direction, context.limits.check)
    if layers is None or layers.is_exact:
        return None
    near, far = (layers.targets, layers.sources) if direction == "in" else (layers.sources, layers.targets)
    start, end = (edge.to_type, edge.from_type) if direction == "in" else (edge.from_type, edge.to_type)
    return Neighbourhood(
        links=layers.overlaid(direction),
        from_entities=context.entities(f"node:{start}"),
        to_entities=context.entities(f"node:{end}"),
        edge_entities=context.entities(edge.table_key),
        from_numbers=None if near.are_codes else near,
        to_numbers=None if far.are_codes else far,
    )


def neighbourhoods(
    context: QueryContext,
    edge_names: Sequence[str],
    direction: Direction,
    sources: RowIds,
    *,
    hops: int = 1,
    is_whole: bool = False,
) -> tuple[Neighbourhood, ...]:
    """Return the same for walks over several edges with the same ends; a node has one number in all of them.

    ``is_whole`` asks for all edges, whatever seems cheaper.
    """
    edges = [context.catalog.edges[name] for name in edge_names]
    edge = edges[0]
    start, end = (edge.to_type, edge.from_type) if direction == "in" else (edge.from_type, edge.to_type)
    from_entities, to_entities = context.entities(f"node:{start}"), context.entities(f"node:{end}")
    # What most walks find: everything in memory, so that nothing has to be weighed.
    tables = [_tables_of(context, one) for one in edges]
    is_whole = is_whole or (context.options.mode == "auto" and _are_known(context, tables, direction))
    layers = None if is_whole else _layers_for(context, edges, direction, sources, hops)
    if layers is None and (is_whole or any(walks_in_memory(context, one, direction, sources, hops) for one in edges)):
        return tuple(
            Neighbourhood(
                links=context.memory.topology.adjacency(*of, direction, context.limits.check),
                from_entities=from_entities,
                to_entities=to_entities,
                edge_entities=context.entities(one.table_key),
            )
            for one, of in zip(edges, tables, strict=True)
        )
    if layers is None:
        found = fetch_edges(context, edges, direction, sources, hops)
    else:
        found = _walk_layers(context, layers, edge, direction, sources, hops)
    return tuple(
        Neighbourhood(
            links=fetched.adjacency,
            from_entities=from_entities,
            to_entities=to_entities,
            edge_entities=context.entities(one.table_key),
            sources=fetched.sources,
            targets=fetched.targets,
            edges=fetched.edges,
        )
        for one, fetched in zip(edges, found, strict=True)
    )


def _find(known: RowIds, row_ids: RowIds) -> Positions:
    if not len(known):
        return np.full(len(row_ids), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, row_ids), len(known) - 1)
    return np.where(known[at] == row_ids, at, -1)
