"""Looks for contradictions in a catalog that did not come from the compiler, such as one read from storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from omnigraph.catalog.model import ENDPOINTS, Catalog, EdgeType, InterfaceType, NodeType, PropertyDef
from omnigraph.catalog.shape import shape_hash


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
        rules = [*(rule.property for rule in node.ranges), *(rule.property for rule in node.checks)]
        yield from (f"rule on unknown {node.name}.{name}" for name in rules if node.get(name) is None)
        unknown = [name for name in node.implements if name not in catalog.interfaces]
        yield from (f"{node.name} implements unknown {name}" for name in unknown)
    for edge in catalog.edges.values():
        yield from _bad_properties(edge)
        yield from _bad_columns(edge, extra=ENDPOINTS)
        ends = (edge.from_type, edge.to_type)
        yield from (f"{edge.name} ends at unknown {name}" for name in ends if name not in catalog.nodes)
    yield from _bad_numbers(catalog)
    yield from _bad_order(catalog)
    if shape_hash(catalog) != catalog.shape_hash:
        yield "shape hash differs from the shape"


def _bad_properties(owner: InterfaceType | NodeType | EdgeType) -> Iterator[str]:
    counts = Counter(prop.name for prop in owner.properties)
    yield from (f"{owner.name}.{name} occurs {count} times" for name, count in counts.items() if count > 1)
    for prop in owner.properties:
        if not _is_possible(prop):
            yield f"{owner.name}.{prop.name} has an impossible type"


def _is_possible(prop: PropertyDef) -> bool:
    kind = prop.type
    if kind.is_vector:
        return bool(kind.dimension) and not kind.is_list and kind.enum_values is None
    if kind.enum_values is not None:
        return kind.is_text and kind.dimension is None and list(kind.enum_values) == sorted(set(kind.enum_values))
    return kind.dimension is None


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
            yield "types are not in the order of their names"
    if len({name.lower() for name in catalog.edges}) != len(catalog.edges):
        yield "edge names differ in letter case only"
