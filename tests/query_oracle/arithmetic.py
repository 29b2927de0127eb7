"""``+ - * / %`` and the sign: exact integers, finite floats, texts, dates and intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.query_oracle.dates import DAY_MS, Interval, shift_date, shift_instant
from tests.query_oracle.decimals import calculate
from tests.query_oracle.faults import Fault, Illegal
from tests.query_oracle.schema import Kind
from tests.query_oracle.values import (
    DATE,
    FLOAT,
    FLOATS,
    INSTANT,
    INTEGER,
    INTEGERS,
    INTERVAL,
    NULL,
    NUMBERS,
    TEXT,
    convert,
    finite,
    fit,
    plain,
)

Function = Callable[[Any, Any], Any]


def arithmetic(op: str, left: Kind, right: Kind) -> tuple[Kind, Function]:
    """Return the type of ``left op right`` and what computes it from two values, none of them NULL."""
    left, right = plain(left), plain(right)
    if NULL in {left, right}:
        left = right = _stand_in(op, right if left == NULL else left)
    if not {left.scalar, right.scalar} - NUMBERS and not left.is_list and not right.is_list:
        return _numbers(op, left, right)
    if op == "+" and left == right == TEXT:
        return TEXT, lambda a, b: a + b
    if op not in {"+", "-"}:
        raise Illegal(f"{left} {op} {right}")
    return _moments(op, left, right)


def _moments(op: str, left: Kind, right: Kind) -> tuple[Kind, Function]:
    if left == right == INTERVAL:
        return INTERVAL, (lambda a, b: a + b) if op == "+" else (lambda a, b: a + -b)
    for moment, shift, unit in ((DATE, shift_date, DAY_MS), (INSTANT, shift_instant, 1)):
        if (left, right) == (moment, INTERVAL):
            return moment, shift if op == "+" else (lambda a, b, shift=shift: shift(a, -b))
        if (left, op, right) == (INTERVAL, "+", moment):
            return moment, lambda a, b, shift=shift: shift(b, a)
        if (left, op, right) == (moment, "-", moment):
            return INTERVAL, lambda a, b, unit=unit: Interval(0, (a - b) * unit)
    raise Illegal(f"{left} {op} {right}")


def negative(kind: Kind) -> tuple[Kind, Callable[[Any], Any]]:
    """Return the type of ``-e`` and what computes it."""
    if kind in {INTERVAL, NULL}:
        return kind, lambda value: -value
    if kind.is_list or kind.scalar not in NUMBERS:
        raise Illegal(f"-{kind}")
    if kind.scalar in INTEGERS:
        return INTEGER, lambda value: fit(-fit(value))
    if kind.scalar == "Decimal":
        return plain(kind), lambda value: value.copy_negate()
    return FLOAT, lambda value: -float(value)


def _stand_in(op: str, other: Kind) -> Kind:
    """The type that ``null`` has beside a value of another type."""
    if other == NULL:
        return INTEGER
    if other in {DATE, INSTANT}:
        raise Illegal(f"{other} {op} null has no type")
    return other


def _numbers(op: str, left: Kind, right: Kind) -> tuple[Kind, Function]:
    is_whole = {left.scalar, right.scalar} <= INTEGERS
    if "Decimal" in {left.scalar, right.scalar} and not {left.scalar, right.scalar} & FLOATS:
        return calculate(op, left, right)
    if op == "/":
        return FLOAT, _divide
    if op == "%":
        if not is_whole:
            raise Illegal(f"{left} % {right}")
        return INTEGER, _remainder
    compute: Function = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}[op]
    if is_whole:
        return INTEGER, lambda a, b: fit(compute(fit(a), fit(b)))
    return FLOAT, lambda a, b: finite(compute(convert(a, FLOAT), convert(b, FLOAT)))


def _divide(left: Any, right: Any) -> float:
    if right == 0:
        raise Fault("division", f"{left} / 0")
    try:
        return finite(float(left) / float(right))
    except OverflowError as error:
        raise Fault("overflow", f"{left} / {right}") from error


def _remainder(left: int, right: int) -> int:
    """The remainder has the sign of the dividend."""
    left, right = fit(left), fit(right)
    if right == 0:
        raise Fault("division", f"{left} % 0")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest
