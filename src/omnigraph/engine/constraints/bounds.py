"""Comparing a column of numbers with a bound exactly, whatever the two types are."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc


def below(column: pa.Array | pa.ChunkedArray, bound: float) -> pa.Array | pa.ChunkedArray:
    """Say of each value whether it is less than ``bound``; nulls stay null, NaN is not.

    >>> below(pa.array([2**63 - 1, 0]), 9223372036854775807.5).to_pylist()
    [True, True]
    """
    if pa.types.is_integer(column.type):
        return _integers_below(column, math.ceil(bound))
    wide = column.cast(pa.float64())
    near = _nearest_double(bound)
    # When the nearest double lies under the bound, no double is between the two.
    return pc.less_equal(wide, near) if near < bound else pc.less(wide, near)


def above(column: pa.Array | pa.ChunkedArray, bound: float) -> pa.Array | pa.ChunkedArray:
    """Say of each value whether it is greater than ``bound``; nulls stay null, NaN is not."""
    if pa.types.is_integer(column.type):
        # Greater than the floor is the negation of less than the next integer.
        return pc.invert(_integers_below(column, math.floor(bound) + 1))
    wide = column.cast(pa.float64())
    near = _nearest_double(bound)
    return pc.greater_equal(wide, near) if near > bound else pc.greater(wide, near)


def _integers_below(column: pa.Array | pa.ChunkedArray, bound: int) -> pa.Array | pa.ChunkedArray:
    low, high = _limits(column.type)
    if bound <= low or bound > high:
        return pc.if_else(pc.is_valid(column), pa.scalar(bound > high), pa.scalar(None, pa.bool_()))
    return pc.less(column, pa.scalar(bound, column.type))


def _limits(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_signed_integer(kind):
        return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
    return 0, (1 << kind.bit_width) - 1


def _nearest_double(bound: float) -> float:
    try:
        return float(bound)
    except OverflowError:
        return math.inf if bound > 0 else -math.inf
