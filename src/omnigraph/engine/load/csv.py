"""CSV sources: a header line, then one record per row of one type.

An empty cell without quotes is null, a quoted one is the empty text. Lists and vectors are JSON arrays in a cell.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyType
from omnigraph.engine.load.ahead import read_ahead
from omnigraph.engine.load.binding import bind, owner_of
from omnigraph.engine.load.csv_records import BrokenQuote, Records, iter_records
from omnigraph.engine.load.jsonl import ReadChunk
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.sources import Source, open_source
from omnigraph.engine.load.tables import ParsedColumn, TableReader
from omnigraph.engine.load.texts import parse_texts, value_of_text
from omnigraph.engine.rows import DecodedChunk, RowProblem
from omnigraph.engine.rows.problem import MAX_PROBLEMS, show

# Cells of a block, twice as many bytes as its longest record, are counted in 32 bits.
_MOST_RECORD_BYTES = (1 << 30) - 1


def read_csv(source: Source, catalog: Catalog, settings: LoadSettings, *, is_patch: bool) -> Generator[ReadChunk]:
    """Yield the rows of a CSV source, a block at a time. A record has the number of the line it begins on.

    Raises:
        FileAccessError: it cannot be read.
        SourceTooLargeError: a record is too long.
        TypeMissingError: the schema has no type for it.
    """
    owner = owner_of(source, catalog)
    longest = min(max(settings.max_line_bytes, source.longest_bytes), _MOST_RECORD_BYTES)
    reader: _RecordReader | None = None
    with (
        open_source(source) as stream,
        # Closed before the source is, because another thread is reading it.
        closing(read_ahead(iter_records(stream, source.name, max_record_bytes=longest))) as blocks,
    ):
        for block in blocks:
            if isinstance(block, BrokenQuote):
                problem = RowProblem(line=block.line, rule="csv", message=block.message, type_name=owner.name)
                yield _refused(problem, stream.bytes_read)
                return
            records = block
            if reader is None and len(block.widths):
                header, records = _behead(block)
                made = _open(source, catalog, owner, header, is_patch=is_patch)
                if isinstance(made, RowProblem):
                    yield _refused(made, block.bytes_read)
                    return
                reader = made
            if reader is not None:
                yield ReadChunk(decoded=reader.read(records), bytes_read=block.bytes_read)


def _refused(problem: RowProblem, bytes_read: int) -> ReadChunk:
    return ReadChunk(decoded=DecodedChunk(types={}, problems=(problem,)), bytes_read=bytes_read)


def _behead(block: Records) -> tuple[Records, Records]:
    """Return the header and what follows it."""
    width = int(block.widths[0])
    parts = ((block.cells.slice(0, width), slice(0, 1)), (block.cells.slice(width), slice(1, None)))
    header, rest = (
        Records(cells=cells, widths=block.widths[at], lines=block.lines[at], bytes_read=block.bytes_read)
        for cells, at in parts
    )
    return header, rest


def _open(
    source: Source, catalog: Catalog, owner: NodeType | EdgeType, header: Records, *, is_patch: bool
) -> _RecordReader | RowProblem:
    names = ["" if cell is None else cell.decode(errors="replace") for cell in header.cells.to_pylist()]
    if _texts(header.cells) is None:
        line, text = int(header.lines[0]), "invalid UTF-8 in the name of a column"
        return RowProblem(line=line, rule="csv", message=text, type_name=owner.name, value=show(",".join(names)))
    binding = bind(source, owner, names)
    if isinstance(binding, RowProblem):
        return binding
    return _RecordReader(names, owner, TableReader(catalog, binding, _parse, is_patch=is_patch))


class _RecordReader:
    """Turns records into rows; those that are no rows of the table are problems with their lines."""

    def __init__(self, header: list[str], owner: NodeType | EdgeType, table: TableReader) -> None:
        self._header = header
        self._owner = owner
        self._table = table

    def read(self, block: Records) -> DecodedChunk:
        """Return the rows of a block of records."""
        width = len(self._header)
        first = np.cumsum(block.widths) - block.widths
        fits = block.widths == width
        problems = [self._crooked(block, at, int(first[at])) for at in np.flatnonzero(~fits)[:MAX_PROBLEMS].tolist()]
        first, lines = first[fits], block.lines[fits]
        texts = _texts(block.cells)
        if texts is None:
            texts, broken = self._without_broken(block.cells, first, lines)
            problems += broken.values()
            is_whole = np.ones(len(first), dtype=bool)
            is_whole[list(broken)] = False
            first, lines = first[is_whole], lines[is_whole]
        columns = [texts.take(pa.array(first + at)) for at in range(width)]
        decoded = self._table.read(pa.record_batch(columns, names=self._header), lines)
        problems = sorted((*problems, *decoded.problems), key=lambda problem: problem.line)
        return DecodedChunk(types=decoded.types, problems=tuple(problems))

    def _crooked(self, block: Records, at: int, first: int) -> RowProblem:
        width = int(block.widths[at])
        some = block.cells.slice(first, min(width, len(self._header) + 1)).to_pylist()
        return RowProblem(
            line=int(block.lines[at]),
            rule="csv",
            message=f"a record has {width} cells where the header has {len(self._header)}",
            type_name=self._owner.name,
            value=show(b",".join(cell or b"" for cell in some)),
        )

    def _without_broken(
        self, cells: pa.Array, first: npt.NDArray[np.int64], lines: npt.NDArray[np.int64]
    ) -> tuple[pa.Array, dict[int, RowProblem]]:
        """Return the cells with null in place of texts that are none, and a problem for each record that has one."""
        is_broken = np.array([cell is not None and _is_broken(cell) for cell in cells.to_pylist()], dtype=bool)
        problems: dict[int, RowProblem] = {}
        for column, name in enumerate(self._header):
            for at in np.flatnonzero(is_broken[first + column]).tolist():
                problems.setdefault(
                    at,
                    RowProblem(
                        line=int(lines[at]),
                        rule="csv",
                        message=f"invalid UTF-8 in column '{name}'",
                        type_name=self._owner.name,
                        property=name,
                        value=show(cells[int(first[at]) + column].as_py()),
                    ),
                )
        whole = [None if broken else cell for cell, broken in zip(cells.to_pylist(), is_broken, strict=True)]
        return pa.array(whole, pa.binary()).cast(pa.string()), problems


def _texts(cells: pa.Array) -> pa.Array | None:
    """Return the cells as texts; None when one of them is not UTF-8."""
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def _is_broken(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return True
    return False


def _parse(kind: PropertyType, column: pa.Array) -> ParsedColumn:
    values, bad = parse_texts(kind, column)

    def value_at(row: int) -> Any:
        text = column[row].as_py()
        return None if text is None else value_of_text(kind, text)

    return ParsedColumn(values=values, flavour="text", bad=bad, value_at=value_at)
