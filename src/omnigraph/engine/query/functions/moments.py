"""Kernels for moments and intervals: calendar arithmetic over all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.query.functions.kernels import INTERVAL_TYPE, Kernel, failure, numbers
from omnigraph.errors import BadValue, QueryRuntimeError
from omnigraph.ir.functions import MOMENT_UNITS
from omnigraph.ir.model import Apply
from omnigraph.ir.types import INTERVAL
from omnigraph.values.temporal import MS_PER_DAY

_MONTH_DAYS = 30
UNITS_MS = {"seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "days": MS_PER_DAY}
# Longer intervals lead from no moment to another, and sums of these stay exact.
_LONGEST_MONTHS = 1_200_000
_LONGEST_MS = 100_000 * 366 * 86_400_000
# The days of the years 1 to 9999, as the texts of the language can write them.
_FIRST_MS, _LAST_MS = -719_162 * MS_PER_DAY, 2_932_897 * MS_PER_DAY - 1

Numbers = npt.NDArray[np.int64]


def interval_parts(intervals: pa.Array) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_]]:
    """Return months, milliseconds, and where an interval is NULL."""
    if pa.types.is_null(intervals.type):
        zeros = np.zeros(len(intervals), dtype=np.int64)
        return zeros, zeros, np.ones(len(intervals), dtype=np.bool_)
    months, ms = (np.asarray(pc.fill_null(pc.struct_field(intervals, name), 0)) for name in ("months", "ms"))
    return months, ms, np.asarray(intervals.is_null())


def make_intervals(months: Numbers, ms: Numbers, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    """Return intervals of so many months and milliseconds."""
    fields = [pa.array(months, pa.int64()), pa.array(ms, pa.int64())]
    return pa.StructArray.from_arrays(fields, fields=list(INTERVAL_TYPE), mask=pa.array(is_null))


def milliseconds(moments: pa.Array) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return moments as milliseconds, and where one is NULL."""
    is_null = np.asarray(moments.is_null())
    if pa.types.is_null(moments.type):
        return np.zeros(len(moments), dtype=np.int64), is_null
    if pa.types.is_date32(moments.type):
        days = np.asarray(pc.fill_null(moments.view(pa.int32()), 0)).astype(np.int64)
        return days * MS_PER_DAY, is_null
    return np.asarray(pc.fill_null(moments.view(pa.int64()), 0)), is_null


