"""The records of the stored catalog, format 1. A field that is missing, of another type or unknown is refused."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Bound = Annotated[str, Meta(pattern=r"^-?[0-9]+(\.[0-9]+)?(e-[0-9]+)?$")]
Columns = tuple[str, ...]
Annotations = tuple[tuple[str, str | None, tuple[tuple[str, str], ...]], ...]


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Root of the records."""


class PropertyRecord(Record, frozen=True, kw_only=True):
    """A property; ``embed`` is the source property and the model."""

    name: str
    id: Number
    scalar: str
    nullable: bool
    list: bool
    enum_values: Columns | None
    dimension: Number | None
    annotations: Annotations
    embed: tuple[str, str | None] | None
    declared_directly: bool
    satisfies: Columns


class InterfaceRecord(Record, frozen=True, kw_only=True):
    """An interface."""

    name: str
    id: Number
    properties: tuple[PropertyRecord, ...]
    constraints: tuple[tuple[str, str], ...]


class NodeRecord(Record, frozen=True, kw_only=True):
    """A node type. Range bounds are texts, so that no reader rounds them."""

    name: str
    id: Number
    incarnation: Number
    properties: tuple[PropertyRecord, ...]
    implements: Columns
    key: Columns | None
    uniques: tuple[Columns, ...]
    indexes: tuple[Columns, ...]
    ranges: tuple[tuple[str, Bound | None, Bound | None], ...]
    checks: tuple[tuple[str, str], ...]
    annotations: Annotations


class EdgeRecord(Record, frozen=True, kw_only=True):
    """An edge type; ``cardinality`` is minimum and maximum."""

    name: str
    id: Number
    incarnation: Number
    from_type: str
    to_type: str
    properties: tuple[PropertyRecord, ...]
    cardinality: tuple[Number, Number | None]
    key: Columns | None
    uniques: tuple[Columns, ...]
    indexes: tuple[Columns, ...]
    annotations: Annotations


class CatalogRecord(Record, frozen=True, kw_only=True):
    """A whole catalog; types in the order of their names."""

    identity_domain: str
    next_identity: Number
    shape_hash: str
    interfaces: tuple[InterfaceRecord, ...]
    nodes: tuple[NodeRecord, ...]
    edges: tuple[EdgeRecord, ...]
