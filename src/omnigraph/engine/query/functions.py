"""What computes the operators and functions of the language: a kernel for each name of ``ir.functions``.

A kernel is given arrays of one length and the types that the checker found, and returns an array of that length.
Kernels work on all rows at once; where Arrow has none, each distinct value is converted once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.comparison import one_array
from omnigraph.engine.query.predicates import compare_arrays
from omnigraph.errors import BadValue, QueryRuntimeError, ValueFormatError
from omnigraph.ir.model import Apply
from omnigraph.ir.types import INTERVAL, NULL, PATH
from omnigraph.values.temporal import MS_PER_DAY, format_date, format_datetime, parse_date, parse_datetime

Kernel = Callable[[Apply, list[pa.Array], list[PropertyType]], pa.Array]

# A span of time: whole months, whose length depends on the calendar, and milliseconds.
INTERVAL_TYPE = pa.struct([pa.field("months", pa.int64()), pa.field("ms", pa.int64())])
# A way over edges: the ids of its nodes, and those of its edges.
PATH_TYPE = pa.struct([pa.field("nodes", pa.list_(pa.string())), pa.field("edges", pa.list_(pa.string()))])
_MONTH_DAYS = 30
_UNITS_MS = {"seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "days": MS_PER_DAY}
_I64_MINIMUM, _I64_MAXIMUM = -(1 << 63), (1 << 63) - 1
_TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLS = {"true": True, "false": False}


def value_arrow_type(of: PropertyType) -> pa.DataType:
    """Return the Arrow type of computed values."""
    if of is INTERVAL:
        return INTERVAL_TYPE
    if of is PATH:
        return PATH_TYPE
    return pa.null() if of is NULL else arrow_type(of)


def cast_to(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return computed values in the type that the checker promised."""
    values = one_array(values) if isinstance(values, pa.ChunkedArray) else values
    if values.type == kind:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    return values.cast(kind)


def member_of(values: pa.Array, items: list[Any] | pa.Array | None) -> pa.Array:
    """Return whether each value is a member of the items: one list for all rows, or one per row.

    Unknown where the value or the list is NULL, and where the value is not found but an item is NULL.
    """
    count = len(values)
    if items is None:
        return pa.nulls(count, pa.bool_())
    if isinstance(items, list):
        return _member_of_all(values, items)
    found = np.zeros(count, dtype=np.bool_)
    unknown = np.asarray(items.is_null()) | np.asarray(values.is_null())
    members, rows = pc.list_flatten(items), pc.list_parent_indices(items)
    if len(members):
        at = rows.to_numpy(zero_copy_only=False)
        same = np.asarray(
            compare_arrays(members, "=", values.take(rows)).to_numpy(zero_copy_only=False), dtype=np.bool_
        )
        found[at[same]] = True
        unknown[at[np.asarray(members.is_null())]] = True
    return pa.array(found, pa.bool_(), mask=unknown & ~found | np.asarray(values.is_null()))


def _member_of_all(values: pa.Array, items: list[Any]) -> pa.Array:
    known = [item for item in items if item is not None]
    found = np.zeros(len(values), dtype=np.bool_)
    if known and not pa.types.is_null(values.type):
        try:
            wanted = pa.array(known, values.type)
            found = np.asarray(pc.is_in(values, value_set=wanted).to_numpy(zero_copy_only=False), dtype=np.bool_)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            for item in known:
                one = pa.array([item]).take(pa.array(np.zeros(len(values), dtype=np.int64)))
                found |= np.asarray(compare_arrays(values, "=", one).to_numpy(zero_copy_only=False), dtype=np.bool_)
    unknown = np.asarray(values.is_null())
    return pa.array(found & ~unknown, pa.bool_(), mask=unknown | (~found & (len(known) < len(items))))


def _failure(call: Apply, problem: str, arguments: Sequence[pa.Array], at: int) -> QueryRuntimeError:
    """Return the error about one row, with the values that it was computed from."""
    values = ", ".join(str(argument[at].as_py()) for argument in arguments)
    details = BadValue(what=str(call), value=values, expected="a value for every row")
    return QueryRuntimeError(f"{call} {problem} for the values {values}", details=details)


def _numbers(arrays: Sequence[pa.Array], *, whole: bool) -> list[pa.Array]:
    return [cast_to(array, pa.int64() if whole else pa.float64()) for array in arrays]


def _finite(call: Apply, found: pa.Array, arguments: Sequence[pa.Array]) -> pa.Array:
    """Return numbers, refusing the first one that is none."""
    plain = found.to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(~np.isfinite(plain) & np.asarray(found.is_valid()))
    if len(bad):
        raise _failure(call, "is not a finite number", arguments, int(bad[0]))
    return found


