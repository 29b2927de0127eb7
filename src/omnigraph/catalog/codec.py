"""The stored form of a catalog: one JSON document with a format number and a hash over its content.

The document is ``{"catalog": …, "format": 1, "hash": "sha256:…"}``. The hash is taken over the canonical bytes of
the ``catalog`` member, so white space does not matter and everything else does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from omnigraph.catalog.model import (
    ENDPOINTS,
    AnnotationValue,
    Bound,
    CardinalityRule,
    Catalog,
    CheckRule,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    PropertyDef,
    PropertyType,
    RangeRule,
    Scalar,
)
from omnigraph.catalog.shape import bound_text, canonical_json, digest, shape_hash
from omnigraph.errors import CatalogCorruptError, CatalogFormatError, FormatMismatch, ValueFormatError
from omnigraph.values.decimals import MAX_PRECISION, parse_decimal
from omnigraph.values.ids import IncarnationId, PropertyId, TypeId

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
BoundText = Annotated[str, Meta(pattern=r"^-?[0-9]+(\.[0-9]+)?(e-[0-9]+)?$")]
Columns = tuple[str, ...]
Ranges = tuple[tuple[str, BoundText | None, BoundText | None], ...]
Annotations = tuple[tuple[str, str | None, tuple[tuple[str, str], ...]], ...]


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Root of the records."""


class PropertyRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A property; ``embed`` is the source property and the model, ``digits`` the precision and scale of a decimal.

    What came later is left out where there is none, so that older catalogs keep their bytes.
    """

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
    digits: tuple[Number, Number] | None = None


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
    ranges: Ranges
    checks: tuple[tuple[str, str], ...]
    annotations: Annotations


class EdgeRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An edge type; ``cardinality`` is minimum and maximum.

    What came later is left out where there is none, so that older catalogs keep their bytes.
    """

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
    ranges: Ranges = ()
    checks: tuple[tuple[str, str], ...] = ()


class CatalogRecord(Record, frozen=True, kw_only=True):
    """A whole catalog; types in the order of their names."""

    identity_domain: str
    next_identity: Number
    shape_hash: str
    interfaces: tuple[InterfaceRecord, ...]
    nodes: tuple[NodeRecord, ...]
    edges: tuple[EdgeRecord, ...]


def find_contradiction(catalog: Catalog) -> str | None:
    """Say the first thing that cannot be true of a compiled catalog, or return None."""
    return next(_contradictions(catalog), None)


def _contradictions(catalog: Catalog) -> Iterator[str]:
    for interface in catalog.interfaces.values():
        yield from _bad_properties(interface)
        names = {prop.name for prop in interface.properties}
        yield from (f"{interface.name}.{name} is constrained" for name, _ in interface.constraints if name not in names)
    for node in catalog.nodes.values():
        yield from _bad_properties(node)
        yield from _bad_columns(node, extra=())
        yield from _bad_rules(node)
        unknown = [name for name in node.implements if name not in catalog.interfaces]
        yield from (f"{node.name} implements unknown {name}" for name in unknown)
    for edge in catalog.edges.values():
        yield from _bad_properties(edge)
        yield from _bad_columns(edge, extra=ENDPOINTS)
        yield from _bad_rules(edge)
        ends = (edge.from_type, edge.to_type)
        yield from (f"{edge.name} ends at unknown {name}" for name in ends if name not in catalog.nodes)
    yield from _bad_numbers(catalog)
    yield from _bad_order(catalog)
    if shape_hash(catalog) != catalog.shape_hash:
        yield "the shape does not match its hash"


def _bad_properties(owner: InterfaceType | NodeType | EdgeType) -> Iterator[str]:
    counts = Counter(prop.name for prop in owner.properties)
    yield from (f"{owner.name}.{name} occurs {count} times" for name, count in counts.items() if count > 1)
    for prop in owner.properties:
        if not _is_possible(prop):
            yield f"{owner.name}.{prop.name} has an impossible type"


def _is_possible(prop: PropertyDef) -> bool:
    kind = prop.type
    if kind.is_decimal:
        precision, scale = kind.digits
        is_plain = kind.dimension is None and kind.enum_values is None
        return is_plain and 1 <= precision <= MAX_PRECISION and 0 <= scale <= precision
    if kind.is_vector:
        return bool(kind.dimension) and not kind.is_list and kind.enum_values is None
    if kind.enum_values is not None:
        return kind.is_text and kind.dimension is None and list(kind.enum_values) == sorted(set(kind.enum_values))
    return kind.dimension is None


def _bad_rules(owner: NodeType | EdgeType) -> Iterator[str]:
    rules = [*(rule.property for rule in owner.ranges), *(rule.property for rule in owner.checks)]
    yield from (f"rule on unknown {owner.name}.{name}" for name in rules if owner.get(name) is None)


def _bad_columns(owner: NodeType | EdgeType, extra: tuple[str, ...]) -> Iterator[str]:
    known = {prop.name for prop in owner.properties}.union(extra)
    for columns in (*(() if owner.key is None else (owner.key,)), *owner.uniques, *owner.indexes):
        if not columns or len(set(columns)) != len(columns) or not known.issuperset(columns):
            yield f"{owner.name} has a constraint on ({', '.join(columns)})"


def _bad_numbers(catalog: Catalog) -> Iterator[str]:
    numbers: Counter[int] = Counter()
    for interface in catalog.interfaces.values():
        numbers.update([interface.id, *(prop.id for prop in interface.properties)])
    tables: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    for table in tables:
        numbers.update([table.id, table.incarnation, *(prop.id for prop in table.properties)])
    if not catalog.identity_domain:
        yield from ("ids without an identity domain" for number in numbers if number != 0)
        return
    for number, count in numbers.items():
        if count > 1 or not 0 < number < catalog.next_identity:
            yield f"id {number} is used {count} times below {catalog.next_identity}"


def _bad_order(catalog: Catalog) -> Iterator[str]:
    for types in (catalog.interfaces, catalog.nodes, catalog.edges):
        if list(types) != sorted(types):
            yield "types are not ordered by name"
    if len({name.lower() for name in catalog.edges}) != len(catalog.edges):
        yield "edge names differ in letter case only"


FORMAT = 1

# The library takes a type apart when it first meets it, and threads that come to that moment together bring the
# process down: it happens here, where there is one.
msgspec.json.Decoder(CatalogRecord)


def catalog_to_json(catalog: Catalog) -> bytes:
    """Write a catalog; equal catalogs give equal bytes."""
    content = _content(catalog)
    return canonical_json({"format": FORMAT, "hash": digest(content), "catalog": content})


def catalog_hash(catalog: Catalog) -> str:
    """Return the hash that the stored form carries; unlike the shape hash it covers ids and order too."""
    return digest(_content(catalog))


