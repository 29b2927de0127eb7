"""From a written type to the type that the catalog keeps."""

from __future__ import annotations

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.lang.pg.ast import TypeRef


def property_type(written: TypeRef) -> PropertyType:
    """Return the meaning of a written type; enum values are sorted because their order says nothing.

    >>> str(property_type(TypeRef(scalar="String", is_list=True, nullable=True)))
    '[String]?'
    """
    if written.scalar == "enum":
        values = tuple(sorted(value.text for value in written.enum_values))
        return PropertyType(scalar=Scalar.STRING, nullable=written.nullable, enum_values=values)
    return PropertyType(
        scalar=Scalar(written.scalar),
        nullable=written.nullable,
        is_list=written.is_list,
        dimension=written.dimension,
    )
