"""The shape of a schema: its meaning without order, comments, rename hints and ids, as one hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec

from omnigraph.catalog.model import (
    AnnotationValue,
    Bound,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    PropertyDef,
    RangeRule,
)
from omnigraph.lang.parsing import quote_string
from omnigraph.values.decimals import canonical_decimal


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


def bound_text(bound: Bound | None) -> str | None:
    """Write a range bound exactly, since JSON readers may round numbers.

    >>> bound_text(18446744073709551616), bound_text(0.5), bound_text(2.0), bound_text(Decimal("0.10"))
    ('18446744073709551616', '0.5', '2', '0.1')
    """
    if bound is None:
        return None
    if isinstance(bound, Decimal):
        return canonical_decimal(bound)
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
        **_rules(one),
        "annotations": _annotations(one.annotations),
    }


def _rules(one: NodeType | EdgeType) -> dict[str, Any]:
    return {
        "ranges": sorted(_range(rule) for rule in one.ranges),
        "checks": sorted((rule.property, rule.pattern) for rule in one.checks),
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
        # Edges came to have rules later, and a shape without them must stay what it was.
        **{name: rules for name, rules in _rules(one).items() if rules},
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


def describe_catalog(catalog: Catalog) -> str:
    """Describe a catalog for people and for comparison; ids are shown as ``#id`` once they are assigned."""
    return "".join(f"{line}\n" for line in _lines(catalog))


def _lines(catalog: Catalog) -> Iterator[str]:
    for interface in catalog.interfaces.values():
        yield f"interface {interface.name}{_number(interface.id)}"
        yield from _interface_lines(interface)
    for node in catalog.nodes.values():
        implements = f" implements {', '.join(node.implements)}" if node.implements else ""
        yield f"node {node.name}{_table_number(node)}{implements}{_annotation_lines(node.annotations)}"
        yield from (_property_line(prop) for prop in node.properties)
        yield from _column_lines(node)
    for edge in catalog.edges.values():
        ends = f"{edge.from_type} -> {edge.to_type} {edge.cardinality}"
        yield f"edge {edge.name}{_table_number(edge)}: {ends}{_annotation_lines(edge.annotations)}"
        yield from (_property_line(prop) for prop in edge.properties)
        yield from _column_lines(edge)


def _interface_lines(interface: InterfaceType) -> Iterator[str]:
    yield from (_property_line(prop) for prop in interface.properties)
    for name, word in interface.constraints:
        yield f"  {word} ({name})"


def _property_line(prop: PropertyDef) -> str:
    embed = ""
    if prop.embed is not None:
        model = f", model={quote_string(prop.embed.model)}" if prop.embed.model is not None else ""
        embed = f" @embed({quote_string(prop.embed.source)}{model})"
    origin = ""
    if prop.satisfies:
        origin = f" {'for' if prop.declared_directly else 'from'} {', '.join(prop.satisfies)}"
    return f"  {prop.name}{_number(prop.id)}: {prop.type}{embed}{_annotation_lines(prop.annotations)}{origin}"


def _column_lines(owner: NodeType | EdgeType) -> Iterator[str]:
    if owner.key is not None:
        yield f"  key ({', '.join(owner.key)})"
    yield from (f"  unique ({', '.join(columns)})" for columns in owner.uniques)
    yield from (f"  index ({', '.join(columns)})" for columns in owner.indexes)
    for bounds in owner.ranges:
        yield f"  range {bounds.property} {_bound(bounds.low)}..{_bound(bounds.high)}"
    for rule in owner.checks:
        yield f"  check {rule.property} {quote_string(rule.pattern)}"


def _annotation_lines(annotations: tuple[AnnotationValue, ...]) -> str:
    return "".join(f" {_annotation(one)}" for one in annotations)


def _annotation(one: AnnotationValue) -> str:
    arguments = [] if one.value is None else [quote_string(one.value)]
    arguments += [f"{name}={quote_string(value)}" for name, value in one.keywords]
    return f"@{one.name}({', '.join(arguments)})" if arguments else f"@{one.name}"


def _number(number: int) -> str:
    return f" #{number}" if number else ""


def _table_number(owner: NodeType | EdgeType) -> str:
    return f" #{owner.id}-{owner.incarnation}" if owner.id else ""


def _bound(bound: Bound | None) -> str:
    # No exponents: the text should be one that a schema may hold.
    if isinstance(bound, Decimal):
        return canonical_decimal(bound)
    return "" if bound is None else format(Decimal(repr(bound)), "f")
