"""Parquet sources: all rows of one type, columns of Arrow types."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import FLOATS, INTEGERS, Catalog, PropertyType, Scalar
from omnigraph.engine.decimals import aligned, exact_cast, is_whole, whole_cast
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.reading.jsonl import ReadChunk, read_ahead
from omnigraph.engine.load.reading.tables import (
    ColumnBinding,
    ParsedColumn,
    TableReader,
    bind,
    column_kind,
    mark_misfits,
    owner_of,
    takes_integers,
)
from omnigraph.engine.load.reading.texts import (
    parsed_texts,
    read_decimals,
    read_words,
    usual_dates,
    value_of_date,
    value_of_word,
)
from omnigraph.engine.load.sources.dialect import USUAL, Dialect, is_text, plain_column
from omnigraph.engine.load.sources.source import STDIN, Source, reading, refuse_bomb
from omnigraph.engine.rows import DecodedChunk, RowProblem
from omnigraph.engine.rows.columnar import mask_of
from omnigraph.engine.rows.columns import TEMPORAL, Flavour, Mask, json_type
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.store.files import is_remote
from omnigraph.values.blobs import inline_text
from omnigraph.values.decimals import MAX_PRECISION
from omnigraph.values.temporal import MS_PER_DAY

_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


def can_parse(kind: PropertyType, given: pa.DataType) -> bool:
    """Whether values of an Arrow type can become values of a property without guessing."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return can_parse(kind, given.value_type)
    if kind.is_list or kind.is_vector:
        if not (pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given)):
            return False
        single = PropertyType(scalar=Scalar.F32) if kind.is_vector else kind.single
        return can_parse(single, given.value_type)
    return _can_parse_scalar(kind.scalar, given)


def _can_parse_scalar(scalar: Scalar, given: pa.DataType) -> bool:
    has_texts = is_text(given)
    is_integer = bool(pa.types.is_integer(given))
    if scalar is Scalar.STRING:
        return has_texts
    if scalar is Scalar.BOOL:
        return has_texts or is_integer or bool(pa.types.is_boolean(given))
    if scalar in INTEGERS:
        return is_whole(given)
    if scalar in FLOATS:
        return is_integer or bool(pa.types.is_floating(given))
    if scalar is Scalar.DECIMAL:
        return has_texts or is_integer or bool(pa.types.is_decimal(given))
    if scalar in TEMPORAL:
        return has_texts or is_integer or bool(pa.types.is_date(given) or pa.types.is_timestamp(given))
    return has_texts or bool(pa.types.is_binary(given) or pa.types.is_large_binary(given))


def parse_array(
    kind: PropertyType, column: pa.Array, *, truncate: bool = False
) -> tuple[pa.Array, Flavour, Mask | None]:
    """Return a column in the type of :func:`json_type`, how its dates are written, and the rows that did not fit.

    Instants between two milliseconds do not fit, unless ``truncate`` says that they are cut.
    """
    column = plain_column(column)
    if not (kind.is_list or kind.is_vector):
        return _parse_scalars(kind, column, truncate=truncate)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), json_type(kind, "text")), "text", None
    lists = _plain_lists(column)
    single = PropertyType(scalar=Scalar.F64) if kind.is_vector else kind.single
    values, flavour, bad = _parse_scalars(single, plain_column(lists.values), truncate=truncate)
    missing = lists.is_null() if lists.null_count else None
    parsed = pa.ListArray.from_arrays(lists.offsets, values, type=pa.list_(values.type), mask=missing)
    if bad is None:
        return parsed, flavour, None
    rows = np.zeros(len(lists), dtype=bool)
    rows[np.searchsorted(lists.offsets.to_numpy(), np.flatnonzero(bad), side="right") - 1] = True
    return parsed, flavour, rows


def _plain_lists(column: pa.Array) -> pa.Array:
    # Through plain lists, whose items are packed without those of null rows.
    plain = column.cast(pa.list_(column.type.value_type))
    return pa.concat_arrays([plain]) if plain.offset == 0 else plain.take(pa.array(np.arange(len(plain))))


