"""Segments: the live rows of fragments in memory, which all versions that list a fragment share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import ReferenceType, WeakValueDictionary, ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.store.projections.coverage import deleted_rows
from omnigraph.store.tables.pinned import ROW_ID
from omnigraph.store.tables.pins import FragmentRef
from omnigraph.store.tables.row_ids import (
    NO_ROW,
    RowIds,
    find_row_ids,
    physical_row_ids,
    row_id_run,
    row_id_sequence,
)
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.tail import BlockKey

Codes = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]

# The columns of an edge table that hold the ids of its ends.
SOURCE = "src"
TARGET = "dst"

ROW_ID_BYTES = 8
# A table of places by row id is made while it has at most this many slots per row.
_SLOTS_PER_ROW = 8
# A column of a segment is cut into so many pieces at most before it is copied without what is gone.
_FEW_PIECES = 32


@record(eq=False, weakref_slot=True)
class SegmentChunk:
    """One column of one segment."""

    arrays: tuple[pa.Array, ...]
    size_bytes: int

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> SegmentChunk:
        """Return the chunk of a column, in as few arrays as its type allows."""
        whole = column if column.num_chunks == 1 else pa.table({"": column}).combine_chunks().column(0)
        return cls(arrays=tuple(whole.chunks), size_bytes=int(whole.nbytes))

    @classmethod
    def without(cls, chunk: SegmentChunk, gone: Places) -> SegmentChunk:
        """Return a chunk without the rows at some places, ascending; no value is copied.

        >>> chunk = SegmentChunk.of(pa.chunked_array([["a", "b", "c", "d"]]))
        >>> [array.to_pylist() for array in SegmentChunk.without(chunk, np.array([0, 2])).arrays]
        [['b'], ['d']]
        """
        arrays, start = list[pa.Array](), 0
        for array in chunk.arrays:
            stop = start + len(array)
            left = gone[np.searchsorted(gone, start) : np.searchsorted(gone, stop)] - start
            bounds = [-1, *left.tolist(), len(array)]
            arrays += [array.slice(one + 1, other - one - 1) for one, other in pairwise(bounds) if other > one + 1]
            start = stop
        return cls(arrays=tuple(arrays), size_bytes=sum(array.nbytes for array in arrays))


@record(slots=False, eq=False)
class FragmentSegment:
    """The live rows of one fragment.

    Args:
        key: names the fragment's files, its deletions and the columns it is read with.
        fragment: the fragment as its version describes it.
        listed: the rows' stable ids, where the description does not tell them.
        deleted: which rows of the fragment, by place, are not among them, ascending.
        wider: a segment of the same files that may hold more rows, held by a weak reference.
        chunks: its columns, held by weak references.
    """

    key: BlockKey
    fragment: FragmentRef
    listed: RowIds | None
    deleted: Places
    wider: ReferenceType[FragmentSegment] | None
    chunks: WeakValueDictionary[str, SegmentChunk] = field(default_factory=WeakValueDictionary)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return self.fragment.row_count

    @property
    def place_count(self) -> int:
        """How many rows the fragment has, deleted ones too."""
        return self.fragment.metadata.physical_rows

    @cached_property
    def row_ids(self) -> RowIds:
        """The rows' stable ids, in stored order."""
        if self.listed is not None:
            return self.listed
        every = physical_row_ids(self.fragment.metadata)
        if every is None:
            raise InternalError("a fragment without inline row ids was not read")
        return np.delete(every, self.deleted) if len(self.deleted) else every

    def row_ids_at(self, offsets: Places) -> RowIds:
        """Return the row ids of rows by their offsets in the fragment, of deleted ones too.

        A row that was written again is deleted here and keeps its row id elsewhere. Where the description of the
        fragment lists no row ids, :meth:`offsets_of` finds no deleted row and ``NO_ROW`` stands for each.
        """
        if self.run is not None:
            return offsets.astype(np.uint64) + np.uint64(self.run)
        known = find_row_ids(self.fragment.metadata, offsets)
        if known is not None:
            return known
        every = np.full(self.place_count, NO_ROW)
        every[np.delete(np.arange(self.place_count), self.deleted)] = self.row_ids
        found: RowIds = every[offsets]
        return found

    def offsets_of(self, row_ids: RowIds) -> Places:
        """Return where rows stand in the fragment by row id, deleted ones too; -1 for those of other fragments."""
        if self.run is not None:
            # The subtraction wraps below the first row id, so one bound catches both sides.
            offsets = row_ids - np.uint64(self.run)
            return np.where(offsets < np.uint64(self.place_count), offsets.view(np.int64), -1)
        places, offsets_by_place = self._places
        found = places.find(row_ids)
        return found if offsets_by_place is None else np.append(offsets_by_place, -1)[found]

    def ranks_of(self, row_ids: RowIds) -> Places:
        """Return which of the live rows these are by row id, -1 for those that are not here."""
        offsets = self.offsets_of(row_ids)
        if not len(self.deleted):
            return offsets
        before = np.searchsorted(self.deleted, offsets)
        is_deleted = self.deleted[np.minimum(before, len(self.deleted) - 1)] == offsets
        return np.where((offsets < 0) | is_deleted, -1, offsets - before)

    def row_ids_of(self, ranks: Places) -> RowIds:
        """Return the row ids of live rows by which of them they are."""
        if self.run is None:
            found: RowIds = self.row_ids[ranks]
            return found
        if len(self.deleted):
            ranks = ranks + np.searchsorted(self.deleted - np.arange(len(self.deleted)), ranks, side="right")
        return ranks.astype(np.uint64) + np.uint64(self.run)

    @cached_property
    def _places(self) -> tuple[RowIdPlaces, Places | None]:
        every = physical_row_ids(self.fragment.metadata)
        if every is not None:
            return RowIdPlaces.of(every), None
        return RowIdPlaces.of(self.row_ids), np.delete(np.arange(self.place_count), self.deleted)

    @cached_property
    def run(self) -> int | None:
        """The row id of the fragment's first row, when the ids of all its rows follow one another; None otherwise."""
        found = row_id_run(self.fragment.metadata)
        if found is not None:
            return found
        every = physical_row_ids(self.fragment.metadata)
        if every is None or not len(every) or not (np.diff(every) == np.uint64(1)).all():
            return None
        return int(every[0])

    @property
    def first_row_id(self) -> int | None:
        """The first row id, when the ids of all rows follow one another; None otherwise."""
        return None if len(self.deleted) else self.run

    @property
    def files(self) -> Hashable:
        """What segments that differ only in their deletions have in common."""
        return self.key.files, self.key.fields

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What the segment takes in memory, its columns aside."""
        return {self.key: ROW_ID_BYTES * self.row_count + self.deleted.nbytes}

    def known_chunk(self, name: str, table: Table) -> SegmentChunk | None:
        """Return a column when it needs no call: it is here, or the rows are in memory for other reasons."""
        found = self.chunks.get(name)
        if found is not None:
            return found
        block = table.datasets.tails.get(self.key)
        if block is not None and block.rows is not None and name in block.rows.column_names:
            return self.keep(name, SegmentChunk.of(block.rows.column(name)))
        return self._narrowed(name)

    def keep(self, name: str, chunk: SegmentChunk) -> SegmentChunk:
        """Remember a column for as long as somebody holds it."""
        return self.chunks.setdefault(name, chunk)

    def _narrowed(self, name: str) -> SegmentChunk | None:
        wider = None if self.wider is None else self.wider()
        chunk = None if wider is None else wider.chunks.get(name)
        if wider is None or chunk is None or not chunk.arrays:
            return None
        gone = np.setdiff1d(self.deleted, wider.deleted, assume_unique=True)
        if wider.row_count - len(gone) != self.row_count:
            return None
        gone -= np.searchsorted(wider.deleted, gone)
        if len(chunk.arrays) + len(gone) <= _FEW_PIECES:
            # What is left of the arrays stays where it is, so that a delete does not cost the column.
            return self.keep(name, SegmentChunk.without(chunk, gone))
        is_mine = np.ones(wider.row_count, dtype=np.bool_)
        is_mine[gone] = False
        return self.keep(name, SegmentChunk.of(pa.chunked_array(chunk.arrays).filter(pa.array(is_mine))))


class SegmentPool:
    """All segments that some image holds, so that no two images hold the same one twice."""

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[BlockKey, FragmentSegment] = WeakValueDictionary()
        self._newest: WeakValueDictionary[Hashable, FragmentSegment] = WeakValueDictionary()

    def segments_of(self, table: Table) -> tuple[FragmentSegment, ...]:
        """Return the segments of a table in stored order; only deletion files of unknown ones are read."""
        keys = [BlockKey.of(fragment.metadata, table.fields) for fragment in table.fragments]
        known = [self._known(key, fragment) for key, fragment in zip(keys, table.fragments, strict=True)]
        missing = [index for index, segment in enumerate(known) if segment is None]
        read = self._read(table, missing, keys)
        return tuple(read[index] if segment is None else segment for index, segment in enumerate(known))

    def unknown_rows(self, table: Table) -> int:
        """Return how many rows of a table stand in fragments that no image holds; needs no call."""
        keys = ((BlockKey.of(item.metadata, table.fields), item) for item in table.fragments)
        return sum(item.row_count for key, item in keys if self._known(key, item) is None)

    def _known(self, key: BlockKey, fragment: FragmentRef) -> FragmentSegment | None:
        segment = self._by_key.get(key)
        # Files that are listed anew after they had left could come with other row ids.
        if segment is None or segment.fragment.metadata.row_id_meta != fragment.metadata.row_id_meta:
            return None
        return segment

    def _read(self, table: Table, missing: Sequence[int], keys: Sequence[BlockKey]) -> dict[int, FragmentSegment]:
        return {index: self._add(table, table.fragments[index], keys[index]) for index in missing}

    def _add(self, table: Table, fragment: FragmentRef, key: BlockKey) -> FragmentSegment:
        files = key.files, key.fields
        wider = self._newest.get(files)
        segment = FragmentSegment(
            key=key,
            fragment=fragment,
            listed=_listed(table, fragment),
            deleted=deleted_rows(table, fragment).astype(np.int64),
            wider=None if wider is None else ref(wider),
        )
        self._by_key[key] = segment
        self._newest[files] = segment
        return segment


def _listed(table: Table, fragment: FragmentRef) -> RowIds | None:
    if row_id_sequence(fragment.metadata) is not None:
        return None
    rows = table.read([ROW_ID], fragment_ids=[fragment.metadata.id])
    listed: RowIds = rows.column(ROW_ID).to_numpy().astype(np.uint64, copy=False)
    return listed


def read_fragments(table: Table, indexes: Sequence[int], columns: Sequence[str]) -> dict[int, pa.Table]:
    """Return columns of the fragments at these positions, each for itself; one scan for all of them."""
    fragments = [table.fragments[index] for index in indexes]
    rows = table.read(columns, fragment_ids=[item.metadata.id for item in fragments])
    bounds = np.cumsum([0, *(item.row_count for item in fragments)])
    if bounds[-1] != rows.num_rows:
        raise InternalError(f"table '{table.pin.location}' has {rows.num_rows} rows, but its version says {bounds[-1]}")
    pieces = [rows.slice(start, stop - start) for start, stop in pairwise(bounds.tolist())]
    return dict(zip(indexes, pieces, strict=True))


class RowIdPlaces:
    """Finds codes by row id: by subtraction where row ids run without gaps, else through a table, else by search."""

    def __init__(self, first: int, table: npt.NDArray[Any] | None, in_order: tuple[RowIds, Codes] | None) -> None:
        self._first = first
        self._table = table
        self._in_order = in_order

    @classmethod
    def of(cls, row_ids: RowIds) -> RowIdPlaces:
        """Return the places of row ids, each of which stands once."""
        if not len(row_ids):
            return cls(0, np.full(1, -1, dtype=np.int32), None)
        first, last = int(row_ids.min()), int(row_ids.max())
        slots = last - first + 1
        if slots > _SLOTS_PER_ROW * len(row_ids):
            order = np.argsort(row_ids, kind="stable")
            return cls(first, None, (row_ids[order], order))
        table = np.full(slots + 1, -1, dtype=np.int32 if len(row_ids) < 1 << 31 else np.int64)
        table[(row_ids - np.uint64(first)).view(np.int64)] = np.arange(len(row_ids), dtype=table.dtype)
        return cls(first, table, None)

    def find(self, row_ids: RowIds) -> Codes:
        """Return the place of each row id, -1 where it is not there."""
        if self._in_order is not None:
            known, order = self._in_order
            at = np.minimum(np.searchsorted(known, row_ids), len(known) - 1)
            return np.where(known[at] == row_ids, order[at], -1)
        table = self._table if self._table is not None else np.full(1, -1, dtype=np.int32)
        # The subtraction wraps below the first row id, so one bound catches both sides; the last slot says unknown.
        slots = np.minimum(row_ids - np.uint64(self._first), np.uint64(len(table) - 1))
        found: Codes = table[slots.view(np.int64)].astype(np.int64)
        return found
