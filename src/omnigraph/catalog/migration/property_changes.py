"""Changes to the properties of a type that stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from omnigraph.catalog.migration import codes, reasons
from omnigraph.catalog.migration.constraint_changes import constraint_changes
from omnigraph.catalog.migration.pairs import TypePair
from omnigraph.catalog.migration.steps import (
    AddProperty,
    DropProperty,
    ExtendEnum,
    MakeNullable,
    MakeRequired,
    RenameProperty,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
)
from omnigraph.catalog.migration.type_changes import same_annotations
from omnigraph.catalog.model import PropertyDef, PropertyType


def property_changes(pair: TypePair) -> Iterator[Step]:
    """Yield the steps about properties by desired name, then drops by name, then constraints over several columns."""
    constraints = constraint_changes(pair)
    continued = pair.continued()
    for after in sorted(pair.desired.properties, key=lambda prop: prop.name):
        before = continued.get(after.name)
        if before is None:
            yield _addition(pair, after)
            yield from constraints.of_property(after.name)
        else:
            yield from _shape_changes(pair, before, after)
            yield from constraints.of_property(after.name)
            yield from _origin_changes(pair, before, after)
            yield from _annotation_change(pair, before, after)
    for gone in pair.dropped():
        yield _drop(pair, gone)
    yield from constraints.of_type()


def _addition(pair: TypePair, prop: PropertyDef) -> Step:
    if not prop.type.nullable:
        return UnsupportedChange(
            entity=f"{pair.entity}.{prop.name}",
            reason=f"adding required property '{prop.name}: {prop.type}' requires a backfill; "
            "add it as nullable, give every row a value, then make it required",
            code=codes.ADD_REQUIRED_PROPERTY,
        )
    return AddProperty(
        type_kind=pair.kind, type_name=pair.desired.name, property_name=prop.name, property_type=prop.type
    )


def _shape_changes(pair: TypePair, before: PropertyDef, after: PropertyDef) -> Iterator[Step]:
    if before.name != after.name:
        yield RenameProperty(
            type_kind=pair.kind, type_name=pair.desired.name, old_name=before.name, new_name=after.name
        )
    if before.type != after.type:
        yield _type_change(pair, after.name, before.type, after.type)
    embed = before.embed
    if embed is not None:
        embed = replace(embed, source=pair.property_names.get(embed.source, embed.source))
    if embed != after.embed:
        yield UnsupportedChange(entity=f"{pair.entity}.{after.name}", reason=f"{reasons.EMBED} is not supported")


def _type_change(pair: TypePair, name: str, before: PropertyType, after: PropertyType) -> Step:
    type_name = pair.desired.name
    if replace(before, nullable=after.nullable) == after:
        if after.nullable:
            return MakeNullable(type_kind=pair.kind, type_name=type_name, property_name=name)
        return MakeRequired(type_kind=pair.kind, type_name=type_name, property_name=name)
    added = _added_enum_values(before, after)
    if added:
        return ExtendEnum(type_kind=pair.kind, type_name=type_name, property_name=name, added_values=added)
    return UnsupportedChange(
        entity=f"{pair.entity}.{name}",
        reason=f"{reasons.PROPERTY_TYPE} is not supported: from {before} to {after}",
        code=codes.CHANGE_PROPERTY_TYPE,
    )


def _added_enum_values(before: PropertyType, after: PropertyType) -> tuple[str, ...]:
    """Return the sorted values that are more, or nothing if the change is not just a wider enum."""
    if before.enum_values is None or after.enum_values is None:
        return ()
    if replace(before, enum_values=after.enum_values) != after or not set(before.enum_values) < set(after.enum_values):
        return ()
    return tuple(sorted(set(after.enum_values) - set(before.enum_values)))


def _origin_changes(pair: TypePair, before: PropertyDef, after: PropertyDef) -> Iterator[Step]:
    entity = f"{pair.entity}.{after.name}"
    if before.declared_directly != after.declared_directly:
        words = {True: "declared in the type", False: "received from an interface"}
        change = f"from {words[before.declared_directly]} to {words[after.declared_directly]}"
        yield UnsupportedChange(entity=entity, reason=f"changing {reasons.PROVENANCE} is not supported: {change}")
    links = sorted(pair.interface_properties.get(link, link) for link in before.satisfies)
    if links != sorted(after.satisfies):
        change = f"from {', '.join(links) or 'none'} to {', '.join(sorted(after.satisfies)) or 'none'}"
        yield UnsupportedChange(
            entity=entity, reason=f"changing interface {reasons.SATISFACTION} is not supported: {change}"
        )


def _annotation_change(pair: TypePair, before: PropertyDef, after: PropertyDef) -> Iterator[Step]:
    if not same_annotations(before.annotations, after.annotations):
        yield UpdatePropertyMetadata(
            type_kind=pair.kind,
            type_name=pair.desired.name,
            property_name=after.name,
            annotations=after.annotations,
        )


def _drop(pair: TypePair, prop: PropertyDef) -> Step:
    code = codes.DROP_VECTOR_PROPERTY if prop.type.is_vector else codes.DROP_PROPERTY
    return DropProperty(
        type_kind=pair.kind,
        type_name=pair.desired.name,
        property_name=prop.name,
        mode=pair.drop_mode,
        code=None if pair.kind == "interface" else code,
    )
