"""The input cut into parts that tasks read side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import BinaryIO, assert_never

import numpy as np

from omnigraph.engine.load.embedding import settle_vectors, vectors_missing
from omnigraph.engine.load.reading.arrow import read_arrow
from omnigraph.engine.load.reading.csv import read_csv
from omnigraph.engine.load.reading.jsonl import LineDecoder, ReadChunk, iter_chunks, read_jsonl
from omnigraph.engine.load.reading.parquet import RowGroups, open_parquet, read_parquet
from omnigraph.engine.load.reading.plain import PlainDecoder
from omnigraph.engine.load.sources.source import STDIN, Source, is_compressed, reading
from omnigraph.engine.rows import ChunkDecoder, DecodedChunk
from omnigraph.errors import BadValue, SparkUnsupportedError
from omnigraph.records import record
from omnigraph.spark.load.options import SparkLoadSettings
from omnigraph.spark.load.written import LoadedPart, PartWriter, WriteOrders
from omnigraph.spark.runner import Runner

_BLOCK_BYTES = 4 << 20
_NEWLINE = ord("\n")


class RangeStream:
    """The lines that start in ``start`` to ``end`` of an open file, from front to back."""

    def __init__(self, name: str, raw: BinaryIO, start: int, end: int) -> None:
        self._name = name
        self._raw = raw
        self._end = end
        self._at = start
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
        with reading(self._name):
            data = self._raw.read(min(count, self._end - self._at) if self._at < self._end else count)
        self._at += len(data)
        if self._at > self._end:
            over = data.find(b"\n") + 1
            data, self._is_done = data[: over or None], over > 0
        elif self._at == self._end:
            self._is_inside_line = not data.endswith(b"\n")
        self._is_done = self._is_done or not data
        return data

    def _skip_line(self) -> None:
        while block := self._raw.read(_BLOCK_BYTES):
            over = block.find(b"\n") + 1
            if over:
                self._at += over
                self._raw.seek(self._at)
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
# So many parts of the input at least, where it is large enough, that nobody waits for a last one.
_WANTED_PARTS = 8


@record
class SourcePart:
    """What one task reads: a whole source, a range of its bytes, or some of its row groups.

    Args:
        number: the part's place among all parts.
        source_number: the source's place among all sources.
        source: where to read.
        start: the first byte of a range.
        end: the byte after the last; None for a whole source.
        first_line: the number of the first line that starts in the range.
        groups: the row groups of a Parquet file.
    """

    number: int
    source_number: int
    source: Source
    start: int = 0
    end: int | None = None
    first_line: int = 1
    groups: RowGroups | None = None


def split_sources(sources: Sequence[Source], runner: Runner, settings: SparkLoadSettings) -> list[SourcePart]:
    """Return the parts of all sources, in the order in which their rows count.

    Raises:
        FileAccessError: a source cannot be read.
        UsageError: a source does not tell its format.
        SparkUnsupportedError: a source is standard input.
    """
    part_bytes = settings.part_bytes or _part_bytes(sources)
    numbers = count()
    parts = [
        replace(part, number=next(numbers))
        for number, source in enumerate(sources)
        for part in _split(source, number, part_bytes, settings.part_rows)
    ]
    return _with_lines(parts, runner)


def count_breaks_before(part: SourcePart) -> int:
    """Return the line breaks of a range that end a line before the first one of the next range."""
    end = part.end or 0
    return count_line_breaks(part.source, max(part.start - 1, 0), end - 1)


def _part_bytes(sources: Sequence[Source]) -> int:
    total = sum(source.size_bytes or 0 for source in sources)
    return min(max(total // _WANTED_PARTS, _SMALLEST_PART), _LARGEST_PART)


def _split(source: Source, number: int, part_bytes: int, part_rows: int) -> Iterator[SourcePart]:
    if source.path == STDIN:
        details = BadValue(what="path", value=STDIN, expected="a file that all workers can read")
        raise SparkUnsupportedError("Spark workers cannot read standard input", details=details)
    whole = SourcePart(number=0, source_number=number, source=source)
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


def _with_lines(parts: Sequence[SourcePart], runner: Runner) -> list[SourcePart]:
    ranges = [part for part in parts if part.end is not None]
    counts = runner.run(count_breaks_before, ranges, "count the lines of the input")
    found = dict(zip((part.number for part in ranges), counts, strict=True))
    numbered = []
    breaks = 0
    for part in parts:
        if part.start == 0:
            breaks = 0
        if part.end is not None and part.start:
            # One more than the breaks before is the line that the range's first byte may be inside of.
            part = replace(part, first_line=breaks + 2)  # noqa: PLW2901 - the same part, completed
        breaks += found.get(part.number, 0)
        numbered.append(part)
    return numbered


def read_part(orders: WriteOrders, part: SourcePart) -> LoadedPart:
    """Read one part of a source and write what it holds.

    Raises:
        FileAccessError, SourceTooLargeError, TypeMissingError, UsageError: the source cannot be read at all.
    """
    writer = PartWriter(orders, number=part.number, source_number=part.source_number, source_name=part.source.name)
    bytes_read = 0
    for chunk in _chunks(part, orders):
        bytes_read = chunk.bytes_read
        take_rows(orders, writer, chunk.decoded)
    return writer.finish(bytes_read=max(bytes_read - part.start, 0))


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
            decoder: LineDecoder = (
                PlainDecoder(source, catalog, truncate=orders.truncate)
                if source.is_table
                else ChunkDecoder(catalog, truncate=orders.truncate, takes_changes=orders.takes_changes)
            )
            return read_jsonl(source, decoder, settings) if part.end is None else _range(part, decoder, orders)
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


def _range(part: SourcePart, decoder: LineDecoder, orders: WriteOrders) -> Iterator[ReadChunk]:
    settings = orders.settings.read
    with part.source.open() as raw:
        stream = RangeStream(part.source.name, raw, part.start, part.end or 0)
        chunks = iter_chunks(
            stream,
            part.source.name,
            chunk_bytes=settings.chunk_bytes,
            max_line_bytes=max(settings.max_line_bytes, part.source.longest_bytes),
            first_line=part.first_line,
        )
        for chunk in chunks:
            yield ReadChunk(decoded=decoder.decode(chunk.data, chunk.first_line), bytes_read=chunk.bytes_read)
