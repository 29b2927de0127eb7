"""The input cut into parts that tasks read side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO, assert_never

import numpy as np

from omnigraph.engine.load.embedding import settle_vectors, vectors_missing
from omnigraph.engine.load.reading.arrow import read_arrow
from omnigraph.engine.load.reading.csv import read_csv
from omnigraph.engine.load.reading.jsonl import LineChunk, LineDecoder, ReadChunk, iter_chunks, read_jsonl
from omnigraph.engine.load.reading.parquet import RowGroups, open_parquet, read_parquet
from omnigraph.engine.load.reading.plain import PlainDecoder
from omnigraph.engine.load.sources.source import STDIN, Source, is_compressed, reading
from omnigraph.engine.rows import ChunkDecoder, DecodedChunk
from omnigraph.errors import BadValue, SourceTooLargeError, SparkUnsupportedError
from omnigraph.records import record
from omnigraph.spark.keys import Places
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.loads.written import LoadedPart, PartWriter, WriteOrders

_BLOCK_BYTES = 4 << 20
_NEWLINE = ord("\n")
# Where lines cross the ends of a range two tasks read the same bytes: in blocks of this share of the range.
_EDGE_SHARE = 128
_SMALLEST_EDGE, _LARGEST_EDGE = 256, 64 << 10


class RangeStream:
    """The lines that start in ``start`` to ``end`` of an open file, from front to back; little else is read."""

    def __init__(self, name: str, raw: BinaryIO, start: int, end: int) -> None:
        self._name = name
        self._raw = raw
        self._end = end
        self._at = start
        # What was read and not yet handed on; it begins at ``_at``.
        self._held = b""
        self._edge = min(max((end - start) // _EDGE_SHARE, _SMALLEST_EDGE), _LARGEST_EDGE)
        self._is_done = False
        self._is_inside_line = False
        if start:
            # The line that the byte before belongs to is owned by whoever owns its start.
            with reading(name):
                raw.seek(start - 1)
                self._at = start - 1
                self._skip_line()

    @property
    def bytes_read(self) -> int:
        """How far the file is read."""
        return self._at

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes, beyond the end only as far as the last line goes; none when all is read.

        Raises:
            FileAccessError: the file cannot be read.
        """
        if self._is_done or (self._at >= self._end and not self._is_inside_line):
            return b""
        if not self._held:
            left = self._end - self._at
            with reading(self._name):
                self._held = self._raw.read(min(count, left if left > 0 else self._edge))
        data, self._held = self._held[:count], self._held[count:]
        owned = max(self._end - self._at, 0)
        self._is_done = not data
        if len(data) >= owned:
            # A line that begins before the end is read as far as it goes.
            is_whole = owned > 0 and data[:owned].endswith(b"\n")
            over = owned if is_whole else data.find(b"\n", owned) + 1
            data, self._is_done = data[: over or None], self._is_done or over > 0
            self._is_inside_line = not over
        self._at += len(data)
        return data

    def _skip_line(self) -> None:
        while block := self._raw.read(self._edge):
            over = block.find(b"\n") + 1
            if over:
                self._at += over
                self._held = block[over:]
                return
            self._at += len(block)


def count_line_breaks(source: Source, start: int, end: int) -> int:
    """Return how many line breaks the bytes from ``start`` to ``end`` of a source hold.

    Raises:
        FileAccessError: it cannot be read.
    """
    found = 0
    with source.open() as raw, reading(source.name):
        raw.seek(start)
        while start < end and (block := raw.read(min(_BLOCK_BYTES, end - start))):
            found += int(np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE))
            start += len(block)
    return found


_LARGEST_PART = 128 << 20
_SMALLEST_PART = 8 << 20
# So many parts of the input per core, where it is large enough, that nobody waits long for a last one.
_PARTS_PER_CORE = 4
# Where nobody tells how many cores there are, as Spark Connect does unless ``spark.default.parallelism`` is set.
_USUAL_CORES = 8


