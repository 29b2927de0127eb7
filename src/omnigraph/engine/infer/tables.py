"""The first rows of files and tables, column by column, before anybody knows their types."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.reading.arrow import open_batches
from omnigraph.engine.load.reading.csv import invalid_text, iter_csv
from omnigraph.engine.load.reading.csv_records import BrokenQuote, Records
from omnigraph.engine.load.reading.jsonl import iter_chunks
from omnigraph.engine.load.reading.tables import is_row_number
from omnigraph.engine.load.sources.dialect import Dialect
from omnigraph.engine.load.sources.expand import expand_sources
from omnigraph.engine.load.sources.source import Source, open_source, reading
from omnigraph.engine.rows.cells import RowProblem
from omnigraph.engine.rows.decoder import read_object
from omnigraph.errors import BadRowsError, BadValue, UsageError, Violations
from omnigraph.records import record

DEFAULT_ROWS = 100_000
_BATCH_ROWS = 10_000
_PLAIN = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_CHUNK_BYTES = 4 << 20
_COMMA_NUMBER = re.compile(r"-?[0-9]+,[0-9]+", re.ASCII)
# Of cells without a type the text decides; JSON says what a value is; Arrow what a column is.
Written = Literal["text", "json", "arrow"]


@record
class SampledColumn:
    """One column: its values, None where a row has none; ``arrow_type`` where the column has a type of its own.

    ``mapped`` is what the file calls it, where the source gives it another name.
    """

    name: str
    values: Sequence[Any] = field(repr=False)
    written: Written
    arrow_type: pa.DataType | None = None
    mapped: str | None = None

    @property
    def in_file(self) -> str:
        """What the file calls it."""
        return self.mapped or self.name


@record
class SampledTable:
    """The rows of one type that were looked at.

    Args:
        name: what the rows are called: the type in a file of the load format, else the name of the file.
        origin: where they come from.
        columns: their columns.
        rows: how many were looked at.
        is_whole: there are no others.
        kind: whether they are nodes or edges, where the input says so.
    """

    name: str
    origin: str
    columns: tuple[SampledColumn, ...]
    rows: int
    is_whole: bool
    kind: Literal["node", "edge"] | None = None


def sample_files(sources: Sequence[Source | str], *, rows: int = DEFAULT_ROWS) -> list[SampledTable]:
    """Return the tables that files hold; of each file at most ``rows`` are looked at.

    Columns have the names of the properties that a source reads from them. If it leaves out others, and names some,
    these are all.

    Raises:
        FileMissingError, FileAccessError: a file is not there, or cannot be read.
        BadRowsError: a file breaks its own format, or does not have a column that its source names.
        UsageError: the extension of a file does not tell its format.
    """
    found: list[SampledTable] = []
    for source in expand_sources(sources):
        match source.kind:
            case "parquet":
                tables = [_parquet(source, rows)]
            case "csv":
                tables = [_csv(source, rows)]
            case "arrow":
                tables = [_arrow(source, rows)]
            case "jsonl":
                tables = _jsonl(source, rows)
        found += [_mapped(source, table) for table in tables]
    return found


def _mapped(source: Source, table: SampledTable) -> SampledTable:
    if not source.columns:
        return table
    by_name = {column.name: column for column in table.columns}
    columns: list[SampledColumn] = []
    for name, in_file in source.columns.items():
        if in_file not in by_name:
            near = difflib.get_close_matches(in_file, by_name, n=1)
            advice = f"; did you mean '{near[0]}'?" if near else ""
            message = f"property '{name}' is mapped to column '{in_file}', which the file does not have{advice}"
            raise _refused(source, RowProblem(line=source.header_line, rule="field", message=message))
        if name in by_name and name not in source.columns.values():
            message = f"two columns map to '{name}': '{in_file}' and '{name}'"
            raise _refused(source, RowProblem(line=source.header_line, rule="field", message=message))
        columns.append(replace(by_name[in_file], name=name, mapped=in_file))
    if not source.dialect.ignore_extra_columns:
        taken = set(source.columns.values())
        columns += [column for column in table.columns if column.name not in taken]
    return replace(table, columns=tuple(columns))


def table_of_rows(name: str, data: Any, *, rows: int = DEFAULT_ROWS) -> SampledTable:
    """Return a DataFrame, an Arrow table or a list of dictionaries as a table to look at.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(data, Sequence | Iterator) and not isinstance(data, str | bytes):
        listed = list(data)
        if all(isinstance(row, Mapping) for row in listed):
            return SampledTable(
                name=name,
                origin=name,
                columns=_json_columns(listed[:rows]),
                rows=min(len(listed), rows),
                is_whole=len(listed) <= rows,
            )
    try:
        table = pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as problem:
        shown = type(data).__name__
        details = BadValue(what="data", value=shown, expected="a DataFrame, an Arrow table or a list of dictionaries")
        raise UsageError(f"'{name}' cannot be read as a table: {shown}", details=details) from problem
    return SampledTable(
        name=name,
        origin=name,
        columns=_arrow_columns(table.slice(0, rows)),
        rows=min(table.num_rows, rows),
        is_whole=table.num_rows <= rows,
    )


def _parquet(source: Source, rows: int) -> SampledTable:
    with reading(source.name), source.open() as raw, closing(pq.ParquetFile(raw)) as file:
        batches: list[pa.RecordBatch] = []
        for batch in file.iter_batches(_BATCH_ROWS):
            batches.append(batch)
            if sum(one.num_rows for one in batches) >= rows:
                break
        table = pa.Table.from_batches(batches, file.schema_arrow).slice(0, rows)
        total = file.metadata.num_rows
    return SampledTable(
        name=_name(source),
        origin=source.name,
        columns=_arrow_columns(table),
        rows=table.num_rows,
        is_whole=table.num_rows == total,
    )


def _arrow(source: Source, rows: int) -> SampledTable:
    with ExitStack() as held:
        schema, coming = open_batches(source, held)
        batches: list[pa.RecordBatch] = []
        while sum(one.num_rows for one in batches) <= rows and (batch := next(coming, None)) is not None:
            batches.append(batch)
    table = pa.Table.from_batches(batches, schema)
    return SampledTable(
        name=_name(source),
        origin=source.name,
        columns=_arrow_columns(table.slice(0, rows)),
        rows=min(table.num_rows, rows),
        is_whole=table.num_rows <= rows,
    )


def _arrow_columns(table: pa.Table) -> tuple[SampledColumn, ...]:
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if is_row_number(name):
            continue
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        # Only what can be a key, a reference or an enum is looked at value by value.
        is_plain = any(test(kind) for test in _PLAIN)
        values = column.to_pylist() if is_plain else column.is_valid().to_pylist()
        if not is_plain:
            values = [True if one else None for one in values]
        columns.append(SampledColumn(name=name, values=values, written="arrow", arrow_type=kind))
    return tuple(columns)


def _csv(source: Source, rows: int) -> SampledTable:
    dialect = source.dialect
    header: list[str] = list(dialect.header or ())
    columns: list[list[str | None]] = [[] for _ in header]
    is_whole = True
    with open_source(source) as stream:
        for block in iter_csv(stream, source, max_record_bytes=LoadSettings().max_line_bytes):
            if isinstance(block, BrokenQuote):
                raise _refused(source, RowProblem(line=block.line, rule="csv", message=block.message))
            cells, start = _decoded(source, block), 0
            for width, line in zip(block.widths.tolist(), block.lines.tolist(), strict=True):
                record_cells, start = cells[start : start + width], start + width
                if not header:
                    header = dialect.names([cell or "" for cell in record_cells])
                    columns = [[] for _ in header]
                elif width != len(header):
                    message = f"the record has {width} cells, the header has {len(header)}"
                    raise _refused(source, RowProblem(line=line, rule="csv", message=message))
                elif len(columns[0]) < rows:
                    for column, cell in zip(columns, record_cells, strict=True):
                        column.append(_meant(dialect, cell))
                else:
                    is_whole = False
            if not is_whole:
                break
    return SampledTable(
        name=_name(source),
        origin=source.name,
        columns=tuple(
            SampledColumn(name=name, values=values, written="text")
            for name, values in zip(header, columns, strict=True)
        ),
        rows=len(columns[0]) if columns else 0,
        is_whole=is_whole,
    )


def _meant(dialect: Dialect, cell: str | None) -> str | None:
    text: str | None = dialect.clean_value(cell)
    # A number as the guesses know it; another text with a comma is no number.
    is_number = text is not None and dialect.decimal == "," and _COMMA_NUMBER.fullmatch(text) is not None
    return text.replace(",", ".") if is_number and text is not None else text


def _decoded(source: Source, block: Records) -> list[str | None]:
    found: list[str | None] = []
    for cell in block.cells.to_pylist():
        try:
            found.append(None if cell is None else cell.decode())
        except UnicodeDecodeError as problem:
            at = int(np.searchsorted(np.cumsum(block.widths), len(found), side="right"))
            message = invalid_text(source.dialect.encoding, "a cell")
            bad = RowProblem(line=int(block.lines[at]), rule="csv", message=message)
            raise _refused(source, bad) from problem
    return found


def _jsonl(source: Source, rows: int) -> list[SampledTable]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    is_whole = True
    for number, row in _objects(source):
        if number > rows:
            is_whole = False
            break
        kind, name, data = _unwrapped(source, row) if not source.is_table else ("", _name(source), row)
        data = {key: source.dialect.clean_value(value) for key, value in data.items()}
        found.setdefault((kind, name), []).append(data)
    kinds: dict[str, Literal["node", "edge"] | None] = {"node": "node", "edge": "edge", "": None}
    return [
        SampledTable(
            name=name,
            origin=source.name,
            columns=_json_columns(members),
            rows=len(members),
            is_whole=is_whole,
            kind=kinds[kind],
        )
        for (kind, name), members in found.items()
    ]


def _objects(source: Source) -> Iterator[tuple[int, Mapping[str, Any]]]:
    settings, number = LoadSettings(), 0
    with open_source(source) as stream:
        for chunk in iter_chunks(stream, source.name, chunk_bytes=_CHUNK_BYTES, max_line_bytes=settings.max_line_bytes):
            for at, line in enumerate(chunk.data.splitlines()):
                if not line.strip():
                    continue
                row = read_object(line, chunk.first_line + at)
                if isinstance(row, RowProblem):
                    raise _refused(source, row)
                number += 1
                yield number, row


def _unwrapped(source: Source, row: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Return what a line of the load format holds; another object is a row of the file's own type."""
    data = row.get("data", {})
    if isinstance(data, Mapping) and isinstance(row.get("type"), str) and set(row) <= {"type", "data"}:
        return "node", row["type"], data
    if isinstance(data, Mapping) and isinstance(row.get("edge"), str) and set(row) <= {"edge", "from", "to", "data"}:
        return "edge", row["edge"], {"from": row.get("from"), "to": row.get("to"), **data}
    return "", _name(source), row


def _json_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[SampledColumn, ...]:
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return tuple(SampledColumn(name=name, values=[row.get(name) for row in rows], written="json") for name in names)


def _name(source: Source) -> str:
    return source.type_name or source.stem


def _refused(source: Source, problem: RowProblem) -> BadRowsError:
    violation = problem.violation(source.name)
    details = Violations(items=(violation,), total=1)
    return BadRowsError(f"{source.name}:{problem.line}: {problem.message}", details=details)
