"""Kernels of numbers: arithmetic, rounding, roots and powers; what leaves the range of a type is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import PropertyType
from omnigraph.engine.query.functions.decimals import calculate, floor_decimals, round_decimals
from omnigraph.engine.query.functions.kernels import Kernel, cast_to, failure, finite, is_whole, numbers
from omnigraph.engine.query.functions.moments import interval_parts, make_intervals, with_intervals
from omnigraph.ir.model import Apply
from omnigraph.ir.types import INTERVAL

_CHECKED: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


_PLAIN: dict[str, Callable[[Any, Any], Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _arithmetic(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    if call.type is INTERVAL or any(of is INTERVAL for of in types):
        return with_intervals(call, arguments, types)
    if call.type.is_text:
        left, right = (cast_to(array, pa.string()) for array in arguments)
        return pc.binary_join_element_wise(left, right, "", null_handling="emit_null")
    if call.type.is_decimal:
        return calculate(call, arguments)
    if not is_whole(call):
        left, right = numbers(arguments, whole=False)
        return finite(call, _PLAIN[call.function](left, right), arguments)
    left, right = numbers(arguments, whole=True)
    try:
        return _CHECKED[call.function](left, right)
    except pa.ArrowInvalid:
        raise failure(call, "does not fit a 64-bit integer", arguments, _overflow(call.function, left, right)) from None


def _overflow(op: str, left: pa.Array, right: pa.Array) -> int:
    """Return the row whose result is furthest from zero: if any does not fit, that one does not."""
    first, second = (
        np.nan_to_num(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) for array in (left, right)
    )
    found = {"+": first + second, "-": first - second, "*": first * second}[op]
    return int(np.argmax(np.abs(found)))


def _divide(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    if call.type.is_decimal:
        return calculate(call, arguments)
    left, right = numbers(arguments, whole=False)
    _refuse_zero(call, left, right, arguments)
    return finite(call, pc.divide(left, right), arguments)


def _modulo(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    left, right = numbers(arguments, whole=True)
    _refuse_zero(call, left, right, arguments)
    is_valid = np.asarray(left.is_valid()) & np.asarray(right.is_valid())
    first, second = (np.asarray(pc.fill_null(array, 1)) for array in (left, right))
    with np.errstate(all="ignore"):
        found = np.fmod(first, np.where(second == -1, 1, second))
    return pa.array(found, pa.int64(), mask=~is_valid)


def _refuse_zero(call: Apply, left: pa.Array, right: pa.Array, arguments: Sequence[pa.Array]) -> None:
    zero = np.asarray(pc.fill_null(pc.equal(right, 0), fill_value=False)) & np.asarray(left.is_valid())
    if zero.any():
        raise failure(call, "divides by zero", arguments, int(np.flatnonzero(zero)[0]))


def _negative(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    if types[0] is INTERVAL:
        months, ms, is_null = interval_parts(arguments[0])
        return make_intervals(-months, -ms, is_null)
    if call.type.is_decimal:
        return pc.negate(arguments[0])
    (values,) = numbers(arguments, whole=is_whole(call))
    try:
        return pc.negate_checked(values)
    except pa.ArrowInvalid:
        raise failure(
            call, "does not fit a 64-bit integer", arguments, int(np.argmin(np.asarray(pc.fill_null(values, 0))))
        ) from None


def _on_number(kernel: Callable[[Any], Any], *, keeps_whole: bool = False) -> Kernel:
    def act(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
        if keeps_whole and is_whole(call):
            return numbers(arguments, whole=True)[0]
        if call.type.is_decimal:
            return floor_decimals(call, arguments)
        return finite(call, kernel(*numbers(arguments, whole=False)), arguments)

    return act


def _abs(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    if call.type.is_decimal:
        return pc.abs(arguments[0])
    (values,) = numbers(arguments, whole=is_whole(call))
    try:
        return pc.abs_checked(values)
    except pa.ArrowInvalid:
        raise failure(
            call, "does not fit a 64-bit integer", arguments, int(np.argmin(np.asarray(pc.fill_null(values, 0))))
        ) from None


# Powers of ten that a float reaches, and digits behind the point that rounding can still change.
_MOST_DIGITS, _ROUNDED_DIGITS = 308, 290


def _round(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    if call.type.is_decimal:
        return round_decimals(call, arguments)
    (values,) = numbers(arguments[:1], whole=is_whole(call))
    if len(arguments) == 1:
        return values if is_whole(call) else pc.round(values, round_mode="half_towards_infinity")
    wanted = cast_to(arguments[1], pa.int64())
    is_null = pc.or_(pc.is_null(values), pc.is_null(wanted))
    if not is_whole(call):
        # Behind so many digits a number is what it is; the kernel would leave its range to find out.
        values, is_exact = pc.if_else(pc.less(wanted, -_MOST_DIGITS), 0.0, values), pc.greater(wanted, _ROUNDED_DIGITS)
        wanted = pc.if_else(is_exact, 0, wanted)
    digits = pc.max_element_wise(pc.min_element_wise(wanted, _MOST_DIGITS), -_MOST_DIGITS).cast(pa.int32())
    found = pc.round_binary(values, digits, round_mode="half_towards_infinity")
    if not is_whole(call):
        found = pc.if_else(is_exact, values, found)
    return pc.if_else(is_null, None, found)


def _sign(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    if pa.types.is_decimal(arguments[0].type):
        return pc.sign(arguments[0])
    return pc.sign(cast_to(arguments[0], pa.float64())).cast(pa.int64())


def _power(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    return finite(call, pc.power(*numbers(arguments, whole=False)), arguments)


KERNELS: dict[str, Kernel] = {
    **dict.fromkeys(("+", "-", "*"), _arithmetic),
    "/": _divide,
    "%": _modulo,
    "negative": _negative,
    "abs": _abs,
    "round": _round,
    "floor": _on_number(pc.floor, keeps_whole=True),
    "ceil": _on_number(pc.ceil, keeps_whole=True),
    "sqrt": _on_number(pc.sqrt),
    "ln": _on_number(pc.ln),
    "exp": _on_number(pc.exp),
    "log10": _on_number(pc.log10),
    "power": _power,
    "sign": _sign,
}