@record
class SourcePart:
    """What one task reads: a whole source, a range of its bytes, or some of its row groups.

    Args:
        number: the part's place among all parts.
        source_number: the place among all sources; of a range, among all sources and ranges.
        source: where to read.
        start: the first byte of a range, whose lines count from 1.
        end: the byte after the last; None for a whole source.
        groups: the row groups of a Parquet file.
    """

    number: int
    source_number: int
    source: Source
    start: int = 0
    end: int | None = None
    groups: RowGroups | None = None


def split_sources(sources: Sequence[Source], settings: SparkLoadSettings, cores: int | None = None) -> list[SourcePart]:
    """Return the parts of all sources, in the order in which their rows count, for so many cores.

    Raises:
        FileAccessError: a source cannot be read.
        UsageError: a source does not tell its format.
        SparkUnsupportedError: a source is standard input.
    """
    part_bytes = settings.part_bytes or _part_bytes(sources, cores or _USUAL_CORES)
    parts: list[SourcePart] = []
    number = -1
    for source in sources:
        for part in _split(source, part_bytes, settings.part_rows):
            # Nobody knows beforehand how many lines come before a range, so that each has a number of its own; row
            # groups know that.
            is_new = part.groups is None or not part.groups.rows_before
            number += is_new
            parts.append(replace(part, number=len(parts), source_number=number))
    return parts


def places_of(parts: Sequence[SourcePart], written: Iterable[LoadedPart]) -> Places:
    """Return what the row numbers of parts stand for, once it is known how many lines each of them has."""
    lines = {part.number: part.lines for part in written}
    names: dict[int, str] = {}
    offsets: dict[int, int] = {}
    before = 0
    for part in parts:
        before = before if part.start else 0
        names.setdefault(part.source_number, part.source.name)
        offsets.setdefault(part.source_number, before)
        before += lines.get(part.number, 0)
    return Places(names=tuple(names.values()), offsets=tuple(offsets.values()) if any(offsets.values()) else ())


