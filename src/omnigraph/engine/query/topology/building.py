"""Making adjacencies: by sorting all edges of a table, or by changing the adjacency of another version."""

from __future__ import annotations

import numpy as np

from omnigraph.engine.query.topology.adjacency import Adjacency
from omnigraph.engine.query.topology.ends import EdgeEnds
from omnigraph.engine.query.topology.links import Entries, Integers, Links, Offsets, code_width, sorted_links
from omnigraph.ir.model import Direction

# Up to this share of all edges may be inserted one by one; beyond it sorting everything again is faster.
_INSERTED_SHARE = 16


def build_adjacency(ends: EdgeEnds, direction: Direction) -> Adjacency:
    """Sort the edges of a table by the node they are walked from, then by the one they lead to, then by code."""
    node_count, target_count = _node_counts(ends, direction)
    entries = _entries(ends, None, direction)
    links, edges = sorted_links(
        entries, node_count=node_count, target_count=target_count, edge_count=ends.edges.row_count
    )
    return Adjacency(links=links, edges=edges, target_count=target_count, edge_image=ends.edges)


def change_adjacency(base: Adjacency, ends: EdgeEnds, direction: Direction) -> Adjacency | None:
    """Return the adjacency of ``ends``, made from the one that they have changed since; None when that is no gain."""
    since = ends.since
    if since is None or not since.edge_map.is_ascending or len(since.found) * _INSERTED_SHARE > len(base.edges):
        return None
    node_count, target_count = _node_counts(ends, direction)
    offsets, targets, edges = base.offsets, base.targets, base.edges
    added = _entries(ends, since.found, direction)
    if targets.dtype != added.targets.dtype or edges.dtype != code_width(ends.edges.row_count):
        return None
    if not since.edge_map.is_identity:
        edges = since.edge_map.table(edges.dtype.type)[edges]
        gone = np.flatnonzero(edges < 0)
        if len(gone):
            offsets = offsets - np.searchsorted(gone, offsets)
            targets, edges = np.delete(targets, gone), np.delete(edges, gone)
    offsets = np.concatenate([offsets, np.full(node_count + 1 - len(offsets), len(edges), dtype=np.int64)])
    if len(added.sources):
        order = np.lexsort((added.edges, added.targets, added.sources))
        added = Entries(
            sources=added.sources[order], targets=added.targets[order], edges=added.edges[order].astype(edges.dtype)
        )
        at = _insertion_points(offsets, targets, edges, added)
        targets, edges = np.insert(targets, at, added.targets), np.insert(edges, at, added.edges)
        offsets = offsets + np.searchsorted(added.sources, np.arange(node_count + 1))
    links = Links(offsets=offsets, targets=targets)
    return Adjacency(links=links, edges=edges, target_count=target_count, edge_image=ends.edges)


def _node_counts(ends: EdgeEnds, direction: Direction) -> tuple[int, int]:
    counts = ends.sources.row_count, ends.targets.row_count
    return (counts[1], counts[0]) if direction == "in" else counts


def _entries(ends: EdgeEnds, chosen: Integers | None, direction: Direction) -> Entries:
    """Return the entries of some edges, or of all; those without both ends have none."""
    sources, targets = ends.source_codes, ends.target_codes
    edges = np.arange(len(sources)) if chosen is None else chosen
    if chosen is not None:
        sources, targets = sources[chosen], targets[chosen]
    has_both = (sources >= 0) & (targets >= 0)
    if not has_both.all():
        sources, targets, edges = sources[has_both], targets[has_both], edges[has_both]
    if direction == "out":
        return Entries(sources=sources, targets=targets, edges=edges)
    if direction == "in":
        return Entries(sources=targets, targets=sources, edges=edges)
    twice = np.flatnonzero(sources != targets)
    return Entries(
        sources=np.concatenate([sources, targets[twice]]),
        targets=np.concatenate([targets, sources[twice]]),
        edges=np.concatenate([edges, edges[twice]]),
    )


def _insertion_points(offsets: Offsets, targets: Integers, edges: Integers, added: Entries) -> Offsets:
    """Return before which entry each added one belongs: a binary search in all rows at once."""
    low, high = offsets[added.sources], offsets[added.sources + 1]
    while True:
        open_ones = np.flatnonzero(low < high)
        if not len(open_ones):
            return low
        middle = (low[open_ones] + high[open_ones]) // 2
        target, wanted = targets[middle], added.targets[open_ones]
        is_before = (target < wanted) | ((target == wanted) & (edges[middle] < added.edges[open_ones]))
        low[open_ones[is_before]] = middle[is_before] + 1
        high[open_ones[~is_before]] = middle[~is_before]
