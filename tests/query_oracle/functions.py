"""The functions of the language: from the types of the arguments to the type of the result and what computes it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from tests.query_oracle.dates import (
    DATE_UNITS,
    DAY_MS,
    UNITS,
    Interval,
    date_part,
    read_date,
    read_instant,
    time_part,
    trunc_date,
    trunc_instant,
    write_date,
    write_instant,
)
from tests.query_oracle.decimals import exact, half_away, rounded
from tests.query_oracle.faults import Fault, Illegal
from tests.query_oracle.schema import Kind
from tests.query_oracle.values import (
    BOOL,
    DATE,
    FLOAT,
    FLOATS,
    INSTANT,
    INTEGER,
    INTEGERS,
    INTERVAL,
    MAX_I64,
    NULL,
    NUMBERS,
    TEXT,
    convert,
    finite,
    fit,
    unify,
)

# The types of the arguments → the type of the result, and what computes it from values of which none is NULL.
Signature = Callable[[list[Kind]], tuple[Kind, Callable[..., Any]]]

_WHITE = " \t\r\n"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRINGS = frozenset({"String"})
_WHOLE = INTEGERS
_MOMENTS = frozenset({"Date", "DateTime"})
_SCALARS = NUMBERS | _STRINGS | _MOMENTS | {"Bool"}


def _takes(kinds: list[Kind], *wanted: Iterable[str], least: int | None = None) -> None:
    """Refuse arguments that are too few, too many, or of other types; NULL fits everywhere."""
    if not (len(wanted) if least is None else least) <= len(kinds) <= len(wanted):
        raise Illegal(f"{len(kinds)} arguments")
    for kind, allowed in zip(kinds, wanted, strict=False):
        if kind != NULL and (kind.is_list or kind.scalar not in allowed):
            raise Illegal(f"an argument of type {kind}")


def _fixed(result: Kind, compute: Callable[..., Any], *wanted: Iterable[str], least: int | None = None) -> Signature:
    def signature(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
        _takes(kinds, *wanted, least=least)
        return result, compute

    return signature


def _same_number(on_whole: Callable[..., Any], on_float: Callable[..., Any], *more: Iterable[str]) -> Signature:
    """A function that leaves whole numbers whole."""

    def signature(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
        _takes(kinds, NUMBERS, *more, least=1)
        if kinds[0].scalar in FLOATS:
            return FLOAT, lambda value, *rest: on_float(float(value), *rest)
        if kinds[0].scalar == "Decimal":
            return kinds[0], lambda value: value.copy_abs()
        return INTEGER, lambda value, *rest: fit(on_whole(fit(value), *rest))

    return signature


def _real(compute: Callable[..., float], *wanted: Iterable[str]) -> Signature:
    def guarded(*values: Any) -> float:
        try:
            return finite(compute(*map(float, values)))
        except (ValueError, ZeroDivisionError) as error:
            raise Fault("domain", str(values)) from error
        except OverflowError as error:
            raise Fault("overflow", str(values)) from error

    return _fixed(FLOAT, guarded, *wanted)


def _power(base: float, exponent: float) -> float:
    if base < 0 and not exponent.is_integer():
        raise ValueError(base)
    return base**exponent


def _each_letter(change: Callable[[str], str]) -> Callable[[str], str]:
    """Letters are changed one by one; one that would become several stays."""
    return lambda text: "".join(new if len(new := change(old)) == 1 else old for old in text)


def _substring(text: str, start: int, count: int | None = None) -> str:
    start = max(start, 0)
    return text[start:] if count is None else text[start : start + max(count, 0)]


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else [text]


def _round_float(value: float, digits: int = 0) -> float:
    """Half away from zero of ``value * 10^digits``, all in F64."""
    try:
        factor = 10.0 ** abs(digits)
    except OverflowError:
        return value if digits > 0 else 0.0
    scaled = value * factor if digits >= 0 else value / factor
    if not math.isfinite(scaled):
        return value
    whole = math.copysign(math.floor(Decimal(abs(scaled)) + Decimal("0.5")), scaled) if scaled else scaled
    return finite(whole / factor if digits >= 0 else whole * factor)


def _round_whole(value: int, digits: int = 0) -> int:
    if digits >= 0:
        return value
    if digits < -19:
        return 0
    unit = 10**-digits
    rounded = (abs(value) * 2 + unit) // (2 * unit) * unit
    return -rounded if value < 0 else rounded


def _extreme(choose: Callable[..., Any]) -> Signature:
    def signature(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
        _takes(kinds, *[_SCALARS] * max(len(kinds), 1))
        kind = unify(kinds)
        return kind, lambda *values: choose(convert(value, kind) for value in values)

    return signature


def _date_part(part: str) -> Signature:
    def signature(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
        _takes(kinds, _MOMENTS)
        if kinds[0] == DATE:
            return INTEGER, partial(date_part, part)
        return INTEGER, lambda ms: date_part(part, ms // DAY_MS)

    return signature


def _date_trunc(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    _takes(kinds, _STRINGS, _MOMENTS)
    return (DATE, trunc_date) if kinds[1] == DATE else (INSTANT, trunc_instant)


def check_unit(unit: object, kind: Kind) -> None:
    """Refuse a unit of ``date_trunc`` that is unknown, or finer than a Date."""
    if unit not in (DATE_UNITS if kind == DATE else UNITS):
        raise Illegal(f"unit {unit}")


def _interval(months: int, ms: int) -> Signature:
    most = 1_200_000 // months if months else 100_000 * 366 * DAY_MS // ms

    def make(n: int) -> Interval:
        if abs(fit(n)) > most:
            raise Fault("overflow", str(n))
        return Interval(n * months, n * ms)

    return _fixed(INTERVAL, make, _WHOLE)


def _size(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    if len(kinds) != 1 or (kinds[0] != NULL and not kinds[0].is_list):
        raise Illegal("size of no list")
    return INTEGER, len


def _to_string(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    _takes(kinds, _SCALARS)
    match kinds[0].scalar:
        case "Bool":
            return TEXT, lambda value: "true" if value else "false"
        case "F32":
            return TEXT, _f32_text
        case "F64":
            return TEXT, repr
        case "Decimal":
            return TEXT, lambda value: format(value or value.copy_abs(), "f")
        case "Date":
            return TEXT, write_date
        case "DateTime":
            return TEXT, write_instant
        case _:
            return TEXT, str


def _f32_text(value: float) -> str:
    """The shortest text that is nearer to this F32 than to any other."""
    import numpy as np  # noqa: PLC0415 - the only one of its kind here

    return repr(float(str(np.float32(value))))


def _to_int(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    _takes(kinds, _STRINGS | NUMBERS | {"Bool"})
    if kinds[0].scalar == "String":
        return INTEGER, lambda text: _in_range(int(text)) if _INTEGER.fullmatch(text) else None
    return INTEGER, lambda value: _in_range(int(value))


def round_decimal(name: str, kind: Kind, places: int | None) -> tuple[Kind, Callable[..., Any]]:
    """Return ``round``, ``floor`` or ``ceil`` of a decimal; ``places`` is what the text says, None if a row does."""
    result = rounded(kind, places if name == "round" else 0)
    if name != "round":
        return result, lambda value: exact(Fraction((math.floor if name == "floor" else math.ceil)(value)), result)

    def compute(value: Decimal, to: int = 0) -> Decimal:
        unit = Fraction(10) ** -max(-100, min(100, to))
        return exact(half_away(Fraction(value) / unit) * unit, result)

    return result, compute


def to_decimal(kind: Kind, result: Kind) -> Callable[[Any], Decimal | None]:
    """Return what rounds values of a type to a decimal; what is none, or too large, is NULL."""
    _takes([kind], _STRINGS | NUMBERS)

    def compute(value: Any) -> Decimal | None:
        if isinstance(value, str) and not _FLOAT.fullmatch(value):
            return None
        try:
            return exact(Fraction(repr(value) if isinstance(value, float) else value), result)
        except Fault:
            return None

    return compute


def _in_range(value: int) -> int | None:
    return value if -MAX_I64 - 1 <= value <= MAX_I64 else None


def _to_float(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    _takes(kinds, _STRINGS | NUMBERS)
    if kinds[0].scalar == "String":
        return FLOAT, lambda text: _if_finite(float(text)) if _FLOAT.fullmatch(text) else None
    return FLOAT, float


def _if_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _to_bool(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    _takes(kinds, _STRINGS | {"Bool"})
    if kinds[0] == BOOL:
        return BOOL, bool
    return BOOL, lambda text: {"true": True, "false": False}.get(text.lower())


def _to_date(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    _takes(kinds, _STRINGS | _MOMENTS)
    match kinds[0].scalar:
        case "Date":
            return DATE, int
        case "DateTime":
            return DATE, lambda ms: ms // DAY_MS
        case _:
            return DATE, read_date


def _to_datetime(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    _takes(kinds, _STRINGS | _MOMENTS)
    match kinds[0].scalar:
        case "Date":
            return INSTANT, lambda days: days * DAY_MS
        case "DateTime":
            return INSTANT, int
        case _:
            return INSTANT, read_instant


def _cast(lenient: Signature) -> Signature:
    """The same conversion, which fails where the other one is NULL."""

    def signature(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
        kind, compute = lenient(kinds)

        def strict(value: Any) -> Any:
            found = compute(value)
            if found is None:
                raise Fault("cast", repr(value))
            return found

        return kind, strict

    return signature


def _concat(kinds: list[Kind]) -> tuple[Kind, Callable[..., Any]]:
    _takes(kinds, *[_STRINGS] * max(len(kinds), 1))
    return TEXT, lambda *texts: "".join(texts)


FUNCTIONS: dict[str, Signature] = {
    "lower": _fixed(TEXT, _each_letter(str.lower), _STRINGS),
    "upper": _fixed(TEXT, _each_letter(str.upper), _STRINGS),
    "trim": _fixed(TEXT, lambda text: text.strip(_WHITE), _STRINGS),
    "length": _fixed(INTEGER, len, _STRINGS),
    "substring": _fixed(TEXT, _substring, _STRINGS, _WHOLE, _WHOLE, least=2),
    "replace": _fixed(TEXT, _replace, _STRINGS, _STRINGS, _STRINGS),
    "split": _fixed(Kind(scalar="String", is_list=True), _split, _STRINGS, _STRINGS),
    "concat": _concat,
    "reverse": _fixed(TEXT, lambda text: text[::-1], _STRINGS),
    "abs": _same_number(abs, abs),
    "round": _same_number(_round_whole, _round_float, _WHOLE),
    "floor": _same_number(int, lambda value: float(math.floor(value))),
    "ceil": _same_number(int, lambda value: float(math.ceil(value))),
    "sqrt": _real(math.sqrt, NUMBERS),
    "power": _real(_power, NUMBERS, NUMBERS),
    "ln": _real(math.log, NUMBERS),
    "exp": _real(math.exp, NUMBERS),
    "log10": _real(math.log10, NUMBERS),
    "sign": _fixed(INTEGER, lambda value: (value > 0) - (value < 0), NUMBERS),
    "greatest": _extreme(max),
    "least": _extreme(min),
    "year": _date_part("year"),
    "month": _date_part("month"),
    "day": _date_part("day"),
    "weekday": _date_part("weekday"),
    "hour": _fixed(INTEGER, partial(time_part, "hour"), ("DateTime",)),
    "minute": _fixed(INTEGER, partial(time_part, "minute"), ("DateTime",)),
    "date_trunc": _date_trunc,
    "years": _interval(12, 0),
    "months": _interval(1, 0),
    "days": _interval(0, DAY_MS),
    "hours": _interval(0, 3_600_000),
    "minutes": _interval(0, 60_000),
    "seconds": _interval(0, 1_000),
    "in_days": _fixed(FLOAT, lambda value: value.count(DAY_MS), ("Interval",)),
    "in_hours": _fixed(FLOAT, lambda value: value.count(3_600_000), ("Interval",)),
    "in_seconds": _fixed(FLOAT, lambda value: value.count(1_000), ("Interval",)),
    "size": _size,
    "to_string": _to_string,
    "to_int": _to_int,
    "to_float": _to_float,
    "to_bool": _to_bool,
    "to_date": _to_date,
    "to_datetime": _to_datetime,
    "cast_int": _cast(_to_int),
    "cast_float": _cast(_to_float),
    "cast_bool": _cast(_to_bool),
    "cast_date": _cast(_to_date),
    "cast_datetime": _cast(_to_datetime),
}
# These read a variable, a clock, or arguments one after the other: see the expressions.
OTHERS = ("to_decimal", "cast_decimal", "coalesce", "today", "id", "type", "nodes", "edges", "version")
