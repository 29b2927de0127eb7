"""The type of a column, guessed from its values, and what may be said for the guess."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.infer.tables import SampledColumn
from omnigraph.errors import ValueFormatError
from omnigraph.records import record
from omnigraph.values.counts import counted
from omnigraph.values.decimals import MAX_PRECISION, digits_of
from omnigraph.values.temporal import parse_date, parse_datetime

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_PADDED = re.compile(r"-?0[0-9]+", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}.*", re.ASCII)
# Few texts that come often are probably a closed set.
_ENUM_VALUES, _ENUM_TIMES, _ENUM_LENGTH = 8, 10, 30
# Numbers of a fixed length are a vector; shorter ones may as well be a list that happens to be even.
_VECTOR_LENGTH = 8
# Truth values as others write them; one letter alone may stand for anything.
_TRUE, _FALSE = frozenset({"true", "yes", "y", "t"}), frozenset({"false", "no", "n", "f"})
_I64 = (-(1 << 63), (1 << 63) - 1)
_U64_MAX = (1 << 64) - 1


@record
class Guess:
    """A type and why; without one no type of the language can hold the values."""

    kind: PropertyType | None
    why: str


def guess_type(column: SampledColumn) -> Guess:
    """Return the type that holds all values of a column, nullable if some row has none."""
    present = [value for value in column.values if value is not None]
    missing = len(column.values) - len(present)
    found = _typed(column, present)
    if found.kind is None:
        return found
    kind = replace(found.kind, nullable=missing > 0 or not column.values)
    absent = (
        f"{missing} of {counted(len(column.values), 'row')} {'has' if missing == 1 else 'have'} no value"
        if missing
        else ""
    )
    return Guess(kind=kind, why="; ".join(part for part in (found.why, absent) if part))


def texts_of(column: SampledColumn) -> list[str] | None:
    """Return the values as the ids that they would be, or None if the column cannot hold ids."""
    values = column.values
    if not values or not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
        return None
    return [str(value) for value in values]


def _typed(column: SampledColumn, present: Sequence[Any]) -> Guess:
    if column.arrow_type is not None:
        kind = _of_arrow(column.arrow_type)
        if kind is None:
            return Guess(kind=None, why=f"no property type corresponds to the Arrow type {column.arrow_type}")
        is_text = kind.scalar is Scalar.STRING and not kind.is_list
        return _of_texts(present, reads_numbers=False) if is_text and present else Guess(kind=kind, why="")
    if not present:
        return Guess(kind=PropertyType(scalar=Scalar.STRING), why="no row has a value, so the type is a guess")
    if column.written == "text":
        return _of_texts(present, reads_numbers=True)
    return _of_json(present)


def _of_texts(texts: Sequence[str], *, reads_numbers: bool) -> Guess:
    if reads_numbers:
        words = {text.lower() for text in texts}
        if words <= {"true", "false"} or (words <= _TRUE | _FALSE and words & _TRUE and words & _FALSE):
            return _scalar(Scalar.BOOL)
        if all(map(_INTEGER.fullmatch, texts)):
            return _integers([int(text) for text in texts])
        if all(map(_NUMBER.fullmatch, texts)) and not any(map(_PADDED.fullmatch, texts)):
            return _scalar(Scalar.F64)
    if _all_parse(texts, _DATE, parse_date):
        return _scalar(Scalar.DATE)
    if _all_parse(texts, _INSTANT, parse_datetime):
        return _scalar(Scalar.DATETIME)
    why = "numbers with leading zeros stay text" if reads_numbers and all(map(_NUMBER.fullmatch, texts)) else ""
    distinct = sorted(set(texts))
    is_closed = len(distinct) <= _ENUM_VALUES and len(texts) >= _ENUM_TIMES * len(distinct) and len(distinct) > 1
    if is_closed and all(0 < len(text) <= _ENUM_LENGTH and text.isprintable() for text in distinct):
        kind = PropertyType(scalar=Scalar.STRING, enum_values=tuple(distinct))
        return Guess(
            kind=kind,
            why=f"{len(distinct)} different values in {counted(len(texts), 'row')}; use String if others are possible",
        )
    return _scalar(Scalar.STRING, why)


def _of_json(values: Sequence[Any]) -> Guess:
    kinds = {float if isinstance(value, float) else type(value) for value in values}
    if kinds == {bool}:
        return _scalar(Scalar.BOOL)
    if kinds == {int}:
        return _integers(values)
    if kinds <= {int, float}:
        return _scalar(Scalar.F64)
    if kinds <= {int, Decimal}:
        return _decimals([Decimal(value) for value in values])
    if kinds == {str}:
        return _of_texts(values, reads_numbers=False)
    if kinds == {list}:
        return _of_lists(values)
    if kinds <= {date}:
        return _scalar(Scalar.DATE)
    if kinds <= {date, datetime}:
        return _scalar(Scalar.DATETIME)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    return Guess(kind=None, why=f"no property type fits all of these values: {names}")


def _of_lists(lists: Sequence[list[Any]]) -> Guess:
    items = [item for one in lists for item in one]
    lengths = {len(one) for one in lists}
    if items and all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        (length, *others) = lengths
        if not others and length >= _VECTOR_LENGTH and any(isinstance(item, float) for item in items):
            kind = PropertyType(scalar=Scalar.VECTOR, dimension=length)
            return Guess(kind=kind, why=f"every list has {length} numbers")
    inner = _of_json(items) if items else _scalar(Scalar.STRING, "every list is empty, so the type is a guess")
    if inner.kind is None or inner.kind.is_list:
        return Guess(kind=None, why="the items of a list must be single values of one type")
    kind = replace(inner.kind.single, is_list=True)
    return Guess(kind=kind, why="" if inner.kind.enum_values else inner.why)


def _integers(values: Sequence[int]) -> Guess:
    low, high = min(values), max(values)
    if low >= _I64[0] and high <= _I64[1]:
        return _scalar(Scalar.I64)
    if low >= 0 and high <= _U64_MAX:
        return _scalar(Scalar.U64, "too large for I64")
    return _scalar(Scalar.F64, "too large for 64 bits: digits are lost")


def _decimals(values: Sequence[Decimal]) -> Guess:
    digits = [digits_of(value) for value in values if value.is_finite()]
    scale = max((scale for _, scale in digits), default=0)
    precision = max((precision - scale for precision, scale in digits), default=0) + scale
    if len(digits) < len(values) or precision > MAX_PRECISION:
        return Guess(kind=None, why=f"decimals have at most {MAX_PRECISION} digits")
    kind = PropertyType(scalar=Scalar.DECIMAL, precision=max(precision, 1), scale=scale)
    return Guess(kind=kind, why="as many digits as the longest value has")


def _of_arrow(kind: pa.DataType) -> PropertyType | None:
    types = pa.types
    if types.is_fixed_size_list(kind) and types.is_floating(kind.value_type):
        return PropertyType(scalar=Scalar.VECTOR, dimension=kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _of_arrow(kind.value_type)
        if inner is None or inner.is_list or inner.is_vector or inner.scalar is Scalar.BLOB:
            return None
        return replace(inner, is_list=True)
    if types.is_decimal(kind):
        return _of_decimals(kind)
    cases: tuple[tuple[Callable[[pa.DataType], bool], Scalar], ...] = (
        (types.is_boolean, Scalar.BOOL),
        (types.is_int64, Scalar.I64),
        (types.is_uint64, Scalar.U64),
        (types.is_signed_integer, Scalar.I32),
        (types.is_unsigned_integer, Scalar.U32),
        (types.is_float64, Scalar.F64),
        (types.is_floating, Scalar.F32),
        (types.is_date32, Scalar.DATE),
        (types.is_date64, Scalar.DATETIME),
        (types.is_timestamp, Scalar.DATETIME),
        (types.is_binary, Scalar.BLOB),
        (types.is_large_binary, Scalar.BLOB),
        (types.is_string, Scalar.STRING),
        (types.is_large_string, Scalar.STRING),
        (types.is_string_view, Scalar.STRING),
        (types.is_null, Scalar.STRING),
    )
    scalar = next((scalar for test, scalar in cases if test(kind)), None)
    return None if scalar is None else PropertyType(scalar=scalar)


def _of_decimals(kind: pa.DataType) -> PropertyType | None:
    # Arrow may count zeros before the point into the scale, or leave them out of the precision.
    scale = max(0, kind.scale)
    precision = max(kind.precision - min(0, kind.scale), scale, 1)
    if precision > MAX_PRECISION:
        return None
    return PropertyType(scalar=Scalar.DECIMAL, precision=precision, scale=scale)


def _all_parse(texts: Sequence[str], form: re.Pattern[str], parse: Callable[[str], int]) -> bool:
    if not all(map(form.fullmatch, texts)):
        return False
    try:
        for text in texts:
            parse(text)
    except ValueFormatError:
        return False
    return True


def _scalar(scalar: Scalar, why: str = "") -> Guess:
    return Guess(kind=PropertyType(scalar=scalar), why=why)