def catalog_from_json(data: bytes) -> Catalog:
    """Read a catalog back.

    Raises:
        CatalogFormatError: written in another version of the format.
        CatalogCorruptError: not a catalog, not what its hash says, or in contradiction with itself.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _corrupt("catalog is not JSON", expected="a JSON document", found=str(error)) from error
    content, claimed = _open_envelope(document)
    actual = _digest_of_anything(content)
    if actual != claimed:
        raise _corrupt("catalog does not match its hash", expected=claimed, found=actual)
    try:
        catalog = _catalog(msgspec.convert(content, CatalogRecord))
    except (msgspec.ValidationError, ValueError, ValueFormatError) as error:
        raise _corrupt("catalog is malformed", expected=f"format {FORMAT}", found=str(error)) from error
    contradiction = find_contradiction(catalog)
    # Names that occur twice collapse while reading, and a bound may be written in a way that we never do.
    if contradiction is None and catalog_hash(catalog) != actual:
        contradiction = "it does not survive a round trip"
    if contradiction is not None:
        raise _corrupt("catalog contradicts itself", expected="a sound catalog", found=contradiction)
    return catalog


def _digest_of_anything(content: Any) -> str:
    try:
        return digest(content)
    except (OverflowError, RecursionError) as error:
        raise _corrupt("catalog is malformed", expected=f"format {FORMAT}", found=str(error)) from error


def _open_envelope(document: Any) -> tuple[Any, str]:
    if not isinstance(document, dict):
        raise _corrupt("catalog is malformed", expected="an object", found=type(document).__name__)
    version = document.get("format")
    if isinstance(version, bool) or not isinstance(version, int):
        raise _corrupt("catalog has no format number", expected=str(FORMAT), found=repr(version))
    if version != FORMAT:
        details = FormatMismatch(what="catalog", expected=str(FORMAT), found=str(version))
        msg = f"catalog format {version} is not supported, expected {FORMAT}"
        raise CatalogFormatError(msg, details=details)
    claimed = document.get("hash")
    if set(document) != {"format", "hash", "catalog"} or not isinstance(claimed, str):
        found = ", ".join(sorted(document))
        raise _corrupt("catalog is malformed", expected="catalog, format, hash", found=found)
    return document["catalog"], claimed


def _corrupt(message: str, *, expected: str, found: str) -> CatalogCorruptError:
    details = FormatMismatch(what="catalog", expected=expected, found=found)
    return CatalogCorruptError(f"{message}: {found}", details=details)


def _content(catalog: Catalog) -> dict[str, Any]:
    record = CatalogRecord(
        identity_domain=catalog.identity_domain,
        next_identity=catalog.next_identity,
        shape_hash=catalog.shape_hash,
        interfaces=tuple(_interface_record(one) for one in catalog.interfaces.values()),
        nodes=tuple(_node_record(one) for one in catalog.nodes.values()),
        edges=tuple(_edge_record(one) for one in catalog.edges.values()),
    )
    content: dict[str, Any] = msgspec.to_builtins(record)
    return content


def _property_records(properties: tuple[PropertyDef, ...]) -> tuple[PropertyRecord, ...]:
    return tuple(
        PropertyRecord(
            name=prop.name,
            id=prop.id,
            scalar=prop.type.scalar.value,
            nullable=prop.type.nullable,
            list=prop.type.is_list,
            enum_values=prop.type.enum_values,
            dimension=prop.type.dimension,
            annotations=_annotation_records(prop.annotations),
            embed=None if prop.embed is None else (prop.embed.source, prop.embed.model),
            declared_directly=prop.declared_directly,
            satisfies=prop.satisfies,
            digits=prop.type.digits if prop.type.is_decimal else None,
        )
        for prop in properties
    )


def _annotation_records(annotations: tuple[AnnotationValue, ...]) -> Annotations:
    return tuple((one.name, one.value, one.keywords) for one in annotations)


def _interface_record(one: InterfaceType) -> InterfaceRecord:
    return InterfaceRecord(
        name=one.name, id=one.id, properties=_property_records(one.properties), constraints=one.constraints
    )


def _node_record(one: NodeType) -> NodeRecord:
    return NodeRecord(
        name=one.name,
        id=one.id,
        incarnation=one.incarnation,
        properties=_property_records(one.properties),
        implements=one.implements,
        key=one.key,
        uniques=one.uniques,
        indexes=one.indexes,
        ranges=_range_records(one),
        checks=tuple((rule.property, rule.pattern) for rule in one.checks),
        annotations=_annotation_records(one.annotations),
    )


def _range_records(one: NodeType | EdgeType) -> Ranges:
    return tuple((rule.property, bound_text(rule.low), bound_text(rule.high)) for rule in one.ranges)


def _edge_record(one: EdgeType) -> EdgeRecord:
    return EdgeRecord(
        name=one.name,
        id=one.id,
        incarnation=one.incarnation,
        from_type=one.from_type,
        to_type=one.to_type,
        properties=_property_records(one.properties),
        cardinality=(one.cardinality.minimum, one.cardinality.maximum),
        key=one.key,
        uniques=one.uniques,
        indexes=one.indexes,
        annotations=_annotation_records(one.annotations),
        ranges=_range_records(one),
        checks=tuple((rule.property, rule.pattern) for rule in one.checks),
    )


def _catalog(record: CatalogRecord) -> Catalog:
    return Catalog(
        interfaces={one.name: _interface(one) for one in record.interfaces},
        nodes={one.name: _node(one) for one in record.nodes},
        edges={one.name: _edge(one) for one in record.edges},
        shape_hash=record.shape_hash,
        identity_domain=record.identity_domain,
        next_identity=record.next_identity,
    )


def _properties(records: tuple[PropertyRecord, ...]) -> tuple[PropertyDef, ...]:
    return tuple(
        PropertyDef(
            name=one.name,
            type=PropertyType(
                scalar=Scalar(one.scalar),
                nullable=one.nullable,
                is_list=one.list,
                enum_values=one.enum_values,
                dimension=one.dimension,
                precision=None if one.digits is None else one.digits[0],
                scale=None if one.digits is None else one.digits[1],
            ),
            id=PropertyId(one.id),
            annotations=_annotations(one.annotations),
            embed=None if one.embed is None else Embed(source=one.embed[0], model=one.embed[1]),
            declared_directly=one.declared_directly,
            satisfies=one.satisfies,
        )
        for one in records
    )


def _annotations(records: Annotations) -> tuple[AnnotationValue, ...]:
    return tuple(AnnotationValue(name=name, value=value, keywords=keywords) for name, value, keywords in records)


def _interface(one: InterfaceRecord) -> InterfaceType:
    return InterfaceType(
        name=one.name, id=TypeId(one.id), properties=_properties(one.properties), constraints=one.constraints
    )


def _node(one: NodeRecord) -> NodeType:
    return NodeType(
        name=one.name,
        id=TypeId(one.id),
        incarnation=IncarnationId(one.incarnation),
        properties=_properties(one.properties),
        implements=one.implements,
        key=one.key,
        uniques=one.uniques,
        indexes=one.indexes,
        ranges=_ranges(one),
        checks=tuple(CheckRule(property=name, pattern=pattern) for name, pattern in one.checks),
        annotations=_annotations(one.annotations),
    )


def _ranges(one: NodeRecord | EdgeRecord) -> tuple[RangeRule, ...]:
    exact = {prop.name for prop in one.properties if prop.scalar == Scalar.DECIMAL}
    return tuple(
        RangeRule(property=name, low=_bound(low, name in exact), high=_bound(high, name in exact))
        for name, low, high in one.ranges
    )


def _edge(one: EdgeRecord) -> EdgeType:
    return EdgeType(
        name=one.name,
        id=TypeId(one.id),
        incarnation=IncarnationId(one.incarnation),
        from_type=one.from_type,
        to_type=one.to_type,
        properties=_properties(one.properties),
        cardinality=CardinalityRule(minimum=one.cardinality[0], maximum=one.cardinality[1]),
        key=one.key,
        uniques=one.uniques,
        indexes=one.indexes,
        ranges=_ranges(one),
        checks=tuple(CheckRule(property=name, pattern=pattern) for name, pattern in one.checks),
        annotations=_annotations(one.annotations),
    )


def _bound(text: str | None, is_exact: bool) -> Bound | None:
    if text is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    if is_exact:
        return parse_decimal(text)
    number = float(text)
    if not math.isfinite(number):
        msg = f"range bound is not finite: {text}"
        raise ValueError(msg)
    return number
