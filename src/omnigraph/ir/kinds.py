"""Kinds: the words in which catalogues and descriptors speak of types to clients of any language."""

from __future__ import annotations

from typing import Literal

from omnigraph.catalog.model import PropertyType, Scalar

Kind = Literal["string", "bool", "int", "bigint", "float", "date", "datetime", "blob", "vector", "list", "object"]

_KINDS: dict[Scalar, Kind] = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.VECTOR: "vector",
}


def kind_fields(of: PropertyType) -> dict[str, Kind | int]:
    """Return ``kind`` with ``item_kind`` for a list and ``vector_dim`` for a vector.

    >>> kind_fields(PropertyType(scalar=Scalar.I64, is_list=True))
    {'kind': 'list', 'item_kind': 'bigint'}
    """
    if of.is_list:
        return {"kind": "list", "item_kind": _KINDS[of.scalar]}
    if of.is_vector:
        return {"kind": "vector", "vector_dim": of.dimension or 0}
    return {"kind": _KINDS[of.scalar]}
