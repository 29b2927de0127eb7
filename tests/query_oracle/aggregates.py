"""Aggregates over the rows of a group."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from omnigraph.lang.gq import ast
from tests.query_oracle.decimals import decimal, digits, exact, mean
from tests.query_oracle.expressions import Scope, Typed, check, condition, name_of
from tests.query_oracle.faults import Fault, Illegal
from tests.query_oracle.schema import Kind
from tests.query_oracle.values import (
    BOOL,
    FLOAT,
    INTEGER,
    INTEGERS,
    NODE,
    NULL,
    NUMBERS,
    TEXT,
    Row,
    finite,
    fit,
    frozen,
    item_kind,
    plain,
)

_ORDERED = NUMBERS | {"String", "Bool", "Date", "DateTime"}


def check_aggregate(call: ast.Aggregate, scope: Scope) -> tuple[Kind, Callable[[list[Row]], Any]]:
    """Return the type of an aggregate and what computes it from the rows of a group, which are in their order.

    Args:
        call: the aggregate as written.
        scope: what its argument may refer to: the rows before they are grouped.
    """
    where = None if call.where is None else condition(call.where, scope)
    argument = _argument(call, scope)
    kind, compute = _function(call, argument.kind, scope)

    def value(rows: list[Row]) -> Any:
        kept = [row for row in rows if where is None or where.value(row) is True]
        given = [found for row in kept if (found := argument.value(row)) is not None]
        return compute(_first_of_equals(given) if call.is_distinct else given)

    return kind, value


def _first_of_equals(given: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for item in given:
        found.setdefault(frozen(item), item)
    return list(found.values())


def _argument(call: ast.Aggregate, scope: Scope) -> Typed:
    if call.argument is None:
        if call.is_distinct:
            raise Illegal("count(distinct *)")
        return Typed(kind=BOOL, value=lambda _row: True)
    bound = scope.bound(call.argument)
    if bound is not None and bound.form == "edge" and call.function == "count":
        name = name_of(call.argument)
        return Typed(kind=BOOL, value=lambda row: row[name])
    if bound is not None and bound.form == "node" and call.is_distinct and call.function == "count":
        name = name_of(call.argument)
        return Typed(kind=BOOL, value=lambda row: row[name])
    found = check(call.argument, scope)
    if found.kind.scalar in {"Blob", "Interval"}:
        raise Illegal(f"{call.function} of {found.kind}")
    return replace(found, kind=TEXT) if found.kind == NODE else found


def _function(call: ast.Aggregate, kind: Kind, scope: Scope) -> tuple[Kind, Callable[[list[Any]], Any]]:
    name = call.function
    match name:
        case "count":
            return INTEGER, len
        case "collect":
            _refuse(name, kind.is_list or kind.scalar in {"Vector", "Path"})
            return Kind(scalar="String" if kind == NULL else kind.scalar, is_list=True, digits=kind.digits), list
        case "min" | "max":
            _refuse(name, kind.is_list or (kind != NULL and kind.scalar not in _ORDERED))
            return plain(kind), lambda given: (min if name == "min" else max)(given, default=None)
        case "any" | "every":
            _refuse(name, kind.is_list or (kind != NULL and kind.scalar != "Bool"))
            return BOOL, lambda given: (any if name == "any" else all)(given) if given else None
        case "sum_int":
            _refuse(name, kind.is_list or (kind != NULL and kind.scalar not in INTEGERS))
            return INTEGER, lambda given: fit(sum(given)) if given else None
    _refuse(name, kind.is_list or (kind != NULL and kind.scalar not in NUMBERS))
    if kind.scalar == "Decimal" and name in {"sum", "avg"}:
        return _decimals(name, kind)
    if name == "percentile":
        return FLOAT, _percentile(call, scope)
    return FLOAT, _MOMENTS[name]


def _decimals(name: str, kind: Kind) -> tuple[Kind, Callable[[list[Any]], Any]]:
    if name == "avg":
        result = mean(kind)
        return result, lambda given: exact(sum(map(Fraction, given)) / len(given), result) if given else None
    total = decimal(38, digits(kind)[1])
    return total, lambda given: exact(sum(map(Fraction, given), Fraction(0)), total) if given else None


def _refuse(name: str, is_wrong: bool) -> None:
    if is_wrong:
        raise Illegal(f"an argument of {name}")


def _percentile(call: ast.Aggregate, scope: Scope) -> Callable[[list[Any]], Any]:
    if call.fraction is None:
        raise Illegal("percentile of no fraction")
    fraction = check(call.fraction, Scope(request=scope.request))
    _refuse("percentile", fraction.kind != NULL and item_kind(fraction.kind).scalar not in NUMBERS)

    def compute(given: list[Any]) -> float | None:
        at = fraction.value({})
        if at is None:
            return None
        if not 0 <= at <= 1:
            raise Fault("fraction", str(at))
        return _interpolate(given, Fraction(at)) if given else None

    return compute


def _interpolate(given: list[Any], at: Fraction) -> float:
    """The value at a fraction of the way from the least to the greatest, on the line between its neighbours."""
    ordered = sorted(map(Fraction, given))
    place = at * (len(ordered) - 1)
    low = ordered[math.floor(place)]
    return _float(low + (ordered[math.ceil(place)] - low) * (place - math.floor(place)))


def _variance(given: list[Any]) -> Fraction | None:
    if len(given) < 2:
        return None
    exact = [Fraction(value) for value in given]
    mean = sum(exact) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - 1)


def _root(square: Fraction | None) -> float | None:
    if square is None:
        return None
    # Scaled by a power of four, so that no intermediate float is too large.
    shift = max(0, (square.numerator.bit_length() - square.denominator.bit_length()) // 2 * 2 - 200)
    return finite(math.ldexp(math.sqrt(square / 2**shift), shift // 2))


def _float(value: Fraction) -> float:
    try:
        return finite(float(value))
    except OverflowError as error:
        raise Fault("overflow", "a float") from error


_MOMENTS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": lambda given: _float(sum(map(Fraction, given), Fraction(0))) if given else None,
    "avg": lambda given: _float(sum(map(Fraction, given), Fraction(0)) / len(given)) if given else None,
    "median": lambda given: _interpolate(given, Fraction(1, 2)) if given else None,
    "variance": lambda given: None if (found := _variance(given)) is None else _float(found),
    "stddev": lambda given: _root(_variance(given)),
}


def holds_aggregate(expression: object) -> bool:
    """Whether an aggregate stands anywhere in an expression; what a block holds are matches, not outputs."""
    if isinstance(expression, ast.Aggregate):
        return True
    if isinstance(expression, ast.Block):
        return False
    if isinstance(expression, tuple):
        return any(map(holds_aggregate, expression))
    fields = getattr(type(expression), "__dataclass_fields__", ())
    return any(holds_aggregate(getattr(expression, name)) for name in fields if name != "span")
