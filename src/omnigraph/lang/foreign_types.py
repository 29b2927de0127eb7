"""Names that other languages have for our scalar types."""

from __future__ import annotations

_TYPES = {
    **dict.fromkeys(("int", "integer", "bigint", "long", "int64", "number"), "I64"),
    **dict.fromkeys(("int32", "smallint"), "I32"),
    **dict.fromkeys(("float", "double", "real", "float64"), "F64"),
    "float32": "F32",
    **dict.fromkeys(("decimal", "numeric", "money", "bigdecimal", "dec"), "Decimal(12, 2)"),
    **dict.fromkeys(("text", "string", "str", "varchar", "char", "uuid"), "String"),
    **dict.fromkeys(("timestamp", "timestamptz"), "DateTime"),
    "boolean": "Bool",
    **dict.fromkeys(("bytes", "bytea", "binary"), "Blob"),
}


def foreign_type(name: str) -> str | None:
    """Return the scalar type that other languages call ``name``.

    >>> foreign_type("Int"), foreign_type("Timestamp"), foreign_type("Person")
    ('I64', 'DateTime', None)
    """
    return _TYPES.get(name.lower())
