"""One step along edges for many rows at once. Rows are named by their position in the codes that were given.

A node is reached if a walk of n edges leads to it, for some n in the range of hops, whatever shorter walks there are. A
walk may use an edge and pass a node more than once, but a self-loop does not make a walk longer. The node where the
walk begins is reached by its own self-loop only, which is one hop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.topology.adjacency import Adjacency, Mask, first_of_runs, spread
from omnigraph.engine.query.topology.ends import Check
from omnigraph.engine.query.topology.overlay import OverlaidAdjacency
from omnigraph.engine.query.topology.segments import Codes
from omnigraph.records import record

# What can be walked: sorted as it is, or sorted for an earlier version with what changed since.
Walkable = Adjacency | OverlaidAdjacency


def neighbours(adjacency: Walkable, codes: Codes) -> tuple[Codes, Codes]:
    """Return every node that a row's node leads to, once per row.

    Returns:
        Rows, ascending, and for each the node found, ascending within a row.
    """
    if isinstance(adjacency, OverlaidAdjacency):
        return adjacency.neighbours(codes)
    rows, at = spread(adjacency.offsets, codes)
    targets = adjacency.targets[at].astype(np.int64)
    if len(adjacency.repeats) and len(rows):
        kept = first_of_runs(rows, targets)
        rows, targets = rows[kept], targets[kept]
    return rows, targets


def neighbour_counts(adjacency: Walkable, codes: Codes, *, by_edge: bool = False) -> Codes:
    """Return how many nodes each row's node leads to, or by how many edges."""
    if isinstance(adjacency, OverlaidAdjacency):
        return adjacency.neighbour_counts(codes, by_edge=by_edge)
    starts, stops = adjacency.offsets[codes], adjacency.offsets[codes + 1]
    counts: Codes = stops - starts
    if not by_edge and len(adjacency.repeats):
        counts -= np.searchsorted(adjacency.repeats, stops) - np.searchsorted(adjacency.repeats, starts)
    return counts


def neighbour_sums(adjacency: Adjacency, weights: npt.NDArray[Any], *, by_edge: bool = False) -> npt.NDArray[Any]:
    """Return for every node the sum of the weights, given by target, of what it leads to, once or once per edge."""
    links = adjacency if by_edge else adjacency.distinct
    sums = np.zeros(adjacency.node_count, dtype=weights.dtype)
    has_any = links.offsets[1:] > links.offsets[:-1]
    if has_any.any():
        # A node without targets would sum up the first target of the next one.
        sums[has_any] = np.add.reduceat(weights[links.targets], links.offsets[:-1][has_any])
    return sums


def incident_edges(adjacency: Walkable, codes: Codes, *, by_id: bool = True) -> tuple[Codes, Codes, Codes]:
    """Return every edge that leaves a row's node, parallel ones too.

    Args:
        adjacency: the edges to walk.
        codes: a node per row.
        by_id: order the edges of a row by id, where they belong to an image; else they come in any order.

    Returns:
        Rows, ascending, and for each the node and the edge found.
    """
    if isinstance(adjacency, OverlaidAdjacency):
        rows, found, edges = adjacency.entries(codes)
    else:
        rows, at = spread(adjacency.offsets, codes)
        found, edges = adjacency.targets[at].astype(np.int64), adjacency.edges[at].astype(np.int64)
    if not by_id or adjacency.edge_image is None or len(rows) < 2 or not (rows[1:] == rows[:-1]).any():
        return rows, found, edges
    ranks = adjacency.edge_image.id_ranks(edges)
    # Sorting one number, made of the row and the rank, is faster than sorting by two.
    order = np.argsort(rows * (int(ranks.max()) + 1) + ranks)
    return rows, found[order], edges[order]


# Walks go side by side as long as the marks of all of them, a byte per node and walk, stay in the processor's cache.
_MARKS = 1 << 22
# So many edges are followed at a time, which bounds both memory and the time until the next check.
_EDGES_AT_ONCE = 1 << 20
# Marking every node costs less than sorting the ones found once they are this share of all.
_DENSE_SHARE = 16
_CODE_BYTES = 8


