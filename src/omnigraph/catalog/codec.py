"""The stored form of a catalog: one JSON document with a format number and a hash over its content.

The document is ``{"catalog": …, "format": 1, "hash": "sha256:…"}``. The hash is taken over the canonical bytes of
the ``catalog`` member, so white space does not matter and everything else does.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from omnigraph.catalog.model import (
    AnnotationValue,
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
from omnigraph.catalog.records import (
    Annotations,
    CatalogRecord,
    EdgeRecord,
    InterfaceRecord,
    NodeRecord,
    PropertyRecord,
)
from omnigraph.catalog.shape import bound_text, canonical_json, digest
from omnigraph.catalog.soundness import find_contradiction
from omnigraph.errors import CatalogCorruptError, CatalogFormatError, FormatMismatch
from omnigraph.values.identity import IncarnationId, PropertyId, TypeId

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
    except (msgspec.ValidationError, ValueError) as error:
        raise _corrupt("catalog is malformed", expected=f"format {FORMAT}", found=str(error)) from error
    contradiction = find_contradiction(catalog)
    # Names that occur twice collapse while reading, and a bound may be written in a way that we never do.
    if contradiction is None and catalog_hash(catalog) != actual:
        contradiction = "it does not read back as it was written"
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
        msg = f"catalog format is not supported: expected={FORMAT} found={version}"
        raise CatalogFormatError(msg, details=details)
    claimed = document.get("hash")
    if set(document) != {"format", "hash", "catalog"} or not isinstance(claimed, str):
        found = ", ".join(sorted(document))
        raise _corrupt("catalog is malformed", expected="catalog, format, hash", found=found)
    return document["catalog"], claimed


def _corrupt(message: str, *, expected: str, found: str) -> CatalogCorruptError:
    details = FormatMismatch(what="catalog", expected=expected, found=found)
    return CatalogCorruptError(f"{message}: found={found}", details=details)


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
        ranges=tuple((rule.property, bound_text(rule.low), bound_text(rule.high)) for rule in one.ranges),
        checks=tuple((rule.property, rule.pattern) for rule in one.checks),
        annotations=_annotation_records(one.annotations),
    )


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
        ranges=tuple(RangeRule(property=name, low=_bound(low), high=_bound(high)) for name, low, high in one.ranges),
        checks=tuple(CheckRule(property=name, pattern=pattern) for name, pattern in one.checks),
        annotations=_annotations(one.annotations),
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
        annotations=_annotations(one.annotations),
    )


def _bound(text: str | None) -> int | float | None:
    if text is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        msg = f"range bound is not finite: {text}"
        raise ValueError(msg)
    return number
