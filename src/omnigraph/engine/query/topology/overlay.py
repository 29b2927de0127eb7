"""Adjacency of a version without sorting it: the entries of an earlier one, less what is gone, and what came since.

Nothing of it grows with the graph: a version is made from what the writes since the earlier one have changed, and a
walk pays for the entries that it meets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from omnigraph.engine.query.topology.adjacency import Integers, Mask, Offsets, first_of_runs, spread
from omnigraph.engine.query.topology.edge_base import BaseLinks
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.segments import Codes
from omnigraph.records import record


@record
class AddedRun:
    """Entries that came since, by source, target and edge; ``first`` is to be added to every edge.

    Args:
        sources: the node that each is walked from, ascending.
        targets: where it leads.
        edges: which edge it is.
        first: the code of the first of these edges.
    """

    sources: Codes
    targets: Codes
    edges: Codes
    first: int = 0

    @property
    def nbytes(self) -> int:
        """What the arrays take."""
        return self.sources.nbytes + self.targets.nbytes + self.edges.nbytes


class OverlaidAdjacency:
    """The neighbours of every node in one direction. Nodes have the numbers of the base, edges those of their image.

    Args:
        base: the entries of the earlier version.
        hidden: the numbers of its edges that are gone, ascending.
        left: the numbers of nodes to lead to that are gone, ascending.
        added: entries that came since.
        node_count: how many nodes there are.
        target_count: how many there are to lead to.
        edge_image: the edges.
        edge_codes: tells the codes of edges of the earlier version that are still there by their numbers.
    """

    def __init__(
        self,
        *,
        base: BaseLinks,
        hidden: Offsets,
        left: Offsets,
        added: Sequence[AddedRun],
        node_count: int,
        target_count: int,
        edge_image: TableImage,
        edge_codes: Callable[[Integers], Codes],
    ) -> None:
        self.node_count = node_count
        self.target_count = target_count
        self.edge_count = len(base.edges) - len(hidden) + sum(len(run.edges) for run in added)
        self.edge_image = edge_image
        self._base = base
        self._base_count = len(base.links.offsets) - 1
        self._hidden = hidden
        self._left = left
        self._added = tuple(run for run in added if len(run.edges))
        self._edge_codes = edge_codes

    def entry_counts(self, codes: Codes) -> Codes:
        """Return how many entries each of some nodes has; those that are gone may count."""
        counts = self._base_counts(codes)
        for run in self._added:
            counts += run.sources.searchsorted(codes, side="right") - run.sources.searchsorted(codes)
        return counts

    def neighbours(self, codes: Codes) -> tuple[Codes, Codes]:
        """Return every node that a row's node leads to, once per row: rows, ascending, and nodes, ascending in each."""
        rows, at = self._base_entries(codes)
        targets = self._base.links.targets[at].astype(np.int64)
        if len(rows) and len(self._base.repeats):
            kept = first_of_runs(rows, targets)
            rows, targets = rows[kept], targets[kept]
        more_rows, more_targets, _ = self._added_entries(codes)
        if not len(more_rows):
            return rows, targets
        width = max(1, self.target_count)
        known, more = rows * width + targets, np.unique(more_rows * width + more_targets)
        places = known.searchsorted(more)
        if len(known):
            is_new = known[np.minimum(places, len(known) - 1)] != more
            places, more = places[is_new], more[is_new]
        return np.insert(rows, places, more // width), np.insert(targets, places, more % width)

    def neighbour_counts(self, codes: Codes, *, by_edge: bool) -> Codes:
        """Return how many nodes each row's node leads to, or by how many edges."""
        if not self._lacks_some and not len(self._added_entries(codes)[0]):
            counts = self._base_counts(codes)
            repeats = self._base.repeats
            if not by_edge and len(repeats):
                offsets, inside = self._base.links.offsets, np.minimum(codes, self._base_count - 1)
                counts -= repeats.searchsorted(offsets[inside + 1]) - repeats.searchsorted(offsets[inside])
                counts[codes >= self._base_count] = 0
            return counts
        rows = self.entries(codes)[0] if by_edge else self.neighbours(codes)[0]
        return np.bincount(rows, minlength=len(codes)).astype(np.int64)

    def entries(self, codes: Codes) -> tuple[Codes, Codes, Codes]:
        """Return every edge that leaves a row's node: rows, ascending, and for each the node and the edge found."""
        rows, at = self._base_entries(codes)
        targets, edges = self._base.links.targets[at].astype(np.int64), self._edge_codes(self._base.edges[at])
        more = self._added_entries(codes)
        if not len(more[0]):
            return rows, targets, edges
        rows, targets, edges = (np.concatenate(pair) for pair in zip((rows, targets, edges), more, strict=True))
        order = np.argsort(rows, kind="stable")
        return rows[order], targets[order], edges[order]

    def followed(self, codes: Codes) -> tuple[Codes, Codes]:
        """Return every entry of some nodes, in any order: the position of its node, and where it leads."""
        rows, at = self._base_entries(codes)
        targets = self._base.links.targets[at].astype(np.int64)
        more_rows, more_targets, _ = self._added_entries(codes)
        if not len(more_rows):
            return rows, targets
        return np.concatenate([rows, more_rows]), np.concatenate([targets, more_targets])

    def mark_targets(self, is_left: Mask, marks: Mask) -> bool:
        """Mark where the nodes lead that are left, in one pass over all entries; return whether that can be done."""
        if self._lacks_some:
            return False
        links = self._base.links
        marks[links.targets[np.repeat(is_left[: self._base_count], np.diff(links.offsets))]] = True
        for run in self._added:
            marks[run.targets[is_left[run.sources]]] = True
        return True

    @cached_property
    def has_loop(self) -> Mask:
        """Which nodes have an edge to themselves; of no meaning where the two ends are of different types."""
        nodes = np.concatenate([self._base.loops, *(run.sources[run.sources == run.targets] for run in self._added)])
        nodes = np.unique(nodes.astype(np.int64))
        rows, targets = self.followed(nodes)
        marked = np.zeros(self.node_count, dtype=np.bool_)
        marked[targets[nodes[rows] == targets]] = True
        return marked

    @property
    def _lacks_some(self) -> bool:
        """Whether entries of the base are not to be followed."""
        return len(self._hidden) > 0 or len(self._left) > 0

    def _base_counts(self, codes: Codes) -> Codes:
        offsets = self._base.links.offsets
        if self._base_count == self.node_count:
            counts: Codes = offsets[codes + 1] - offsets[codes]
            return counts
        # Nodes that came since have no entries in the base.
        return offsets[np.minimum(codes + 1, self._base_count)] - offsets[np.minimum(codes, self._base_count)]

    def _base_entries(self, codes: Codes) -> tuple[Codes, Codes]:
        """Return the entries of the base that are still there: the position of the node, and where they stand."""
        offsets = self._base.links.offsets
        if self._base_count < self.node_count and len(codes) and int(codes.max()) >= self._base_count:
            positions = np.flatnonzero(codes < self._base_count)
            rows, found = spread(offsets, codes[positions])
            rows = positions[rows]
        else:
            rows, found = spread(offsets, codes)
        at = np.arange(found.start, found.stop) if isinstance(found, slice) else found
        for gone, of in ((self._hidden, self._base.edges), (self._left, self._base.links.targets)):
            if len(gone) and len(at):
                met = of[at]
                shown = gone[np.minimum(gone.searchsorted(met), len(gone) - 1)] != met
                rows, at = rows[shown], at[shown]
        return rows, at

    def _added_entries(self, codes: Codes) -> tuple[Codes, Codes, Codes]:
        found = [_NOTHING]
        for run in self._added:
            starts = run.sources.searchsorted(codes)
            counts = run.sources.searchsorted(codes, side="right") - starts
            hits = np.flatnonzero(counts)
            if len(hits):
                sizes = counts[hits]
                rows = np.repeat(hits, sizes)
                at = np.arange(len(rows)) + np.repeat(starts[hits] - (np.cumsum(sizes) - sizes), sizes)
                found.append((rows, run.targets[at], run.edges[at] + run.first))
        if len(found) == 1:
            return _NOTHING
        rows, targets, edges = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, targets, edges


_NONE: Codes = np.zeros(0, dtype=np.int64)
_NOTHING = (_NONE, _NONE, _NONE)


def sorted_run(sources: Codes, targets: Codes, edges: Codes, first: int = 0) -> AddedRun:
    """Return entries as a run; those that lack an end, which is then below zero, are left out."""
    whole = np.flatnonzero((sources >= 0) & (targets >= 0))
    order = whole[np.lexsort((edges[whole], targets[whole], sources[whole]))]
    return AddedRun(sources=sources[order], targets=targets[order], edges=edges[order], first=first)
