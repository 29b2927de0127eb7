"""The edges of a version as a base and what changed since: some of its edges are hidden, and a few are added.

What changed is found by comparing lists of files, so that a version costs what the writes since the base have changed,
and each of those rows is looked at once for all later versions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from omnigraph.engine.query.topology.added_edges import (
    NOTHING_ADDED,
    AddedSegment,
    Resolved,
    ResolvedEdges,
    row_ids_by_id,
)
from omnigraph.engine.query.topology.adjacency import (
    Adjacency,
    Entries,
    Integers,
    Links,
    Shape,
    code_width,
    insert_entries,
    sorted_links,
    spread,
)
from omnigraph.engine.query.topology.edge_base import EDGE_COLUMNS, BaseLinks, EdgeBase, Side
from omnigraph.engine.query.topology.ends import Check
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.node_numbers import NodeNumbers, Numbers
from omnigraph.engine.query.topology.overlay import OverlaidAdjacency, sorted_run
from omnigraph.engine.query.topology.segments import SOURCE, TARGET
from omnigraph.ir.model import Direction
from omnigraph.records import record
from omnigraph.store.projections.coverage import Piece
from omnigraph.store.tables.pinned import ROW_ID
from omnigraph.store.tables.row_ids import NO_ROW, RowIds
from omnigraph.store.tables.tail import BlockKey

# Up to this share of all edges may be inserted one by one; beyond it sorting everything again is faster.
_INSERTED_SHARE = 16
# Edges of a fragment of so many rows are sorted once for all versions that list it; those of smaller ones together.
_OWN_RUN = 64
_EDGE_BYTES = 128
_ENTRY_BYTES = 24


@record
class Step:
    """Edges that leave some nodes, by row id: where each is walked from, where it leads, and which it is."""

    sources: RowIds
    targets: RowIds
    edges: RowIds


class LayeredEdges:
    """One version of an edge table and of the tables at its ends. Immutable, safe to share between threads.

    Args:
        base: an earlier or later version, or the same.
        edges: the edge table.
        sources: the nodes that edges start at.
        targets: the nodes that they lead to.
        resolved: edges that other versions have looked at.
        check: called with the bytes that are about to be taken; raises to stop.
        before: another version over the same base, of which everything is kept that has not changed.
    """

    def __init__(
        self,
        base: EdgeBase,
        edges: TableImage,
        sources: TableImage,
        targets: TableImage,
        resolved: Resolved,
        check: Check,
        before: LayeredEdges | None = None,
    ) -> None:
        self.base = base
        self.edges = edges
        before = None if before is None or before.base is not base else before
        self.sources: NodeNumbers = self._numbers(sources, 0, None if before is None else before.sources)
        is_same = base.is_same_type and sources.pin == targets.pin
        last = None if before is None else before.targets
        self.targets: NodeNumbers = self.sources if is_same else self._numbers(targets, 1, last)
        self._match = base.match(edges.table)
        self._hidden = self._match.gone_places
        loose = self._find_loose()
        if len(loose):
            self._hidden = np.union1d(self._hidden, loose)
        known: Mapping[BlockKey, AddedSegment] = {}
        if before is not None and self.sources.extends(before.sources) and self.targets.extends(before.targets):
            # What was found there holds for as long as nodes keep their numbers; what was not may be among new nodes.
            is_same = self.sources is before.sources and self.targets is before.targets
            known = {key: segment for key, segment in before.segments.items() if is_same or segment.is_whole}
        found = [self._segment(index, known, resolved, check) for index in self._match.uncovered]
        #: Fragments of edges that the base does not have, in the order of the version.
        self.segments: Mapping[BlockKey, AddedSegment] = {segment.key: segment for segment in found}
        self._others = self._find_others(loose, check)

    def _numbers(self, image: TableImage, end: int, before: NodeNumbers | None) -> NodeNumbers:
        if before is not None and before.image is image:
            return before
        covered = self.base.targets if end else self.base.sources
        return NodeNumbers(covered, self.base.row_ids[end], self.base.branches[end], image)

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What it takes in memory, with what it keeps alive."""
        kept = {**self.edges.parts, **self.sources.image.parts, **self.targets.image.parts, **self.base.parts}
        numbers = 16 * (self.sources.count + self.targets.count)
        runs: dict[Hashable, int] = {("added", segment.key): segment.nbytes for segment in self.segments.values()}
        return {**kept, **runs, id(self): self._hidden.nbytes + self._others.nbytes + numbers}

    @property
    def is_exact(self) -> bool:
        """Whether the version has the edges and the nodes of the base and no others, under the same numbers."""
        return self._edges_are_codes and self.sources.is_exact and self.targets.is_exact

    @property
    def added_count(self) -> int:
        """How many edges the version has that the base does not have."""
        return sum(len(segment.found.edges) for segment in self.segments.values()) + len(self._others.edges)

    @property
    def hidden_count(self) -> int:
        """How many edges the base has that the version does not have."""
        return len(self._hidden)

    def step(self, direction: Direction, row_ids: RowIds, check: Check) -> Step:
        """Return every edge that can be walked from some nodes of the version, each of which stands once."""
        near, far = (self.targets, self.sources) if direction == "in" else (self.sources, self.targets)
        entries = self._entries(direction, np.sort(near.of(row_ids)), check)
        return Step(
            sources=near.row_ids(entries.sources),
            targets=far.row_ids(entries.targets),
            edges=self._edge_row_ids(entries.edges),
        )

    def adjacency(self, direction: Direction, check: Check) -> Adjacency:
        """Return all edges, numbered as the images number them."""
        if direction == "both":
            return self._both(check)
        near, far = (self.targets, self.sources) if direction == "in" else (self.sources, self.targets)
        base = self.base.links(direction)
        if self.is_exact:
            shape = Shape(repeats=base.repeats, loops=base.loops, owner=self.base)
            return Adjacency(
                links=base.links,
                edges=base.edges,
                target_count=far.image.row_count,
                edge_image=self.edges,
                shape=shape,
            )
        check(_ENTRY_BYTES * (len(base.edges) + self.added_count))
        if not (near.keep_order and far.keep_order and self._keeps_edge_order):
            return self._sorted(direction, near, far)
        links, edges = self._kept(base, near, far)
        added = self._added_entries(direction)
        if len(added.edges) * _INSERTED_SHARE > len(edges):
            return self._sorted(direction, near, far)
        added = _in_codes(added, near, far, self._edge_codes)
        links, edges = insert_entries(links, edges, added, near.image.row_count)
        return self._made(links, edges, far)

    def overlaid(self, direction: Side) -> OverlaidAdjacency:
        """Return all edges, without sorting them; nodes have the numbers of :attr:`sources` and :attr:`targets`."""
        return self._overlaid_out if direction == "out" else self._overlaid_in

    @cached_property
    def _overlaid_out(self) -> OverlaidAdjacency:
        return self._overlay("out", self.sources, self.targets)

    @cached_property
    def _overlaid_in(self) -> OverlaidAdjacency:
        return self._overlay("in", self.targets, self.sources)

    def _overlay(self, side: Side, near: NodeNumbers, far: NodeNumbers) -> OverlaidAdjacency:
        runs = []
        small = [self._others.ends(side)]
        codes = [self.edges.codes_of(self._others.edges)] if len(self._others.edges) else [_NO_CODES]
        for index, segment in zip(self._match.uncovered, self.segments.values(), strict=True):
            first = int(self.edges.starts[index])
            count = len(segment.found.edges)
            if count >= _OWN_RUN:
                runs.append(replace(segment.run(side, near, far), first=first))
            else:
                small.append(segment.found.ends(side))
                codes.append(np.arange(first, first + count))
        sources, targets = (np.concatenate([ends[at] for ends in small]) for at in (0, 1))
        runs.append(sorted_run(near.of(sources), far.of(targets), np.concatenate(codes)))
        return OverlaidAdjacency(
            base=self.base.links(side),
            hidden=self._hidden,
            left=far.deleted,
            added=runs,
            node_count=near.count,
            target_count=far.count,
            edge_image=self.edges,
            edge_codes=self._codes_of_places,
        )

    def _codes_of_places(self, places: Integers) -> Numbers:
        """Return the codes of edges of the base that the version has."""
        found = np.full(len(places), -1, dtype=np.int64)
        for piece in self._match.pieces:
            segment, first = self.edges.segments[piece.index], int(self.edges.starts[piece.index])
            if len(self._match.pieces) == 1 and not len(segment.deleted):
                return places.astype(np.int64) + (first - piece.start)
            mine = np.flatnonzero((places >= piece.start) & (places < piece.start + piece.count))
            offsets = places[mine].astype(np.int64) - piece.start
            found[mine] = first + offsets - np.searchsorted(segment.deleted, offsets)
        return found

    def _both(self, check: Check) -> Adjacency:
        check(4 * _ENTRY_BYTES * (len(self.base.links("out").edges) + self.added_count))
        out = self._all_entries("out")
        twice = np.flatnonzero(out.sources != out.targets)
        every = _joined([out, Entries(sources=out.targets[twice], targets=out.sources[twice], edges=out.edges[twice])])
        return self._from_entries(every, self.sources, self.sources)

    def _sorted(self, direction: Side, near: NodeNumbers, far: NodeNumbers) -> Adjacency:
        return self._from_entries(self._all_entries(direction), near, far)

    def _from_entries(self, entries: Entries, near: NodeNumbers, far: NodeNumbers) -> Adjacency:
        coded = _in_codes(entries, near, far, self._edge_codes)
        width = code_width(far.image.row_count)
        links, edges = sorted_links(
            Entries(sources=coded.sources, targets=coded.targets.astype(width), edges=coded.edges),
            node_count=near.image.row_count,
            target_count=far.image.row_count,
            edge_count=self.edges.row_count,
        )
        return self._made(links, edges, far)

    def _made(self, links: Links, edges: Integers, far: NodeNumbers) -> Adjacency:
        return Adjacency(links=links, edges=edges, target_count=far.image.row_count, edge_image=self.edges)

    def _kept(self, base: BaseLinks, near: NodeNumbers, far: NodeNumbers) -> tuple[Links, Integers]:
        """Return the entries of the base that the version has, in codes; nodes and edges keep their order."""
        is_kept = ~self._is_hidden(base.edges)
        if len(far.deleted):
            is_kept &= ~np.isin(base.links.targets, far.deleted)
        near_codes = near.codes[: near.place_count]
        if len(near.deleted):
            counts = np.diff(base.links.offsets)
            is_kept &= np.repeat(near_codes >= 0, counts)
        before = np.concatenate([[0], np.cumsum(is_kept)])[base.links.offsets]
        live = np.flatnonzero(near_codes >= 0)
        ends = np.full(near.image.row_count + 1, before[-1], dtype=np.int64)
        ends[: len(live)] = before[live]
        targets = far.codes[base.links.targets[is_kept]].astype(code_width(far.image.row_count))
        edges = self._edge_codes[base.edges[is_kept]].astype(code_width(self.edges.row_count))
        return Links(offsets=ends, targets=targets), edges

    def _all_entries(self, direction: Side) -> Entries:
        near, far = (self.targets, self.sources) if direction == "in" else (self.sources, self.targets)
        base = self.base.links(direction)
        nodes = np.repeat(np.arange(near.place_count), np.diff(base.links.offsets))
        entries = self._shown(Entries(sources=nodes, targets=base.links.targets, edges=base.edges), near, far)
        return _joined([entries, self._added_entries(direction)])

    def _entries(self, direction: Direction, nodes: Numbers, check: Check) -> Entries:
        """Return the entries of some nodes, ascending."""
        if direction != "both":
            return self._side_entries(direction, nodes, check)
        out, back = self._side_entries("out", nodes, check), self._side_entries("in", nodes, check)
        other = np.flatnonzero(back.sources != back.targets)
        return _joined([out, _picked(back, other)])

    def _side_entries(self, side: Side, nodes: Numbers, check: Check) -> Entries:
        near, far = (self.targets, self.sources) if side == "in" else (self.sources, self.targets)
        base = self.base.links(side)
        known = nodes[: np.searchsorted(nodes, near.place_count)]
        offsets = base.links.offsets
        check(3 * _ENTRY_BYTES * int((offsets[known + 1] - offsets[known]).sum()))
        rows, at = spread(offsets, known)
        targets, edges = base.links.targets[at].astype(np.int64), base.edges[at].astype(np.int64)
        found = self._shown(Entries(sources=known[rows], targets=targets, edges=edges), near, far)
        added = self._added_entries(side)
        if not len(added.edges):
            return found
        starts, stops = np.searchsorted(added.sources, nodes), np.searchsorted(added.sources, nodes, side="right")
        if (starts == stops).all():
            return found
        places = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True) if a < b])
        return _joined([found, _picked(added, places)])

    def _shown(self, entries: Entries, near: NodeNumbers, far: NodeNumbers) -> Entries:
        """Return the entries that the version has of those of the base."""
        kept = None
        if len(self._hidden):
            kept = ~self._is_hidden(entries.edges)
        for numbers, nodes in ((near, entries.sources), (far, entries.targets)):
            if len(numbers.deleted):
                here = ~np.isin(nodes, numbers.deleted)
                kept = here if kept is None else kept & here
        return entries if kept is None or kept.all() else _picked(entries, np.flatnonzero(kept))

    def _is_hidden(self, edges: Integers) -> np.ndarray:
        if not len(self._hidden):
            return np.zeros(len(edges), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self._hidden, edges), len(self._hidden) - 1)
        return np.asarray(self._hidden[at] == edges)

    def _added_entries(self, side: Side) -> Entries:
        return self._added_out if side == "out" else self._added_in

    @cached_property
    def _added_out(self) -> Entries:
        return self._numbered(self.sources.of(self._added.sources), self.targets.of(self._added.targets))

    @cached_property
    def _added_in(self) -> Entries:
        return self._numbered(self.targets.of(self._added.targets), self.sources.of(self._added.sources))

    def _numbered(self, near: Numbers, far: Numbers) -> Entries:
        edges = self.base.edges.row_count + np.arange(len(near))
        whole = np.flatnonzero((near >= 0) & (far >= 0))
        order = whole[np.lexsort((edges[whole], far[whole], near[whole]))]
        return Entries(sources=near[order], targets=far[order], edges=edges[order])

    @property
    def _edges_are_codes(self) -> bool:
        return (
            self._match.is_exact
            and not self.hidden_count
            and not self.added_count
            and not any(len(segment.deleted) for segment in self.edges.segments)
        )

    @property
    def _keeps_edge_order(self) -> bool:
        starts = [piece.start for piece in self._match.pieces]
        return starts == sorted(starts)

    @cached_property
    def _edge_codes(self) -> Numbers:
        """The code of every edge by number: places of the base, then the edges that were added."""
        codes = np.full(self.base.edges.row_count, -1, dtype=np.int64)
        for piece in self._match.pieces:
            segment = self.edges.segments[piece.index]
            is_live = np.ones(piece.count, dtype=np.bool_)
            is_live[segment.deleted] = False
            first = int(self.edges.starts[piece.index])
            codes[piece.start + np.flatnonzero(is_live)] = np.arange(first, first + segment.row_count)
        return np.concatenate([codes, self.edges.codes_of(self._added.edges)])

    def _edge_row_ids(self, numbers: Numbers) -> RowIds:
        """Return the row ids of edges by number."""
        count = self.base.edges.row_count
        found = np.full(len(numbers), NO_ROW)
        is_added = numbers >= count
        found[is_added] = self._added.edges[numbers[is_added] - count]
        starts = np.array([piece.start for piece in self._pieces_in_order], dtype=np.int64)
        known = np.flatnonzero(~is_added)
        owners = np.searchsorted(starts, numbers[known], side="right") - 1
        for owner in np.unique(owners):
            piece = self._pieces_in_order[int(owner)]
            segment = self.edges.segments[piece.index]
            mine = known[owners == owner]
            offsets = numbers[mine] - piece.start
            found[mine] = segment.row_ids_at(offsets)
        return found

    @cached_property
    def _pieces_in_order(self) -> Sequence[Piece]:
        return sorted(self._match.pieces, key=lambda piece: piece.start)

    def _find_loose(self) -> Numbers:
        """Return the places of edges whose ends must be looked for again, because nodes came that they may name."""
        sides = ("source", self.sources), ("target", self.targets)
        if not any(len(numbers.added) for _, numbers in sides):
            return np.zeros(0, dtype=np.int64)
        found = [self.base.loose]
        if len(self.sources.deleted) or len(self.targets.deleted):
            out = self.base.links("out")
            is_loose = np.isin(out.links.targets, self.targets.deleted)
            nodes = self.sources.deleted[self.sources.deleted < self.sources.place_count]
            _, at = spread(out.links.offsets, nodes)
            is_loose[at] = True
            found.append(out.edges[is_loose].astype(np.int64))
        every = np.unique(np.concatenate(found))
        loose: Numbers = every[~self._is_hidden(every)]
        return loose

    @cached_property
    def _added(self) -> ResolvedEdges:
        """All edges that the base does not have."""
        parts = [*(segment.found for segment in self.segments.values()), self._others]
        return ResolvedEdges(
            edges=np.concatenate([part.edges for part in parts]),
            sources=np.concatenate([part.sources for part in parts]),
            targets=np.concatenate([part.targets for part in parts]),
        )

    def _find_others(self, loose: Numbers, check: Check) -> ResolvedEdges:
        back = [piece.start + piece.back.astype(np.int64) for piece in self._match.pieces if len(piece.back)]
        loose = np.concatenate([loose, *back])
        if not len(loose):
            return NOTHING_ADDED
        row_ids = self._loose_row_ids(loose)
        check(_EDGE_BYTES * len(row_ids))
        rows = self.edges.table.take(row_ids.tolist(), EDGE_COLUMNS)
        return self._resolve(rows, rows.column(ROW_ID).to_numpy().astype(np.uint64, copy=False))

    def _loose_row_ids(self, loose: Numbers) -> RowIds:
        # Those that are added are not known yet, and none of them is loose.
        found = np.full(len(loose), NO_ROW)
        for piece in self._match.pieces:
            mine = np.flatnonzero((loose >= piece.start) & (loose < piece.start + piece.count))
            if len(mine):
                found[mine] = self.edges.segments[piece.index].row_ids_at(loose[mine] - piece.start)
        return found

    def _segment(
        self, index: int, known: Mapping[BlockKey, AddedSegment], resolved: Resolved, check: Check
    ) -> AddedSegment:
        segment = self.edges.segments[index]
        same = known.get(segment.key)
        if same is not None and same.row_id_meta == segment.fragment.metadata.row_id_meta:
            return same
        return AddedSegment(segment, self._resolve_segment(index, resolved, check))

    def _resolve_segment(self, index: int, resolved: Resolved, check: Check) -> ResolvedEdges:
        segment = self.edges.segments[index]
        near, far = self.sources.image.pin, self.targets.image.pin
        key = (segment.key, (near.location, near.branch), (far.location, far.branch))
        known = resolved.get(key)
        if known is not None and self._still_holds(known):
            # Files that are listed anew after they had left could come with other row ids.
            return ResolvedEdges(edges=segment.row_ids, sources=known.sources, targets=known.targets)
        check(_EDGE_BYTES * segment.row_count)
        rows = self.edges.known_rows(index)
        if rows is None:
            rows = self.edges.read_segments([index], EDGE_COLUMNS)
        found = self._resolve(rows, segment.row_ids)
        resolved.put(key, found)
        return found

    def _still_holds(self, known: ResolvedEdges) -> bool:
        """Whether every end that was found is still there; one that was not found may be there now."""
        return bool((self.sources.of(known.sources) >= 0).all() and (self.targets.of(known.targets) >= 0).all())

    def _resolve(self, rows: pa.Table, row_ids: RowIds) -> ResolvedEdges:
        sources = row_ids_by_id(self.sources.image, rows.column(SOURCE))
        targets = row_ids_by_id(self.targets.image, rows.column(TARGET))
        return ResolvedEdges(edges=row_ids, sources=sources, targets=targets)


_NO_CODES: Numbers = np.zeros(0, dtype=np.int64)


def _joined(parts: Sequence[Entries]) -> Entries:
    if len(parts) == 1:
        return parts[0]
    return Entries(
        sources=np.concatenate([part.sources for part in parts]),
        targets=np.concatenate([part.targets for part in parts]),
        edges=np.concatenate([part.edges for part in parts]),
    )


def _picked(entries: Entries, places: Numbers) -> Entries:
    return Entries(sources=entries.sources[places], targets=entries.targets[places], edges=entries.edges[places])


def _in_codes(entries: Entries, near: NodeNumbers, far: NodeNumbers, edge_codes: Numbers) -> Entries:
    return Entries(
        sources=near.codes[entries.sources], targets=far.codes[entries.targets], edges=edge_codes[entries.edges]
    )
