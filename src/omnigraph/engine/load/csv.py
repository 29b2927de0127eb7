"""CSV sources: a header line, then one record per row of one type.

An empty cell without quotes is null, a quoted one is the empty text. Lists and vectors are JSON arrays in a cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyType
from omnigraph.engine.load.binding import bind, owner_of
from omnigraph.engine.load.jsonl import ReadChunk
from omnigraph.engine.load.sources import Source, open_source, reading
from omnigraph.engine.load.tables import ParsedColumn, TableReader
from omnigraph.engine.load.texts import parse_texts, value_of_text
from omnigraph.engine.rows import DecodedChunk, RowProblem
from omnigraph.engine.rows.problem import show

_FIRST_LINE = 2
_BLOCK_BYTES = 8 << 20
_EMPTY = "Empty CSV file"


def read_csv(source: Source, catalog: Catalog, *, is_patch: bool) -> Iterator[ReadChunk]:
    """Yield the rows of a CSV source, a block at a time. Lines count records, the header is line 1.

    Raises:
        FileAccessError: it cannot be read.
        TypeMissingError: the schema has no type for it.
    """
    owner = owner_of(source, catalog)
    crooked: list[RowProblem] = []
    with open_source(source) as stream:
        reader = _open(source, owner, stream.arrow, crooked)
        if reader is None:
            return
        binding = bind(source, owner, reader.schema.names)
        if isinstance(binding, RowProblem):
            yield ReadChunk(decoded=DecodedChunk(types={}, problems=(binding,)), bytes_read=stream.bytes_read)
            return
        table = TableReader(catalog, binding, _parse, is_patch=is_patch)
        line = _FIRST_LINE
        while (batch := _next(source, reader)) is not None:
            numbers = _numbers(line, batch.num_rows, {problem.line for problem in crooked})
            line = int(numbers[-1]) + 1 if len(numbers) else line
            broken, batch, numbers = _without_broken_text(owner, batch, numbers)
            decoded = table.read(batch, numbers)
            problems = sorted((*crooked, *broken, *decoded.problems), key=lambda problem: problem.line)
            crooked.clear()
            yield ReadChunk(
                decoded=DecodedChunk(types=decoded.types, problems=tuple(problems)), bytes_read=stream.bytes_read
            )
        if crooked:
            yield ReadChunk(decoded=DecodedChunk(types={}, problems=tuple(crooked)), bytes_read=stream.bytes_read)


def _open(
    source: Source, owner: NodeType | EdgeType, stream: Any, crooked: list[RowProblem]
) -> pacsv.CSVStreamingReader | None:
    def refuse(row: Any) -> str:
        text = f"a record has {row.actual_columns} cells where the header has {row.expected_columns}"
        crooked.append(
            RowProblem(line=row.number, rule="csv", message=text, type_name=owner.name, value=show(row.text))
        )
        return "skip"

    names = {"id", "from", "to", "src", "dst", *(prop.name for prop in owner.properties), *source.columns.values()}
    with reading(source.name):
        try:
            return pacsv.open_csv(
                stream,
                # Records are only numbered when one thread parses them.
                read_options=pacsv.ReadOptions(
                    use_threads=False, block_size=max(_BLOCK_BYTES, 2 * source.longest_bytes)
                ),
                parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
                convert_options=pacsv.ConvertOptions(
                    # Texts are checked here and not there, because here a bad one has a line.
                    column_types=dict.fromkeys(names, pa.binary()),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[""],
                ),
            )
        except pa.ArrowInvalid as error:
            if _EMPTY in str(error):
                return None
            raise


def _next(source: Source, reader: pacsv.CSVStreamingReader) -> pa.RecordBatch | None:
    with reading(source.name):
        try:
            return reader.read_next_batch()
        except StopIteration:
            return None


def _numbers(first: int, count: int, skipped: set[int]) -> npt.NDArray[np.int64]:
    """Return the lines of ``count`` records from ``first`` on, leaving out those that were skipped."""
    lines = np.arange(first, first + count + len(skipped))
    return lines[~np.isin(lines, list(skipped))][:count]


def _without_broken_text(
    owner: NodeType | EdgeType, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]
) -> tuple[list[RowProblem], pa.RecordBatch, npt.NDArray[np.int64]]:
    problems: dict[int, RowProblem] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.cast(pa.string())
        except pa.ArrowInvalid:
            for at, cell in enumerate(column.to_pylist()):
                if cell is not None and _is_broken(cell) and at not in problems:
                    text = f"invalid UTF-8 in column '{name}'"
                    problems[at] = RowProblem(
                        line=int(numbers[at]),
                        rule="csv",
                        message=text,
                        type_name=owner.name,
                        property=name,
                        value=show(cell),
                    )
    keep = np.ones(batch.num_rows, dtype=bool)
    keep[list(problems)] = False
    texts = batch.filter(pa.array(keep)) if problems else batch
    whole = pa.record_batch([column.cast(pa.string()) for column in texts.columns], names=texts.schema.names)
    return list(problems.values()), whole, numbers[keep]


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
