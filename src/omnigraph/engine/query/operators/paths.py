"""Shortest paths: a walk hop by hop that remembers which edges lead to a node when it is first met."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.frame import Mask, Positions, distinct
from omnigraph.engine.query.topology import Adjacency, spread
from omnigraph.records import record

# Positions of rows and codes of edges: which of them may be used.
Allows = Callable[[Positions, Positions], Mask]

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
        goals: the node where the paths of each row end, if that is known; -1 where it can never be met.
        backward: the same edges seen from where they lead, with their own ``allows``; given with goals, or not at all.
        is_capped: whether the greatest number of hops is a cap that no row may need.
        check: called with the bytes that are about to be taken; raises to stop the search.
        on_new_nodes: called with every hop that a path has to take; raises to stop the search.
    """

    adjacency: Adjacency
    min_hops: int
    max_hops: int
    is_same_type: bool
    keeps_all: bool
    allows: Allows
    node_ranks: Callable[[Positions], Positions]
    edge_ranks: Callable[[Positions], Positions]
    is_wanted: Callable[[Positions, Positions], Mask]
    check: Callable[[int], None]
    on_new_nodes: Callable[[int], None]
    goals: Positions | None = None
    backward: tuple[Adjacency, Allows] | None = None
    is_capped: bool = False


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


@record(frozen=False)
class _Level:
    """Nodes so many hops from the start of their row; ``ranks`` order them by the least walk that leads there."""

    rows: Positions
    nodes: Positions
    ranks: Positions
    links: _Links = field(default_factory=lambda: _Links(sources=_NONE, places=_NONE, edges=_NONE))


def shortest_paths(search: PathSearch, codes: Positions) -> Iterator[FoundPaths]:
    """Yield the shortest paths from the node of every row to each node that a walk reaches.

    :mod:`omnigraph.engine.query.topology.expansion` says what a walk reaches. Where goals are known, the search of a
    row ends at the first hop of the range that meets its goal.
    """
    width, min_hops = max(1, search.adjacency.target_count), search.min_hops
    rows = np.arange(len(codes))
    corridor = _corridor(search, codes)
    levels = [_Level(rows=rows, nodes=codes, ranks=np.zeros(len(codes), dtype=np.int64))]
    visited = rows * width + codes if search.is_same_type and min_hops == 1 else _NONE
    for hop in range(1, (search.max_hops if search.is_same_type else 1) + 1):
        last = levels[-1]
        if not len(last.rows):
            return
        sources, targets, edges = _followed(search, last, _unfinished(search, last, hop, corridor))
        is_loop = (targets == last.nodes[sources]) & search.is_same_type
        if hop == min_hops == 1:
            yield _traced(search, levels, _loops(search, sources[is_loop], edges[is_loop]))
        keys = last.rows[sources] * width + targets
        ahead = ~is_loop
        if hop > min_hops or min_hops == 1:
            # Up to the least number of hops every walk counts; from there on, the first ones that meet a node.
            ahead &= ~np.isin(keys, visited)
            if search.goals is not None:
                # What lies behind a goal is on no way to it.
                ahead &= last.nodes[sources] != search.goals[last.rows[sources]]
        if corridor is not None:
            ahead &= corridor.holds(hop, last.rows[sources], keys)
        levels.append(_next_level(search, last, sources[ahead], keys[ahead], edges[ahead]))
        if _others(search, levels).any():
            search.on_new_nodes(hop)
        if hop >= min_hops and search.is_same_type:
            visited = np.union1d(visited, keys[ahead])
        search.check(_CODE_BYTES * (len(visited) + sum(len(level.rows) for level in levels)))
        if hop >= min_hops:
            yield _traced(search, levels)


def _others(search: PathSearch, levels: list[_Level]) -> Mask:
    """Return which nodes of the last level are not the start of their row."""
    first, last = levels[0], levels[-1]
    is_other: Mask = last.nodes != first.nodes[last.rows]
    return is_other if search.is_same_type else np.ones(len(is_other), dtype=np.bool_)


@record(frozen=False)
class _Corridor:
    """Where rows may pass: ``levels`` holds by distance the keys of row and node that lie on a shortest path.

    Rows that are ``free`` are held to nothing, those that are ``closed`` have no path.
    """

    levels: dict[int, list[Positions]]
    free: Mask
    closed: Mask

    def add(self, distance: int, keys: Positions) -> None:
        self.levels.setdefault(distance, []).append(keys)

    def holds(self, distance: int, rows: Positions, keys: Positions) -> Mask:
        inside: Mask = np.isin(keys, np.concatenate([_NONE, *self.levels.get(distance, [])]))
        return inside | self.free[rows]


