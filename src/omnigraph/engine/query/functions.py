"""What computes the operators and functions of the language: a kernel for each name of ``ir.functions``.

A kernel is given arrays of one length and the types that the checker found, and returns an array of that length.
Kernels work on all rows at once; where Arrow has none, each distinct value is converted once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.decimals import decimal_texts
from omnigraph.engine.query.decimals import calculate, floor_decimals, round_decimals, same_decimals, to_decimal
from omnigraph.engine.query.kernels import (
    PATH_TYPE,
    Kernel,
    cast_to,
    failure,
    finite,
    is_whole,
    numbers,
    value_arrow_type,
)
from omnigraph.engine.query.moments import (
    UNITS_MS,
    count_interval,
    interval_of,
    interval_parts,
    make_intervals,
    make_moments,
    milliseconds,
    moment_part,
    today,
    total_ms,
    truncate,
    with_intervals,
)
from omnigraph.engine.query.predicates import compare_arrays
from omnigraph.errors import BadValue, QueryRuntimeError, ValueFormatError
from omnigraph.ir.model import Apply
from omnigraph.ir.types import INTERVAL, PATH, exact_decimal
from omnigraph.values.decimals import fit_decimal
from omnigraph.values.temporal import MS_PER_DAY, format_date, format_datetime, parse_date, parse_datetime

_I64_MINIMUM, _I64_MAXIMUM = -(1 << 63), (1 << 63) - 1
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLS = {"true": True, "false": False}
_LONGEST_NUMBER = 40


def member_of(values: pa.Array, items: list[Any] | pa.Array | None) -> pa.Array:
    """Return whether each value is a member of the items: one list for all rows, or one per row.

    Unknown where the value or the list is NULL, and where the value is not found but an item is NULL.
    """
    count = len(values)
    if items is None:
        return pa.nulls(count, pa.bool_())
    if isinstance(items, list) and not items:
        return pa.array(np.zeros(count, dtype=np.bool_))
    if isinstance(items, list):
        return _member_of_all(values, items)
    found = np.zeros(count, dtype=np.bool_)
    is_empty = np.asarray(pc.fill_null(pc.equal(pc.list_value_length(items), 0), fill_value=False))
    unknown = (np.asarray(items.is_null()) | np.asarray(values.is_null())) & ~is_empty
    members, rows = pc.list_flatten(items), pc.list_parent_indices(items)
    if len(members):
        at = rows.to_numpy(zero_copy_only=False)
        same = np.asarray(
            compare_arrays(members, "=", values.take(rows)).to_numpy(zero_copy_only=False), dtype=np.bool_
        )
        found[at[same]] = True
        unknown[at[np.asarray(members.is_null())]] = True
    return pa.array(found, pa.bool_(), mask=unknown & ~found)


def _member_of_all(values: pa.Array, items: list[Any]) -> pa.Array:
    known = [item for item in items if item is not None]
    found = np.zeros(len(values), dtype=np.bool_)
    if known and not pa.types.is_null(values.type):
        try:
            wanted = pa.array(_of_type(known, values.type), values.type)
            found = np.asarray(pc.is_in(values, value_set=wanted).to_numpy(zero_copy_only=False), dtype=np.bool_)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            for item in known:
                one = pa.array([item]).take(pa.array(np.zeros(len(values), dtype=np.int64)))
                found |= np.asarray(compare_arrays(values, "=", one).to_numpy(zero_copy_only=False), dtype=np.bool_)
    unknown = np.asarray(values.is_null())
    return pa.array(found & ~unknown, pa.bool_(), mask=unknown | (~found & (len(known) < len(items))))


def _of_type(items: list[Any], kind: pa.DataType) -> list[Any]:
    """Return the items that can be values of a type: no decimal equals a number of more digits."""
    if not pa.types.is_decimal(kind):
        return items
    exact = (exact_decimal(item) for item in items)
    fitted = (None if one is None else fit_decimal(one, kind.precision, kind.scale) for one in exact)
    return [one for one in fitted if one is not None]


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


# Comparisons


def _comparison(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    left, right = arguments
    is_null = np.asarray(left.is_null()) | np.asarray(right.is_null())
    if is_null.all():
        return pa.nulls(len(left), pa.bool_())
    if INTERVAL in types:
        left, right = total_ms(left), total_ms(right)
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


def _upper(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = cast_to(arguments[0], pa.string())
    upper = pc.utf8_upper(texts)
    # Arrow knows a capital of this letter that nobody writes; others would make two letters of it.
    kept = pc.match_substring(texts, pattern="ß")
    return pc.if_else(kept, pc.replace_substring(upper, pattern="ẞ", replacement="ß"), upper)


# What a number takes as a text, and an item of a list besides its own content.
_NUMBER_CHARACTERS, _ITEM_BYTES = 24, 8


def _on_path(part: str) -> Kernel:
    return lambda _, arguments, __: pc.struct_field(cast_to(arguments[0], PATH_TYPE), part)


def _length(_: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    if types[0] is PATH:
        return pc.list_value_length(pc.struct_field(arguments[0], "edges"))
    return pc.utf8_length(cast_to(arguments[0], pa.string()))


def _by_argument(arguments: list[pa.Array], act: Callable[..., pa.Array], one: Callable[..., Any]) -> pa.Array:
    """Act on texts by further arguments: at once where those are the same in all rows, else row by row."""
    texts, *rest = arguments
    if not len(texts):
        return texts
    known = [_only(array) for array in rest]
    if all(same for same, _ in known):
        values = [value for _, value in known]
        return pa.nulls(len(texts), pa.string()) if None in values else act(texts, *values)
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
        lists = [None if text is None else [text] for text in texts.to_pylist()]
        return pa.array(lists, pa.list_(pa.string()))
    return pc.split_pattern(texts, pattern=separator)


def _concat(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = [_as_text(array) for array in arguments]
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def grown_bytes(call: Apply, arguments: list[pa.Array]) -> int:
    """Return what the value of a function that makes longer texts or lists takes at most; 0 for all others."""
    if call.function in {"concat", "list"} or (call.function == "+" and pa.types.is_string(arguments[0].type)):
        return sum(array.nbytes + _NUMBER_CHARACTERS * len(array) for array in arguments)
    if call.function == "replace":
        return _replaced_bytes(*(cast_to(array, pa.string()) for array in arguments))
    if call.function == "split" and len(arguments[1]) and (separator := arguments[1][0].as_py()):
        texts = cast_to(arguments[0], pa.string())
        return int(texts.nbytes) + _ITEM_BYTES * (len(texts) + _occurrences(texts, separator))
    return 0


def _replaced_bytes(texts: pa.Array, old: pa.Array, new: pa.Array) -> int:
    (is_same, pattern), (_, replacement) = _only(old), _only(new)
    if is_same and _only(new)[0]:
        if not pattern or replacement is None:
            return int(texts.nbytes)
        return int(texts.nbytes) + _occurrences(texts, pattern) * len(replacement.encode())
    rows = zip(texts.to_pylist(), old.to_pylist(), new.to_pylist(), strict=True)
    added: Iterable[int] = (
        text.count(from_) * len(to.encode()) for text, from_, to in rows if None not in (text, from_, to) and from_
    )
    return int(texts.nbytes) + int(sum(added))


def _occurrences(texts: pa.Array, pattern: str) -> int:
    return int(pc.sum(pc.count_substring(texts, pattern=pattern)).as_py() or 0)


# Numbers


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
        return _as_text(values)
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
    "upper": _upper,
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
    "size": _size,
    **dict.fromkeys((f"to_{word}" for word in ("string", "decimal", *_CONVERSIONS)), _convert),
    **dict.fromkeys((f"cast_{word}" for word in ("decimal", *_CONVERSIONS)), _convert),
}
