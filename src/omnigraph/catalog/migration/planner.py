"""Plans a migration: accepted catalog and desired schema text in, an ordered list of steps out. Looks at no data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from omnigraph.catalog.compile import compile_schema
from omnigraph.catalog.identity import IdentityMatches, TypeKind, assign_identities, carry_identities
from omnigraph.catalog.migration import codes
from omnigraph.catalog.migration import codes as reasons
from omnigraph.catalog.migration.changes import TypePair, property_changes, type_changes
from omnigraph.catalog.migration.codes import Tier
from omnigraph.catalog.migration.resolve import (
    KINDS,
    AnyType,
    HintDiagnostic,
    Resolution,
    inert_hint,
    iter_hints,
    resolve_identities,
    types_of,
)
from omnigraph.catalog.migration.steps import AddType, DropMode, DropType, Step, UnsupportedChange
from omnigraph.catalog.model import Catalog
from omnigraph.lang.pg.ast import SchemaFile
from omnigraph.records import record
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable


@record
class MigrationPlan(Printable):
    """Every step from the accepted schema to the desired one, refused ones included.

    ``catalog`` is the desired schema with the ids of what it continues; it may become the accepted one only if
    the plan is supported and the steps that need validation found no row in the way.
    """

    steps: tuple[Step, ...]
    diagnostics: tuple[HintDiagnostic, ...]
    catalog: Catalog

    def lines(self) -> Iterator[str]:
        """Yield the verdict, and a line per step."""
        yield f"{counted(len(self.steps), 'step')}, {'supported' if self.is_supported else 'not supported'}"
        if self.steps:
            yield from self.describe().splitlines()
        yield from (f"warning: {diagnostic}" for diagnostic in self.diagnostics)

    @property
    def is_supported(self) -> bool:
        """Whether no step is refused."""
        return self.first_refusal is None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    @property
    def first_refusal(self) -> UnsupportedChange | None:
        """The refusal that applying the plan fails with, if any."""
        return next((step for step in self.steps if isinstance(step, UnsupportedChange)), None)

    @property
    def validated_steps(self) -> tuple[Step, ...]:
        """The steps that existing rows can contradict, to be checked before the plan is applied."""
        return tuple(
            step for step in self.steps if step.tier is Tier.VALIDATED and not isinstance(step, UnsupportedChange)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {"supported": self.is_supported, "steps": [step.to_json() for step in self.steps]}

    def describe(self) -> str:
        """Return the plan as text, a line per step."""
        return "\n".join(f"- {step.describe()}" for step in self.steps) or "no schema changes"


def plan_migration(accepted: Catalog, desired: SchemaFile, *, allow_data_loss: bool = False) -> MigrationPlan:
    """Plan how a graph that holds ``accepted`` comes to hold ``desired``.

    Args:
        accepted: the compiled schema of the graph, with its ids.
        desired: the parsed schema to move to.
        allow_data_loss: make every drop of the plan a hard one.

    Raises:
        SchemaCheckError: the desired schema contradicts itself.
        SchemaPlanError: a rename hint cannot be followed.
    """
    compiled = compile_schema(desired)
    resolution = resolve_identities(accepted, compiled, desired)
    catalog = carry_identities(compiled, accepted, resolution.matches)
    drop_mode: DropMode = "hard" if allow_data_loss else "soft"
    steps = [step for kind in KINDS for step in _kind_steps(kind, accepted, compiled, resolution, drop_mode)]
    if not steps and compiled.shape_hash != accepted.shape_hash:
        steps.append(UnsupportedChange(entity="schema", reason=f"{reasons.UNCLASSIFIED} change of the schema's shape"))
    return MigrationPlan(steps=tuple(steps), diagnostics=resolution.diagnostics, catalog=catalog)


def plan_between(accepted: Catalog, desired: Catalog) -> MigrationPlan:
    """Plan how a graph that holds ``accepted`` comes to hold ``desired``, which has its ids already.

    What continues what is told by the ids alone; every drop is a soft one.
    """
    types: dict[tuple[TypeKind, str], str] = {}
    properties: dict[tuple[TypeKind, str, str], str] = {}
    for kind in KINDS:
        old_types = types_of(accepted, kind).values()
        for name, owner in types_of(desired, kind).items():
            old = next((one for one in old_types if not _ids(one).isdisjoint(_ids(owner))), None)
            if old is None:
                continue
            types[kind, name] = old.name
            for prop in owner.properties:
                was = next((one for one in old.properties if prop.continues(one)), None)
                if was is not None:
                    properties[kind, name, prop.name] = was.name
    resolution = Resolution(matches=IdentityMatches(types=types, properties=properties), diagnostics=())
    steps = [step for kind in KINDS for step in _kind_steps(kind, accepted, desired, resolution, "soft")]
    return MigrationPlan(steps=tuple(steps), diagnostics=(), catalog=desired)


def _ids(owner: AnyType) -> set[int]:
    return {owner.id, *owner.aliases}


def plan_creation(desired: SchemaFile, identity_domain: str) -> MigrationPlan:
    """Plan the first schema of a graph: every type is added, every id is fresh, every hint is inert.

    Args:
        desired: the parsed schema to begin with.
        identity_domain: the ULID of the graph, to which all ids will belong.

    Raises:
        SchemaCheckError: the schema contradicts itself.
    """
    catalog = assign_identities(compile_schema(desired), identity_domain)
    steps = [AddType(type_kind=kind, name=name) for kind in KINDS for name in sorted(types_of(catalog, kind))]
    diagnostics = tuple(inert_hint(hint, desired.source) for hint in iter_hints(desired))
    return MigrationPlan(steps=tuple(steps), diagnostics=diagnostics, catalog=catalog)


def _kind_steps(
    kind: TypeKind, accepted: Catalog, desired: Catalog, resolution: Resolution, drop_mode: DropMode
) -> Iterator[Step]:
    node_names = resolution.type_names("node")
    interface_properties = _interface_properties(desired, resolution)
    old_types, new_types = types_of(accepted, kind), types_of(desired, kind)
    for name in sorted(new_types):
        old_name = resolution.matches.types.get((kind, name))
        if old_name is None:
            yield AddType(type_kind=kind, name=name)
            continue
        pair = TypePair(
            kind=kind,
            accepted=old_types[old_name],
            desired=new_types[name],
            property_names=resolution.property_names(kind, new_types[name]),
            node_names=node_names,
            interface_properties=interface_properties,
            drop_mode=drop_mode,
        )
        yield from type_changes(pair)
        yield from property_changes(pair)
    for name in sorted(old_types.keys() - resolution.type_names(kind).keys()):
        yield _dropped_type(kind, name, drop_mode)


def _interface_properties(desired: Catalog, resolution: Resolution) -> dict[str, str]:
    return {
        f"{interface.name}.{old}": f"{interface.name}.{new}"
        for interface in desired.interfaces.values()
        for old, new in resolution.property_names("interface", interface).items()
    }


def _dropped_type(kind: TypeKind, name: str, drop_mode: DropMode) -> Step:
    match kind:
        case "interface":
            return UnsupportedChange(
                entity=f"interface:{name}", reason=f"{reasons.REMOVING_INTERFACE} '{name}' is not supported"
            )
        case "node":
            return DropType(type_kind=kind, name=name, mode=drop_mode, code=codes.DROP_NODE_TYPE)
        case "edge":
            return DropType(type_kind=kind, name=name, mode=drop_mode, code=codes.DROP_EDGE_TYPE)
        case _:
            assert_never(kind)
