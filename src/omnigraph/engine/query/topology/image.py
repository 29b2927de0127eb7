"""Images: pinned tables in memory, whose rows are numbered from zero in stored order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import ReferenceType, WeakValueDictionary, ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.topology.budget import ByteBudgetCache, Key
from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.store.projections.coverage import deleted_rows
from omnigraph.store.tables.pinned import KEY, ROW_ID
from omnigraph.store.tables.pins import FragmentRef, TablePin
from omnigraph.store.tables.row_ids import RowIds, physical_row_ids, row_id_run, row_id_sequence
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.tail import BlockKey

Ranks = npt.NDArray[np.int64]


def ranks_of(ids: pa.ChunkedArray) -> Ranks:
    """Return the rank of every id by code point, ascending.

    >>> ranks_of(pa.chunked_array([["b", "a"], ["c"]])).tolist()
    [1, 0, 2]
    """
    whole = pa.concat_arrays([pa.array([], ids.type), *ids.chunks]) if ids.num_chunks != 1 else ids.chunk(0)
    count = len(whole)
    # Made-up ids ascend as they are given out, so a table that was loaded is in order already.
    if count < 2 or pc.all(pc.less(whole.slice(0, count - 1), whole.slice(1))).as_py():
        return np.arange(count)
    order = _order(whole)
    ranks = np.empty(count, dtype=np.int64)
    ranks[order] = np.arange(count)
    return ranks


def _order(ids: pa.Array) -> npt.NDArray[np.intp]:
    lengths = pc.min_max(pc.binary_length(ids))
    shortest, longest = lengths["min"].as_py(), lengths["max"].as_py()
    if shortest == longest and longest > 0 and ids.type == pa.string():
        # Ids of one length lie side by side, and sorting them where they are makes use of runs in order.
        start = np.frombuffer(ids.buffers()[1], dtype=np.int32)[ids.offset]
        texts = np.frombuffer(ids.buffers()[2], dtype=f"S{longest}", count=len(ids), offset=int(start))
        return np.argsort(texts, kind="stable")
    order: npt.NDArray[np.intp] = pc.sort_indices(ids).to_numpy().astype(np.intp)
    return order


Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@record(eq=False, weakref_slot=True)
class SegmentChunk:
    """One column of one segment."""

    arrays: tuple[pa.Array, ...]
    size_bytes: int

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> SegmentChunk:
        """Return the chunk of a column, in as few arrays as its type allows."""
        whole = pa.table({"": column}).combine_chunks().column(0)
        return cls(arrays=tuple(whole.chunks), size_bytes=int(whole.nbytes))


@record(slots=False, eq=False)
class FragmentSegment:
    """The live rows of one fragment.

    Args:
        key: names the fragment's files, its deletions and the columns it is read with.
        fragment: the fragment as its version describes it.
        listed: the rows' stable ids, where the description does not tell them.
        deleted: which rows of the fragment, by place, are not among them, ascending.
        wider: a segment of the same files that may hold more rows, while somebody keeps it.
        chunks: columns, while somebody keeps them.
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
        """Return the row ids of live rows by their offsets in the fragment."""
        if self.run is not None:
            return offsets.astype(np.uint64) + np.uint64(self.run)
        found: RowIds = self.row_ids[offsets - np.searchsorted(self.deleted, offsets)]
        return found

    @cached_property
    def run(self) -> int | None:
        """The row id of the fragment's first row, when the ids of all its rows follow one another; None otherwise."""
        return row_id_run(self.fragment.metadata)

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
        return {self.key: _ROW_ID_BYTES * self.row_count + self.deleted.nbytes}

    def shared_with(self, other: FragmentSegment) -> Mask:
        """Return which of this segment's rows another one of the same files has too."""
        is_shared = np.ones(self.row_count, dtype=np.bool_)
        only_there = np.setdiff1d(other.deleted, self.deleted, assume_unique=True)
        is_shared[only_there - np.searchsorted(self.deleted, only_there)] = False
        return is_shared

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
        is_mine = wider.shared_with(self)
        if np.count_nonzero(is_mine) < self.row_count:
            return None
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
    chunks: Mapping[Hashable, SegmentChunk]

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

    def __init__(self, table: Table, segments: Sequence[FragmentSegment], shelf: ByteBudgetCache) -> None:
        self.pin: TablePin = table.pin
        self.segments = tuple(segments)
        self.starts: Codes = np.cumsum([0, *(segment.row_count for segment in segments)], dtype=np.int64)
        self.row_count = int(self.starts[-1])
        self.table = table
        self._shelf = shelf
        self._places: RowIdPlaces | None = None

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

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a whole column by code; only segments that are in no image's memory are read."""
        return self._shelf.get_or_make(self._column_key(name), lambda: self._load(name)).values

    def derived(self, name: str, what: str, make: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
        """Return what is computed of a column, array by array of it; kept and counted as columns are.

        Args:
            name: the column.
            what: tells from other things that are computed of it.
            make: computes it of one array; called for segments of which no image has it.
        """
        label = f"{what} of {name}"
        return self._shelf.get_or_make(self._column_key(label), lambda: self._derive(name, label, make)).values

    def read_segments(self, indexes: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Return columns of the segments at these positions, one after the other, without keeping them."""
        known: dict[int, list[SegmentChunk]] = {}
        for index in indexes:
            chunks = [self.segments[index].known_chunk(name, self.table) for name in names]
            if None not in chunks:
                known[index] = [chunk for chunk in chunks if chunk is not None]
        missing = [index for index in indexes if index not in known]
        read = read_fragments(self.table, missing, names) if missing else {}
        columns = {}
        for at, name in enumerate(names):
            arrays: list[pa.Array] = []
            for index in indexes:
                arrays += read[index].column(name).chunks if index in read else known[index][at].arrays
            columns[name] = _chunked(arrays, self.table.schema.field(name).type)
        return pa.table(columns)

    def codes_of(self, row_ids: RowIds) -> Codes:
        """Return the codes of rows by row id, -1 for those that are not here."""
        if self.first_row_id is not None:
            # The subtraction wraps below the first row id, so one bound catches both sides.
            codes = row_ids - np.uint64(self.first_row_id)
            return np.where(codes < np.uint64(self.row_count), codes.view(np.int64), -1)
        if self._places is None:
            self._places = RowIdPlaces.of(self.row_ids)
        return self._places.find(row_ids)

    @cached_property
    def first_row_id(self) -> int | None:
        """The first row id, when row ids run without gaps and so are codes already but for where they start."""
        firsts = [segment.first_row_id for segment in self.segments]
        if firsts and None not in firsts:
            known = np.array(firsts, dtype=np.int64)
            return int(known[0]) if (np.diff(known) == np.diff(self.starts)[:-1]).all() else None
        row_ids = self.row_ids.view(np.int64)
        if not len(row_ids) or row_ids[-1] - row_ids[0] != len(row_ids) - 1 or not (np.diff(row_ids) == 1).all():
            return None
        return int(row_ids[0])

    def id_ranks(self, codes: Codes) -> Codes:
        """Return numbers that order these rows as their ids do: by code point, ascending."""
        key: Key[IdRanks] = Key("ranks", self.pin)
        known = self._shelf.get(key)
        if known is None and len(codes) * _RANKED_SHARE < self.row_count:
            return ranks_of(self.column(KEY).take(pa.array(codes)))
        whole = known or self._shelf.get_or_make(key, lambda: IdRanks(by_code=ranks_of(self.column(KEY))))
        ranks: Codes = whole.by_code[codes]
        return ranks

    def _column_key(self, name: str) -> Key[LoadedColumn]:
        return Key("column", (self.pin, name))

    def _load(self, name: str) -> LoadedColumn:
        chunks = {index: segment.known_chunk(name, self.table) for index, segment in enumerate(self.segments)}
        missing = [index for index, chunk in chunks.items() if chunk is None]
        if missing:
            for index, rows in read_fragments(self.table, missing, (name,)).items():
                chunks[index] = self.segments[index].keep(name, SegmentChunk.of(rows.column(name)))
        held = [chunk for chunk in chunks.values() if chunk is not None]
        arrays = [array for chunk in held for array in chunk.arrays]
        return LoadedColumn(
            values=_chunked(arrays, self.table.schema.field(name).type),
            chunks={(segment.key, name): chunk for segment, chunk in zip(self.segments, held, strict=True)},
        )

    def _derive(self, name: str, label: str, make: Callable[[pa.Array], pa.Array]) -> LoadedColumn:
        sources = self._shelf.get_or_make(self._column_key(name), lambda: self._load(name)).chunks
        chunks: dict[Hashable, SegmentChunk] = {}
        for segment in self.segments:
            known = segment.chunks.get(label)
            if known is None:
                arrays = tuple(make(array) for array in sources[segment.key, name].arrays)
                made = SegmentChunk(arrays=arrays, size_bytes=sum(array.nbytes for array in arrays))
                known = segment.keep(label, made)
            chunks[segment.key, label] = known
        held = [array for chunk in chunks.values() for array in chunk.arrays]
        return LoadedColumn(
            values=_chunked(held, make(pa.array([], self.table.schema.field(name).type)).type), chunks=chunks
        )


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


def _chunked(arrays: list[pa.Array], of: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(arrays) if arrays else pa.chunked_array([], type=of)
