"""Which types go together: the one place that decides compatibility for queries."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.catalog.model import NUMERIC, PropertyType, Scalar
from omnigraph.lang.gq import ast

TEXT = PropertyType(scalar=Scalar.STRING)
BOOL = PropertyType(scalar=Scalar.BOOL)
I64 = PropertyType(scalar=Scalar.I64)
F64 = PropertyType(scalar=Scalar.F64)
DATE = PropertyType(scalar=Scalar.DATE)
DATETIME = PropertyType(scalar=Scalar.DATETIME)

MAX_DIMENSION = (1 << 31) - 1


def are_comparable(left: PropertyType, right: PropertyType) -> bool:
    """Whether two types may stand on the two sides of a comparison; nullability plays no part.

    >>> are_comparable(I64, PropertyType(scalar=Scalar.F32)), are_comparable(DATE, DATETIME)
    (True, False)
    """
    if left.is_list or right.is_list or not (_is_plain(left.scalar) and _is_plain(right.scalar)):
        return False
    return left.scalar is right.scalar or (left.scalar in NUMERIC and right.scalar in NUMERIC)


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
    return PropertyType(scalar=scalar, nullable=written.nullable, is_list=written.is_list)


def _is_plain(scalar: Scalar) -> bool:
    return scalar is not Scalar.VECTOR and scalar is not Scalar.BLOB