def _is_whole(call: Apply) -> bool:
    return call.type is not INTERVAL and call.type.scalar is Scalar.I64


_CHECKED: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_PLAIN: dict[str, Callable[[Any, Any], Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _arithmetic(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    if call.type is INTERVAL or any(of is INTERVAL for of in types):
        return _with_intervals(call, arguments, types)
    if call.type.is_text:
        left, right = (cast_to(array, pa.string()) for array in arguments)
        return pc.binary_join_element_wise(left, right, "", null_handling="emit_null")
    if not _is_whole(call):
        left, right = _numbers(arguments, whole=False)
        return _finite(call, _PLAIN[call.function](left, right), arguments)
    left, right = _numbers(arguments, whole=True)
    try:
        return _CHECKED[call.function](left, right)
    except pa.ArrowInvalid:
        raise _failure(
            call, "does not fit a 64-bit integer", arguments, _overflow(call.function, left, right)
        ) from None


def _overflow(op: str, left: pa.Array, right: pa.Array) -> int:
    """Return the row whose result is furthest from zero: if any does not fit, that one does not."""
    first, second = (
        np.nan_to_num(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) for array in (left, right)
    )
    found = {"+": first + second, "-": first - second, "*": first * second}[op]
    return int(np.argmax(np.abs(found)))


def _divide(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    left, right = _numbers(arguments, whole=False)
    _refuse_zero(call, left, right, arguments)
    return _finite(call, pc.divide(left, right), arguments)


def _modulo(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    left, right = _numbers(arguments, whole=True)
    _refuse_zero(call, left, right, arguments)
    is_valid = np.asarray(left.is_valid()) & np.asarray(right.is_valid())
    first, second = (np.asarray(pc.fill_null(array, 1)) for array in (left, right))
    with np.errstate(all="ignore"):
        found = np.fmod(first, np.where(second == -1, 1, second))
    return pa.array(found, pa.int64(), mask=~is_valid)


def _refuse_zero(call: Apply, left: pa.Array, right: pa.Array, arguments: Sequence[pa.Array]) -> None:
    zero = np.asarray(pc.fill_null(pc.equal(right, 0), fill_value=False)) & np.asarray(left.is_valid())
    if zero.any():
        raise _failure(call, "divides by zero", arguments, int(np.flatnonzero(zero)[0]))


def _negative(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    if types[0] is INTERVAL:
        months, ms, is_null = _parts(arguments[0])
        return _interval(-months, -ms, is_null)
    (values,) = _numbers(arguments, whole=_is_whole(call))
    try:
        return pc.negate_checked(values)
    except pa.ArrowInvalid:
        raise _failure(
            call, "does not fit a 64-bit integer", arguments, int(np.argmin(np.asarray(pc.fill_null(values, 0))))
        ) from None


# Moments and intervals

Numbers = npt.NDArray[np.int64]


def _parts(intervals: pa.Array) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_]]:
    if pa.types.is_null(intervals.type):
        zeros = np.zeros(len(intervals), dtype=np.int64)
        return zeros, zeros, np.ones(len(intervals), dtype=np.bool_)
    months, ms = (np.asarray(pc.fill_null(pc.struct_field(intervals, name), 0)) for name in ("months", "ms"))
    return months, ms, np.asarray(intervals.is_null())


def _interval(months: Numbers, ms: Numbers, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    fields = [pa.array(months, pa.int64()), pa.array(ms, pa.int64())]
    return pa.StructArray.from_arrays(fields, fields=list(INTERVAL_TYPE), mask=pa.array(is_null))


def _milliseconds(moments: pa.Array) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    is_null = np.asarray(moments.is_null())
    if pa.types.is_null(moments.type):
        return np.zeros(len(moments), dtype=np.int64), is_null
    if pa.types.is_date32(moments.type):
        days = np.asarray(pc.fill_null(moments.view(pa.int32()), 0)).astype(np.int64)
        return days * MS_PER_DAY, is_null
    return np.asarray(pc.fill_null(moments.view(pa.int64()), 0)), is_null


def _moment(ms: Numbers, is_null: npt.NDArray[np.bool_], of: PropertyType) -> pa.Array:
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


def _with_intervals(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    left, right = arguments
    sign = -1 if call.function == "-" else 1
    if call.type is not INTERVAL:
        if types[0] is INTERVAL:
            left, right = right, left
        ms, is_null = _milliseconds(left)
        months, more, is_missing = _parts(right)
        moved = _add_months(ms, sign * months) if months.any() else ms
        return _moment(moved + sign * more, is_null | is_missing, call.type)
    if all(of is INTERVAL or pa.types.is_null(array.type) for of, array in zip(types, arguments, strict=True)):
        first, second = _parts(left), _parts(right)
        return _interval(first[0] + sign * second[0], first[1] + sign * second[1], first[2] | second[2])
    first_ms, first_null = _milliseconds(left)
    second_ms, second_null = _milliseconds(right)
    return _interval(np.zeros_like(first_ms), first_ms - second_ms, first_null | second_null)


def _total_ms(intervals: pa.Array) -> pa.Array:
    months, ms, is_null = _parts(intervals)
    return pa.array(months * (_MONTH_DAYS * MS_PER_DAY) + ms, pa.int64(), mask=is_null)


def _make_interval(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    (values,) = _numbers(arguments, whole=True)
    numbers, is_null = np.asarray(pc.fill_null(values, 0)), np.asarray(values.is_null())
    zeros = np.zeros_like(numbers)
    if call.function in {"years", "months"}:
        return _interval(numbers * (12 if call.function == "years" else 1), zeros, is_null)
    return _interval(zeros, numbers * _UNITS_MS[call.function], is_null)


def _count_interval(unit_ms: int) -> Kernel:
    def count(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
        return pc.divide(_total_ms(arguments[0]).cast(pa.float64()), float(unit_ms))

    return count


def _timestamps(moments: pa.Array) -> pa.Array:
    ms, is_null = _milliseconds(moments)
    return pa.array(ms, pa.int64(), mask=is_null).view(pa.timestamp("ms"))


def _moment_part(kernel: Callable[..., Any], **options: Any) -> Kernel:
    def part(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
        return kernel(_timestamps(arguments[0]), **options)

    return part


def _truncate(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    unit, moments = arguments
    word = unit[0].as_py() if len(unit) else "day"
    if word is None:
        return pa.nulls(len(moments))
    if word not in _TRUNCATED:
        details = BadValue(what="unit", value=word, expected=" | ".join(_TRUNCATED))
        raise QueryRuntimeError(f"unknown unit '{word}' of date_trunc", details=details)
    floored = pc.floor_temporal(_timestamps(moments), unit=word, week_starts_monday=True)
    ms, is_null = np.asarray(pc.fill_null(floored.view(pa.int64()), 0)), np.asarray(moments.is_null())
    return _moment(ms, is_null, call.type)


def _today(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    ms, is_null = _milliseconds(arguments[0])
    return _moment(ms, is_null, call.type)


# Comparisons


def _comparison(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    left, right = arguments
    is_null = np.asarray(left.is_null()) | np.asarray(right.is_null())
    if is_null.all():
        return pa.nulls(len(left), pa.bool_())
    if INTERVAL in types:
        left, right = _total_ms(left), _total_ms(right)
    op: Any = call.function
    holds = compare_arrays(left, op, right)
    return pa.array(np.asarray(holds.to_numpy(zero_copy_only=False), dtype=np.bool_), pa.bool_(), mask=is_null)


def _not(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    return pc.invert(cast_to(arguments[0], pa.bool_()))


def _text_test(kernel: Callable[..., Any], test: Callable[[str, str], bool]) -> Kernel:
    """Return a test of texts against a text: one kernel where all rows have the same, else pair by pair."""

    def decide(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
        texts, parts = (cast_to(array, pa.string()) for array in arguments)
        same, part = _only(parts)
        if same:
            if part is None:
                return pa.nulls(len(texts), pa.bool_())
            try:
                return kernel(texts, pattern=part)
            except pa.ArrowInvalid as problem:
                details = BadValue(what="pattern", value=part, expected="a regular expression of RE2")
                raise QueryRuntimeError(f"invalid pattern '{part}' in {call}", details=details) from problem
        pairs = zip(texts.to_pylist(), parts.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else test(a, b) for a, b in pairs], pa.bool_())

    return decide


def _only(values: pa.Array) -> tuple[bool, Any]:
    """Return whether all values are the same one, and that one."""
    if not len(values):
        return True, None
    if values.null_count:
        return values.null_count == len(values), None
    first = values[0]
    return bool(pc.all(pc.equal(values, first)).as_py()), first.as_py()


# Texts


def _on_text(kernel: Callable[..., Any]) -> Kernel:
    return lambda _, arguments, __: kernel(cast_to(arguments[0], pa.string()))


def _on_path(part: str) -> Kernel:
    return lambda _, arguments, __: pc.struct_field(cast_to(arguments[0], PATH_TYPE), part)


def _length(_: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    if types[0] is PATH:
        return pc.list_value_length(pc.struct_field(arguments[0], "edges"))
    return pc.utf8_length(cast_to(arguments[0], pa.string()))


def _by_argument(arguments: list[pa.Array], act: Callable[..., pa.Array], one: Callable[..., Any]) -> pa.Array:
    """Act on texts by further arguments: at once where those are the same in all rows, else row by row."""
    texts, *rest = arguments
    known = [_only(array) for array in rest]
    if all(same for same, _ in known):
        values = [value for _, value in known]
        return pa.nulls(len(texts), pa.string()) if None in values and len(texts) else act(texts, *values)
    rows = zip(*(array.to_pylist() for array in arguments), strict=True)
    return pa.array([None if None in row else one(*row) for row in rows], pa.string())


def _substring(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = cast_to(arguments[0], pa.string())
    if len(arguments) == 2:
        return _by_argument(
            [texts, arguments[1]],
            lambda values, start: pc.utf8_slice_codeunits(values, max(0, start)),
            lambda text, start: text[max(0, start) :],
        )
    return _by_argument(
        [texts, *arguments[1:]],
        lambda values, start, count: pc.utf8_slice_codeunits(values, max(0, start), max(0, start) + max(0, count)),
        lambda text, start, count: text[max(0, start) : max(0, start) + max(0, count)],
    )


def _replace(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = [cast_to(array, pa.string()) for array in arguments]
    return _by_argument(
        texts,
        lambda values, old, new: pc.replace_substring(values, pattern=old, replacement=new) if old else values,
        lambda text, old, new: text.replace(old, new) if old else text,
    )


def _split(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = cast_to(arguments[0], pa.string())
    separator = arguments[1][0].as_py() if len(arguments[1]) else ","
    if separator is None:
        return pa.nulls(len(texts))
    if not separator:
        lists = [None if text is None else list(text) for text in texts.to_pylist()]
        return pa.array(lists, pa.list_(pa.string()))
    return pc.split_pattern(texts, pattern=separator)


def _concat(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = [_as_text(array) for array in arguments]
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


# Numbers


def _on_number(kernel: Callable[[Any], Any], *, keeps_whole: bool = False) -> Kernel:
    def act(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
        if keeps_whole and _is_whole(call):
            return _numbers(arguments, whole=True)[0]
        return _finite(call, kernel(*_numbers(arguments, whole=False)), arguments)

    return act


def _abs(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    (values,) = _numbers(arguments, whole=_is_whole(call))
    try:
        return pc.abs_checked(values)
    except pa.ArrowInvalid:
        raise _failure(
            call, "does not fit a 64-bit integer", arguments, int(np.argmin(np.asarray(pc.fill_null(values, 0))))
        ) from None


def _round(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    (values,) = _numbers(arguments[:1], whole=_is_whole(call))
    if len(arguments) == 1:
        return values if _is_whole(call) else pc.round(values, round_mode="half_towards_infinity")
    digits = pc.max_element_wise(pc.min_element_wise(cast_to(arguments[1], pa.int64()), 400), -400).cast(pa.int32())
    is_null = pc.or_(pc.is_null(values), pc.is_null(arguments[1]))
    found = pc.round_binary(values, digits, round_mode="half_towards_infinity")
    return pc.if_else(is_null, None, found)


def _sign(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    return pc.sign(cast_to(arguments[0], pa.float64())).cast(pa.int64())


def _power(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    return _finite(call, pc.power(*_numbers(arguments, whole=False)), arguments)


def _extreme(kernel: Callable[..., Any]) -> Kernel:
    def choose(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
        kind = value_arrow_type(call.type)
        plain = pa.uint8() if pa.types.is_boolean(kind) else kind
        found = kernel(*(cast_to(cast_to(array, kind), plain) for array in arguments), skip_nulls=False)
        return cast_to(found, kind)

    return choose


# Lists


def _size(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    if pa.types.is_null(arguments[0].type):
        return pa.nulls(len(arguments[0]), pa.int64())
    return pc.list_value_length(arguments[0]).cast(pa.int64())


def _item(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    lists, indexes = arguments
    if pa.types.is_null(lists.type):
        return pa.nulls(len(lists))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    at = np.asarray(pc.fill_null(cast_to(indexes, pa.int64()), -1))
    is_inside = (at >= 0) & (at < lengths)
    members = pc.list_flatten(lists)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else lengths
    places = pa.array(np.where(is_inside, starts + at, 0), pa.int64(), mask=~is_inside)
    return members.take(places)


def _list(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    kind = value_arrow_type(call.type)
    members = pa.concat_arrays([cast_to(array, kind.value_type) for array in arguments])
    count, width = len(arguments[0]), len(arguments)
    order = np.arange(count * width, dtype=np.int64).reshape(width, count).T.ravel()
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(offsets, members.take(pa.array(order))).cast(kind)


# Conversions


def _each_value(values: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Convert every distinct value once."""
    plain = values.view(pa.int32()) if pa.types.is_date32(values.type) else values
    plain = plain.view(pa.int64()) if pa.types.is_date64(plain.type) else plain
    numbered = plain.dictionary_encode()
    made = pa.array([convert(value) for value in numbered.dictionary.to_pylist()], kind)
    return made.take(numbered.indices)


def _as_text(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_null(kind) or pa.types.is_string(kind):
        return cast_to(values, pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return values.cast(pa.string())
    if pa.types.is_date32(kind):
        return _each_value(values, format_date, pa.string())
    if pa.types.is_date64(kind):
        return _each_value(values, format_datetime, pa.string())
    return _each_value(values.cast(pa.float64()), repr, pa.string())


def _whole_of(value: Any) -> int | None:
    if isinstance(value, str):
        text = value.strip()
        if not _WHOLE.fullmatch(text) or len(text) > 40:
            return None
        number = int(text)
    else:
        number = int(value) if math.isfinite(value) else _I64_MAXIMUM + 1
    return number if _I64_MINIMUM <= number <= _I64_MAXIMUM else None


def _float_of(value: Any) -> float | None:
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _bool_of(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return _BOOLS.get(value.strip().lower()) if isinstance(value, str) else None


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
    "datetime": (_parsed(parse_datetime), pa.int64()),
}


def _convert(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    values, word = arguments[0], call.function.partition("_")[2]
    if word == "string":
        return _as_text(values)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values))
    found = _moment_from(values, types[0], word)
    if found is None:
        convert, kind = _CONVERSIONS[word]
        found = _each_value(values, convert, kind)
        found = found.view(pa.date32()) if word == "date" else found
        found = found.view(pa.date64()) if word == "datetime" else found
    if call.function.startswith("cast_"):
        lost = np.flatnonzero(np.asarray(found.is_null()) & np.asarray(values.is_valid()))
        if len(lost):
            raise _failure(call, "has no value", arguments, int(lost[0]))
    return found


def _moment_from(values: pa.Array, of: PropertyType, word: str) -> pa.Array | None:
    """Turn a day into a moment, or a moment into its day; None where that is not what is asked."""
    if of.scalar not in {Scalar.DATE, Scalar.DATETIME} or word not in {"date", "datetime"}:
        return None
    ms, is_null = _milliseconds(values)
    return _moment(ms, is_null, PropertyType(scalar=Scalar.DATE if word == "date" else Scalar.DATETIME))


KERNELS: dict[str, Kernel] = {
    **dict.fromkeys(("+", "-", "*"), _arithmetic),
    "/": _divide,
    "%": _modulo,
    "negative": _negative,
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">="), _comparison),
    "not": _not,
    "contains": _text_test(pc.match_substring, lambda text, part: part in text),
    "starts_with": _text_test(pc.starts_with, str.startswith),
    "ends_with": _text_test(pc.ends_with, str.endswith),
    "matches": _text_test(pc.match_substring_regex, lambda text, part: re.search(part, text) is not None),
    "item": _item,
    "list": _list,
    "lower": _on_text(pc.utf8_lower),
    "upper": _on_text(pc.utf8_upper),
    "trim": _on_text(pc.utf8_trim_whitespace),
    "length": _length,
    "nodes": _on_path("nodes"),
    "edges": _on_path("edges"),
    "reverse": _on_text(pc.utf8_reverse),
    "substring": _substring,
    "replace": _replace,
    "split": _split,
    "concat": _concat,
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
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
    "year": _moment_part(pc.year),
    "month": _moment_part(pc.month),
    "day": _moment_part(pc.day),
    "hour": _moment_part(pc.hour),
    "minute": _moment_part(pc.minute),
    "weekday": _moment_part(pc.day_of_week, count_from_zero=False, week_start=1),
    "date_trunc": _truncate,
    "today": _today,
    **dict.fromkeys(("years", "months", "days", "hours", "minutes", "seconds"), _make_interval),
    "in_days": _count_interval(MS_PER_DAY),
    "in_hours": _count_interval(_UNITS_MS["hours"]),
    "in_seconds": _count_interval(_UNITS_MS["seconds"]),
    "size": _size,
    **dict.fromkeys((f"to_{word}" for word in ("string", *_CONVERSIONS)), _convert),
    **dict.fromkeys((f"cast_{word}" for word in _CONVERSIONS), _convert),
}
