"""Filters of Spark as predicates of storage: exact ones, or none.

A filter that is taken vanishes from Spark's plan, so its predicate must let through exactly the rows that Spark would
keep. What cannot be said that exactly is given back, and Spark asks it of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from omnigraph.catalog.model import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.engine.comparison import Comparison
from omnigraph.ir.types import INTEGER_RANGES, round_to_f32
from omnigraph.lang.gq.ast import CompareOp
from omnigraph.values.decimals import fit_decimal

_SCALARS = {
    pa.string(): Scalar.STRING,
    pa.bool_(): Scalar.BOOL,
    pa.int32(): Scalar.I32,
    pa.int64(): Scalar.I64,
    pa.uint32(): Scalar.U32,
    pa.uint64(): Scalar.U64,
    pa.float32(): Scalar.F32,
    pa.float64(): Scalar.F64,
    pa.date32(): Scalar.DATE,
    pa.date64(): Scalar.DATETIME,
}
_OPS: Mapping[type[Filter], CompareOp] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_TEXT_TESTS: Mapping[type[Filter], str] = {
    StringStartsWith: "starts_with",
    StringEndsWith: "ends_with",
    StringContains: "contains",
}
_RANGES = {**INTEGER_RANGES, Scalar.U64: (0, (1 << 64) - 1)}
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Longer lists are cheaper to ask of the rows than to parse.
_LONGEST_LIST = 1_000


class FilterTranslator:
    """Says which filters on the columns of a table storage can decide as Spark would."""

    def __init__(self, schema: pa.Schema) -> None:
        # Lists, vectors and blobs are left to Spark.
        self._columns = {
            field.name: PropertyType(scalar=_SCALARS[field.type]) for field in schema if field.type in _SCALARS
        }
        self._columns |= {
            field.name: PropertyType(scalar=Scalar.DECIMAL, precision=field.type.precision, scale=field.type.scale)
            for field in schema
            if pa.types.is_decimal128(field.type)
        }

    def split(self, filters: Iterable[Filter]) -> tuple[tuple[str, ...], list[Filter]]:
        """Return the predicates of the filters that are taken, and the filters that are given back."""
        taken, back = [], []
        for item in filters:
            predicate = self.predicate(item)
            if predicate is None:
                back.append(item)
            else:
                taken.append(predicate)
        return tuple(taken), back

    def predicate(self, item: Filter) -> str | None:
        """Return a predicate with the truth values of a filter, unknown for unknown; None if there is none."""
        if isinstance(item, Not):
            inner = self.predicate(item.child)
            return None if inner is None else f"NOT ({inner})"
        path: tuple[str, ...] = getattr(item, "attribute", ())
        kind = self._columns.get(path[0]) if len(path) == 1 else None
        return None if kind is None else _on_column(item, path[0], kind)


def _on_column(item: Filter, name: str, kind: PropertyType) -> str | None:
    match item:
        case IsNull():
            return f"`{name}` IS NULL"
        case IsNotNull():
            return f"`{name}` IS NOT NULL"
        case EqualNullSafe():
            if item.value is None:
                return f"`{name}` IS NULL"
            equal = _compare(name, kind, "=", item.value)
            return None if equal is None else f"(`{name}` IS NOT NULL AND {equal})"
        case In():
            return _member(name, kind, item.value)
        case StringStartsWith() | StringEndsWith() | StringContains():
            if kind.scalar is not Scalar.STRING or not isinstance(item.value, str):
                return None
            return f"{_TEXT_TESTS[type(item)]}(`{name}`, {_quoted(item.value)})"
        case EqualTo() | GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            return _compare(name, kind, _OPS[type(item)], item.value)
        case _:
            return None


def _member(name: str, kind: PropertyType, values: Iterable[Any]) -> str | None:
    parts = [_compare(name, kind, "=", value) for value in values]
    if not parts or len(parts) > _LONGEST_LIST or None in parts:
        return None
    return "(" + " OR ".join(f"{part}" for part in parts) + ")"


def _compare(name: str, kind: PropertyType, op: CompareOp, value: Any) -> str | None:
    if kind.scalar in FLOATS:
        return _compare_float(name, kind.scalar, op, value)
    fitted = _fit_decimal(kind, value) if kind.is_decimal else _fit(kind.scalar, op, value)
    return None if fitted is None else Comparison(column=name, type=kind, op=op, value=fitted).sql()


def _fit(scalar: Scalar, op: CompareOp, value: Any) -> Any:
    """Return the value as the column stores it; None when it has no such value."""
    if scalar is Scalar.STRING:
        return value if isinstance(value, str) else None
    if scalar is Scalar.BOOL:
        return value if isinstance(value, bool) and op == "=" else None
    if scalar in INTEGERS:
        return _fit_integer(scalar, value)
    if scalar is Scalar.DATE:
        is_day = isinstance(value, date) and not isinstance(value, datetime)
        return value.toordinal() - _EPOCH_DAY if is_day else None
    if scalar is Scalar.DATETIME and isinstance(value, datetime) and value.tzinfo is not None:
        since = value - _EPOCH
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return micros // 1000 if micros % 1000 == 0 else None
    return None


def _fit_decimal(kind: PropertyType, value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite():
        return None
    return fit_decimal(value, *kind.digits)


def _fit_integer(scalar: Scalar, value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    low, high = _RANGES[scalar]
    if isinstance(value, Decimal) and (not value.is_finite() or value != value.to_integral_value()):
        return None
    return int(value) if low <= value <= high else None


def _compare_float(name: str, scalar: Scalar, op: CompareOp, value: Any) -> str | None:
    """Storage tells the two zeros apart and orders a NaN by its sign; Spark does neither, and a NaN is its largest."""
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    if scalar is Scalar.F32 and round_to_f32(value) != value:
        return None
    cast = "Float32" if scalar is Scalar.F32 else "Float64"
    low, high = ("-0.0", "0.0") if value == 0 else (repr(value), repr(value))
    column, least, most = f"`{name}`", f"arrow_cast('{low}', '{cast}')", f"arrow_cast('{high}', '{cast}')"
    match op:
        case "=":
            return f"({column} >= {least} AND {column} <= {most})"
        case ">":
            return f"({column} > {most} OR isnan({column}))"
        case ">=":
            return f"({column} >= {least} OR isnan({column}))"
        case "<":
            return f"({column} < {least} AND NOT isnan({column}))"
        case "<=":
            return f"({column} <= {most} AND NOT isnan({column}))"
        case _:
            return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
