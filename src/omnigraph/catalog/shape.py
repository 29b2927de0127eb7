"""The shape of a schema: its meaning without order, comments, rename hints and ids, as one hash."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from omnigraph.catalog.model import (
    AnnotationValue,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    PropertyDef,
    RangeRule,
)


def shape_hash(catalog: Catalog) -> str:
    """Return ``sha256:`` and a hex digest; equal for schemas that mean the same, whatever their order and ids."""
    content = {
        "interfaces": {name: _interface(one) for name, one in catalog.interfaces.items()},
        "nodes": {name: _node(one) for name, one in catalog.nodes.items()},
        "edges": {name: _edge(one) for name, one in catalog.edges.items()},
    }
    return digest(content)


def digest(content: Any) -> str:
    """Hash JSON values over their canonical bytes: keys sorted, no white space, UTF-8."""
    return f"sha256:{hashlib.sha256(canonical_json(content)).hexdigest()}"


def canonical_json(content: Any) -> bytes:
    """Write JSON values in the one form that hashes are taken over.

    >>> canonical_json({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    return msgspec.json.encode(content, order="sorted")


def bound_text(bound: float | None) -> str | None:
    """Write a range bound exactly, since JSON readers may round numbers.

    >>> bound_text(18446744073709551616), bound_text(0.5), bound_text(2.0)
    ('18446744073709551616', '0.5', '2')
    """
    if bound is None:
        return None
    return str(int(bound)) if bound == int(bound) else repr(bound)


def _interface(one: InterfaceType) -> dict[str, Any]:
    return {"properties": _properties(one.properties), "constraints": sorted(one.constraints)}


def _node(one: NodeType) -> dict[str, Any]:
    return {
        "implements": sorted(one.implements),
        "properties": _properties(one.properties),
        "key": None if one.key is None else sorted(one.key),
        "uniques": sorted(one.uniques),
        "indexes": sorted(one.indexes),
        "ranges": sorted(_range(rule) for rule in one.ranges),
        "checks": sorted((rule.property, rule.pattern) for rule in one.checks),
        "annotations": _annotations(one.annotations),
    }


def _edge(one: EdgeType) -> dict[str, Any]:
    return {
        "from": one.from_type,
        "to": one.to_type,
        "cardinality": str(one.cardinality),
        "properties": _properties(one.properties),
        "key": None if one.key is None else sorted(one.key),
        "uniques": sorted(one.uniques),
        "indexes": sorted(one.indexes),
        "annotations": _annotations(one.annotations),
    }


def _properties(properties: tuple[PropertyDef, ...]) -> dict[str, Any]:
    return {
        prop.name: {
            "type": prop.type.to_json(),
            "annotations": _annotations(prop.annotations),
            "embed": None if prop.embed is None else [prop.embed.source, prop.embed.model],
            "declared_directly": prop.declared_directly,
            "satisfies": sorted(prop.satisfies),
        }
        for prop in properties
    }


def _annotations(annotations: tuple[AnnotationValue, ...]) -> list[Any]:
    # Absent and empty values differ, and None does not compare with text: hence the wrapping list.
    return sorted([one.name, [] if one.value is None else [one.value], list(one.keywords)] for one in annotations)


def _range(rule: RangeRule) -> list[str]:
    return [rule.property, bound_text(rule.low) or "", bound_text(rule.high) or ""]
