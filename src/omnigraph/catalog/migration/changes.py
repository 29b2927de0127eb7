"""What changes on types that stay: the types themselves, their properties and their constraints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from omnigraph.catalog.defaults import default_text
from omnigraph.catalog.identity import TypeKind
from omnigraph.catalog.migration import codes
from omnigraph.catalog.migration import codes as reasons
from omnigraph.catalog.migration.constraint import DeclaredConstraint, declared_constraints
from omnigraph.catalog.migration.resolve import AnyType
from omnigraph.catalog.migration.steps import (
    AddConstraint,
    AddProperty,
    ChangeCardinality,
    DropConstraint,
    DropMode,
    DropProperty,
    ExtendEnum,
    MakeNullable,
    MakeRequired,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)
from omnigraph.catalog.model import (
    AnnotationValue,
    EdgeType,
    InterfaceType,
    NodeType,
    PropertyDef,
    PropertyType,
    Scalar,
)
from omnigraph.records import record


@record
class TypePair:
    """An accepted type and the desired one that continues it.

    ``property_names`` maps accepted names to desired ones for the properties that stay; ``node_names`` does so for
    node types, which endpoints refer to; ``interface_properties`` maps accepted ``Interface.property`` to desired.
    """

    kind: TypeKind
    accepted: AnyType
    desired: AnyType
    property_names: Mapping[str, str]
    node_names: Mapping[str, str]
    interface_properties: Mapping[str, str]
    drop_mode: DropMode

    @property
    def entity(self) -> str:
        """The desired type as plans name it."""
        return f"{self.kind}:{self.desired.name}"

    def continued(self) -> dict[str, PropertyDef]:
        """Return the accepted properties that stay, by their desired names."""
        return {
            self.property_names[prop.name]: prop
            for prop in self.accepted.properties
            if prop.name in self.property_names
        }

    def dropped(self) -> list[PropertyDef]:
        """Return the accepted properties that no desired one continues, by name."""
        gone = (prop for prop in self.accepted.properties if prop.name not in self.property_names)
        return sorted(gone, key=lambda prop: prop.name)

    def added(self) -> dict[str, PropertyDef]:
        """Return the desired properties that continue no accepted one, by name."""
        kept = set(self.property_names.values())
        return {prop.name: prop for prop in self.desired.properties if prop.name not in kept}


@record
class ConstraintChanges:
    """What two versions of a type declare differently, already under the desired names."""

    pair: TypePair
    kept: tuple[DeclaredConstraint, ...]
    removed: tuple[DeclaredConstraint, ...]
    added: tuple[DeclaredConstraint, ...]

    def of_property(self, name: str) -> Iterator[Step]:
        """Yield the steps about constraints over the one desired property ``name``."""
        for constraint in self.removed:
            if constraint.is_over_one_property and constraint.columns == (name,):
                yield self._removal(f"{self.pair.entity}.{name}", constraint)
        for constraint in self.added:
            if constraint.is_over_one_property and constraint.columns == (name,):
                yield self._addition(constraint)

    def of_type(self) -> Iterator[Step]:
        """Yield the steps about every other constraint: removals first, then additions."""
        columns = {prop.name for prop in self.pair.desired.properties}
        for constraint in self.removed:
            if not _is_over_one_of(constraint, columns):
                yield self._removal(self.pair.entity, constraint)
        for constraint in self.added:
            if not _is_over_one_of(constraint, columns):
                yield self._addition(constraint)

    def _removal(self, entity: str, constraint: DeclaredConstraint) -> Step:
        if constraint.kind == "Key":
            return _refuse_removal(entity, constraint)
        return DropConstraint(type_kind=self.pair.kind, type_name=self.pair.desired.name, constraint=constraint)

    def _addition(self, constraint: DeclaredConstraint) -> Step:
        if constraint.kind == "Key":
            return _refuse_key(self.pair.entity, constraint)
        # A row that holds null in a column is exempt, and every row does in a property that is being added.
        all_null = {name for name, prop in self.pair.added().items() if prop.type.nullable}
        has_rows = self.pair.kind != "interface"
        is_known = any(constraint.follows_from(other) for other in (*self.kept, *self.removed))
        can_fail = has_rows and constraint.kind != "Index" and not is_known and all_null.isdisjoint(constraint.columns)
        return AddConstraint(
            type_kind=self.pair.kind,
            type_name=self.pair.desired.name,
            constraint=constraint,
            validate=can_fail,
        )


def constraint_changes(pair: TypePair) -> ConstraintChanges:
    """Compare the constraints of both sides."""
    before = {constraint.renamed(pair.property_names) for constraint in declared_constraints(pair.accepted)}
    after = declared_constraints(pair.desired)
    return ConstraintChanges(
        pair=pair,
        kept=tuple(sorted(before & after, key=DeclaredConstraint.sort_key)),
        removed=tuple(sorted(before - after, key=DeclaredConstraint.sort_key)),
        added=tuple(sorted(after - before, key=DeclaredConstraint.sort_key)),
    )


def _is_over_one_of(constraint: DeclaredConstraint, columns: set[str]) -> bool:
    return constraint.is_over_one_property and constraint.columns[0] in columns


def _refuse_removal(entity: str, constraint: DeclaredConstraint) -> UnsupportedChange:
    single = constraint.is_over_one_property
    what = reasons.REMOVING_PROPERTY_CONSTRAINTS if single else reasons.REMOVING_CONSTRAINTS
    return UnsupportedChange(entity=entity, reason=f"{what} is not supported: {constraint}")


def _refuse_key(entity: str, constraint: DeclaredConstraint) -> UnsupportedChange:
    if len(constraint.columns) == 1:
        entity = f"{entity}.{constraint.columns[0]}"
        what = f"{reasons.ADDING_PROPERTY_CONSTRAINT}key"
    else:
        what = f"{reasons.ADDING_CONSTRAINT} {constraint}"
    return UnsupportedChange(
        entity=entity, reason=f"{what} to an accepted type is not supported: entity ids derive from the key"
    )


def type_changes(pair: TypePair) -> Iterator[Step]:
    """Yield the steps about the head of a type, properties and constraints left out."""
    accepted, desired = pair.accepted, pair.desired
    if accepted.name != desired.name:
        yield RenameType(type_kind=pair.kind, old_name=accepted.name, new_name=desired.name)
    if isinstance(accepted, NodeType) and isinstance(desired, NodeType):
        yield from _implements_change(pair.entity, accepted, desired)
        yield from _annotation_change(pair, accepted.annotations, desired.annotations)
    if isinstance(accepted, EdgeType) and isinstance(desired, EdgeType):
        yield from _endpoint_change(pair, accepted, desired)
        yield from _cardinality_change(pair, accepted, desired)
        yield from _annotation_change(pair, accepted.annotations, desired.annotations)


def same_annotations(left: Iterable[AnnotationValue], right: Iterable[AnnotationValue]) -> bool:
    """Tell whether two annotation lists say the same, in whatever order."""
    return set(left) == set(right)


def _implements_change(entity: str, accepted: NodeType, desired: NodeType) -> Iterator[Step]:
    before, after = sorted(set(accepted.implements)), sorted(set(desired.implements))
    if before != after:
        yield UnsupportedChange(
            entity=entity,
            reason=f"{reasons.IMPLEMENTED_INTERFACES} is not supported: from {_names(before)} to {_names(after)}",
        )


def _endpoint_change(pair: TypePair, accepted: EdgeType, desired: EdgeType) -> Iterator[Step]:
    before = tuple(pair.node_names.get(name, name) for name in (accepted.from_type, accepted.to_type))
    after = (desired.from_type, desired.to_type)
    if before != after:
        change = f"from {before[0]} -> {before[1]} to {after[0]} -> {after[1]}"
        yield UnsupportedChange(entity=pair.entity, reason=f"{reasons.EDGE_ENDPOINTS} is not supported: {change}")


def _cardinality_change(pair: TypePair, accepted: EdgeType, desired: EdgeType) -> Iterator[Step]:
    if accepted.cardinality != desired.cardinality:
        yield ChangeCardinality(
            type_kind=pair.kind,
            type_name=desired.name,
            old_rule=accepted.cardinality,
            new_rule=desired.cardinality,
        )


def _annotation_change(
    pair: TypePair,
    before: tuple[AnnotationValue, ...],
    after: tuple[AnnotationValue, ...],
) -> Iterator[Step]:
    if not same_annotations(before, after):
        yield UpdateTypeMetadata(type_kind=pair.kind, name=pair.desired.name, annotations=after)


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"


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
            yield from _property_annotation_change(pair, before, after)
    for gone in pair.dropped():
        yield _drop(pair, gone)
    yield from constraints.of_type()


def _addition(pair: TypePair, prop: PropertyDef) -> Step:
    default = None if prop.type.nullable else default_text(prop)
    if not prop.type.nullable and default is None:
        return UnsupportedChange(
            entity=f"{pair.entity}.{prop.name}",
            reason=f"adding required property '{prop.name}: {prop.type}' requires a backfill; "
            "give it a @default, or add it as nullable, give every row a value, then make it required",
            code=codes.ADD_REQUIRED_PROPERTY,
        )
    return AddProperty(
        type_kind=pair.kind,
        type_name=pair.desired.name,
        property_name=prop.name,
        property_type=prop.type,
        default=default,
    )


def _shape_changes(pair: TypePair, before: PropertyDef, after: PropertyDef) -> Iterator[Step]:
    if before.name != after.name:
        yield RenameProperty(
            type_kind=pair.kind, type_name=pair.desired.name, old_name=before.name, new_name=after.name
        )
    if before.type != after.type:
        yield from _type_changes(pair, before.type, after)
    embed = before.embed
    if embed is not None:
        embed = replace(embed, source=pair.property_names.get(embed.source, embed.source))
    if embed != after.embed:
        yield UnsupportedChange(entity=f"{pair.entity}.{after.name}", reason=f"{reasons.EMBED} is not supported")


def _type_changes(pair: TypePair, before: PropertyType, prop: PropertyDef) -> Iterator[Step]:
    type_name, name, after = pair.desired.name, prop.name, prop.type
    same = replace(before, nullable=after.nullable)
    if same != after:
        added = _added_enum_values(same, after)
        if added:
            yield ExtendEnum(type_kind=pair.kind, type_name=type_name, property_name=name, added_values=added)
        elif _is_wider(before, after) and not _rewrites_ids(pair, name, before, after):
            yield WidenProperty(
                type_kind=pair.kind, type_name=type_name, property_name=name, old_type=before, new_type=after
            )
        else:
            yield _refuse_type(pair, name, before, after)
            return
    if after.nullable and not before.nullable:
        yield MakeNullable(type_kind=pair.kind, type_name=type_name, property_name=name)
    if before.nullable and not after.nullable:
        yield MakeRequired(type_kind=pair.kind, type_name=type_name, property_name=name, default=default_text(prop))


def _rewrites_ids(pair: TypePair, name: str, before: PropertyType, after: PropertyType) -> bool:
    """Whether the text of a key, which is the id, would read differently: that of a float depends on its width."""
    is_key = not isinstance(pair.desired, InterfaceType) and name in (pair.desired.key or ())
    return is_key and before.scalar is Scalar.F32 and after.scalar is Scalar.F64


def _refuse_type(pair: TypePair, name: str, before: PropertyType, after: PropertyType) -> UnsupportedChange:
    why = ": the ids of entities derive from the key" if _is_wider(before, after) else ""
    return UnsupportedChange(
        entity=f"{pair.entity}.{name}",
        reason=f"{reasons.PROPERTY_TYPE} is not supported: from {before} to {after}{why}",
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
        words = {True: "declared in the type", False: "inherited from an interface"}
        change = f"from {words[before.declared_directly]} to {words[after.declared_directly]}"
        yield UnsupportedChange(entity=entity, reason=f"changing {reasons.PROVENANCE} is not supported: {change}")
    links = sorted(pair.interface_properties.get(link, link) for link in before.satisfies)
    if links != sorted(after.satisfies):
        change = f"from {', '.join(links) or 'none'} to {', '.join(sorted(after.satisfies)) or 'none'}"
        yield UnsupportedChange(
            entity=entity, reason=f"changing interface {reasons.SATISFACTION} is not supported: {change}"
        )


def _property_annotation_change(pair: TypePair, before: PropertyDef, after: PropertyDef) -> Iterator[Step]:
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


# A double holds every integer of 32 bits, and none of the 64-bit types as a whole.
_WIDER: Mapping[Scalar, frozenset[Scalar]] = {
    Scalar.I32: frozenset({Scalar.I64, Scalar.F64}),
    Scalar.U32: frozenset({Scalar.U64, Scalar.I64, Scalar.F64}),
    Scalar.F32: frozenset({Scalar.F64}),
}


# The digits of the largest number of each type.
_WHOLE_DIGITS: Mapping[Scalar, int] = {Scalar.I32: 10, Scalar.U32: 10, Scalar.I64: 19, Scalar.U64: 20}


def _is_wider(before: PropertyType, after: PropertyType) -> bool:
    """Whether every value of ``before`` is one of ``after``, exactly; nullability does not count.

    >>> i32, i64 = PropertyType(scalar=Scalar.I32), PropertyType(scalar=Scalar.I64, nullable=True)
    >>> _is_wider(i32, i64), _is_wider(i64, i32)
    (True, False)
    """
    if after.is_decimal:
        if before.is_list != after.is_list or not (before.is_decimal or before.scalar in _WHOLE_DIGITS):
            return False
        # An integer is a decimal without digits behind the point.
        precision, scale = before.digits if before.is_decimal else (_WHOLE_DIGITS[before.scalar], 0)
        wider, finer = after.digits
        return finer >= scale and wider - finer >= precision - scale
    moved = replace(before, scalar=after.scalar, nullable=after.nullable)
    return moved == after and after.scalar in _WIDER.get(before.scalar, frozenset())
