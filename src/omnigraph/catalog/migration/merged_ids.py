"""The ids of a merged schema: those that the target has, then those of the source, and fresh ones for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from omnigraph.catalog.identity import TypeKind, all_ids, is_unused
from omnigraph.catalog.migration.atoms import Atom, Facts, each_type
from omnigraph.catalog.migration.resolve import KINDS
from omnigraph.catalog.migration.versions import Versions
from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyDef
from omnigraph.values.ids import IncarnationId, PropertyId, TypeId


def with_merged_ids(compiled: Catalog, merged: Facts, versions: Versions, following: int) -> Catalog:
    """Return a merged schema with its ids.

    Args:
        compiled: the schema, without ids.
        merged: the facts that it was made of.
        versions: where they come from.
        following: the first id that the target may make up.
    """
    ids = versions.numbers.ids()
    types = {
        (merged[Atom(atom.owner, None, "kind")], name): atom.owner
        for atom, name in merged.items()
        if atom.what == "name" and atom.prop is None
    }
    properties = {
        (atom.owner, name): atom.prop for atom, name in merged.items() if atom.what == "name" and atom.prop is not None
    }
    drawn = _Counter(following)
    made: dict[TypeKind, dict[str, Any]] = {kind: {} for kind in KINDS}
    for kind, owner in each_type(compiled):
        at = types[kind, owner.name]
        found = []
        for prop in owner.properties:
            # What an interface hands to a type that the other side added is born here.
            number = properties.get((at, prop.name))
            own, aliases = (drawn.next(), ()) if number is None else ids[number]
            found.append(replace(prop, id=PropertyId(own), aliases=tuple(map(PropertyId, aliases))))
        own, aliases = ids[at]
        numbered = replace(
            owner,
            id=TypeId(own),
            properties=_in_order(versions, kind, at, found),
            aliases=tuple(map(TypeId, aliases)),
        )
        if isinstance(numbered, NodeType | EdgeType):
            numbered = replace(numbered, incarnation=_incarnation(versions, at, drawn))
        made[kind][owner.name] = numbered
    numbered_catalog = replace(
        compiled,
        interfaces=made["interface"],
        nodes=made["node"],
        edges=made["edge"],
        identity_domain=versions.catalogs["target"].identity_domain,
        next_identity=drawn.following if drawn.was_used else versions.catalogs["target"].next_identity,
    )
    return _with_free_numbers(numbered_catalog, drawn.following)


def _in_order(
    versions: Versions, kind: TypeKind, at: int, properties: Sequence[PropertyDef]
) -> tuple[PropertyDef, ...]:
    """Keep the columns of the target's table where they are."""
    owner = versions.type("target", at)
    places = {} if owner is None else {prop.id: place for place, prop in enumerate(owner.properties)}
    if kind == "interface":
        return tuple(properties)
    return tuple(sorted(properties, key=lambda prop: places.get(prop.id, len(places))))


def _incarnation(versions: Versions, at: int, drawn: _Counter) -> IncarnationId:
    target, source = versions.type("target", at), versions.type("source", at)
    if isinstance(target, NodeType | EdgeType):
        return target.incarnation
    if isinstance(source, NodeType | EdgeType) and versions.type("base", at) is None:
        return source.incarnation
    # The target had the table and dropped it; one that comes back is another one.
    return IncarnationId(drawn.next())


class _Counter:
    """Draws ids."""

    def __init__(self, following: int) -> None:
        self.following = following
        self.was_used = False

    def next(self) -> int:
        self.following += 1
        self.was_used = True
        return self.following - 1


def _with_free_numbers(catalog: Catalog, following: int) -> Catalog:
    """Return a catalog whose counter stands behind all numbers that it has; those of main may be new to a branch."""
    for free in (catalog.next_identity, following):
        if not any(is_unused(number, free) for number in all_ids(catalog)):
            return replace(catalog, next_identity=free)
    taken = [number for number in all_ids(catalog) if is_unused(number, catalog.next_identity)]
    return replace(catalog, next_identity=max(taken) + 1)
