"""The columns of a table. The only module of this room, beside the entity ids, that needs Arrow when imported."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.catalog.model import NO_PROPERTY_ID, EdgeType, NodeType, PropertyDef, PropertyType, Scalar

PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
PROPERTY_ID = b"omnigraph.stable_property_id"
# Ids that merged branches know the property by, with commas between them.
PROPERTY_ALIASES = b"omnigraph.property_aliases"
_SCALARS = {
    Scalar.STRING: pa.string(),
    Scalar.BLOB: pa.large_binary(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.date64(),
}
_BLOB = {b"lance-encoding:blob": b"true"}
# Ids that a load makes up count on, so that all but the last letters of neighbours are the same.
_MADE_UP = {b"lance-encoding:compression": b"zstd"}


def arrow_schema(owner: NodeType | EdgeType) -> pa.Schema:
    """Return the table layout of a type: system columns, then properties in declaration order.

    A property field carries the property's id as metadata, unless the catalog belongs to no graph yet.
    """
    return empty_rows(owner).schema


def empty_rows(owner: NodeType | EdgeType) -> pa.Table:
    """Return no rows in the layout of a type."""
    known = _known.get(id(owner))
    if known is not None and known[0] is owner:
        return known[1]
    made = _schema_of(owner).empty_table()
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    # With the type itself: while it is kept, nothing else gets its number.
    _known[id(owner)] = owner, made
    return made


# Types do not change, and every write asks for the layout of each of its own several times.
_known: dict[int, tuple[NodeType | EdgeType, pa.Table]] = {}
_MOST_KNOWN = 1024


def _schema_of(owner: NodeType | EdgeType) -> pa.Schema:
    metadata = {PRIMARY_KEY: b"true"} | (_MADE_UP if isinstance(owner, EdgeType) else {})
    system = [pa.field("id", pa.string(), nullable=False, metadata=metadata)]
    if isinstance(owner, EdgeType):
        system += [pa.field("src", pa.string(), nullable=False), pa.field("dst", pa.string(), nullable=False)]
    return pa.schema([*system, *(arrow_field(prop) for prop in owner.properties)])


def arrow_field(prop: PropertyDef) -> pa.Field:
    """Return the column of one property."""
    metadata = dict(_BLOB) if prop.type.scalar is Scalar.BLOB else {}
    if prop.id != NO_PROPERTY_ID:
        metadata[PROPERTY_ID] = str(prop.id).encode()
    if prop.aliases:
        metadata[PROPERTY_ALIASES] = ",".join(map(str, prop.aliases)).encode()
    return pa.field(prop.name, arrow_type(prop.type), nullable=prop.type.nullable, metadata=metadata or None)


def arrow_type(kind: PropertyType) -> pa.DataType:
    """Return the Arrow type of a property's values; elements of lists and vectors are called ``item``."""
    if kind.is_vector:
        return pa.list_(pa.field("item", pa.float32(), nullable=True), kind.dimension)
    single = pa.decimal128(*kind.digits) if kind.is_decimal else _SCALARS[kind.scalar]
    return pa.list_(pa.field("item", single, nullable=True)) if kind.is_list else single