def reach(
    adjacency: Walkable,
    codes: Codes,
    min_hops: int,
    max_hops: int,
    *,
    same_type: bool,
    check: Check,
    on_new_nodes: Callable[[int], None] | None = None,
) -> tuple[Codes, Codes]:
    """Return every node that a row's node reaches, once per row.

    Args:
        adjacency: the edges to walk.
        codes: the node where each row's walk begins.
        min_hops: the least number of hops.
        max_hops: the greatest.
        same_type: whether the edge can be walked again from where it leads.
        check: called with the bytes that are held and about to be taken; raises to stop the walk.
        on_new_nodes: called with every hop that a walk has to take for the result; raises to stop the walk.

    Returns:
        Rows, ascending, and for each the node found, ascending within a row.
    """
    if not same_type:
        max_hops = min(max_hops, 1)
    if not len(codes) or (min_hops > 1 and not same_type):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if max_hops == 1:
        check(4 * _CODE_BYTES * int(adjacency.entry_counts(codes).sum()))
        return neighbours(adjacency, codes)
    starts, rows = np.unique(codes, return_inverse=True)
    walk = _Walk(
        adjacency=adjacency,
        min_hops=min_hops,
        max_hops=max_hops,
        loops=adjacency.has_loop,
        on_new_nodes=on_new_nodes,
    )
    counts, found = _walk_all(walk, starts, check)
    if len(starts) == len(codes) and (codes[1:] > codes[:-1]).all():
        return np.repeat(np.arange(len(codes)), counts), found
    offsets = np.concatenate([[0], np.cumsum(counts)])
    check(_CODE_BYTES * (len(found) + 4 * int(counts[rows].sum())))
    spread_rows, at = spread(offsets, rows)
    return spread_rows, found[at]


@record
class _Walk:
    """What all walks of a call have in common."""

    adjacency: Walkable
    min_hops: int
    max_hops: int
    loops: Mask
    on_new_nodes: Callable[[int], None] | None


