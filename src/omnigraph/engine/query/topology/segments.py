"""Segments: the live rows of one fragment, known by the fragment's files, so that versions of a table share them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from weakref import ReferenceType, WeakValueDictionary, ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.runtime import Counters
from omnigraph.store.fragments import FragmentRef
from omnigraph.store.table import ROW_ADDRESS, ROW_ID, Table
from omnigraph.store.tail import BlockKey

RowIds = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, kw_only=True)
class Chunk:
    """One column of one segment."""

    arrays: tuple[pa.Array, ...]
    size_bytes: int

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Chunk:
        """Return the chunk of a column, in as few arrays as its type allows."""
        whole = pa.table({"": column}).combine_chunks().column(0)
        return cls(arrays=tuple(whole.chunks), size_bytes=int(whole.nbytes))


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, kw_only=True)
class Segment:
    """The live rows of one fragment.

    Args:
        key: names the fragment's files, its deletions and the columns it is read with.
        row_ids: the rows' stable ids, in stored order.
        row_id_meta: how storage writes these row ids.
        deleted: which rows of the fragment, by place, are not among them, ascending.
        wider: a segment of the same files that may hold more rows, while somebody keeps it.
        chunks: columns, while somebody keeps them.
    """

    key: BlockKey
    row_ids: RowIds
    row_id_meta: Any
    deleted: Places
    wider: ReferenceType[Segment] | None
    chunks: WeakValueDictionary[str, Chunk] = field(default_factory=WeakValueDictionary)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self.row_ids)

    @property
    def files(self) -> Hashable:
        """What segments that differ only in their deletions have in common."""
        return self.key.files, self.key.fields

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What the segment takes in memory, its columns aside."""
        return {self.key: self.row_ids.nbytes + self.deleted.nbytes}

    def shared_with(self, other: Segment) -> Mask:
        """Return which of this segment's rows another one of the same files has too."""
        is_shared = np.ones(self.row_count, dtype=np.bool_)
        only_there = np.setdiff1d(other.deleted, self.deleted, assume_unique=True)
        is_shared[only_there - np.searchsorted(self.deleted, only_there)] = False
        return is_shared

    def known_chunk(self, name: str, table: Table) -> Chunk | None:
        """Return a column when it needs no call: it is here, or the rows are in memory for other reasons."""
        found = self.chunks.get(name)
        if found is not None:
            return found
        block = table.datasets.tails.get(self.key)
        if block is not None and block.rows is not None and name in block.rows.column_names:
            return self.keep(name, Chunk.of(block.rows.column(name)))
        return self._narrowed(name)

    def keep(self, name: str, chunk: Chunk) -> Chunk:
        """Remember a column for as long as somebody holds it."""
        return self.chunks.setdefault(name, chunk)

    def _narrowed(self, name: str) -> Chunk | None:
        wider = None if self.wider is None else self.wider()
        chunk = None if wider is None else wider.chunks.get(name)
        if wider is None or chunk is None or not chunk.arrays:
            return None
        is_mine = wider.shared_with(self)
        if np.count_nonzero(is_mine) < self.row_count:
            return None
        return self.keep(name, Chunk.of(pa.chunked_array(chunk.arrays).filter(pa.array(is_mine))))


class SegmentPool:
    """All segments that some image holds, so that no two images hold the same one twice."""

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[BlockKey, Segment] = WeakValueDictionary()
        self._newest: WeakValueDictionary[Hashable, Segment] = WeakValueDictionary()

    def segments_of(self, table: Table, counters: Counters) -> tuple[Segment, ...]:
        """Return the segments of a table in stored order; only deletion files of unknown ones are read."""
        keys = [BlockKey.of(fragment.metadata, table.fields) for fragment in table.fragments]
        known = [self._known(key, fragment) for key, fragment in zip(keys, table.fragments, strict=True)]
        missing = [index for index, segment in enumerate(known) if segment is None]
        read = self._read(table, missing, keys, counters)
        return tuple(read[index] if segment is None else segment for index, segment in enumerate(known))

    def unknown_rows(self, table: Table) -> int:
        """Return how many rows of a table stand in fragments that no image holds; needs no call."""
        keys = ((BlockKey.of(item.metadata, table.fields), item) for item in table.fragments)
        return sum(item.row_count for key, item in keys if self._known(key, item) is None)

    def _known(self, key: BlockKey, fragment: FragmentRef) -> Segment | None:
        segment = self._by_key.get(key)
        # Files that are listed anew after they had left could come with other row ids.
        if segment is None or segment.row_id_meta != fragment.metadata.row_id_meta:
            return None
        return segment

    def _read(
        self, table: Table, missing: Sequence[int], keys: Sequence[BlockKey], counters: Counters
    ) -> dict[int, Segment]:
        if not missing:
            return {}
        has_deletions = any(keys[index].deletions is not None for index in missing)
        rows = read_fragments(table, missing, (ROW_ID, ROW_ADDRESS) if has_deletions else (ROW_ID,), counters)
        return {index: self._add(table.fragments[index], keys[index], rows[index]) for index in missing}

    def _add(self, fragment: FragmentRef, key: BlockKey, rows: pa.Table) -> Segment:
        deleted = np.zeros(0, dtype=np.int64)
        if key.deletions is not None:
            is_deleted = np.ones(fragment.metadata.physical_rows, dtype=np.bool_)
            # The low half of a row address is the row's place in its fragment.
            is_deleted[rows.column(ROW_ADDRESS).to_numpy().astype(np.uint32)] = False
            deleted = np.flatnonzero(is_deleted)
        files = key.files, key.fields
        wider = self._newest.get(files)
        segment = Segment(
            key=key,
            row_ids=rows.column(ROW_ID).to_numpy().astype(np.uint64, copy=False),
            row_id_meta=fragment.metadata.row_id_meta,
            deleted=deleted,
            wider=None if wider is None else ref(wider),
        )
        self._by_key[key] = segment
        self._newest[files] = segment
        return segment


def read_fragments(
    table: Table, indexes: Sequence[int], columns: Sequence[str], counters: Counters
) -> dict[int, pa.Table]:
    """Return columns of the fragments at these positions, each for itself; one scan for all of them."""
    fragments = [table.fragments[index] for index in indexes]
    rows = table.read(columns, counters=counters, fragment_ids=[item.metadata.id for item in fragments])
    bounds = np.cumsum([0, *(item.row_count for item in fragments)])
    if bounds[-1] != rows.num_rows:
        raise InternalError(
            f"a table has other rows than its version says location={table.pin.location}"
            f" expected={bounds[-1]} actual={rows.num_rows}"
        )
    pieces = [rows.slice(start, stop - start) for start, stop in pairwise(bounds.tolist())]
    return dict(zip(indexes, pieces, strict=True))
