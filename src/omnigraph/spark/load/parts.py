"""The input cut into parts that tasks read side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import assert_never

from omnigraph.engine.load.parquet import RowGroups, open_parquet
from omnigraph.engine.load.sources import STDIN, Source, is_compressed
from omnigraph.errors import BadValue, SparkUnsupportedError
from omnigraph.records import record
from omnigraph.spark.load.options import SparkLoadSettings
from omnigraph.spark.load.ranges import count_line_breaks
from omnigraph.spark.runner import Runner

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
        details = BadValue(what="path", value=STDIN, expected="a file that every worker can read")
        raise SparkUnsupportedError("standard input cannot be read by the workers of Spark", details=details)
    whole = SourcePart(number=0, source_number=number, source=source)
    match source.kind:
        case "csv":
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
