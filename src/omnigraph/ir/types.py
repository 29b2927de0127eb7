"""Which types go together: the one place that decides compatibility for queries.

A literal or parameter keeps a scalar index usable only if it has the column's own type, so comparisons convert it
exactly when the round trip preserves it; otherwise the comparison happens in the wider type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from omnigraph.catalog.model import FLOATS, INTEGERS, NUMERIC, PropertyType, Scalar
from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.ir.decimals import common_decimal
from omnigraph.lang.gq import ast
from omnigraph.values.decimals import MAX_PRECISION, decimal_text, fit_decimal, unscaled

TEXT = PropertyType(scalar=Scalar.STRING)
BOOL = PropertyType(scalar=Scalar.BOOL)
I64 = PropertyType(scalar=Scalar.I64)
F64 = PropertyType(scalar=Scalar.F64)
DATE = PropertyType(scalar=Scalar.DATE)
DATETIME = PropertyType(scalar=Scalar.DATETIME)


class _SingleType(PropertyType):
    """A type of which there is one: code asks whether a type is it, also where the type has come from elsewhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _single_type, (type(self).__name__,)


class _NullType(_SingleType):
    """The type of ``null``, which fits every other."""

    def __str__(self) -> str:
        return "NULL"


class _IntervalType(_SingleType):
    """A span of time. It stands between moments, is compared and counted, and never stored or returned."""

    @property
    def is_numeric(self) -> bool:
        return False

    def __str__(self) -> str:
        return "Interval"


class _PathType(_SingleType):
    """The nodes and edges of a walk. It has no order and is not compared; its parts are lists of ids."""

    @property
    def is_text(self) -> bool:
        return False

    def __str__(self) -> str:
        return "Path"


NULL = _NullType(scalar=Scalar.STRING, nullable=True)
INTERVAL = _IntervalType(scalar=Scalar.I64, nullable=True)
PATH = _PathType(scalar=Scalar.STRING, nullable=True)


def _single_type(name: str) -> PropertyType:
    """Return the type that was sent by the name of its class."""
    return next(of for of in (NULL, INTERVAL, PATH) if type(of).__name__ == name)


MAX_DIMENSION = (1 << 31) - 1


def are_comparable(left: PropertyType, right: PropertyType) -> bool:
    """Whether two types may stand on the two sides of a comparison; nullability plays no part.

    >>> are_comparable(I64, PropertyType(scalar=Scalar.F32)), are_comparable(DATE, DATETIME)
    (True, False)
    """
    if left is PATH or right is PATH:
        return False
    if left is NULL or right is NULL:
        return True
    if left is INTERVAL or right is INTERVAL:
        return left is right
    if left.is_list or right.is_list or not (_is_plain(left.scalar) and _is_plain(right.scalar)):
        return False
    return left.scalar is right.scalar or (left.scalar in NUMERIC and right.scalar in NUMERIC)


def common_type(types: Sequence[PropertyType]) -> PropertyType | None:
    """Return the type that holds values of all the types: the widest number, or the one they share; None if none does.

    >>> str(common_type([I64, PropertyType(scalar=Scalar.F32)])), common_type([TEXT, BOOL])
    ('F64?', None)
    """
    known = [of for of in types if of is not NULL]
    if not known:
        return NULL
    first = known[0]
    if any(of is PATH for of in known):
        return None
    if any(of is INTERVAL for of in known):
        return INTERVAL if all(of is INTERVAL for of in known) else None
    if any(of.is_list != first.is_list or of.dimension != first.dimension for of in known):
        return None
    scalars = {of.scalar for of in known}
    if len(scalars) == 1 and not first.is_decimal:
        enums = {of.enum_values for of in known}
        return replace(first, nullable=True, enum_values=first.enum_values if len(enums) == 1 else None)
    if not scalars <= NUMERIC:
        return None
    if Scalar.DECIMAL in scalars and not scalars & FLOATS:
        return replace(common_decimal(known), is_list=first.is_list)
    widest = Scalar.I64 if scalars <= INTEGERS else Scalar.F64
    return PropertyType(scalar=widest, nullable=True, is_list=first.is_list)


def wide_number(of: PropertyType) -> PropertyType:
    """Return the type that a number has when it is computed: I64 for whole numbers, decimals as they are, or F64."""
    if of.is_decimal:
        return replace(of, nullable=True)
    return PropertyType(scalar=Scalar.I64 if of.scalar in INTEGERS else Scalar.F64, nullable=True)


def item_type(of: PropertyType) -> PropertyType:
    """Return the type of one member of a list type; any other type without its nullability."""
    return replace(of, is_list=False, nullable=False) if of.is_list or of.nullable else of


def resolve_type(written: ast.TypeRef) -> PropertyType | None:
    """Return the type that a parameter declaration writes, or None if there is no such type."""
    try:
        scalar = Scalar(written.scalar)
    except ValueError:
        return None
    if scalar is Scalar.VECTOR:
        dimension = written.dimension
        if dimension is None or not 1 <= dimension <= MAX_DIMENSION or written.is_list:
            return None
        return PropertyType(scalar=scalar, nullable=written.nullable, dimension=dimension)
    if scalar is Scalar.DECIMAL:
        precision, scale = written.precision or 0, written.scale or 0
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            return None
        return PropertyType(
            scalar=scalar, nullable=written.nullable, is_list=written.is_list, precision=precision, scale=scale
        )
    return PropertyType(scalar=scalar, nullable=written.nullable, is_list=written.is_list)


