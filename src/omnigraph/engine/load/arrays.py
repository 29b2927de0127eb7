"""Columns of Arrow types, as Parquet files have them, into the parsed columns that the checker takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.engine.rows.checking import mask_of
from omnigraph.engine.rows.columns import TEMPORAL, Flavour, Mask, json_type
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
        single = PropertyType(scalar=Scalar.F32 if kind.is_vector else kind.scalar)
        return can_parse(single, given.value_type)
    return _can_parse_scalar(kind.scalar, given)


def _can_parse_scalar(scalar: Scalar, given: pa.DataType) -> bool:
    is_text = _is_text(given)
    is_integer = bool(pa.types.is_integer(given))
    if scalar is Scalar.STRING:
        return is_text
    if scalar is Scalar.BOOL:
        return bool(pa.types.is_boolean(given))
    if scalar in INTEGERS:
        return is_integer
    if scalar in FLOATS:
        return is_integer or bool(pa.types.is_floating(given))
    if scalar in TEMPORAL:
        return is_text or is_integer or bool(pa.types.is_date(given) or pa.types.is_timestamp(given))
    return is_text or bool(pa.types.is_binary(given) or pa.types.is_large_binary(given))


def parse_array(kind: PropertyType, column: pa.Array) -> tuple[pa.Array, Flavour, Mask | None]:
    """Return a column in the type of :func:`json_type`, how its dates are written, and the rows that did not fit."""
    column = _plain(column)
    if not (kind.is_list or kind.is_vector):
        return _parse_scalars(kind, column)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), json_type(kind, "text")), "text", None
    lists = _plain_lists(column)
    single = PropertyType(scalar=Scalar.F64 if kind.is_vector else kind.scalar)
    values, flavour, bad = _parse_scalars(single, _plain(lists.values))
    missing = lists.is_null() if lists.null_count else None
    parsed = pa.ListArray.from_arrays(lists.offsets, values, type=pa.list_(values.type), mask=missing)
    if bad is None:
        return parsed, flavour, None
    rows = np.zeros(len(lists), dtype=bool)
    rows[np.searchsorted(lists.offsets.to_numpy(), np.flatnonzero(bad), side="right") - 1] = True
    return parsed, flavour, rows


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _plain_lists(column: pa.Array) -> pa.Array:
    # Through plain lists, whose items are packed without those of null rows.
    plain = column.cast(pa.list_(column.type.value_type))
    return pa.concat_arrays([plain]) if plain.offset == 0 else plain.take(pa.array(np.arange(len(plain))))


def _parse_scalars(kind: PropertyType, column: pa.Array) -> tuple[pa.Array, Flavour, Mask | None]:
    if kind.scalar in TEMPORAL and not _is_text(column.type):
        try:
            return _counts(kind, column), "count", None
        except pa.ArrowInvalid:
            # Too large for 64 bits somewhere; the exact decoder finds where.
            return pa.nulls(len(column), pa.int64()), "count", mask_of(column.is_valid())
    wanted = json_type(kind, "text")
    if kind.scalar is Scalar.BLOB and not _is_text(column.type):
        wanted = pa.large_binary()
    try:
        return column.cast(wanted), "text", None
    except pa.ArrowInvalid:
        # Out of range somewhere; the exact decoder finds where.
        return pa.nulls(len(column), wanted), "text", mask_of(column.is_valid())


def count_of(kind: PropertyType, column: pa.Array, row: int) -> Any:
    """Return the days or milliseconds since 1970 of one cell of numbers, dates or timestamps, exactly."""
    cell = column[row]
    if not cell.is_valid:
        return None
    if kind.is_list:
        items = _plain(cell.values)
        return [count_of(PropertyType(scalar=kind.scalar), items, at) for at in range(len(items))]
    given = column.type
    if pa.types.is_dictionary(given):
        return count_of(kind, cell.dictionary, cell.index.as_py())
    if pa.types.is_integer(given):
        return cell.as_py()
    if pa.types.is_date32(given):
        days: int = column.view(pa.int32())[row].as_py()
        return days if kind.scalar is Scalar.DATE else days * MS_PER_DAY
    times, per = (1, 1) if pa.types.is_date64(given) else _PER_MS[given.unit]
    millis = column.view(pa.int64())[row].as_py() * times // per
    return millis if kind.scalar is Scalar.DATETIME else millis // MS_PER_DAY


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


def _floor_divide(column: pa.Array, by: int) -> pa.Array:
    if by == 1:
        return column
    # Arrow divides towards zero, and instants before 1970 are negative.
    quotient = pc.divide(column, by)
    is_short = pc.and_(pc.less(column, 0), pc.not_equal(pc.multiply(quotient, by), column))
    return pc.subtract(quotient, pc.cast(is_short, pa.int64()))


def _is_text(given: pa.DataType) -> bool:
    return bool(pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given))
