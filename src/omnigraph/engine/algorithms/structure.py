"""How densely the surroundings of nodes are knit, and whose surroundings are alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.engine.algorithms.found import Found, highest_first, runs
from omnigraph.engine.algorithms.libraries import sparse
from omnigraph.engine.algorithms.projection import Numbers, Pairs, Projection
from omnigraph.engine.query.limits import Limits

# Paths of two edges that are looked at together.
_PATHS_AT_ONCE = 4_000_000
_PATH_BYTES = 32


def triangle_count(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Count the triangles that each node is a corner of, whatever the direction and the number of edges."""
    del params
    pairs = graph.pairs()
    return highest_first("triangles", _triangles(graph.node_count, pairs, limits))


def clustering_coefficient(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Return for each node the share of pairs of its neighbours that are linked; 0 with fewer than two neighbours."""
    del params
    pairs = graph.pairs()
    found = _triangles(graph.node_count, pairs, limits)
    degree = _neighbour_counts(graph.node_count, pairs)
    possible = degree * (degree - 1) / 2
    return highest_first("coefficient", np.divide(found, possible, out=np.zeros(len(found)), where=possible > 0))


def _neighbour_counts(count: int, pairs: Pairs) -> Numbers:
    found = np.bincount(pairs.first, minlength=count) + np.bincount(pairs.second, minlength=count)
    return found.astype(np.int64)


def _triangles(count: int, pairs: Pairs, limits: Limits) -> Numbers:
    """Return how many triangles each node is a corner of.

    Every pair points from the node with fewer neighbours to the one with more. So a node has few pairs that leave it,
    however many neighbours it has, and each triangle is found once: from its first corner by way of the middle one.
    """
    found = np.zeros(count, dtype=np.int64)
    degree = _neighbour_counts(count, pairs)
    rank = np.empty(count, dtype=np.int64)
    rank[np.lexsort((np.arange(count), degree))] = np.arange(count)
    one, two = rank[pairs.first], rank[pairs.second]
    low, high = np.minimum(one, two), np.maximum(one, two)
    order = np.lexsort((high, low))
    low, high = low[order], high[order]
    offsets = np.searchsorted(low, np.arange(count + 1))
    known = sparse().csr_array((np.ones(len(low), dtype=np.int32), high, offsets), shape=(count, count))
    paths = (offsets[1:] - offsets[:-1])[high]
    by_rank = np.zeros(count, dtype=np.int64)
    for start, stop in _blocks(np.add.reduceat(np.append(paths, 0), offsets[:-1]) * (np.diff(offsets) > 0)):
        limits.check(_PATH_BYTES * _PATHS_AT_ONCE)
        rows = known[start:stop]
        # Ends of two steps that one step reaches as well, and middles that both ends of a pair lead to.
        closed = (rows @ known).multiply(rows).tocsr()
        by_rank[start:stop] += np.asarray(closed.sum(axis=1)).ravel()
        by_rank += np.asarray(closed.sum(axis=0)).ravel()
        shared = (rows @ known.T).multiply(rows).tocsr()
        by_rank += np.asarray(shared.sum(axis=0)).ravel()
    found[:] = by_rank[rank]
    return found


def _blocks(work: Numbers) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that are about as much work as is done at once; a row that is more stands alone."""
    reached = np.cumsum(work)
    start = done = 0
    while start < len(work):
        stop = max(start + 1, int(np.searchsorted(reached, done + _PATHS_AT_ONCE, side="right")))
        yield start, stop
        start, done = stop, int(reached[stop - 1])


def node_similarity(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Compare nodes by the neighbours that they share (Jaccard), and return the ``top`` most alike of each node."""
    kept = graph.towards(params["direction"]).lightest()
    count = kept.node_count
    offsets = kept.offsets()
    ones = np.ones(kept.edge_count, dtype=np.int32)
    limits.check(_PATH_BYTES * kept.edge_count)
    lists = sparse().csr_array((ones, kept.targets, offsets), shape=(count, count))
    holders = lists.T.tocsr()
    sizes = np.diff(offsets)
    work = np.add.reduceat(np.append(np.diff(holders.indptr)[kept.targets], 0), offsets[:-1]) if count else sizes
    parts: list[tuple[Numbers, Numbers, Any]] = []
    for start, stop in _blocks(work * (sizes > 0)):
        limits.check(_PATH_BYTES * max(_PATHS_AT_ONCE, int(work[start])))
        common = (lists[start:stop] @ holders).tocoo()
        nodes, others = common.row.astype(np.int64) + start, common.col.astype(np.int64)
        alike = common.data / (sizes[nodes] + sizes[others] - common.data)
        wanted = (nodes != others) & (alike >= params["min_similarity"])
        best = _best_of_each(nodes[wanted], others[wanted], alike[wanted], params["top"])
        limits.hold(sum(part.nbytes for part in best))
        parts.append(best)
    nodes, others, alike = (
        np.concatenate([np.zeros(0), *some]) for some in (zip(*parts, strict=True) if parts else ([],) * 3)
    )
    order = np.lexsort((others, nodes, -alike))
    nodes, others = nodes[order].astype(np.int64), others[order].astype(np.int64)
    columns = {**graph.nodes.columns(others, "other_"), "similarity": pa.array(alike[order])}
    return Found(nodes=nodes, columns=columns)


def _best_of_each(nodes: Numbers, others: Numbers, alike: Any, top: int) -> tuple[Numbers, Numbers, Any]:
    order = np.lexsort((others, -alike, nodes))
    nodes, others, alike = nodes[order], others[order], alike[order]
    starts = runs(nodes)
    places = np.arange(len(nodes)) - np.repeat(starts, np.diff(np.append(starts, len(nodes))))
    kept = places < top
    return nodes[kept], others[kept], alike[kept]