def _is_plain(scalar: Scalar) -> bool:
    return scalar is not Scalar.VECTOR and scalar is not Scalar.BLOB


INTEGER_RANGES = {
    Scalar.I32: (-(1 << 31), (1 << 31) - 1),
    Scalar.I64: (-(1 << 63), (1 << 63) - 1),
    Scalar.U32: (0, (1 << 32) - 1),
    # Unsigned values above the signed range do not exist anywhere in the language.
    Scalar.U64: (0, (1 << 63) - 1),
}


def round_to_f32(value: float) -> float:
    """Return the nearest value of 32-bit precision; infinite when there is none.

    >>> round_to_f32(0.1)
    0.10000000149011612
    """
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def fit_compared(value: Any, of: PropertyType, column: PropertyType) -> tuple[Any, PropertyType]:
    """Convert a compared value to the column's type if that loses nothing, else return it as it is.

    Args:
        value: a decoded scalar of type ``of``; None stays None.
        of: the type the value has.
        column: the scalar type of the column, or of the items of a list column.
    """
    if value is None or of.is_list or of.is_vector:
        return value, of
    plain = item_type(column)
    if plain.scalar in INTEGERS and of.is_numeric:
        low, high = INTEGER_RANGES[plain.scalar]
        whole = _whole(value)
        return (whole, plain) if whole is not None and low <= whole <= high else (value, of)
    if plain.is_decimal and of.is_numeric:
        exact = exact_decimal(value)
        fitted = None if exact is None else fit_decimal(exact, *plain.digits)
        return (value, of) if fitted is None else (fitted, plain)
    if plain.scalar in FLOATS and of.is_numeric:
        return _fit_float(value, of, plain)
    if plain.is_text and of.is_text:
        return value, TEXT
    return value, of


def fit_assigned(value: Any, target: PropertyType) -> Any:
    """Convert a decoded value to what a property of type ``target`` stores.

    Raises:
        ValueFormatError: NULL for a required property, an integer out of range, a float for an integer property,
            a float that is not finite in the property's width, a value outside the enum, a wrong vector length.
    """
    if value is None:
        if target.nullable:
            return None
        raise _unfit("NULL", target)
    if target.is_vector:
        if len(value) != target.dimension:
            raise _unfit(f"{len(value)} numbers", target)
        return tuple(_finite_f32(item, target) for item in value)
    if target.is_list:
        plain = item_type(target)
        return tuple(fit_assigned(item, plain) for item in value)
    if target.is_numeric:
        return _fit_number(value, target)
    if target.enum_values is not None and value not in target.enum_values:
        raise _unfit(value, target)
    return value


def exact_decimal(value: Any) -> Decimal | None:
    """Return exactly the value of a number, or None if it is infinite or no number at all."""
    return None if isinstance(value, float) and not math.isfinite(value) else Decimal(value)


def _whole(value: Any) -> int | None:
    if isinstance(value, Decimal):
        return unscaled(value, 0)
    return int(value) if isinstance(value, int) or (math.isfinite(value) and value.is_integer()) else None


def _fit_number(value: Any, target: PropertyType) -> int | float | Decimal:
    if target.is_decimal:
        is_exact = isinstance(value, int | Decimal) and not isinstance(value, bool)
        fitted = fit_decimal(value, *target.digits) if is_exact else None
        if fitted is None:
            raise _unfit(value, target)
        return fitted
    if target.scalar in INTEGERS:
        low, high = INTEGER_RANGES[target.scalar]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _unfit(value, target)
        return value
    if target.scalar is Scalar.F32:
        return _finite_f32(value, target)
    exact = _as_f64(value)
    if not math.isfinite(exact):
        raise _unfit(value, target)
    return exact


def _fit_float(value: Any, of: PropertyType, column: PropertyType) -> tuple[Any, PropertyType]:
    if column.scalar is Scalar.F32:
        # The column's own precision is what was stored, so "ratio = 0.1" must mean the stored 0.1.
        rounded = round_to_f32(_as_f64(value))
        return (rounded, column) if math.isfinite(rounded) else (value, of)
    wide = _as_f64(value)
    return (wide, F64) if wide == value else (value, of if of.is_decimal else I64)


def _finite_f32(value: Any, target: PropertyType) -> float:
    rounded = round_to_f32(_as_f64(value))
    if not math.isfinite(rounded):
        raise _unfit(value, target)
    return rounded


def _as_f64(value: float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _unfit(value: Any, target: PropertyType) -> ValueFormatError:
    shown = decimal_text(value) if isinstance(value, Decimal) else str(value)
    shown = shown if len(shown) <= 80 else shown[:79] + "…"
    details = BadValue(what="value", value=shown, expected=str(target))
    return ValueFormatError(f"value {shown} does not fit {target}", details=details)
