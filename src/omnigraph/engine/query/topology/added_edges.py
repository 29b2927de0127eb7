"""Edges that a base does not have: the nodes at their ends, looked for once for all versions that list them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.topology.edge_base import Side
from omnigraph.engine.query.topology.ends import codes_by_id
from omnigraph.engine.query.topology.image import TableImage, take_across
from omnigraph.engine.query.topology.node_numbers import NodeNumbers
from omnigraph.engine.query.topology.overlay import AddedRun, sorted_run
from omnigraph.engine.query.topology.segments import FragmentSegment
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.tables.pinned import KEY, ROW_ID
from omnigraph.store.tables.row_ids import NO_ROW, RowIds
from omnigraph.store.tables.tail import BlockKey

# Nodes are looked for in memory up to so many; few of them one by one.
_MANY_IDS = 10_000
_FEW_IDS = 4
_NO_ROWS: RowIds = np.zeros(0, dtype=np.uint64)


@record
class ResolvedEdges:
    """Some edges by row id, and the nodes at their ends; a row id that no row has where there is none."""

    edges: RowIds
    sources: RowIds
    targets: RowIds

    @property
    def nbytes(self) -> int:
        """What the arrays take."""
        return self.edges.nbytes + self.sources.nbytes + self.targets.nbytes

    def ends(self, side: Side) -> tuple[RowIds, RowIds]:
        """Return where the edges are walked from, and where they lead."""
        return (self.sources, self.targets) if side == "out" else (self.targets, self.sources)


# Row ids mean the same only on one branch of a table.
Resolved = LRUCache[tuple[BlockKey, Hashable, Hashable], ResolvedEdges]


def resolved_cache() -> Resolved:
    """Return an empty memory of edges whose ends were looked for."""
    return LRUCache(max_size=64 << 20, size_of=lambda found: 256 + found.nbytes)


NOTHING_ADDED = ResolvedEdges(edges=_NO_ROWS, sources=_NO_ROWS, targets=_NO_ROWS)


class AddedSegment:
    """A fragment of edges that a base does not have.

    Args:
        segment: the fragment.
        found: its edges and the nodes at their ends.
    """

    def __init__(self, segment: FragmentSegment, found: ResolvedEdges) -> None:
        self.key = segment.key
        self.row_id_meta = segment.fragment.metadata.row_id_meta
        self.found = found
        #: Whether no end is missing; one that is may come later.
        self.is_whole = bool((found.sources != NO_ROW).all() and (found.targets != NO_ROW).all())
        self._runs: dict[Side, AddedRun] = {}

    def copied(self) -> AddedSegment:
        """Return the same; what is made of it does not become part of this one."""
        other = copy(self)
        other.__dict__["_runs"] = dict(self._runs)
        return other

    @property
    def nbytes(self) -> int:
        """What the arrays take; what is made on first use counts from the start."""
        return 3 * self.found.nbytes

    def run(self, side: Side, near: NodeNumbers, far: NodeNumbers) -> AddedRun:
        """Return its edges in order, by which of the fragment's rows they are."""
        known = self._runs.get(side)
        if known is None:
            sources, targets = self.found.ends(side)
            known = sorted_run(near.of(sources), far.of(targets), np.arange(len(sources)))
            self._runs[side] = known
        return known


def row_ids_by_id(image: TableImage, ids: pa.ChunkedArray) -> RowIds:
    """Return the row ids of nodes by id."""
    if image.has_column(KEY):
        if not image.table.datasets.storage.is_local:
            # Ids in memory spare calls to an object store.
            codes = codes_by_id(ids, image.column(KEY))
            return np.where(codes >= 0, image.row_ids[codes], NO_ROW) if image.row_count else np.full(len(ids), NO_ROW)
        known = _row_ids_by_key(image, ids) if len(ids) <= _MANY_IDS else None
        if known is not None:
            return known
    wanted = pc.unique(ids)
    rows = image.table.lookup(wanted, [])
    at = pc.fill_null(pc.index_in(ids, value_set=rows.column(KEY).combine_chunks()), -1).to_numpy()
    every = np.append(rows.column(ROW_ID).to_numpy().astype(np.uint64, copy=False), NO_ROW)
    found: RowIds = every[at]
    return found


def _row_ids_by_key(image: TableImage, ids: pa.ChunkedArray) -> RowIds | None:
    """Return the row ids of nodes by id, from keys and ids that are in memory; None when the keys are not known."""
    if len(ids) <= _FEW_IDS:
        return _few_by_key(image, ids.to_pylist())
    whole = pa.concat_arrays([pa.array([], ids.type), *ids.chunks])
    candidates = image.table.all_key_candidates(whole)
    if candidates is None:
        return None
    wanted, row_ids = candidates
    codes = image.codes_of(row_ids)
    # Rows that are deleted are candidates too.
    there = np.flatnonzero(codes >= 0)
    wanted, row_ids = wanted[there], row_ids[there]
    is_same = pc.equal(take_across(image.column(KEY), codes[there]), whole.take(pa.array(wanted)))
    here = np.flatnonzero(is_same.to_numpy(zero_copy_only=False))
    found = np.full(len(whole), NO_ROW)
    found[wanted[here]] = row_ids[here]
    return found


def _few_by_key(image: TableImage, ids: Sequence[str]) -> RowIds | None:
    """Return the same without the arrays that many ids are worth."""
    column = image.column(KEY)
    found = np.full(len(ids), NO_ROW)
    for at, wanted in enumerate(ids):
        candidates = image.table.key_candidates(wanted)
        if candidates is None:
            return None
        for row_id, code in zip(candidates, image.codes_of(candidates).tolist(), strict=True):
            if code >= 0 and column[code].as_py() == wanted:
                found[at] = row_id
    return found
