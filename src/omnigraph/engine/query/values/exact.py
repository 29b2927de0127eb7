"""Comparing two arrays of values by exact value, whatever numeric types they have."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.predicates import comparable
from omnigraph.lang.gq.ast import CompareOp

KERNELS: dict[CompareOp, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_PYTHON: dict[CompareOp, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FLIPPED: dict[CompareOp, CompareOp] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# Every integer up to here is a double of its own.
_EXACT_DOUBLE = 1 << 53
_I64_MAXIMUM = (1 << 63) - 1


def compare_values(left: Any, op: CompareOp, right: Any) -> bool:
    """Compare two decoded values; Python compares numbers of different types exactly, and text by code point."""
    return left is not None and right is not None and _PYTHON[op](left, right)


def compare_arrays(left: pa.Array, op: CompareOp, right: pa.Array) -> pa.Array:
    """Return where the comparison holds, position by position; a NULL on either side is no match."""
    left, right = _plain(left), _plain(right)
    if left.type == right.type:
        return pc.fill_null(KERNELS[op](left, right), fill_value=False)
    common = _common_type(left, right)
    if common is None:
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([compare_values(a, op, b) for a, b in pairs], pa.bool_())
    return pc.fill_null(KERNELS[op](left.cast(common), right.cast(common)), fill_value=False)


def _plain(values: pa.Array) -> pa.Array:
    if pa.types.is_boolean(values.type):
        return values.cast(pa.uint8())
    if pa.types.is_large_string(values.type):
        return values.cast(pa.string())
    return comparable(values)


def _common_type(left: pa.Array, right: pa.Array) -> pa.DataType | None:
    """Return a type that holds every value of both exactly, or None when no machine type does."""
    if pa.types.is_floating(left.type) and pa.types.is_floating(right.type):
        return pa.float64()
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        return pa.int64() if _is_within(left, _I64_MAXIMUM) and _is_within(right, _I64_MAXIMUM) else None
    whole = left if pa.types.is_integer(left.type) else right
    return pa.float64() if _is_within(whole, _EXACT_DOUBLE) else None


def _is_within(values: pa.Array, bound: int) -> bool:
    if values.type.bit_width < 64 and bound >= _I64_MAXIMUM:
        return True
    extremes = pc.min_max(values)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    return low is None or (-bound - (bound == _I64_MAXIMUM) <= low and high <= bound)
