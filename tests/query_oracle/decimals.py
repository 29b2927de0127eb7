"""Decimals: the digits that sums, products, quotients, means and rounded values have, and exact values of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.query_oracle.faults import Fault, Illegal
from tests.query_oracle.schema import Kind

MOST = 38
# Digits of the largest integer of each type.
_WHOLE = {"I32": 10, "U32": 10, "I64": 19, "U64": 20}


def decimal(precision: int, scale: int) -> Kind:
    """Return a decimal type, of 38 digits at most."""
    return Kind(scalar="Decimal", digits=(max(1, min(precision, MOST)), scale))


def digits(kind: Kind) -> tuple[int, int]:
    """Return the precision and scale of a decimal or an integer type."""
    return kind.digits or (_WHOLE[kind.scalar], 0)


def common(kinds: Iterable[Kind]) -> Kind:
    """Return the type that holds all integers and decimals of the types, as far as 38 digits do."""
    known = [digits(kind) for kind in kinds]
    scale = max(scale for _, scale in known)
    return decimal(max(precision - scale for precision, scale in known) + scale, scale)


def literal(text: str) -> tuple[Kind, Decimal] | None:
    """Return a written number as a decimal."""
    value = Decimal(text)
    _, places, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(places) + max(0, int(exponent)), scale)
    return (decimal(precision, scale), value) if precision <= MOST else None


def exact(value: Fraction, kind: Kind) -> Decimal:
    """Return a number as a value of a decimal type, rounded half away from zero, or fail."""
    precision, scale = digits(kind)
    units = half_away(value * 10**scale)
    if abs(units) >= 10**precision:
        raise Fault("overflow", str(value))
    sign, places = int(units < 0), tuple(map(int, str(abs(units))))
    return Decimal((sign, places, -scale))


def half_away(value: Fraction) -> int:
    """Return the nearest integer."""
    doubled = abs(value) * 2
    whole = (doubled.numerator + doubled.denominator) // (2 * doubled.denominator)
    return -whole if value < 0 else whole


def calculate(op: str, left: Kind, right: Kind) -> tuple[Kind, Callable[[Any, Any], Any]]:
    """Return the type of an operation with decimals, and what computes it."""
    (first, scale), (second, fraction) = digits(left), digits(right)
    match op:
        case "+" | "-":
            kept = max(scale, fraction)
            kind = decimal(max(first - scale, second - fraction) + kept + 1, kept)
        case "*" if scale + fraction <= MOST:
            kind = decimal(first + second, scale + fraction)
        case "/":
            whole, least = first - scale + fraction, max(scale, fraction)
            kept = max(least, min(least + 6, MOST - whole))
            kind = decimal(whole + kept, kept)
        case _:
            raise Illegal(f"{left} {op} {right}")

    def compute(a: Any, b: Any) -> Decimal:
        one, two = Fraction(a), Fraction(b)
        if op == "/":
            if two == 0:
                raise Fault("division", f"{a} / 0")
            return exact(one / two, kind)
        return exact({"+": one + two, "-": one - two, "*": one * two}[op], kind)

    return kind, compute


def rounded(kind: Kind, places: int | None) -> Kind:
    """Return the type of a decimal that is rounded to so many digits; None if the row says how many."""
    precision, scale = digits(kind)
    if places is None:
        return decimal(precision + 1, scale)
    kept = max(0, min(places, scale))
    return decimal(precision - scale + kept + (kept < scale), kept)


def mean(kind: Kind) -> Kind:
    """Return the type of a mean."""
    precision, scale = digits(kind)
    kept = min(scale + 4, MOST - (precision - scale))
    return decimal(precision - scale + kept, kept)
