"""Parquet sources: all rows of one type, columns of Arrow types."""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog.model import Catalog, PropertyType, Scalar
from omnigraph.engine.load.ahead import read_ahead
from omnigraph.engine.load.arrays import can_parse, count_of, parse_array
from omnigraph.engine.load.binding import Binding, bind, owner_of
from omnigraph.engine.load.jsonl import ReadChunk
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.sources import STDIN, Source, reading, refuse_bomb
from omnigraph.engine.load.tables import ParsedColumn, TableReader, column_kind
from omnigraph.engine.rows import DecodedChunk, RowProblem
from omnigraph.engine.rows.cells import INLINE_BLOB
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.store.inputs import is_remote

# What a row takes in memory at the least: a run of equal ones may be stored in a few bytes, however long it is.
_LEAST_ROW_BYTES = 32


@record
class RowGroups:
    """Some row groups of a file, and how many rows stand before the first of them."""

    numbers: tuple[int, ...]
    rows_before: int


def read_parquet(
    source: Source, catalog: Catalog, settings: LoadSettings, *, is_patch: bool, only: RowGroups | None = None
) -> Generator[ReadChunk]:
    """Yield the rows of a Parquet source, or of ``only`` some row groups, a batch at a time. Lines count rows from 1.

    Raises:
        FileAccessError: it cannot be read.
        TypeMissingError: the schema has no type for it.
        UsageError: it is standard input, which cannot be read from its end.
    """
    if source.path == STDIN:
        details = BadValue(what="path", value=STDIN, expected="a file")
        raise UsageError("a Parquet file cannot be read from standard input", details=details)
    owner = owner_of(source, catalog)
    with open_parquet(source) as file:
        with reading(source.name):
            schema = file.schema_arrow
        binding = bind(source, owner, schema.names)
        problems = [binding] if isinstance(binding, RowProblem) else misfits(binding, schema)
        if isinstance(binding, RowProblem) or problems:
            yield ReadChunk(decoded=DecodedChunk(types={}, problems=tuple(problems)), bytes_read=0)
            return
        table = TableReader(catalog, binding, parse_values, is_patch=is_patch)
        size = source.size_bytes or 0
        row = 0 if only is None else only.rows_before
        last = row + _count_rows(file, only)
        # Closed before the file is, because another thread is reading it.
        with closing(read_ahead(_batches(source, file, settings.batch_rows, only))) as batches:
            for batch in batches:
                numbers = np.arange(row + 1, row + 1 + batch.num_rows)
                row += batch.num_rows
                decoded = table.read(batch, numbers)
                yield ReadChunk(decoded=decoded, bytes_read=size * row // max(file.metadata.num_rows, 1))
        if row != last:
            with reading(source.name):
                raise pa.ArrowInvalid(f"its footer promises rows up to number {last}, and its pages end with {row}")


@contextmanager
def open_parquet(source: Source) -> Iterator[pq.ParquetFile]:
    """Open a Parquet source; checksums of its pages, where it has some, are compared.

    Raises:
        FileAccessError: it cannot be read.
        SourceTooLargeError: it promises far more rows than it could hold.
    """
    with ExitStack() as stack:
        # Arrow's own file is the faster one, where there is one.
        place = stack.enter_context(source.open()) if is_remote(source.path) else source.path
        with reading(source.name):
            file = stack.enter_context(pq.ParquetFile(place, page_checksum_verification=True))
            if file.metadata.num_rows != _count_rows(file, None):
                raise pa.ArrowInvalid("its footer contradicts itself about the number of rows")
        packed = (file.metadata.row_group(number) for number in range(file.num_row_groups))
        unpacked = max(sum(group.total_byte_size for group in packed), file.metadata.num_rows * _LEAST_ROW_BYTES)
        refuse_bomb(source.name, source.size_bytes or 0, unpacked)
        yield file


def _count_rows(file: pq.ParquetFile, only: RowGroups | None) -> int:
    """Return how many rows the footer promises, of all row groups or of some."""
    groups = range(file.num_row_groups) if only is None else only.numbers
    return sum(file.metadata.row_group(number).num_rows for number in groups)


def _batches(source: Source, file: pq.ParquetFile, batch_rows: int, only: RowGroups | None) -> Iterator[pa.RecordBatch]:
    # Columns of one batch are so small a piece of work that handing them out to threads costs more than it gains.
    groups = None if only is None else list(only.numbers)
    batches = file.iter_batches(batch_size=batch_rows, row_groups=groups, use_threads=False)
    while True:
        with reading(source.name):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def misfits(binding: Binding, schema: pa.Schema) -> list[RowProblem]:
    """Return a problem for every column whose Arrow type cannot become that of its property."""
    owner = binding.owner
    found = []
    for target, column in binding.columns.items():
        kind, given = column_kind(owner, target), schema.field(column).type
        if not can_parse(kind, given):
            text = f"property '{target}' expects {kind}, got a column of {given}"
            found.append(RowProblem(line=1, rule="type", message=text, type_name=owner.name, property=target))
    return found


def parse_values(kind: PropertyType, column: pa.Array) -> ParsedColumn:
    """Parse a column of Arrow values."""
    values, flavour, bad = parse_array(kind, column)

    def value_at(row: int) -> Any:
        if flavour == "count" and bad is not None:
            # Exactly, whatever its size, which neither Arrow nor Python's calendar can hold.
            return count_of(kind, column, row)
        value = (column if bad is not None else values)[row].as_py()
        if kind.scalar is Scalar.BLOB and isinstance(value, bytes):
            return INLINE_BLOB + base64.b64encode(value).decode()
        return value

    return ParsedColumn(values=values, flavour=flavour, bad=bad, value_at=value_at)