def _parse_scalars(kind: PropertyType, column: pa.Array, *, truncate: bool) -> tuple[pa.Array, Flavour, Mask | None]:
    if kind.scalar in TEMPORAL and not is_text(column.type):
        try:
            counts = _counts(kind, column)
            return counts, "count", None if truncate else _finer_rows(kind, column, counts)
        except pa.ArrowInvalid:
            # Too large for 64 bits somewhere; the exact decoder finds where.
            return pa.nulls(len(column), pa.int64()), "count", mask_of(column.is_valid())
    if kind.is_decimal and not pa.types.is_null(column.type):
        return _parse_decimals(kind, column)
    if kind.scalar is Scalar.BOOL and is_text(column.type):
        values, bad = read_words(column.cast(pa.string()))
        return values, "text", bad
    if kind.scalar is Scalar.BOOL and pa.types.is_integer(column.type):
        is_flag = pc.is_in(column, value_set=pa.array([0, 1], column.type), skip_nulls=True)
        bad = mask_of(pc.and_not(column.is_valid(), is_flag))
        return pc.if_else(column.is_valid(), pc.equal(column, 1), None), "text", bad if bad.any() else None
    if kind.scalar in TEMPORAL:
        return usual_dates(column.cast(pa.string())), "text", None
    wanted = json_type(kind, "text")
    if kind.scalar is Scalar.BLOB and not is_text(column.type):
        wanted = pa.large_binary()
    try:
        return (whole_cast if pa.types.is_decimal(column.type) else pc.cast)(column, wanted), "text", None
    except pa.ArrowInvalid:
        # Out of range somewhere; the exact decoder finds where.
        return pa.nulls(len(column), wanted), "text", mask_of(column.is_valid())


def _parse_decimals(kind: PropertyType, column: pa.Array) -> tuple[pa.Array, Flavour, Mask | None]:
    given, stored = column.type, arrow_type(kind.single)
    if is_text(given):
        values, bad = read_decimals(kind, column.cast(pa.string()))
        return values, "text", bad
    is_usual = not pa.types.is_decimal(given) or (
        0 <= given.scale <= MAX_PRECISION and given.precision - given.scale <= MAX_PRECISION
    )
    try:
        if is_usual:
            return aligned(exact_cast(column, stored)), "text", None
    except pa.ArrowInvalid:
        # One of them has too many digits; the exact decoder finds which.
        pass
    return pa.nulls(len(column), stored), "text", mask_of(column.is_valid())


def count_of(kind: PropertyType, column: pa.Array, row: int) -> Any:
    """Return the days or milliseconds since 1970 of one cell of numbers, dates or timestamps, exactly.

    An instant between two milliseconds is a fraction.
    """
    cell = column[row]
    if not cell.is_valid:
        return None
    if kind.is_list:
        items = plain_column(cell.values)
        return [count_of(kind.single, items, at) for at in range(len(items))]
    given = column.type
    if pa.types.is_dictionary(given):
        return count_of(kind, cell.dictionary, cell.index.as_py())
    if pa.types.is_integer(given):
        return cell.as_py()
    if pa.types.is_date32(given):
        days: int = column.view(pa.int32())[row].as_py()
        return days if kind.scalar is Scalar.DATE else days * MS_PER_DAY
    times, per = (1, 1) if pa.types.is_date64(given) else _PER_MS[given.unit]
    millis = Fraction(column.view(pa.int64())[row].as_py() * times, per)
    if kind.scalar is Scalar.DATE:
        return millis // MS_PER_DAY
    return int(millis) if millis.denominator == 1 else millis


def _counts(kind: PropertyType, column: pa.Array) -> pa.Array:
    given = column.type
    if pa.types.is_null(given):
        return pa.nulls(len(column), pa.int64())
    if pa.types.is_integer(given):
        return column.cast(pa.int64())
    if pa.types.is_date32(given):
        days = column.view(pa.int32()).cast(pa.int64())
        return days if kind.scalar is Scalar.DATE else pc.multiply(days, MS_PER_DAY)
    if pa.types.is_date64(given):
        millis = column.view(pa.int64())
    else:
        times, per = _PER_MS[given.unit]
        millis = _floor_divide(pc.multiply_checked(column.view(pa.int64()), times), per)
    return millis if kind.scalar is Scalar.DATETIME else _floor_divide(millis, MS_PER_DAY)


def _finer_rows(kind: PropertyType, column: pa.Array, millis: pa.Array) -> Mask | None:
    """Return the rows whose instants were cut to ``millis``; None when there is no such row."""
    given = column.type
    if kind.scalar is not Scalar.DATETIME or not pa.types.is_timestamp(given) or _PER_MS[given.unit][1] == 1:
        return None
    is_cut = pc.not_equal(pc.multiply(millis, _PER_MS[given.unit][1]), column.view(pa.int64()))
    bad = mask_of(pc.fill_null(is_cut, fill_value=False))
    return bad if bad.any() else None


def _floor_divide(column: pa.Array, by: int) -> pa.Array:
    if by == 1:
        return column
    # Arrow divides towards zero, and instants before 1970 are negative.
    quotient = pc.divide(column, by)
    is_short = pc.and_(pc.less(column, 0), pc.not_equal(pc.multiply(quotient, by), column))
    return pc.subtract(quotient, pc.cast(is_short, pa.int64()))


# What a row takes in memory at the least: a run of equal ones may be stored in a few bytes, however long it is.
_LEAST_ROW_BYTES = 32


@record
class RowGroups:
    """Some row groups of a file, and how many rows stand before the first of them."""

    numbers: tuple[int, ...]
    rows_before: int