def _walk_all(walk: _Walk, starts: Codes, check: Check) -> tuple[Codes, Codes]:
    """Return how many nodes each start reaches, and the nodes, start by start."""
    at_once = max(1, _MARKS // max(1, walk.adjacency.node_count))
    counts: list[Codes] = []
    found: list[Codes] = []
    held = 0
    for begin in range(0, len(starts), at_once):
        chunk = starts[begin : begin + at_once]
        keys = _walk_together(walk, chunk, partial(_check_more, check, held))
        rows, nodes = _split(keys, walk.adjacency.node_count, len(chunk))
        counts.append(np.bincount(rows, minlength=len(chunk)))
        found.append(nodes)
        held += nodes.nbytes
    check(3 * held)
    return np.concatenate(counts), np.concatenate(found)


def _check_more(check: Check, held_bytes: int, extra_bytes: int) -> None:
    check(held_bytes + extra_bytes)


class Recurrence:
    """Notices that the frontier of a walk repeats, so that a long walk need not take every hop of every round.

    Args:
        frontier: what the walk begins with.
    """

    def __init__(self, frontier: Codes) -> None:
        self._frontier = frontier
        self._hop = 0

    def last_round(self, hop: int, frontier: Codes, min_hops: int) -> int:
        """Return the last hop up to ``min_hops`` at which the walk has this frontier again, or else ``hop``."""
        if np.array_equal(frontier, self._frontier):
            return min_hops - (min_hops - hop) % (hop - self._hop)
        if hop & (hop - 1) == 0:
            self._frontier, self._hop = frontier, hop
        return hop


def _walk_together(walk: _Walk, starts: Codes, check: Check) -> Codes:
    """Return what these starts reach as keys, ``position of the start * node count + node``, ascending.

    Up to the least number of hops a frontier has every node that a walk of just so many edges leads to. From there on,
    a node needs to be met once only.
    """
    node_count, min_hops = walk.adjacency.node_count, walk.min_hops
    frontier = np.arange(len(starts)) * node_count + starts
    check(2 * len(starts) * node_count)
    visited = np.zeros(len(starts) * node_count, dtype=np.bool_)
    recurrence = Recurrence(frontier)
    reached: list[Codes] = []
    if min_hops == 1:
        visited[frontier] = True
        reached.append(frontier[walk.loops[starts]])
    hop = 0
    while hop < walk.max_hops and len(frontier):
        hop += 1
        rows, nodes = _split(frontier, node_count, len(starts))
        is_exact = 1 < min_hops >= hop
        if is_exact:
            visited[:] = False
        follow = _Follow(adjacency=walk.adjacency, drops_loops=is_exact and bool(walk.loops[nodes].any()))
        held = visited.nbytes + sum(keys.nbytes for keys in reached)
        frontier = _next(follow, rows, nodes, visited, partial(_check_more, check, held))
        if is_exact:
            hop = recurrence.last_round(hop, frontier, min_hops)
        rows, nodes = _split(frontier, node_count, len(starts))
        others = frontier[nodes != starts[rows]]
        if walk.on_new_nodes is not None and len(others):
            walk.on_new_nodes(hop)
        if hop >= min_hops:
            reached.append(others)
    keys = np.concatenate([np.zeros(0, dtype=np.int64), *reached])
    return _sorted_distinct(keys)


@record
class _Follow:
    """Which entries a hop follows: all of some nodes, or those that lead to another node."""

    adjacency: Walkable
    drops_loops: bool

    def keys(self, rows: Codes, nodes: Codes, counts: Codes, check: Check) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the keys that some nodes lead to, a bounded number at a time."""
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(nodes):
            done = int(ends[begin - 1]) if begin else 0
            stop = max(begin + 1, int(np.searchsorted(ends, done + _EDGES_AT_ONCE, side="right")))
            check(5 * _CODE_BYTES * (int(ends[stop - 1]) - done))
            at_rows, keys = self.adjacency.followed(nodes[begin:stop])
            if self.drops_loops:
                leads_on = keys != nodes[begin:stop][at_rows]
                at_rows, keys = at_rows[leads_on], keys[leads_on]
            if rows[-1] > 0:
                keys += (rows[begin:stop] * self.adjacency.node_count)[at_rows]
            yield keys
            begin = stop


def _next(follow: _Follow, rows: Codes, nodes: Codes, visited: Mask, check: Check) -> Codes:
    """Return the keys of unvisited neighbours, each once, and mark them as visited."""
    adjacency = follow.adjacency
    counts = adjacency.entry_counts(nodes)
    total = int(counts.sum())
    if total * _DENSE_SHARE < len(visited):
        fresh = [np.zeros(0, dtype=np.int64)]
        for keys in follow.keys(rows, nodes, counts, check):
            unseen = _sorted_distinct(keys[~visited[keys]])
            visited[unseen] = True
            fresh.append(unseen)
        return np.concatenate(fresh)
    marks = np.zeros(len(visited), dtype=np.bool_)
    if len(visited) == adjacency.node_count and 2 * total > adjacency.edge_count and not follow.drops_loops:
        # One walk that follows most edges passes over all of them, which spares it finding where they stand.
        is_left = np.zeros(adjacency.node_count, dtype=np.bool_)
        is_left[nodes] = True
        if adjacency.mark_targets(is_left, marks):
            nodes = nodes[:0]
    for keys in follow.keys(rows, nodes, counts, check):
        marks[keys] = True
    np.greater(marks, visited, out=marks)
    np.logical_or(visited, marks, out=visited)
    check(_CODE_BYTES * total)
    return np.flatnonzero(marks)


def _split(keys: Codes, node_count: int, walks: int) -> tuple[Codes, Codes]:
    if walks == 1:
        return np.zeros(len(keys), dtype=np.int64), keys
    rows = keys // node_count
    return rows, keys - rows * node_count


def _sorted_distinct(keys: Codes) -> Codes:
    keys.sort()
    if len(keys) < 2:
        return keys
    is_first = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return keys[is_first]
