"""Which numeric types hold every value of another one, so that a property can move from one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omnigraph.catalog.model import PropertyType, Scalar

# A double holds every integer of 32 bits, and none of the 64-bit types as a whole.
WIDER: Mapping[Scalar, frozenset[Scalar]] = {
    Scalar.I32: frozenset({Scalar.I64, Scalar.F64}),
    Scalar.U32: frozenset({Scalar.U64, Scalar.I64, Scalar.F64}),
    Scalar.F32: frozenset({Scalar.F64}),
}


def is_wider(before: PropertyType, after: PropertyType) -> bool:
    """Whether every value of ``before`` is one of ``after``, exactly; nullability does not count.

    >>> i32, i64 = PropertyType(scalar=Scalar.I32), PropertyType(scalar=Scalar.I64, nullable=True)
    >>> is_wider(i32, i64), is_wider(i64, i32)
    (True, False)
    """
    moved = replace(before, scalar=after.scalar, nullable=after.nullable)
    return moved == after and after.scalar in WIDER.get(before.scalar, frozenset())
