"""The topology of an open graph: images and adjacencies, made on demand and kept within a budget."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from omnigraph.engine.query.topology.adjacency import (
    Adjacency,
    Entries,
    Integers,
    Links,
    Offsets,
    code_width,
    sorted_links,
)
from omnigraph.engine.query.topology.budget import ByteBudgetCache, Key, V
from omnigraph.engine.query.topology.ends import Check, EdgeEnds, best_base, extend_ends, find_ends
from omnigraph.engine.query.topology.image import SegmentPool, TableImage
from omnigraph.ir.model import Direction
from omnigraph.records import record
from omnigraph.store.tables.table import Table

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


DEFAULT_CAPACITY_BYTES = 1 << 30

_ENDS = "ends"


@record
class TopologyStats:
    """What a cache has done.

    Args:
        builds: adjacencies whose edges were all found by id.
        extensions: adjacencies that began with those of another version.
        hits: images and adjacencies that were there.
        evictions: things that left to make room.
        size_bytes: what is held.
    """

    builds: int
    extensions: int
    hits: int
    evictions: int
    size_bytes: int


class TopologyCache:
    """Images and adjacencies by the physical versions they belong to, so that branches share what they share on disk.

    Nothing is ever used for another version than its own. Safe to share between threads: what several ask for at once
    is made once.

    Args:
        capacity_bytes: how much may be held; the least recently used leaves first.
    """

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self._shelf = ByteBudgetCache(capacity_bytes)
        self._pool = SegmentPool()
        self._lock = threading.Lock()
        self._builds = 0
        self._extensions = 0
        self._hits = 0

    @property
    def stats(self) -> TopologyStats:
        """What was done until this moment."""
        return TopologyStats(
            builds=self._builds,
            extensions=self._extensions,
            hits=self._hits,
            evictions=self._shelf.evictions,
            size_bytes=self._shelf.size_bytes,
        )

    def known_image(self, table: Table) -> TableImage | None:
        """Return the image of a table if it is in memory."""
        return self._shelf.get(_image_key(table))

    def unknown_rows(self, table: Table) -> int:
        """Return how many rows would have to be read for an image; none of those that another version has in memory."""
        return self._pool.unknown_rows(table)

    def image(self, table: Table) -> TableImage:
        """Return the image of a table; reads no column, and of storage only deletion files that are not known yet."""
        return self._counted(_image_key(table), lambda: TableImage(table, self._pool.segments_of(table), self._shelf))

    def known_adjacency(self, edges: Table, sources: Table, targets: Table, direction: Direction) -> Adjacency | None:
        """Return an adjacency if it is in memory."""
        return self._shelf.get(_adjacency_key(edges, sources, targets, direction))

    def adjacency(
        self, edges: Table, sources: Table, targets: Table, direction: Direction, check: Check | None = None
    ) -> Adjacency:
        """Return the adjacency of an edge table.

        Args:
            edges: the edge table.
            sources: the table of the type that edges start at.
            targets: the table of the type that they lead to.
            direction: ``out`` walks from source to target, ``in`` back, ``both`` either way, for which the two types
                must be one.
            check: called with the bytes that a step of the work is about to take; raises to stop it. Others who wait
                for the same adjacency then make it themselves.
        """

        def make() -> Adjacency:
            ends = self._ends(edges, sources, targets, check or _go_on)
            return self._adjacency(ends, direction)

        return self._counted(_adjacency_key(edges, sources, targets, direction), make)

    def _adjacency(self, ends: EdgeEnds, direction: Direction) -> Adjacency:
        made = self._shelf.get_or_make(_links_key(ends.content, direction), lambda: self._links(ends, direction))
        return made if made.edge_image is ends.edges else made.over(ends.edges)

    def _links(self, ends: EdgeEnds, direction: Direction) -> Adjacency:
        base = None if ends.since is None else self._shelf.get(_links_key(ends.since.content, direction))
        changed = None if base is None else change_adjacency(base, ends, direction)
        return build_adjacency(ends, direction) if changed is None else changed

    def _ends(self, edges: Table, sources: Table, targets: Table, check: Check) -> EdgeEnds:
        key: Key[EdgeEnds] = Key(_ENDS, (edges.pin, sources.pin, targets.pin))
        return self._shelf.get_or_make(key, lambda: self._make_ends(edges, sources, targets, check))

    def _make_ends(self, edges: Table, sources: Table, targets: Table, check: Check) -> EdgeEnds:
        images = (self.image(edges), self.image(sources), self.image(targets))
        known = [ends for ends in self._shelf.all_of(_ENDS) if isinstance(ends, EdgeEnds)]
        base = best_base(known, *images)
        made = find_ends(*images, check) if base is None else extend_ends(base, *images, check)
        with self._lock:
            self._builds += base is None
            self._extensions += base is not None
        return made

    def _counted(self, key: Key[V], make: Callable[[], V]) -> V:
        known = self._shelf.get(key)
        if known is None:
            return self._shelf.get_or_make(key, make)
        with self._lock:
            self._hits += 1
        return known


def _go_on(_: int) -> None:
    """Let work go on, whatever it takes."""


def _image_key(table: Table) -> Key[TableImage]:
    return Key("image", table.pin)


def _adjacency_key(edges: Table, sources: Table, targets: Table, direction: Direction) -> Key[Adjacency]:
    return Key("adjacency", (edges.pin, sources.pin, targets.pin, direction))


def _links_key(content: object, direction: Direction) -> Key[Adjacency]:
    return Key("links", (content, direction))
