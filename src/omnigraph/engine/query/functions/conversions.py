"""Kernels that turn values of one type into another: ``to_…`` gives NULL where ``cast_…`` is an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.decimals import decimal_texts
from omnigraph.engine.query.functions.decimals import same_decimals, to_decimal
from omnigraph.engine.query.functions.kernels import Kernel, cast_to, failure, value_arrow_type
from omnigraph.engine.query.functions.moments import make_moments, milliseconds
from omnigraph.errors import ValueFormatError
from omnigraph.ir.model import Apply
from omnigraph.values.patterns import late_pattern
from omnigraph.values.temporal import format_date, format_datetime, parse_date, parse_datetime

_I64_MINIMUM, _I64_MAXIMUM = -(1 << 63), (1 << 63) - 1


_WHOLE = late_pattern(r"[+-]?[0-9]+")


_NUMBER = late_pattern(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


_BOOLS = {"true": True, "false": False}


_LONGEST_NUMBER = 40


def _each_value(values: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Convert every distinct value once."""
    plain = values.view(pa.int32()) if pa.types.is_date32(values.type) else values
    plain = plain.view(pa.int64()) if pa.types.is_date64(plain.type) else plain
    numbered = plain.dictionary_encode()
    made = pa.array([convert(value) for value in numbered.dictionary.to_pylist()], kind)
    return made.take(numbered.indices)


def as_text(values: pa.Array) -> pa.Array:
    """Return values as the texts that ``to_string`` gives."""
    kind = values.type
    if pa.types.is_null(kind) or pa.types.is_string(kind):
        return cast_to(values, pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return values.cast(pa.string())
    if pa.types.is_decimal(kind):
        return decimal_texts(values)
    if pa.types.is_date32(kind):
        return _each_value(values, format_date, pa.string())
    if pa.types.is_date64(kind):
        return _each_value(values, format_datetime, pa.string())
    if pa.types.is_float32(kind):
        return _each_value(values, lambda value: str(float(str(np.float32(value)))), pa.string())
    return _each_value(values.cast(pa.float64()), repr, pa.string())


def _whole_of(value: Any) -> int | None:
    if isinstance(value, str):
        if len(value) > _LONGEST_NUMBER or not _WHOLE.fullmatch(value):
            return None
        number = int(value)
    else:
        number = int(value) if math.isfinite(value) else _I64_MAXIMUM + 1
    return number if _I64_MINIMUM <= number <= _I64_MAXIMUM else None


def _float_of(value: Any) -> float | None:
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _bool_of(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return _BOOLS.get(value.lower()) if isinstance(value, str) else None


def _parsed(parse: Callable[[str], int]) -> Callable[[Any], int | None]:
    def convert(value: Any) -> int | None:
        try:
            return parse(value) if isinstance(value, str) else None
        except ValueFormatError:
            return None

    return convert


_CONVERSIONS: dict[str, tuple[Callable[[Any], Any], pa.DataType]] = {
    "int": (_whole_of, pa.int64()),
    "float": (_float_of, pa.float64()),
    "bool": (_bool_of, pa.bool_()),
    "date": (_parsed(parse_date), pa.int32()),
    "datetime": (_parsed(partial(parse_datetime, truncate=True)), pa.int64()),
}


def _convert(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    values, word = arguments[0], call.function.partition("_")[2]
    if word == "string":
        return as_text(values)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values))
    found = _decimal_from(call, values) if word == "decimal" else _moment_from(values, types[0], word)
    if found is None:
        convert, kind = _CONVERSIONS[word]
        found = _each_value(values, convert, kind)
        found = found.view(pa.date32()) if word == "date" else found
        found = found.view(pa.date64()) if word == "datetime" else found
    if call.function.startswith("cast_"):
        lost = np.flatnonzero(np.asarray(found.is_null()) & np.asarray(values.is_valid()))
        if len(lost):
            raise failure(call, "has no value", arguments, int(lost[0]))
    return found


def _decimal_from(call: Apply, values: pa.Array) -> pa.Array:
    kind = value_arrow_type(call.type)
    same = same_decimals(values, kind)
    return _each_value(values, lambda value: to_decimal(value, *call.type.digits), kind) if same is None else same


def _moment_from(values: pa.Array, of: PropertyType, word: str) -> pa.Array | None:
    """Turn a day into a moment, or a moment into its day; None where that is not what is asked."""
    if of.scalar not in {Scalar.DATE, Scalar.DATETIME} or word not in {"date", "datetime"}:
        return None
    ms, is_null = milliseconds(values)
    return make_moments(ms, is_null, PropertyType(scalar=Scalar.DATE if word == "date" else Scalar.DATETIME))


KERNELS: dict[str, Kernel] = {
    **dict.fromkeys((f"to_{word}" for word in ("string", "decimal", *_CONVERSIONS)), _convert),
    **dict.fromkeys((f"cast_{word}" for word in ("decimal", *_CONVERSIONS)), _convert),
}