def read_parquet(
    source: Source,
    catalog: Catalog,
    settings: LoadSettings,
    *,
    is_patch: bool,
    truncate: bool = False,
    only: RowGroups | None = None,
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
        names = source.dialect.names(schema.names)
        schema = pa.schema([one.with_name(name) for one, name in zip(schema, names, strict=True)])
        binding = bind(source, owner, names)
        problems = binding if isinstance(binding, tuple) else misfits(source, binding, schema)
        if isinstance(binding, tuple) or problems:
            yield ReadChunk(decoded=DecodedChunk(types={}, problems=tuple(problems)), bytes_read=0)
            return
        table = arrow_reader(catalog, binding, is_patch=is_patch, truncate=truncate, dialect=source.dialect)
        size = source.size_bytes or 0
        row = 0 if only is None else only.rows_before
        last = row + _count_rows(file, only)
        # Closed before the file is, because another thread is reading it.
        with closing(read_ahead(_batches(source, file, settings.batch_rows, only))) as batches:
            for batch in batches:
                numbers = np.arange(row + 1, row + 1 + batch.num_rows)
                row += batch.num_rows
                decoded = table.read(batch.rename_columns(names), numbers)
                yield ReadChunk(decoded=decoded, bytes_read=size * row // max(file.metadata.num_rows, 1))
        if row != last:
            with reading(source.name):
                raise pa.ArrowInvalid(f"its footer promises {last} rows, but its pages end at row {row}")


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
                raise pa.ArrowInvalid("its footer gives contradictory row counts")
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


def misfits(source: Source, binding: ColumnBinding, schema: pa.Schema) -> tuple[RowProblem, ...]:
    """Return a problem for every column whose Arrow type cannot become that of its property."""
    owner = binding.owner
    found = []
    for target, column in binding.columns.items():
        kind, given = column_kind(owner, target), schema.field(column).type
        plain = given.value_type if pa.types.is_dictionary(given) else given
        is_id = takes_integers(owner, target) and is_whole(plain)
        # What pandas makes of whole numbers as soon as one of them is missing.
        is_pandas = source.is_in_memory and kind.scalar in INTEGERS and not kind.is_list and pa.types.is_floating(plain)
        is_written = source.takes_texts and is_text(plain)
        if not can_parse(kind, given) and not is_id and not is_pandas and not is_written:
            text = f"property '{target}' expects {kind}, got a column of {given}"
            line = source.header_line
            found.append(RowProblem(line=line, rule="type", message=text, type_name=owner.name, property=target))
    return (*found, *mark_misfits(source, binding, schema))


def arrow_reader(
    catalog: Catalog,
    binding: ColumnBinding,
    *,
    is_patch: bool = False,
    truncate: bool = False,
    dialect: Dialect = USUAL,
) -> TableReader:
    """Return the reader of batches of Arrow columns."""
    parse = partial(parse_values, truncate=truncate)
    return TableReader(catalog, binding, parse, is_patch=is_patch, truncate=truncate, dialect=dialect)


def parse_values(kind: PropertyType, column: pa.Array, *, truncate: bool = False) -> ParsedColumn:
    """Parse a column of Arrow values; instants between two milliseconds are cut, or left to the exact decoder."""
    if is_text(column.type) and not can_parse(kind, column.type):
        return parsed_texts(kind, column)
    values, flavour, bad = parse_array(kind, column, truncate=truncate)

    def value_at(row: int) -> Any:
        if flavour == "count" and bad is not None:
            # Exactly, whatever its size, which neither Arrow nor Python's calendar can hold.
            return count_of(kind, column, row)
        value = (column if bad is not None else values)[row].as_py()
        if kind.scalar in INTEGERS:
            value = _whole_value(value)
        if kind.scalar is Scalar.BLOB and isinstance(value, bytes):
            return inline_text(value)
        return value if kind.is_list or kind.is_vector else plain_value(kind, value)

    return ParsedColumn(values=values, flavour=flavour, bad=bad, value_at=value_at)


def _whole_value(value: Any) -> Any:
    """Return decimals, which have no fraction in a column of whole numbers, as integers."""
    if isinstance(value, list):
        return [_whole_value(item) for item in value]
    return int(value) if isinstance(value, Decimal) else value


def plain_value(kind: PropertyType, value: Any) -> Any:
    """Return the JSON value that a value of a table stands for; the value itself when it stands for none."""
    if kind.scalar is Scalar.BOOL and isinstance(value, str):
        return value_of_word(value)
    if kind.scalar is Scalar.BOOL and type(value) is int and value in {0, 1}:
        return bool(value)
    if kind.scalar in INTEGERS and isinstance(value, float) and value.is_integer():
        return int(value)
    return value_of_date(kind, value) if kind.scalar in TEMPORAL and isinstance(value, str) else value
