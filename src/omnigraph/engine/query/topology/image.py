"""Images: pinned tables in memory, whose rows are numbered from zero in stored order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.topology.budget import Key, Shelf
from omnigraph.engine.query.topology.id_order import ranks_of
from omnigraph.engine.query.topology.segments import Chunk, RowIds, Segment, read_fragments
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.pins import TablePin
from omnigraph.store.table import KEY, Table

Codes = npt.NDArray[np.int64]

# A table of places by row id is made while it has at most this many slots per row.
_SLOTS_PER_ROW = 8
# Ranking every row of a table pays for itself once this share of them is asked for.
_RANKED_SHARE = 8
_ROW_ID_BYTES = 8
_PLACE_BYTES = 8


@record
class LoadedColumn:
    """A whole column, together with the chunks it consists of."""

    values: pa.ChunkedArray
    chunks: Mapping[Hashable, Chunk]

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What its chunks take in memory."""
        return {key: chunk.size_bytes for key, chunk in self.chunks.items()}


@record
class IdRanks:
    """Where each row of an image stands when its rows are ordered by id."""

    by_code: Codes

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What the ranks take in memory."""
        return {id(self.by_code): self.by_code.nbytes}


class TableImage:
    """One pinned table version. A row's number, its *code*, is its place in stored order.

    Columns are read when they are first asked for, and kept while the shelf has room for them. Safe to share between
    threads.
    """

    def __init__(self, table: Table, segments: Sequence[Segment], shelf: Shelf) -> None:
        self.pin: TablePin = table.pin
        self.segments = tuple(segments)
        self.starts: Codes = np.cumsum([0, *(segment.row_count for segment in segments)], dtype=np.int64)
        self.row_count = int(self.starts[-1])
        self.table = table
        self._shelf = shelf
        self._places: _Places | None = None

    def __repr__(self) -> str:
        return f"TableImage({self.pin}, rows={self.row_count})"

    @cached_property
    def row_ids(self) -> RowIds:
        """The stable row id of every row, by code."""
        if len(self.segments) == 1:
            return self.segments[0].row_ids
        return np.concatenate([np.zeros(0, dtype=np.uint64), *(segment.row_ids for segment in self.segments)])

    @property
    def size_bytes(self) -> int:
        """What is in memory: row ids, and the columns that are loaded."""
        loaded = [chunk.size_bytes for segment in self.segments for chunk in list(segment.chunks.values())]
        return sum(self.parts.values()) + sum(loaded)

    @property
    def parts(self) -> Mapping[Hashable, int]:
        """What the image takes in memory, its columns aside; what is made on first use counts from the start."""
        parts: dict[Hashable, int] = {}
        for segment in self.segments:
            parts |= segment.parts
        made = _PLACE_BYTES + (_ROW_ID_BYTES if len(self.segments) > 1 else 0)
        return parts | {("rows", self.pin): made * self.row_count}

    def has_column(self, name: str) -> bool:
        """Whether a column can be had without reading anything."""
        if self._shelf.get(self._column_key(name)) is not None:
            return True
        return all(segment.chunks.get(name) is not None for segment in self.segments)

    def column(self, name: str, counters: Counters) -> pa.ChunkedArray:
        """Return a whole column by code; only segments that are in no image's memory are read."""
        return self._shelf.get_or_make(self._column_key(name), lambda: self._load(name, counters)).values

    def read_segments(self, indexes: Sequence[int], names: Sequence[str], counters: Counters) -> pa.Table:
        """Return columns of the segments at these positions, one after the other, without keeping them."""
        known: dict[int, list[Chunk]] = {}
        for index in indexes:
            chunks = [self.segments[index].known_chunk(name, self.table) for name in names]
            if None not in chunks:
                known[index] = [chunk for chunk in chunks if chunk is not None]
        missing = [index for index in indexes if index not in known]
        read = read_fragments(self.table, missing, names, counters) if missing else {}
        columns = {}
        for at, name in enumerate(names):
            arrays: list[pa.Array] = []
            for index in indexes:
                arrays += read[index].column(name).chunks if index in read else known[index][at].arrays
            columns[name] = _chunked(arrays, self.table.schema.field(name).type)
        return pa.table(columns)

    def codes_of(self, row_ids: RowIds) -> Codes:
        """Return the codes of rows by row id, -1 for those that are not here."""
        if self._places is None:
            self._places = _Places.of(self.row_ids)
        return self._places.find(row_ids)

    @cached_property
    def first_row_id(self) -> int | None:
        """The first row id, when row ids run without gaps and so are codes already but for where they start."""
        row_ids = self.row_ids.view(np.int64)
        if not len(row_ids) or row_ids[-1] - row_ids[0] != len(row_ids) - 1 or not (np.diff(row_ids) == 1).all():
            return None
        return int(row_ids[0])

    def id_ranks(self, codes: Codes, counters: Counters) -> Codes:
        """Return numbers that order these rows as their ids do: by code point, ascending."""
        key: Key[IdRanks] = Key("ranks", self.pin)
        known = self._shelf.get(key)
        if known is None and len(codes) * _RANKED_SHARE < self.row_count:
            return ranks_of(self.column(KEY, counters).take(pa.array(codes)))
        whole = known or self._shelf.get_or_make(key, lambda: IdRanks(by_code=ranks_of(self.column(KEY, counters))))
        ranks: Codes = whole.by_code[codes]
        return ranks

    def _column_key(self, name: str) -> Key[LoadedColumn]:
        return Key("column", (self.pin, name))

    def _load(self, name: str, counters: Counters) -> LoadedColumn:
        chunks = {index: segment.known_chunk(name, self.table) for index, segment in enumerate(self.segments)}
        missing = [index for index, chunk in chunks.items() if chunk is None]
        if missing:
            for index, rows in read_fragments(self.table, missing, (name,), counters).items():
                chunks[index] = self.segments[index].keep(name, Chunk.of(rows.column(name)))
        held = [chunk for chunk in chunks.values() if chunk is not None]
        arrays = [array for chunk in held for array in chunk.arrays]
        return LoadedColumn(
            values=_chunked(arrays, self.table.schema.field(name).type),
            chunks={(segment.key, name): chunk for segment, chunk in zip(self.segments, held, strict=True)},
        )


class _Places:
    """Finds codes by row id: by subtraction where row ids run without gaps, else through a table, else by search."""

    def __init__(self, first: int, table: npt.NDArray[Any] | None, in_order: tuple[RowIds, Codes] | None) -> None:
        self._first = first
        self._table = table
        self._in_order = in_order

    @classmethod
    def of(cls, row_ids: RowIds) -> _Places:
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
        if self._in_order is not None:
            known, order = self._in_order
            at = np.minimum(np.searchsorted(known, row_ids), len(known) - 1)
            return np.where(known[at] == row_ids, order[at], -1)
        table = self._table if self._table is not None else np.full(1, -1, dtype=np.int32)
        # The subtraction wraps below the first row id, so one bound catches both sides; the last slot says unknown.
        slots = np.minimum(row_ids - np.uint64(self._first), np.uint64(len(table) - 1))
        found: Codes = table[slots.view(np.int64)].astype(np.int64)
        return found


def _chunked(arrays: list[pa.Array], of: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(arrays) if arrays else pa.chunked_array([], type=of)
