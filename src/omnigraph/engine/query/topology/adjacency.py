"""Adjacency: the neighbours of every node over one edge table in one direction, as compressed sparse rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.topology.budget import SupportsParts
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.segments import Codes
from omnigraph.records import record

Integers = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WORD_BITS = 63


@record
class Entries:
    """Edges as they are walked: from where, to where, and which edge it is."""

    sources: Integers
    targets: Integers
    edges: Integers


@record
class Links:
    """Rows of targets: those of node ``n`` stand from ``offsets[n]`` up to ``offsets[n + 1]``, ascending."""

    offsets: Offsets
    targets: Integers


def sorted_links(entries: Entries, *, node_count: int, target_count: int, edge_count: int) -> tuple[Links, Integers]:
    """Sort entries by source, target and edge; return the rows, and each entry's edge.

    Args:
        entries: what to sort.
        node_count: how many rows there are.
        target_count: all targets are below it.
        edge_count: all edges are below it.
    """
    target_bits, edge_bits = target_count.bit_length(), edge_count.bit_length()
    width = code_width(edge_count)
    if node_count.bit_length() + target_bits + edge_bits > _WORD_BITS:
        order = np.lexsort((entries.edges, entries.targets, entries.sources))
        sizes = np.bincount(entries.sources, minlength=node_count)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Links(offsets=offsets, targets=entries.targets[order]), entries.edges[order].astype(width)
    # Sorting numbers that hold all three is many times faster than sorting positions.
    packed = entries.sources.astype(np.int64)
    packed <<= target_bits
    packed |= entries.targets
    packed <<= edge_bits
    packed |= entries.edges
    packed.sort()
    offsets = np.searchsorted(packed, np.arange(node_count + 1) << (target_bits + edge_bits)).astype(np.int64)
    edges = (packed & ((1 << edge_bits) - 1)).astype(width)
    packed >>= edge_bits
    packed &= (1 << target_bits) - 1
    return Links(offsets=offsets, targets=packed.astype(entries.targets.dtype)), edges


def spread(offsets: npt.NDArray[np.int64], codes: Codes) -> tuple[Codes, slice | Codes]:
    """Return the row of each entry of these nodes, and where the entries stand."""
    starts = offsets[codes]
    counts = offsets[codes + 1] - starts
    rows = np.repeat(np.arange(len(codes)), counts)
    if len(codes) and codes[-1] - codes[0] == len(codes) - 1 and (codes[1:] > codes[:-1]).all():
        return rows, slice(int(starts[0]), int(starts[-1] + counts[-1]))
    # Steps of one, with a jump where a row begins, add up to where the entries stand; one pass instead of three.
    at = np.ones(len(rows), dtype=np.int64)
    filled = np.flatnonzero(counts)
    if len(filled):
        begins, sizes = starts[filled], counts[filled]
        at[0] = begins[0]
        at[np.cumsum(sizes)[:-1]] = begins[1:] - (begins[:-1] + sizes[:-1] - 1)
        np.cumsum(at, out=at)
    return rows, at


def insert_entries(links: Links, edges: Integers, added: Entries, node_count: int) -> tuple[Links, Integers]:
    """Return rows of targets, and the edges of their entries, with a few entries put where they belong."""
    if not len(added.sources):
        return links, edges
    order = np.lexsort((added.edges, added.targets, added.sources))
    more = Entries(
        sources=added.sources[order],
        targets=added.targets[order].astype(links.targets.dtype),
        edges=added.edges[order].astype(edges.dtype),
    )
    at = _insertion_points(links, edges, more)
    offsets = links.offsets + np.searchsorted(more.sources, np.arange(node_count + 1))
    return Links(offsets=offsets, targets=np.insert(links.targets, at, more.targets)), np.insert(edges, at, more.edges)


def _insertion_points(links: Links, edges: Integers, added: Entries) -> Offsets:
    """Return before which entry each added one belongs: a binary search in all rows at once."""
    low, high = links.offsets[added.sources], links.offsets[added.sources + 1]
    while True:
        open_ones = np.flatnonzero(low < high)
        if not len(open_ones):
            return low
        middle = (low[open_ones] + high[open_ones]) // 2
        target, wanted = links.targets[middle], added.targets[open_ones]
        is_before = (target < wanted) | ((target == wanted) & (edges[middle] < added.edges[open_ones]))
        low[open_ones[is_before]] = middle[is_before] + 1
        high[open_ones[~is_before]] = middle[~is_before]


def first_of_runs(rows: Codes, targets: Codes) -> Mask:
    """Return which entries, ascending by row and target, are the first ones with both."""
    is_first = np.ones(len(rows), dtype=np.bool_)
    np.not_equal(targets[1:], targets[:-1], out=is_first[1:])
    is_first[1:] |= rows[1:] != rows[:-1]
    return is_first


def first_entries(links: Links) -> Offsets:
    """Return which entries lead somewhere else than the one before them of the same node."""
    count = len(links.targets)
    if not count:
        return np.zeros(0, dtype=np.int64)
    is_first = np.ones(count, dtype=np.bool_)
    np.not_equal(links.targets[1:], links.targets[:-1], out=is_first[1:])
    starts = links.offsets[:-1]
    is_first[starts[starts < count]] = True
    return np.flatnonzero(is_first)


def code_width(count: int) -> type[np.int32 | np.int64]:
    """Return the narrower integer type that holds all codes below ``count``."""
    return np.int32 if count < 1 << 31 else np.int64


@record
class Shape:
    """What was found out about entries when they were sorted, and what they are part of.

    Args:
        repeats: which entries lead where the one before them of the same node leads, ascending.
        loops: the nodes with an edge to themselves, ascending.
        owner: what the arrays belong to, which counts what they take.
    """

    repeats: Offsets
    loops: Offsets
    owner: SupportsParts


class Adjacency:
    """The neighbours of every node, one entry per edge.

    ``targets`` ascend within a node; parallel edges are kept, in the order of their codes. Undirected, an edge stands
    at both its ends, a self-loop once. The narrower integer type is used where it holds all codes.

    Args:
        links: all entries.
        edges: the code of each entry's edge.
        target_count: how many nodes there are to lead to.
        edge_image: the edges behind the codes; None when they are numbered for one use only.
        shape: what is known about the entries already.
    """

    def __init__(
        self,
        *,
        links: Links,
        edges: Integers,
        target_count: int,
        edge_image: TableImage | None,
        shape: Shape | None = None,
    ) -> None:
        self.node_count = len(links.offsets) - 1
        self.target_count = target_count
        self.edge_count = len(edges)
        self.offsets = links.offsets
        self.targets = links.targets
        self.edges = edges
        self.edge_image = edge_image
        self._links = links
        self._shape = shape

    @classmethod
    def of_pairs(cls, sources: Codes, targets: Codes, edges: Codes, *, node_count: int, target_count: int) -> Self:
        """Return the adjacency of entries that are listed one by one, numbered by the caller."""
        entries = Entries(sources=sources, targets=targets, edges=edges)
        edge_count = int(edges.max()) + 1 if len(edges) else 0
        links, ordered = sorted_links(entries, node_count=node_count, target_count=target_count, edge_count=edge_count)
        return cls(links=links, edges=ordered, target_count=target_count, edge_image=None)

    def __repr__(self) -> str:
        return f"Adjacency(nodes={self.node_count}, edges={self.edge_count})"

    @property
    def size_bytes(self) -> int:
        """What the adjacency itself takes in memory at most; what is made on first use counts from the start."""
        stored = self.offsets.nbytes + self.targets.nbytes + self.edges.nbytes if self._shape is None else 0
        made = self.offsets.nbytes + self.targets.nbytes + 16 * self.edge_count + self.node_count
        return stored + made

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What the adjacency takes in memory, with the image that it keeps alive."""
        kept = {} if self.edge_image is None else self.edge_image.parts
        owned = {} if self._shape is None else self._shape.owner.parts
        return {**kept, **owned, id(self._links): self.size_bytes}

    @cached_property
    def repeats(self) -> Offsets:
        """Which entries lead where the one before them of the same node leads, ascending."""
        if self._shape is not None:
            return self._shape.repeats
        is_repeat = np.ones(self.edge_count, dtype=np.bool_)
        is_repeat[first_entries(self._links)] = False
        return np.flatnonzero(is_repeat)

    @cached_property
    def distinct(self) -> Links:
        """The same rows with every neighbour once."""
        if not len(self.repeats):
            return self._links
        kept = first_entries(self._links)
        if len(kept) == self.edge_count:
            return self._links
        return Links(offsets=np.searchsorted(kept, self.offsets).astype(np.int64), targets=self.targets[kept])

    @cached_property
    def runs(self) -> Offsets:
        """Where the edges of every linked pair begin among all entries, and behind the last pair how many there are."""
        return np.append(first_entries(self._links), self.edge_count).astype(np.int64)

    @cached_property
    def pair_keys(self) -> npt.NDArray[np.int64]:
        """Every linked pair as one number, ``node * target_count + target``, ascending."""
        links = self.distinct
        nodes = np.repeat(np.arange(self.node_count), np.diff(links.offsets))
        nodes *= self.target_count
        nodes += links.targets
        return nodes

    @cached_property
    def has_loop(self) -> Mask:
        """Which nodes have an edge to themselves; of no meaning where the two ends are of different types."""
        if self._shape is not None:
            marked = np.zeros(self.node_count, dtype=np.bool_)
            marked[self._shape.loops] = True
            return marked
        links = self.distinct
        nodes = np.arange(self.node_count)
        is_loop = links.targets == np.repeat(nodes.astype(links.targets.dtype), np.diff(links.offsets))
        found = np.zeros(self.node_count, dtype=np.bool_)
        found[links.targets[is_loop]] = True
        return found

    def entry_counts(self, codes: Codes) -> Codes:
        """Return how many entries each of some nodes has."""
        counts: Codes = self.offsets[codes + 1] - self.offsets[codes]
        return counts

    def followed(self, codes: Codes) -> tuple[Codes, Codes]:
        """Return every entry of some nodes, parallel ones too: the position of its node, and where it leads."""
        rows, at = spread(self.offsets, codes)
        return rows, self.targets[at].astype(np.int64)

    def mark_targets(self, is_left: Mask, marks: Mask) -> bool:
        """Mark where the nodes lead that are left, in one pass over all entries; return that it was done."""
        marks[self.targets[np.repeat(is_left, np.diff(self.offsets))]] = True
        return True

    def restricted(self, allowed: Mask) -> Adjacency:
        """Return the entries of the allowed edges alone; the mask is by code."""
        kept = allowed[self.edges]
        places = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        links = Links(offsets=places[self.offsets], targets=self.targets[kept])
        edges = self.edges[kept]
        return Adjacency(links=links, edges=edges, target_count=self.target_count, edge_image=self.edge_image)
