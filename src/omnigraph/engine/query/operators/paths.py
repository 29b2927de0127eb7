"""Shortest paths: a walk hop by hop that remembers which edges lead to a node when it is first met."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.frame import Mask, Positions
from omnigraph.engine.query.topology import Adjacency, spread
from omnigraph.records import record

_CODE_BYTES = 8
_NONE = np.zeros(0, dtype=np.int64)


@record
class PathSearch:
    """What a search for paths needs to know of the graph.

    Args:
        adjacency: the edges to walk.
        min_hops: the least number of hops.
        max_hops: the greatest.
        is_same_type: whether the edge can be walked again from where it leads.
        keeps_all: find every shortest path, not only the least.
        allows: given positions of rows and codes of edges, which edges may be used.
        node_ranks: places of nodes in the order of their ids, by code.
        edge_ranks: places of edges in the order of their ids, by code.
        is_wanted: given positions of rows and codes of nodes, where a path may end.
        check: called with the bytes that are about to be taken; raises to stop the search.
        on_new_nodes: called with every hop that meets a node for the first time; raises to stop the search.
    """

    adjacency: Adjacency
    min_hops: int
    max_hops: int
    is_same_type: bool
    keeps_all: bool
    allows: Callable[[Positions, Positions], Mask]
    node_ranks: Callable[[Positions], Positions]
    edge_ranks: Callable[[Positions], Positions]
    is_wanted: Callable[[Positions, Positions], Mask]
    check: Callable[[int], None]
    on_new_nodes: Callable[[int], None]


@record
class FoundPaths:
    """Paths of one length: row by row, with a column for each node behind the first, and one for each edge."""

    rows: Positions
    nodes: tuple[Positions, ...]
    edges: tuple[Positions, ...]


@record
class _Links:
    """How the nodes of a level are reached: ``edges`` lead from places in the level before it to places in it."""

    sources: Positions
    places: Positions
    edges: Positions


@dataclass(slots=True, kw_only=True)
class _Level:
    """Nodes at one distance from the start of their row; ``ranks`` order them by the least path that leads there."""

    rows: Positions
    nodes: Positions
    ranks: Positions
    links: _Links = field(default_factory=lambda: _Links(sources=_NONE, places=_NONE, edges=_NONE))


def shortest_paths(search: PathSearch, codes: Positions) -> Iterator[FoundPaths]:
    """Yield the shortest paths from the node of every row to each node that a walk reaches.

    A node is reached at its distance. One that is nearer than the least number of hops is reached if the last hop is
    an edge to itself.
    """
    width = max(1, search.adjacency.target_count)
    rows = np.arange(len(codes))
    levels = [_Level(rows=rows, nodes=codes, ranks=np.zeros(len(codes), dtype=np.int64))]
    visited = rows * width + codes if search.is_same_type else _NONE
    for hop in range(1, (search.max_hops if search.is_same_type else 1) + 1):
        last = levels[-1]
        if not len(last.rows):
            return
        sources, targets, edges = _followed(search, last)
        is_loop = (targets == last.nodes[sources]) & search.is_same_type
        if hop == search.min_hops:
            yield _traced(search, levels, _loops(search, sources[is_loop], edges[is_loop]))
        keys = last.rows[sources] * width + targets
        ahead = ~is_loop & ~np.isin(keys, visited)
        levels.append(_next_level(search, last, sources[ahead], keys[ahead], edges[ahead]))
        if len(levels[-1].rows):
            search.on_new_nodes(hop)
        if search.is_same_type:
            visited = np.union1d(visited, keys[ahead])
        search.check(_CODE_BYTES * (len(visited) + sum(len(level.rows) for level in levels)))
        if hop >= search.min_hops:
            yield _traced(search, levels)


def _followed(search: PathSearch, level: _Level) -> tuple[Positions, Positions, Positions]:
    """Return every edge that leaves a level and may be used: from which place, to which node, and itself."""
    offsets = search.adjacency.offsets
    search.check(6 * _CODE_BYTES * int((offsets[level.nodes + 1] - offsets[level.nodes]).sum()))
    sources, at = spread(offsets, level.nodes)
    targets, edges = search.adjacency.targets[at].astype(np.int64), search.adjacency.edges[at].astype(np.int64)
    allowed = search.allows(level.rows[sources], edges)
    return sources[allowed], targets[allowed], edges[allowed]


def _loops(search: PathSearch, sources: Positions, edges: Positions) -> tuple[Positions, Positions]:
    """Return the edges from nodes to themselves that paths may end with."""
    if search.keeps_all or not len(sources):
        return sources, edges
    order = np.lexsort((search.edge_ranks(edges), sources))
    first = order[_is_first(sources[order])]
    return sources[first], edges[first]


def _next_level(search: PathSearch, last: _Level, sources: Positions, keys: Positions, edges: Positions) -> _Level:
    width = max(1, search.adjacency.target_count)
    met, places = np.unique(keys, return_inverse=True)
    rows, nodes = met // width, met % width
    if search.keeps_all:
        links = _Links(sources=sources, places=places, edges=edges)
        return _Level(rows=rows, nodes=nodes, ranks=np.zeros(len(met), dtype=np.int64), links=links)
    # A path is ordered by its nodes before its edges, and no two places of a level have the same nodes before them.
    order = np.lexsort((search.edge_ranks(edges), last.ranks[sources], places))
    best = order[_is_first(places[order])]
    links = _Links(sources=sources[best], places=places[best], edges=edges[best])
    ranks = np.empty(len(met), dtype=np.int64)
    ranks[np.lexsort((search.node_ranks(nodes), last.ranks[links.sources]))] = np.arange(len(met))
    return _Level(rows=rows, nodes=nodes, ranks=ranks, links=links)


def _is_first(values: Positions) -> Mask:
    is_first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return is_first


def _traced(search: PathSearch, levels: list[_Level], loops: tuple[Positions, Positions] | None = None) -> FoundPaths:
    """Return the paths to the nodes of the last level, or to those of them that a loop comes back to."""
    last = levels[-1]
    at = np.arange(len(last.rows)) if loops is None else loops[0]
    kept = search.is_wanted(last.rows[at], last.nodes[at])
    at = at[kept]
    nodes, edges = [], []
    if loops is not None:
        nodes.append(last.nodes[at])
        edges.append(loops[1][kept])
    for level in reversed(levels[1:]):
        order = np.argsort(level.links.places, kind="stable")
        offsets = np.searchsorted(level.links.places[order], np.arange(len(level.rows) + 1))
        count = int((offsets[at + 1] - offsets[at]).sum())
        search.check(_CODE_BYTES * count * (2 * len(levels) + 4))
        parents, found = spread(offsets, at)
        taken = order[found]
        nodes = [column[parents] for column in nodes] + [level.nodes[at][parents]]
        edges = [column[parents] for column in edges] + [level.links.edges[taken]]
        at = level.links.sources[taken]
    return FoundPaths(rows=levels[0].rows[at], nodes=tuple(reversed(nodes)), edges=tuple(reversed(edges)))


def id_ranks(ids: pa.Array) -> Positions:
    """Return the place of each id in their order, the same for equal ones."""
    ranks: Positions = pc.rank(ids, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def listed(columns: list[pa.Array]) -> pa.Array:
    """Return lists of the values that stand side by side in columns."""
    count, width = len(columns[0]), len(columns)
    values = pa.concat_arrays([column.cast(pa.string()) for column in columns])
    order = (np.arange(width)[None, :] * count + np.arange(count)[:, None]).ravel()
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.take(pa.array(order)))
