"""Stable ids: numbers that name types, properties and tables through every rename, and are never used twice.

Main draws them from one counter, and every other branch from a block that is its own, so that what two branches add
stays apart when they are merged. The order of drawing is fixed, so that two processes that accept the same schema into
the same state give the same ids: types (interfaces, nodes, edges, each by name), then properties by owner id and name,
then one incarnation per table by type id.

What two branches added alike is one thing once they are merged: it keeps the id that the target of the merge gave it,
and the other one becomes an alias of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Literal, cast

from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType, PropertyDef
from omnigraph.records import record
from omnigraph.values.ids import IncarnationId, PropertyId, TypeId

TypeKind = Literal["interface", "node", "edge"]

# A number of a branch: this bit, 42 bits that tell branches apart, and 20 bits to count with.
_OF_A_BRANCH = 1 << 62
_BLOCK_BITS = 20


def with_own_numbers(catalog: Catalog, incarnation: str | None) -> Catalog:
    """Return the catalog so that what is added to it gets numbers of the branch that accepts it.

    Args:
        catalog: an accepted schema, which may be that of another branch.
        incarnation: the one life of a branch that the numbers are for; None for main.
    """
    if incarnation is None:
        return catalog
    digest = int.from_bytes(hashlib.sha256(incarnation.encode()).digest()[:8], "big")
    first = _OF_A_BRANCH | ((digest % _OF_A_BRANCH) >> _BLOCK_BITS << _BLOCK_BITS)
    return catalog if _block(catalog.next_identity) == _block(first) else replace(catalog, next_identity=first)


def is_unused(number: int, next_identity: int) -> bool:
    """Whether no id can be ``number`` yet, as far as the counter that stands at ``next_identity`` tells.

    >>> is_unused(7, 7), is_unused(6, 7), is_unused(7, _OF_A_BRANCH)
    (True, False, False)
    """
    return _block(number) == _block(next_identity) and number >= next_identity


def are_of_one_counter(one: int, other: int) -> bool:
    """Whether two numbers were drawn from one counter, so that the larger one is the later one."""
    return _block(one) == _block(other)


def all_ids(catalog: Catalog) -> Iterator[int]:
    """Yield every number that a catalog has, aliases included."""
    for _, owner in _each_type(catalog):
        yield from (owner.id, *owner.aliases)
        if not isinstance(owner, InterfaceType):
            yield owner.incarnation
        yield from (number for prop in owner.properties for number in (prop.id, *prop.aliases))


def _block(number: int) -> int:
    return number >> _BLOCK_BITS if number >= _OF_A_BRANCH else 0


@record
class IdentityMatches:
    """Which accepted declaration each desired one continues; what is missing here is born with this schema.

    ``types`` maps (kind, desired name) to the accepted name; ``properties`` maps (kind, desired type, desired
    property) to the name of the accepted property of the accepted type.
    """

    types: Mapping[tuple[TypeKind, str], str] = field(default_factory=dict)
    properties: Mapping[tuple[TypeKind, str, str], str] = field(default_factory=dict)


def assign_identities(catalog: Catalog, domain: str) -> Catalog:
    """Give every type, property and table of a graph that is being created its first id.

    Args:
        catalog: a compiled schema; ids it may carry are dropped.
        domain: the ULID of the graph that the ids will belong to.
    """
    empty = Catalog(interfaces={}, nodes={}, edges={}, shape_hash="", identity_domain=domain, next_identity=1)
    return carry_identities(catalog, empty, IdentityMatches())


def carry_identities(desired: Catalog, accepted: Catalog, matches: IdentityMatches) -> Catalog:
    """Return ``desired`` with the ids of what it continues and fresh ids for the rest.

    A composite key that names the same columns keeps the order it was accepted with, because entity ids were built
    in that order. Continued columns keep their places in the table, added ones follow in declaration order.
    """
    numbers = _draw_numbers(desired, accepted, matches)
    interfaces = {
        name: replace(
            one,
            id=numbers.types["interface", name],
            properties=numbers.number("interface", name, one),
            aliases=numbers.type_aliases["interface", name],
        )
        for name, one in desired.interfaces.items()
    }
    nodes: dict[str, NodeType] = {}
    for name, node in desired.nodes.items():
        old = accepted.nodes.get(matches.types.get(("node", name), ""))
        properties = _in_accepted_order(numbers.number("node", name, node), old)
        nodes[name] = replace(
            node,
            id=numbers.types["node", name],
            incarnation=numbers.incarnations["node", name],
            properties=properties,
            key=_in_accepted_key_order(node.key, properties, old),
            aliases=numbers.type_aliases["node", name],
        )
    edges: dict[str, EdgeType] = {}
    for name, edge in desired.edges.items():
        before = accepted.edges.get(matches.types.get(("edge", name), ""))
        properties = _in_accepted_order(numbers.number("edge", name, edge), before)
        edges[name] = replace(
            edge,
            id=numbers.types["edge", name],
            incarnation=numbers.incarnations["edge", name],
            properties=properties,
            key=_in_accepted_key_order(edge.key, properties, before),
            aliases=numbers.type_aliases["edge", name],
        )
    return replace(
        desired,
        interfaces=interfaces,
        nodes=nodes,
        edges=edges,
        identity_domain=accepted.identity_domain,
        next_identity=numbers.next_identity,
    )


@record
class _Numbers:
    types: Mapping[tuple[TypeKind, str], TypeId]
    properties: Mapping[tuple[TypeKind, str, str], PropertyId]
    incarnations: Mapping[tuple[TypeKind, str], IncarnationId]
    type_aliases: Mapping[tuple[TypeKind, str], tuple[TypeId, ...]]
    property_aliases: Mapping[tuple[TypeKind, str, str], tuple[PropertyId, ...]]
    next_identity: int

    def number(self, kind: TypeKind, name: str, owner: _AnyType) -> tuple[PropertyDef, ...]:
        return tuple(
            replace(
                prop,
                id=self.properties[kind, name, prop.name],
                aliases=self.property_aliases[kind, name, prop.name],
            )
            for prop in owner.properties
        )


_AnyType = InterfaceType | NodeType | EdgeType


def _draw_numbers(desired: Catalog, accepted: Catalog, matches: IdentityMatches) -> _Numbers:
    old_types = {(kind, one.name): one for kind, one in _each_type(accepted)}
    continued = {
        (kind, one.name): old_types.get((kind, matches.types.get((kind, one.name), "")))
        for kind, one in _each_type(desired)
    }
    following = accepted.next_identity
    types: dict[tuple[TypeKind, str], TypeId] = {}
    type_aliases: dict[tuple[TypeKind, str], tuple[TypeId, ...]] = {}
    for kind, one in _each_type(desired):
        old = continued[kind, one.name]
        types[kind, one.name] = TypeId(following) if old is None else old.id
        type_aliases[kind, one.name] = () if old is None else old.aliases
        following += old is None
    properties: dict[tuple[TypeKind, str, str], PropertyId] = {}
    property_aliases: dict[tuple[TypeKind, str, str], tuple[PropertyId, ...]] = {}
    for kind, one in sorted(_each_type(desired), key=lambda item: types[item[0], item[1].name]):
        kept = {prop.name: prop for prop in _properties(continued[kind, one.name])}
        for prop in sorted(one.properties, key=lambda item: item.name):
            place = (kind, one.name, prop.name)
            was = kept.get(matches.properties.get(place, ""))
            properties[place] = PropertyId(following) if was is None else was.id
            property_aliases[place] = () if was is None else was.aliases
            following += was is None
    incarnations: dict[tuple[TypeKind, str], IncarnationId] = {}
    for kind, name in sorted((key for key in types if key[0] != "interface"), key=lambda key: types[key]):
        table = cast("NodeType | EdgeType | None", continued[kind, name])
        incarnations[kind, name] = IncarnationId(following) if table is None else table.incarnation
        following += table is None
    return _Numbers(
        types=types,
        properties=properties,
        incarnations=incarnations,
        type_aliases=type_aliases,
        property_aliases=property_aliases,
        next_identity=following,
    )


def _each_type(catalog: Catalog) -> Iterator[tuple[TypeKind, _AnyType]]:
    for interface in sorted(catalog.interfaces):
        yield "interface", catalog.interfaces[interface]
    for node in sorted(catalog.nodes):
        yield "node", catalog.nodes[node]
    for edge in sorted(catalog.edges):
        yield "edge", catalog.edges[edge]


def _properties(owner: _AnyType | None) -> tuple[PropertyDef, ...]:
    return () if owner is None else owner.properties


def _in_accepted_order(properties: tuple[PropertyDef, ...], old: NodeType | EdgeType | None) -> tuple[PropertyDef, ...]:
    """Keep the columns of a table where they are; a moved line in a schema file must not move data."""
    places = {prop.id: place for place, prop in enumerate(_properties(old))}
    return tuple(sorted(properties, key=lambda prop: places.get(prop.id, len(places))))


def _in_accepted_key_order(
    key: tuple[str, ...] | None, properties: tuple[PropertyDef, ...], old: NodeType | EdgeType | None
) -> tuple[str, ...] | None:
    if key is None or old is None or old.key is None:
        return key
    new_names = {prop.id: prop.name for prop in properties}
    old_ids = {prop.name: prop.id for prop in old.properties}
    # The endpoints of an edge have no property id and cannot be renamed.
    carried = tuple(new_names.get(old_ids[name], "") if name in old_ids else name for name in old.key)
    return carried if set(carried) == set(key) else key
