"""Images: pinned tables in memory, whose rows are numbered from zero in stored order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.topology.budget import ByteBudgetCache, Key
from omnigraph.engine.query.topology.segments import (
    ROW_ID_BYTES,
    Codes,
    FragmentSegment,
    RowIdPlaces,
    SegmentChunk,
    read_fragments,
)
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.row_ids import RowIds
from omnigraph.store.tables.table import Table

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


# Ranking every row of a table pays for itself once this share of them is asked for.
_RANKED_SHARE = 8
_PLACE_BYTES = 8
# Up to so many segments are asked one by one where a row is.
_FEW_SEGMENTS = 32


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
        made = _PLACE_BYTES + (ROW_ID_BYTES if len(self.segments) > 1 else 0)
        return parts | {("rows", self.pin): made * self.row_count}

    def has_column(self, name: str) -> bool:
        """Whether a column can be had without reading anything."""
        if self._shelf.get(self._column_key(name)) is not None:
            return True
        return all(segment.chunks.get(name) is not None for segment in self.segments)

    def known_column(self, name: str) -> pa.ChunkedArray | None:
        """Return a whole column if it can be had without reading anything."""
        kept = self._shelf.get(self._column_key(name))
        if kept is not None:
            return kept.values
        return self.column(name) if self.has_column(name) else None

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

    def known_rows(self, index: int) -> pa.Table | None:
        """Return the whole rows of the segment at a position when they are in memory because it is small and new."""
        block = self.table.datasets.tails.get(self.segments[index].key)
        return None if block is None else block.rows

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
        if self._places is None and len(self.segments) <= _FEW_SEGMENTS:
            # Asking each costs no more than its rows that are asked for; a table of all of them is made per version.
            found = np.full(len(row_ids), -1, dtype=np.int64)
            for start, segment in zip(self.starts.tolist(), self.segments, strict=False):
                ranks = segment.ranks_of(row_ids)
                found = np.where(ranks >= 0, ranks + start, found)
            return found
        if self._places is None:
            self._places = RowIdPlaces.of(self.row_ids)
        return self._places.find(row_ids)

    def row_ids_of(self, codes: Codes) -> RowIds:
        """Return the row ids of rows by code."""
        if self.first_row_id is not None:
            return codes.astype(np.uint64) + np.uint64(self.first_row_id)
        if len(codes) * _FEW_SEGMENTS > self.row_count or "row_ids" in self.__dict__:
            listed: RowIds = self.row_ids[codes]
            return listed
        found = np.zeros(len(codes), dtype=np.uint64)
        owners = np.searchsorted(self.starts, codes, side="right") - 1
        for owner in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == owner)
            found[mine] = self.segments[owner].row_ids_of(codes[mine] - self.starts[owner])
        return found

    @cached_property
    def first_row_id(self) -> int | None:
        """The first row id, when row ids run without gaps and so are codes already but for where they start."""
        firsts = [segment.first_row_id for segment in self.segments]
        if firsts and None not in firsts:
            known = np.array(firsts, dtype=np.int64)
            return int(known[0]) if (np.diff(known) == np.diff(self.starts)[:-1]).all() else None
        return None

    def id_ranks(self, codes: Codes) -> Codes:
        """Return numbers that order these rows as their ids do: by code point, ascending."""
        key: Key[IdRanks] = Key("ranks", self.pin)
        known = self._shelf.get(key)
        if known is None and len(codes) * _RANKED_SHARE < self.row_count:
            return ranks_of(pa.chunked_array([take_across(self.column(KEY), codes)]))
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
        values = _chunked(arrays, self.table.schema.field(name).type)
        if self.table.datasets.runtime.checks_memory:
            from omnigraph.engine.query.checking import check_column  # noqa: PLC0415 - debug runs alone

            check_column(self, name, values)
        return LoadedColumn(
            values=values,
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


def take_across(column: pa.ChunkedArray, places: Codes) -> pa.Array:
    """Return the values at these places; no chunk is copied, as taking from several would otherwise do.

    >>> take_across(pa.chunked_array([["a", "b"], ["c"]]), np.array([2, 0, 2])).to_pylist()
    ['c', 'a', 'c']
    """
    if column.num_chunks == 1:
        return column.chunk(0).take(pa.array(places))
    if not len(places):
        return pa.array([], column.type)
    bounds = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
    owners = np.searchsorted(bounds, places, side="right") - 1
    parts, order = [], []
    for owner in np.unique(owners).tolist():
        mine = np.flatnonzero(owners == owner)
        parts.append(column.chunk(owner).take(pa.array(places[mine] - bounds[owner])))
        order.append(mine)
    if len(parts) == 1:
        return parts[0]
    back = np.empty(len(places), dtype=np.int64)
    back[np.concatenate(order)] = np.arange(len(places))
    return pa.concat_arrays(parts).take(pa.array(back))


def _chunked(arrays: list[pa.Array], of: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(arrays) if arrays else pa.chunked_array([], type=of)
