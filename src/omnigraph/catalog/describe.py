"""A catalog as text: one line per type, property and constraint, in an order that never changes by itself."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from omnigraph.catalog.model import AnnotationValue, Catalog, EdgeType, InterfaceType, NodeType, PropertyDef
from omnigraph.lang.parsing import quote_string


def describe_catalog(catalog: Catalog) -> str:
    """Describe a catalog for people and for comparison; ids are shown as ``#id`` once they are assigned."""
    return "".join(f"{line}\n" for line in _lines(catalog))


def _lines(catalog: Catalog) -> Iterator[str]:
    for interface in catalog.interfaces.values():
        yield f"interface {interface.name}{_number(interface.id)}"
        yield from _interface_lines(interface)
    for node in catalog.nodes.values():
        implements = f" implements {', '.join(node.implements)}" if node.implements else ""
        yield f"node {node.name}{_table_number(node)}{implements}{_annotations(node.annotations)}"
        yield from (_property_line(prop) for prop in node.properties)
        yield from _column_lines(node)
        for bounds in node.ranges:
            yield f"  range {bounds.property} {_bound(bounds.low)}..{_bound(bounds.high)}"
        for rule in node.checks:
            yield f"  check {rule.property} {quote_string(rule.pattern)}"
    for edge in catalog.edges.values():
        ends = f"{edge.from_type} -> {edge.to_type} {edge.cardinality}"
        yield f"edge {edge.name}{_table_number(edge)}: {ends}{_annotations(edge.annotations)}"
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
    return f"  {prop.name}{_number(prop.id)}: {prop.type}{embed}{_annotations(prop.annotations)}{origin}"


def _column_lines(owner: NodeType | EdgeType) -> Iterator[str]:
    if owner.key is not None:
        yield f"  key ({', '.join(owner.key)})"
    yield from (f"  unique ({', '.join(columns)})" for columns in owner.uniques)
    yield from (f"  index ({', '.join(columns)})" for columns in owner.indexes)


def _annotations(annotations: tuple[AnnotationValue, ...]) -> str:
    return "".join(f" {_annotation(one)}" for one in annotations)


def _annotation(one: AnnotationValue) -> str:
    arguments = [] if one.value is None else [quote_string(one.value)]
    arguments += [f"{name}={quote_string(value)}" for name, value in one.keywords]
    return f"@{one.name}({', '.join(arguments)})" if arguments else f"@{one.name}"


def _number(number: int) -> str:
    return f" #{number}" if number else ""


def _table_number(owner: NodeType | EdgeType) -> str:
    return f" #{owner.id}-{owner.incarnation}" if owner.id else ""


def _bound(bound: float | None) -> str:
    # No exponents: the text should be one that a schema may hold.
    return "" if bound is None else format(Decimal(repr(bound)), "f")
