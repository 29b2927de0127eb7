"""Kernels of decimals: exact sums and products, rounded quotients, and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import PropertyType
from omnigraph.engine.decimals import (
    as_decimals,
    exact_cast,
    of_units,
    relabelled,
    rounded,
    small_units,
    total_units,
    units_of,
    widened,
)
from omnigraph.engine.query.functions.kernels import cast_to, failure, value_arrow_type
from omnigraph.errors import BadValue, QueryRuntimeError, ValueFormatError
from omnigraph.ir.model import Apply
from omnigraph.values.decimals import MAX_PRECISION, parse_decimal, round_half_away, scaled, unscaled

_I64_MAXIMUM = (1 << 63) - 1
_TOO_LARGE = f"does not fit {MAX_PRECISION} digits"


def calculate(call: Apply, arguments: list[pa.Array]) -> pa.Array:
    """Return the sum, difference, product or quotient of decimals and integers.

    Raises:
        QueryRuntimeError: a value does not fit 38 digits, or is divided by zero.
    """
    left, right = (_decimals(array) for array in arguments)
    if call.function == "/":
        return _divided(call, left, right, arguments)
    kind = value_arrow_type(call.type)
    if call.function == "*":
        # A label of one digit less, because Arrow counts the digits of the product as one more than there can be.
        first, second = units_of(left).cast(pa.decimal256(38, 0)), units_of(right).cast(pa.decimal256(38, 0))
        found = pc.multiply(first, relabelled(second, pa.decimal256(37, 0)))
        found = relabelled(found, pa.decimal256(found.type.precision, kind.scale))
    else:
        # As above: the sum of two has one digit more than each of them, and 256 bits have room for it.
        label = pa.decimal256(2 * MAX_PRECISION - 1, kind.scale)
        first, second = (relabelled(widened(array, kind.scale), label) for array in (left, right))
        found = (pc.add if call.function == "+" else pc.subtract)(first, second)
    return narrowed(call, found, kind, arguments)


def narrowed(call: Apply, found: pa.Array, kind: pa.DataType, arguments: Sequence[pa.Array]) -> pa.Array:
    """Return 256-bit values in the type that the checker promised.

    Raises:
        QueryRuntimeError: one of them does not fit; the error is about the row of the largest.
    """
    try:
        return found.cast(kind)
    except pa.ArrowInvalid:
        extremes = pc.min_max(pc.abs(found))
        raise failure(call, _TOO_LARGE, arguments, pc.index(pc.abs(found), extremes["max"]).as_py()) from None


def _decimals(values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        return values
    return as_decimals(cast_to(values, pa.int64()) if pa.types.is_null(values.type) else values)


def _divided(call: Apply, left: pa.Array, right: pa.Array, arguments: Sequence[pa.Array]) -> pa.Array:
    kind = value_arrow_type(call.type)
    is_null = np.asarray(left.is_null()) | np.asarray(right.is_null())
    zero = np.asarray(pc.fill_null(pc.equal(right, pa.scalar(0, right.type)), fill_value=False)) & ~is_null
    if zero.any():
        raise failure(call, "divides by zero", arguments, int(np.flatnonzero(zero)[0]))
    # Units of the left, shifted by so many digits, over units of the right are units of the quotient.
    shift = kind.scale + right.type.scale - left.type.scale
    tops = small_units(left, _I64_MAXIMUM // 10**shift // 2) if 0 <= shift < 18 else None
    bottoms = None if tops is None else small_units(right, _I64_MAXIMUM // 2)
    if tops is not None and bottoms is not None:
        wanted = np.where(is_null, 1, bottoms)
        quotient, rest = np.divmod(np.abs(tops) * 10**shift, np.abs(wanted))
        quotient += 2 * rest >= np.abs(wanted)
        return of_units(np.where((tops < 0) != (wanted < 0), -quotient, quotient), kind, is_null)
    return _by_value(call, [left, right], kind, lambda top, bottom: _quotient(top, bottom, kind.scale), arguments)


def _quotient(top: Decimal, bottom: Decimal, scale: int) -> Decimal:
    numerator, denominator = top.as_integer_ratio()
    over, under = bottom.as_integer_ratio()
    return scaled(round_half_away(numerator * under * 10**scale, denominator * over), scale)


def _by_value(
    call: Apply,
    arrays: Sequence[pa.Array],
    kind: pa.DataType,
    act: Callable[..., Decimal],
    arguments: Sequence[pa.Array],
) -> pa.Array:
    found: list[Decimal | None] = []
    for at, row in enumerate(zip(*(array.to_pylist() for array in arrays), strict=True)):
        units = None if None in row else unscaled(act(*row), kind.scale)
        if units is not None and abs(units) >= 10**kind.precision:
            raise failure(call, _TOO_LARGE, arguments, at)
        found.append(None if units is None else scaled(units, kind.scale))
    return pa.array(found, kind)


def round_decimals(call: Apply, arguments: list[pa.Array]) -> pa.Array:
    """Return decimals rounded to so many digits, halves away from zero; without a second argument to none."""
    values, kind = arguments[0], value_arrow_type(call.type)
    digits = 0
    if len(arguments) > 1:
        wanted = cast_to(arguments[1], pa.int64())
        distinct = wanted.unique()
        if len(distinct) != 1 or distinct.null_count or distinct[0].as_py() != kind.scale:
            return _by_value(call, [values, wanted], kind, _rounded, arguments)
        digits = kind.scale
    if digits >= values.type.scale:
        return cast_to(values, kind)
    try:
        return rounded(values, kind)
    except pa.ArrowInvalid:
        return _by_value(call, [values], kind, lambda value: _rounded(value, digits), arguments)


def _rounded(value: Decimal, digits: int) -> Decimal:
    numerator, denominator = value.as_integer_ratio()
    if digits >= 0:
        kept = min(digits, MAX_PRECISION)
        return scaled(round_half_away(numerator * 10**kept, denominator), kept)
    power = 10 ** min(-digits, 2 * MAX_PRECISION)
    return Decimal(round_half_away(numerator, denominator * power) * power)


def floor_decimals(call: Apply, arguments: list[pa.Array]) -> pa.Array:
    """Return the greatest whole numbers that are not greater, or for ``ceil`` the least that are not less."""
    values, kind = arguments[0], value_arrow_type(call.type)
    unit = 10**values.type.scale
    small = small_units(values, _I64_MAXIMUM) if unit <= _I64_MAXIMUM else None
    if small is not None:
        found = small // unit if call.function == "floor" else -(-small // unit)
        return of_units(found, kind, np.asarray(values.is_null()))
    act = math.floor if call.function == "floor" else math.ceil
    return _by_value(call, [values], kind, lambda value: Decimal(act(value)), arguments)


def means(total: pa.Array, count: pa.Array, scale: int, kind: pa.DataType) -> pa.Array:
    """Return the means of sums of units of ``scale`` digits; NULL for none."""
    found: list[Decimal | None] = []
    more = 10 ** (kind.scale - scale)
    for units, rows in zip(total.to_pylist(), count.to_pylist(), strict=True):
        found.append(scaled(round_half_away(int(units) * more, rows), kind.scale) if rows else None)
    return pa.array(found, kind)


def finish_sums(
    function: str, high: pa.Array, low: pa.Array, count: pa.Array, of: PropertyType, kind: pa.DataType
) -> pa.Array:
    """Return sums or means of decimals whose halves were added up; NULL for groups without a value.

    Raises:
        QueryRuntimeError: a sum has more than 38 digits.
    """
    total = total_units(high, low)
    if function == "avg":
        return means(total, count, of.digits[1], kind)
    has_none = pc.equal(pc.fill_null(count, 0), 0)
    units = pc.if_else(has_none, pa.scalar(None, total.type), total)
    try:
        return relabelled(units.cast(pa.decimal128(MAX_PRECISION, 0)), kind)
    except pa.ArrowInvalid:
        largest = pc.max(pc.abs(units)).as_py()
        details = BadValue(what="sum", value=str(scaled(int(largest), kind.scale)), expected=str(kind))
        raise QueryRuntimeError(f"sum does not fit {MAX_PRECISION} digits", details=details) from None


def to_decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    """Return a value rounded to a decimal, or None if it is not a number or too large."""
    try:
        exact = parse_decimal(value) if isinstance(value, str) else _exact(value)
    except ValueFormatError:
        return None
    if exact is None or exact.adjusted() > MAX_PRECISION:
        return None
    units = _quotient(exact, Decimal(1), scale)
    return units if abs(unscaled(units, scale) or 0) < 10**precision else None


def _exact(value: Any) -> Decimal | None:
    if isinstance(value, float):
        # What the number is written as, and not the binary fraction that is next to it.
        return Decimal(repr(value)) if math.isfinite(value) else None
    return Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def same_decimals(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return decimals or integers as another decimal type where no digit has to go; None where one may have to."""
    if not (pa.types.is_decimal(values.type) or pa.types.is_integer(values.type)):
        return None
    try:
        return exact_cast(values, kind)
    except pa.ArrowInvalid:
        return None