def _corridor(search: PathSearch, codes: Positions) -> _Corridor | None:
    """Search from both ends at once, always on the side with fewer edges, until the two sides of a row meet."""
    goals = search.goals
    if search.backward is None or goals is None or search.min_hops != 1 or not search.is_same_type:
        return None
    width = max(1, search.adjacency.target_count)
    rows = np.arange(len(codes))
    # A row that begins at its goal only looks for an edge back to it.
    is_active = (codes != goals) & (goals >= 0)
    corridor = _Corridor(levels={}, free=np.zeros(len(codes), dtype=np.bool_), closed=is_active.copy())
    sides = (
        _Side(search, width, search.adjacency, search.allows, (rows * width + codes)[is_active]),
        _Side(search, width, *search.backward, (rows * width + goals)[is_active]),
    )
    while sides[0].depth + sides[1].depth < search.max_hops:
        is_active &= sides[0].has_rows(is_active) & sides[1].has_rows(is_active)
        if not is_active.any():
            break
        min(sides, key=lambda side: side.edge_count(is_active)).advance(is_active)
        met = np.intersect1d(sides[0].levels[-1], sides[1].levels[-1])
        met = met[is_active[met // width]]
        if len(met):
            is_met = np.zeros(len(codes), dtype=np.bool_)
            is_met[met // width] = True
            is_active &= ~is_met
            corridor.closed &= ~is_met
            _add_between(corridor, sides, met, is_met)
    if search.is_capped:
        corridor.free |= is_active
        corridor.closed &= ~is_active
    return corridor


def _add_between(corridor: _Corridor, sides: tuple[_Side, _Side], met: Positions, is_met: Mask) -> None:
    """Add the nodes between the two ends of the rows that met just now."""
    forward, backward = sides
    keys = met
    for distance in range(forward.depth, 0, -1):
        corridor.add(distance, keys)
        keys = np.intersect1d(backward.ahead(keys), forward.levels[distance - 1])
    for left in range(backward.depth):
        level = backward.levels[left]
        corridor.add(forward.depth + backward.depth - left, level[is_met[level // forward.width]])


class _Side:
    """A search from one end: the keys of row and node that it met, by distance."""

    def __init__(self, search: PathSearch, width: int, adjacency: Adjacency, allows: Allows, starts: Positions) -> None:
        self._check = search.check
        self._adjacency = adjacency
        self._allows = allows
        self.width = width
        self.levels = [starts]
        self._visited = starts

    @property
    def depth(self) -> int:
        return len(self.levels) - 1

    def has_rows(self, is_active: Mask) -> Mask:
        """Return the rows that can go on from here."""
        found = np.zeros(len(is_active), dtype=np.bool_)
        found[self.levels[-1] // self.width] = True
        return found

    def edge_count(self, is_active: Mask) -> int:
        """Return how many edges the next hop follows."""
        keys = self.levels[-1]
        nodes = keys[is_active[keys // self.width]] % self.width
        offsets = self._adjacency.offsets
        return int((offsets[nodes + 1] - offsets[nodes]).sum())

    def advance(self, is_active: Mask) -> None:
        """Go one hop on from the rows that have not met."""
        keys = self.levels[-1]
        ahead = self.ahead(keys[is_active[keys // self.width]])
        fresh = ahead[~np.isin(ahead, self._visited)]
        self.levels.append(fresh)
        self._visited = np.concatenate([self._visited, fresh])
        self._check(_CODE_BYTES * 4 * len(self._visited))

    def ahead(self, keys: Positions) -> Positions:
        """Return the nodes one hop away from some, as keys."""
        rows, nodes, offsets = keys // self.width, keys % self.width, self._adjacency.offsets
        self._check(6 * _CODE_BYTES * int((offsets[nodes + 1] - offsets[nodes]).sum()))
        places, at = spread(offsets, nodes)
        found = rows[places]
        allowed = self._allows(found, self._adjacency.edges[at].astype(np.int64))
        return distinct((found * self.width + self._adjacency.targets[at])[allowed])


def _unfinished(search: PathSearch, level: _Level, hop: int, corridor: _Corridor | None) -> Positions:
    """Return the places of a level from which the search goes on: those of rows that have not met their goal."""
    if search.goals is None:
        return np.arange(len(level.rows))
    goes_on = np.ones(len(level.rows), dtype=np.bool_)
    if hop > search.min_hops or (hop == 1 and search.min_hops > 1):
        # A row that begins at its goal looks for the edge back to it, which is one hop.
        is_met = np.zeros(len(search.goals), dtype=np.bool_)
        is_met[level.rows[level.nodes == search.goals[level.rows]]] = True
        goes_on = ~is_met[level.rows]
    goes_on &= search.goals[level.rows] >= 0
    return np.flatnonzero(goes_on if corridor is None else goes_on & ~corridor.closed[level.rows])


def _followed(search: PathSearch, level: _Level, places: Positions) -> tuple[Positions, Positions, Positions]:
    """Return every edge that leaves some places of a level and may be used: from where, to which node, and itself."""
    offsets = search.adjacency.offsets
    nodes = level.nodes[places]
    search.check(6 * _CODE_BYTES * int((offsets[nodes + 1] - offsets[nodes]).sum()))
    sources, at = spread(offsets, nodes)
    sources = places[sources]
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
    """Return the paths to the nodes of the last level other than the starts, or those that loops at the starts make."""
    last = levels[-1]
    at = np.flatnonzero(_others(search, levels)) if loops is None else loops[0]
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
