"""The three-way merge of schemas: what two branches made of the schema that both come from, as one schema.

Facts that one side changed are taken from it, equal changes of both are one, and what both added stands side by side.
Anything else is a conflict. A conflict is data; all of them are found. The planner has the last word: the result must
be a schema that compiles, and one that the rows of both sides can be brought to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from omnigraph.catalog.compile import compile_schema
from omnigraph.catalog.declare import schema_text
from omnigraph.catalog.identity import TypeKind, with_own_numbers
from omnigraph.catalog.migration.atoms import ABSENT, Atom, Facts, catalog_of_facts, columns_in, each_type
from omnigraph.catalog.migration.codes import ADD_REQUIRED_PROPERTY
from omnigraph.catalog.migration.merged_ids import with_merged_ids
from omnigraph.catalog.migration.planner import MigrationPlan, plan_between
from omnigraph.catalog.migration.steps import AddProperty, Step, UnsupportedChange
from omnigraph.catalog.migration.versions import Versions
from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.errors import SchemaCheckError
from omnigraph.lang.pg import parse_schema
from omnigraph.records import record
from omnigraph.values.counts import counted

Side = Literal["source", "target"]
_OTHER: Mapping[Side, Side] = {"source": "target", "target": "source"}
_WORDS = {
    "name": "the name",
    "implements": "the interfaces",
    "ends": "the ends",
    "cardinality": "the @card",
    "key": "the @key",
    "type": "the type",
    "nullable": "whether a value is required",
    "enum": "the values",
    "embed": "the @embed",
    "origin": "where it is declared",
}


@record
class SchemaConflict:
    """Something that both sides changed in ways that do not go together.

    ``type_key`` is the kind and the name that the target has for the type, or the source if only that has it; None if
    the schema as a whole is meant. ``base``, ``source`` and ``target`` are declarations, None where there is none.
    """

    message: str
    type_key: str | None = None
    property_name: str | None = None
    base: str | None = None
    source: str | None = None
    target: str | None = None


@record
class Loss:
    """A type or a property that one side dropped and the other one left as it was: its rows may have changed there.

    Args:
        by: who dropped it.
        owner: the number of the type, while schemas are merged.
        prop: the number of the property, None if the type went.
        base_key: the kind and name of the type in the base.
        kept_key: the same on the side that has it.
        property_name: what the property is called on both.
        declaration: what went.
    """

    by: Side
    owner: int
    prop: int | None
    base_key: str
    kept_key: str
    property_name: str | None
    declaration: str

    @property
    def kept_by(self) -> Side:
        """The side that has it."""
        return _OTHER[self.by]

    def conflict(self, changed: int) -> SchemaConflict:
        """Return the conflict that it is if the other side changed rows of it."""
        called = self.kept_key if self.property_name is None else f"{self.kept_key}.{self.property_name}"
        sides = {"base": self.declaration, self.kept_by: self.declaration}
        return SchemaConflict(
            message=f"the {self.by} dropped {called}, which the {self.kept_by} wrote to in {counted(changed, 'row')}",
            type_key=self.kept_key,
            property_name=self.property_name,
            **sides,
        )


@record
class MergedSchema:
    """What became of two schemas.

    Args:
        catalog: the schema of both, with ids: those of the target where it has any. That of the target while there are
            conflicts.
        text: the same as text.
        conflicts: what could not be decided.
        losses: what goes because one side dropped it.
        plans: the steps from each side to the result.
    """

    catalog: Catalog
    text: str
    conflicts: tuple[SchemaConflict, ...]
    losses: tuple[Loss, ...]
    plans: Mapping[Side, MigrationPlan]

    @property
    def steps(self) -> tuple[Step, ...]:
        """What happens to the schema of the target."""
        return () if "target" not in self.plans else tuple(map(self._told, self.plans["target"].steps))

    def _told(self, step: Step) -> Step:
        if not isinstance(step, UnsupportedChange):
            return step
        # A property that is required at once comes with rows that have a value.
        key, _, name = step.entity.partition(".")
        owner = next(one for kind, one in each_type(self.catalog) if f"{kind}:{one.name}" == key)
        added = next(prop for prop in owner.properties if prop.name == name)
        kind: TypeKind = (
            "edge" if isinstance(owner, EdgeType) else "node" if isinstance(owner, NodeType) else "interface"
        )
        return AddProperty(type_kind=kind, type_name=owner.name, property_name=name, property_type=added.type)


def merge_schemas(
    base: Catalog,
    source: Catalog,
    target: Catalog,
    prefer: Side | None = None,
    kept: Collection[Loss] = (),
    *,
    born_as: str | None = None,
) -> MergedSchema:
    """Merge the schemas of two branches.

    Args:
        base: the schema that both come from.
        source: the schema of the branch to merge.
        target: the schema of the branch to merge into.
        prefer: the side that decides conflicts, where that gives a valid schema.
        kept: losses that are not to happen.
        born_as: the life of the target whose ids are used where some have to be made up; None for main.
    """
    following = with_own_numbers(target, born_as).next_identity
    return _Merge(base, source, target, prefer, {(loss.owner, loss.prop) for loss in kept}, following).run()


class _Merge:
    def __init__(
        self,
        base: Catalog,
        source: Catalog,
        target: Catalog,
        prefer: Side | None,
        kept: Collection[tuple[int, int | None]],
        following: int,
    ) -> None:
        self._versions = Versions(base, source, target)
        self._facts = self._versions.facts
        self._by_owner = self._versions.by_owner
        self._prefer = prefer
        self._kept = kept
        self._following = following
        self._merged: Facts = {}
        self._clashes: dict[tuple[int, int | None], list[Atom]] = {}
        self._conflicts: list[SchemaConflict] = []
        self._losses: list[Loss] = []

    def run(self) -> MergedSchema:
        for owner in sorted(self._by_owner):
            self._merge_type(owner)
        self._report_clashes()
        self._check_ends()
        self._bring_edges_back()
        self._part_names()
        merged = None if self._conflicts else self._compiled()
        plans: dict[Side, MigrationPlan] = {}
        if merged is not None:
            plans = {
                "source": plan_between(self._versions.catalogs["source"], merged),
                "target": plan_between(self._versions.catalogs["target"], merged),
            }
            for side, plan in plans.items():
                self._refuse_unreachable(side, plan)
        is_decided = merged is not None and not self._conflicts
        catalog = merged if is_decided and merged is not None else self._versions.catalogs["target"]
        return MergedSchema(
            catalog=catalog,
            text=schema_text(catalog),
            conflicts=tuple(self._conflicts),
            losses=tuple(self._losses),
            plans=plans,
        )

    # One type, one property, one fact at a time.

    def _merge_type(self, owner: int) -> None:
        there = {name: Atom(owner, None, "kind") in facts for name, facts in self._facts.items()}
        if there["source"] != there["target"]:
            self._merge_alone(owner, None, "source" if there["source"] else "target", is_new=not there["base"])
            return
        if not there["source"]:
            return
        self._merge_facts(owner, None)
        for prop in sorted({atom.prop for atom in self._by_owner[owner] if atom.prop is not None}):
            has = {name: Atom(owner, prop, "name") in facts for name, facts in self._facts.items()}
            if has["source"] != has["target"]:
                self._merge_alone(owner, prop, "source" if has["source"] else "target", is_new=not has["base"])
            elif has["source"]:
                self._merge_facts(owner, prop)
        self._drop_constraints(owner)

    def _merge_facts(self, owner: int, prop: int | None) -> None:
        for atom in sorted((atom for atom in self._by_owner[owner] if atom.prop == prop), key=str):
            self._merge_fact(atom)

    def _merge_alone(self, owner: int, prop: int | None, side: Side, *, is_new: bool) -> None:
        """Decide about what only one side has: it added it, or the other one dropped it."""
        found = self._versions.part(side, owner, prop)
        if is_new:
            self._merged.update(found)
            return
        dropped_by = _OTHER[side]
        is_changed = found != self._versions.part("base", owner, prop)
        if (owner, prop) in self._kept or (is_changed and self._prefer == side):
            self._merged.update(found)
        elif is_changed and self._prefer is None:
            what = f"the {dropped_by} dropped {self._versions.called(owner, prop)}, which the {side} changed"
            self._add(what, owner, prop)
        else:
            self._losses.append(self._loss(dropped_by, owner, prop))

    def _loss(self, by: Side, owner: int, prop: int | None) -> Loss:
        keys = [self._versions.key_in(name, owner) for name in ("base", _OTHER[by])]
        return Loss(
            by=by,
            owner=owner,
            prop=prop,
            base_key=keys[0],
            kept_key=keys[1],
            property_name=None if prop is None else self._facts["base"][Atom(owner, prop, "name")],
            declaration=self._versions.text("base", owner, prop) or "",
        )

    def _merge_fact(self, atom: Atom) -> None:
        base: Any = self._facts["base"].get(atom, ABSENT)
        source, target = (self._said(name, atom, base) for name in ("source", "target"))
        if source in (base, target):
            chosen = target
        elif base == target:
            chosen = source
        elif atom.what == "enum" and base is not ABSENT and base <= source & target:
            chosen = source | target
        else:
            chosen = source if self._prefer == "source" else target
            if self._prefer is None and not self._is_inherited(atom):
                self._clashes.setdefault((atom.owner, atom.prop), []).append(atom)
        if chosen is not ABSENT:
            self._merged[atom] = chosen

    def _said(self, side: Side, atom: Atom, base: Any) -> Any:
        """Return what a side says; about a constraint that fell with a property it says nothing."""
        facts = self._facts[side]
        if atom in facts or base is ABSENT:
            return facts.get(atom, ABSENT)
        is_fallen = any(Atom(atom.owner, prop, "name") not in facts for prop in columns_in(atom, base))
        return base if is_fallen else ABSENT

    def _is_inherited(self, atom: Atom) -> bool:
        """Whether an interface says it, where it is a conflict already."""
        origin = Atom(atom.owner, atom.prop, "origin")
        return any(origin in facts and not facts[origin][0] for facts in self._facts.values())

    def _drop_constraints(self, owner: int) -> None:
        """Let constraints go with the properties they are over, unless a side added one."""
        losses = {loss.prop: loss for loss in self._losses if loss.owner == owner}
        over = {
            atom: columns_in(atom, self._merged[atom])
            for atom in sorted(self._by_owner[owner], key=str)
            if atom in self._merged
        }
        for atom, columns in over.items():
            for loss in (losses[prop] for prop in sorted(columns) if prop in losses):
                if atom in self._facts["base"]:
                    continue
                if self._prefer is None:
                    words, called = (
                        _worded(atom, self._versions.column_names(owner)),
                        self._versions.called(owner, loss.prop),
                    )
                    told = f"the {loss.kept_by} added {words} over {called}, which the {loss.by} dropped"
                    self._add(told, owner, loss.prop)
                elif self._prefer == loss.kept_by and loss in self._losses:
                    self._losses.remove(loss)
                    self._merged.update(self._versions.part(loss.kept_by, owner, loss.prop))
        for atom, columns in over.items():
            if not all(Atom(owner, prop, "name") in self._merged for prop in columns):
                del self._merged[atom]

    # What cannot be seen in one fact.

    def _report_clashes(self) -> None:
        for (owner, prop), atoms in self._clashes.items():
            names = self._versions.column_names(owner)
            words = " and ".join(dict.fromkeys(_worded(atom, names) for atom in atoms))
            was = any(Atom(owner, prop, "name") == atom for atom in self._facts["base"])
            if was:
                message = f"both sides changed {words} of {self._versions.called(owner, prop)}"
            else:
                message = f"both sides added {self._versions.called(owner, prop)}, with differences in {words}"
            self._add(message, owner, prop)

    def _part_names(self) -> None:
        """Find types, and properties of a type, that would share a name."""
        for _ in range(2):
            found = list(self._same_names())
            if not found or self._prefer is None:
                break
            # The side that does not decide takes back the name that it gave.
            for atoms in found:
                for atom in atoms:
                    name = self._facts[self._prefer].get(atom)
                    if name is not None:
                        self._merged[atom] = name
        for atoms in self._same_names():
            first, second = atoms[:2]
            name = self._merged[first]
            what = "types" if first.prop is None else f"properties of {self._versions.called(first.owner, None)}"
            pair = [self._versions.called(atom.owner, atom.prop) for atom in (first, second)]
            told = f"two {what} would be called '{name}': {pair[0]} and {pair[1]}"
            self._add(told, second.owner, second.prop)

    def _same_names(self) -> Iterator[list[Atom]]:
        found: dict[tuple[Any, ...], list[Atom]] = {}
        for atom, value in self._merged.items():
            if atom.what != "name":
                continue
            kind = self._merged[Atom(atom.owner, None, "kind")]
            # Edges are found by their names in any letter case.
            is_edge = kind == "edge" and atom.prop is None
            place = (kind,) if atom.prop is None else (atom.owner, "property")
            found.setdefault((*place, value.lower() if is_edge else value), []).append(atom)
        yield from (sorted(atoms) for atoms in found.values() if len(atoms) > 1)

    def _check_ends(self) -> None:
        """Find edges that one side added to a type that the other one dropped."""
        for atom, value in list(self._merged.items()):
            if atom.what != "ends":
                continue
            for end in sorted(set(value)):
                loss = next((one for one in self._losses if one.owner == end and one.prop is None), None)
                if loss is not None and self._prefer == loss.kept_by:
                    self._losses.remove(loss)
                    self._merged.update(self._versions.part(loss.kept_by, end, None))
                elif Atom(end, None, "kind") not in self._merged:
                    edge, node = self._versions.called(atom.owner, None), self._versions.called(end, None)
                    self._add(f"{edge} ends at {node}, which one side dropped", atom.owner, None)

    def _bring_edges_back(self) -> None:
        """Let edges stay that fell with a node type which stays."""
        for loss in list(self._losses):
            ends = self._facts["base"].get(Atom(loss.owner, None, "ends"), ())
            fell = [end for end in ends if Atom(end, None, "kind") not in self._facts[loss.by]]
            if loss.prop is None and fell and all(Atom(end, None, "kind") in self._merged for end in ends):
                self._losses.remove(loss)
                self._merged.update(self._versions.part(loss.kept_by, loss.owner, None))

    # The result.

    def _compiled(self) -> Catalog | None:
        """Return the merged catalog with its ids; None if the schema contradicts itself."""
        draft = catalog_of_facts(self._merged, self._versions.order())
        try:
            compiled = compile_schema(parse_schema(schema_text(draft), "<merged schema>"))
        except SchemaCheckError as error:
            self._conflicts.append(SchemaConflict(message=f"the schemas do not go together: {error.message}"))
            return None
        return with_merged_ids(compiled, self._merged, self._versions, self._following)

    def _refuse_unreachable(self, side: Side, plan: MigrationPlan) -> None:
        for step in plan.steps:
            # Whether rows lack a value that is required is for the rows to say.
            if isinstance(step, UnsupportedChange) and step.code is not ADD_REQUIRED_PROPERTY:
                self._add(
                    f"rows of the {side} cannot follow: {step.reason}", *self._versions.place(step.entity, self._merged)
                )

    # Words.

    def _add(self, message: str, owner: int, prop: int | None) -> None:
        texts = {name: self._versions.text(name, owner, prop) for name in self._versions.catalogs}
        called = self._versions.called(owner, prop)
        self._conflicts.append(
            SchemaConflict(
                message=message,
                type_key=called.partition(".")[0],
                property_name=called.partition(".")[2] or None,
                base=texts["base"],
                source=texts["source"],
                target=texts["target"],
            )
        )


def _worded(atom: Atom, names: Mapping[Any, str]) -> str:
    detail: Any = atom.detail
    match atom.what:
        case "annotation":
            return f"@{detail}"
        case "unique" | "index":
            return f"@{atom.what}({', '.join(sorted(names[column] for column in detail))})"
        case "range":
            return f"the @range of {names[detail]}"
        case "check":
            return f"the @check of {names[detail[0]]}"
        case "word":
            return f"@{detail[1]} of {names[detail[0]]}"
        case _:
            return _WORDS[atom.what]