def make_moments(ms: Numbers, is_null: npt.NDArray[np.bool_], of: PropertyType) -> pa.Array:
    """Return milliseconds as moments of a type."""
    if of.scalar is Scalar.DATE:
        return pa.array((ms // MS_PER_DAY).astype(np.int32), pa.int32(), mask=is_null).view(pa.date32())
    return pa.array(ms, pa.int64(), mask=is_null).view(pa.date64())


def _add_months(ms: Numbers, months: Numbers) -> Numbers:
    """Move moments by calendar months; a day that the month does not have becomes its last one."""
    days = ms // MS_PER_DAY
    dates = days.astype("M8[D]")
    start = dates.astype("M8[M]")
    day = (dates - start.astype("M8[D]")).astype(np.int64)
    target = start + months.astype("m8[M]")
    first = target.astype("M8[D]")
    length = ((target + np.timedelta64(1, "M")).astype("M8[D]") - first).astype(np.int64)
    moved = first.astype(np.int64) + np.minimum(day, length - 1)
    return np.asarray(moved * MS_PER_DAY + (ms - days * MS_PER_DAY), dtype=np.int64)


def with_intervals(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    """Add and subtract where an interval takes part."""
    left, right = arguments
    sign = -1 if call.function == "-" else 1
    if call.type is not INTERVAL:
        if types[0] is INTERVAL:
            left, right = right, left
        ms, is_null = milliseconds(left)
        months, more, is_missing = interval_parts(right)
        moved = (_add_months(ms, sign * months) if months.any() else ms) + sign * more
        is_null |= is_missing
        outside = np.flatnonzero(((moved < _FIRST_MS) | (moved > _LAST_MS)) & ~is_null)
        if len(outside):
            raise failure(call, "is outside of the years 1 to 9999", arguments, int(outside[0]))
        return make_moments(moved, is_null, call.type)
    if all(of is INTERVAL or pa.types.is_null(array.type) for of, array in zip(types, arguments, strict=True)):
        first, second = interval_parts(left), interval_parts(right)
        return make_intervals(first[0] + sign * second[0], first[1] + sign * second[1], first[2] | second[2])
    first_ms, first_null = milliseconds(left)
    second_ms, second_null = milliseconds(right)
    return make_intervals(np.zeros_like(first_ms), first_ms - second_ms, first_null | second_null)


def total_ms(intervals: pa.Array) -> pa.Array:
    """Return how long intervals are, a month being 30 days."""
    months, ms, is_null = interval_parts(intervals)
    return pa.array(months * (_MONTH_DAYS * MS_PER_DAY) + ms, pa.int64(), mask=is_null)


def interval_of(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    """Make intervals of numbers."""
    (values,) = numbers(arguments, whole=True)
    counts, is_null = np.asarray(pc.fill_null(values, 0)), np.asarray(values.is_null())
    zeros = np.zeros_like(counts)
    has_months = call.function in {"years", "months"}
    unit = {"years": 12, "months": 1}[call.function] if has_months else UNITS_MS[call.function]
    most = (_LONGEST_MONTHS if has_months else _LONGEST_MS) // unit
    too_long = np.flatnonzero((counts > most) | (counts < -most))
    if len(too_long):
        raise failure(call, "is longer than 100,000 years", arguments, int(too_long[0]))
    counted = counts * unit
    return make_intervals(counted, zeros, is_null) if has_months else make_intervals(zeros, counted, is_null)


def count_interval(unit_ms: int) -> Kernel:
    """Return the kernel that counts a unit in intervals."""

    def count(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
        return pc.divide(total_ms(arguments[0]).cast(pa.float64()), float(unit_ms))

    return count


def timestamps(moments: pa.Array) -> pa.Array:
    """Return moments as Arrow's kernels take them."""
    ms, is_null = milliseconds(moments)
    return pa.array(ms, pa.int64(), mask=is_null).view(pa.timestamp("ms"))


def moment_part(kernel: Callable[..., Any], **options: Any) -> Kernel:
    """Return the kernel of one part of a moment."""

    def part(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
        return kernel(timestamps(arguments[0]), **options)

    return part


def truncate(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    """Cut moments to a unit."""
    unit, moments = arguments
    word = unit[0].as_py() if len(unit) else "day"
    if word is None:
        return pa.nulls(len(moments))
    if word not in MOMENT_UNITS:
        details = BadValue(what="unit", value=word, expected=" | ".join(MOMENT_UNITS))
        raise QueryRuntimeError(f"unknown unit '{word}' of date_trunc", details=details)
    floored = pc.floor_temporal(timestamps(moments), unit=word, week_starts_monday=True)
    ms, is_null = np.asarray(pc.fill_null(floored.view(pa.int64()), 0)), np.asarray(moments.is_null())
    return make_moments(ms, is_null, call.type)


def today(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    """Return the day of the request."""
    ms, is_null = milliseconds(arguments[0])
    return make_moments(ms, is_null, call.type)


KERNELS: dict[str, Kernel] = {
    "year": moment_part(pc.year),
    "month": moment_part(pc.month),
    "day": moment_part(pc.day),
    "hour": moment_part(pc.hour),
    "minute": moment_part(pc.minute),
    "weekday": moment_part(pc.day_of_week, count_from_zero=False, week_start=1),
    "date_trunc": truncate,
    "today": today,
    **dict.fromkeys(("years", "months", "days", "hours", "minutes", "seconds"), interval_of),
    "in_days": count_interval(MS_PER_DAY),
    "in_hours": count_interval(UNITS_MS["hours"]),
    "in_seconds": count_interval(UNITS_MS["seconds"]),
}