def _part_bytes(sources: Sequence[Source], cores: int) -> int:
    total = sum(source.size_bytes or 0 for source in sources)
    return min(max(total // (_PARTS_PER_CORE * cores), _SMALLEST_PART), _LARGEST_PART)


def _split(source: Source, part_bytes: int, part_rows: int) -> Iterator[SourcePart]:
    if source.path == STDIN:
        details = BadValue(what="path", value=STDIN, expected="a file that all workers can read")
        raise SparkUnsupportedError("Spark workers cannot read standard input", details=details)
    whole = SourcePart(number=0, source_number=0, source=source)
    match source.kind:
        case "csv" | "arrow":
            # Where a record ends is only known to who has read everything before: quotes may hold line breaks.
            yield whole
        case "jsonl":
            size = source.size_bytes or 0
            if size <= part_bytes or is_compressed(source):
                yield whole
                return
            for start in range(0, size, part_bytes):
                yield replace(whole, start=start, end=min(start + part_bytes, size))
        case "parquet":
            yield from _split_groups(whole, part_rows)
        case _:
            assert_never(source.kind)


def _split_groups(whole: SourcePart, part_rows: int) -> Iterator[SourcePart]:
    with open_parquet(whole.source) as file:
        sizes = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
    if sum(sizes) <= part_rows:
        yield whole
        return
    chosen: list[int] = []
    before = rows = 0
    for at, size in enumerate(sizes):
        if chosen and rows + size > part_rows:
            yield replace(whole, groups=RowGroups(numbers=tuple(chosen), rows_before=before))
            before, rows, chosen = before + rows, 0, []
        chosen.append(at)
        rows += size
    yield replace(whole, groups=RowGroups(numbers=tuple(chosen), rows_before=before))


def read_part(orders: WriteOrders, part: SourcePart) -> LoadedPart:
    """Read one part of a source and write what it holds.

    Raises:
        FileAccessError, SourceTooLargeError, TypeMissingError, UsageError: the source cannot be read at all.
    """
    with orders.taking_blobs():
        return _read_part(orders, part)


def _read_part(orders: WriteOrders, part: SourcePart) -> LoadedPart:
    writer = PartWriter(orders, number=part.number, source_number=part.source_number, source_name=part.source.name)
    bytes_read = lines = 0
    if part.end is None:
        for chunk in _chunks(part, orders):
            bytes_read = chunk.bytes_read
            take_rows(orders, writer, chunk.decoded)
    else:
        decoder = _decoder(part, orders)
        for piece in _range(part, orders):
            bytes_read, lines = piece.bytes_read, piece.last_line + 1 - part.source.first_row
            take_rows(orders, writer, decoder.decode(piece.data, piece.first_line))
    return writer.finish(bytes_read=max(bytes_read - part.start, 0), lines=lines)


def take_rows(orders: WriteOrders, writer: PartWriter, decoded: DecodedChunk) -> None:
    """Hand decoded rows to the writer of their part.

    Raises:
        SparkUnsupportedError: rows leave a vector to be computed.
    """
    if orders.opened is not None:
        decoded = settle_vectors(orders.catalog, decoded)
    writer.refuse(one for problem in decoded.problems for one in problem.violations(writer.source_name))
    for rows in decoded.types.values():
        missing = None if orders.opened is None else vectors_missing(rows)
        if missing is not None:
            name = f"{rows.owner.name}.{missing}"
            details = BadValue(what="property", value=name, expected="a vector in every row")
            raise SparkUnsupportedError(f"vectors of property '{name}' are not computed on Spark", details=details)
        writer.add(rows)


def _chunks(part: SourcePart, orders: WriteOrders) -> Iterator[ReadChunk]:
    source, settings = part.source, orders.settings.read
    catalog = orders.opened or orders.catalog
    match source.kind:
        case "jsonl":
            return read_jsonl(source, _decoder(part, orders), settings)
        case "csv":
            return read_csv(source, catalog, settings, is_patch=False, truncate=orders.truncate)
        case "arrow":
            return read_arrow(source, catalog, settings, is_patch=False, truncate=orders.truncate)
        case "parquet":
            chunks = read_parquet(source, catalog, settings, is_patch=False, truncate=orders.truncate, only=part.groups)
            # What is wrong with the columns of a file is said once.
            is_first = part.groups is None or not part.groups.rows_before
            return chunks if is_first else (chunk for chunk in chunks if chunk.bytes_read)
        case _:
            assert_never(source.kind)


def _decoder(part: SourcePart, orders: WriteOrders) -> LineDecoder:
    catalog = orders.opened or orders.catalog
    if part.source.is_table:
        return PlainDecoder(part.source, catalog, truncate=orders.truncate, is_front=not part.start)
    return ChunkDecoder(catalog, truncate=orders.truncate, takes_changes=orders.takes_changes)


def _range(part: SourcePart, orders: WriteOrders) -> Iterator[LineChunk]:
    """Yield the lines of a range, which count from 1; that of an error counts from the front of the file."""
    try:
        yield from _lines(part, orders, part.source.first_row)
    except SourceTooLargeError:
        # Its message says which line it is, which only who has counted all lines before can tell.
        before = count_line_breaks(part.source, 0, part.start - 1) + 1 if part.start else 0
        for _ in _lines(part, orders, before + part.source.first_row):
            pass
        raise


def _lines(part: SourcePart, orders: WriteOrders, first_line: int) -> Iterator[LineChunk]:
    settings = orders.settings.read
    with part.source.open(is_buffered=False) as raw:
        yield from iter_chunks(
            RangeStream(part.source.name, raw, part.start, part.end or 0),
            part.source.name,
            chunk_bytes=settings.chunk_bytes,
            max_line_bytes=max(settings.max_line_bytes, part.source.longest_bytes),
            first_line=first_line,
        )
