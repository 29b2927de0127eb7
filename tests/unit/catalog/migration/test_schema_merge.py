"""The truth table of merging schemas: every pair of steps, each on the thing where it meets the other one hardest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import get_args

import pytest

from omnigraph.catalog import assign_identities, catalog_from_json, catalog_to_json, compile_schema
from omnigraph.catalog.identity import with_own_numbers
from omnigraph.catalog.migration import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    DropConstraint,
    DropProperty,
    DropType,
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
    plan_migration,
)
from omnigraph.catalog.migration.merge import merge_schemas
from omnigraph.lang.pg import parse_schema

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@dataclass(frozen=True)
class Schema:
    """A schema in pieces, so that two changes of it can be made one after the other in any order."""

    person: str = "Person"
    head: frozenset[str] = frozenset()
    properties: dict[str, str] = field(
        default_factory=lambda: {
            "name": "name: String @key",
            "age": "age: I32?",
            "must": "must: I32",
            "mood": "mood: enum(high, low)?",
            "nick": "nick: String?",
        }
    )
    extras: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rules: frozenset[str] = frozenset({"@range({age}, 0..100)", "@unique(nick)"})
    card: str = "0..5"
    others: tuple[str, ...] = ("node City { name: String @key }",)
    enum: frozenset[str] = frozenset({"high", "low"})

    def text(self) -> str:
        names = {name: line.partition(":")[0] for name, line in self.properties.items()}
        lines = [" ".join([line, *self.extras.get(name, ())]) for name, line in self.properties.items()]
        lines = [line.replace("enum(high, low)", f"enum({', '.join(sorted(self.enum))})") for line in lines]
        rules = [
            rule.replace("{age}", names.get("age", ""))
            for rule in sorted(self.rules)
            if "{age}" not in rule or "age" in names
        ]
        if self.person:
            node = f"node {self.person} {' '.join(sorted(self.head))} {{ {' '.join([*lines, *rules])} }}"
            edge = f"edge Knows: {self.person.split()[0]} -> {self.person.split()[0]} @card({self.card})"
        else:
            node = edge = ""
        return "\n".join([node, edge, *sorted(self.others)])

    def with_property(self, name, line):
        return replace(self, properties={**self.properties, name: line})

    def without(self, name):
        return replace(self, properties={key: line for key, line in self.properties.items() if key != name})

    def edited(self, name, old, new):
        return self.with_property(name, self.properties[name].replace(old, new)) if name in self.properties else self

    def with_extra(self, name, words):
        return replace(self, extras={**self.extras, name: tuple(sorted({*self.extras.get(name, ()), words}))})


def renamed(name, new):
    def change(schema):
        if name not in schema.properties:
            return schema
        line = schema.properties[name].partition(":")[2]
        return schema.with_property(name, f"{new}:{line}")

    return change


@dataclass(frozen=True)
class Move:
    """A step as a change of a schema; ``other`` is one of the same class that meets it on the same thing."""

    make: object
    other: object = None
    # What the two of them come to: "both" or "conflict".
    verdict: str = "both"
    # Whether one of the sides can decide their conflict.
    decidable: bool = True


MOVES = {
    AddType: Move(
        make=lambda s: replace(s, others=tuple({*s.others, "node Tag { name: String @key hue: String? }"})),
        other=lambda s: replace(s, others=tuple({*s.others, "node Tag { name: String @key hue: I32? }"})),
        verdict="conflict",
        decidable=False,
    ),
    RenameType: Move(
        make=lambda s: replace(s, person=s.person and "Human"),
        other=lambda s: replace(s, person=s.person and "Being"),
        verdict="conflict",
    ),
    AddProperty: Move(
        make=lambda s: s.with_property("zip", "zip: String?"),
        other=lambda s: s.with_property("zip", "zip: I32?"),
        verdict="conflict",
        decidable=False,
    ),
    RenameProperty: Move(make=renamed("age", "years"), other=renamed("age", "old"), verdict="conflict"),
    MakeNullable: Move(
        make=lambda s: s.with_property("must", "must: I32?"), other=lambda s: s.with_extra("must", '@owner("x")')
    ),
    MakeRequired: Move(make=lambda s: s.edited("age", "?", ""), other=lambda s: s.edited("nick", "String?", "String")),
    WidenProperty: Move(
        make=lambda s: s.edited("age", "I32", "I64"),
        other=lambda s: s.edited("age", "I32", "F64"),
        verdict="conflict",
        decidable=False,
    ),
    ExtendEnum: Move(
        make=lambda s: replace(s, enum=s.enum | {"mid"}), other=lambda s: replace(s, enum=s.enum | {"top"})
    ),
    AddConstraint: Move(
        make=lambda s: replace(s, rules=s.rules | {"@unique({age})"}),
        other=lambda s: replace(s, rules=s.rules | {"@index({age})"}),
    ),
    DropConstraint: Move(
        make=lambda s: replace(s, rules=s.rules - {"@range({age}, 0..100)"}),
        other=lambda s: replace(s, rules=s.rules - {"@unique(nick)"}),
    ),
    ChangeCardinality: Move(
        make=lambda s: replace(s, card="0..9"), other=lambda s: replace(s, card="0..7"), verdict="conflict"
    ),
    UpdateTypeMetadata: Move(
        make=lambda s: replace(s, head=s.head | {'@description("a")'}),
        other=lambda s: replace(s, head=s.head | {'@description("b")'}),
        verdict="conflict",
    ),
    UpdatePropertyMetadata: Move(
        make=lambda s: s.with_extra("age", '@description("a")'),
        other=lambda s: s.with_extra("age", '@description("b")'),
        verdict="conflict",
    ),
    DropType: Move(make=lambda s: replace(s, person=""), other=lambda s: replace(s, others=s.others[1:])),
    DropProperty: Move(make=lambda s: s.without("age"), other=lambda s: s.without("must")),
}
OF_A_PERSON = {
    RenameType,
    AddProperty,
    RenameProperty,
    MakeNullable,
    MakeRequired,
    WidenProperty,
    ExtendEnum,
    AddConstraint,
    DropConstraint,
    ChangeCardinality,
    UpdateTypeMetadata,
    UpdatePropertyMetadata,
    DropProperty,
}
OF_AN_AGE = {RenameProperty, MakeRequired, WidenProperty, AddConstraint, UpdatePropertyMetadata}
# What two steps of different classes come to: what goes does not go together with what the other side changed of it.
PAIRS = {
    **{frozenset(pair): "both" for pair in combinations(MOVES, 2)},
    **{frozenset({DropType, step}): "conflict" for step in OF_A_PERSON},
    **{frozenset({DropProperty, step}): "conflict" for step in OF_AN_AGE},
}
BASE = assign_identities(compile_schema(parse_schema(Schema().text())), DOMAIN)


def with_hints(text):
    """Tell the planner which names went."""
    for new in ("Human", "Being"):
        text = text.replace(f"node {new}", f'node {new} @rename_from("Person")', 1)
    for new in ("years", "old"):
        text = text.replace(f"{new}: I32?", f'{new}: I32? @rename_from("age")')
    return text


@cache
def applied(text, branch=None):
    """The catalog of a branch that has come from the base to a schema, as a plan of its own."""
    return moved(BASE, text, branch)


def moved(base, text, branch=None):
    plan = plan_migration(with_own_numbers(base, branch), parse_schema(with_hints(text)))
    assert plan.is_supported, plan.describe()
    return plan.catalog


def shape(schema):
    return _shape(schema.text())


@cache
def _shape(text):
    return compile_schema(parse_schema(text)).shape_hash


def assert_sound(merged):
    assert catalog_from_json(catalog_to_json(merged)) == merged


def check(one, other, verdict, decidable=True):
    """Merge in both directions and compare with the schema that both changes give one after the other."""
    sides = one(Schema()), other(Schema())
    for source, target in (sides, sides[::-1]):
        catalogs = BASE, applied(source.text(), "branch"), applied(target.text())
        merged = merge_schemas(*catalogs)
        assert bool(merged.conflicts) == (verdict == "conflict"), merged.conflicts
        if verdict != "conflict":
            assert merged.catalog.shape_hash == shape(other(one(Schema())))
            assert_sound(merged.catalog)
            continue
        assert all(conflict.message and conflict.type_key for conflict in merged.conflicts)
        for prefer, chosen in (("target", target), ("source", source)):
            decided = merge_schemas(*catalogs, prefer)
            assert bool(decided.conflicts) == (not decidable), decided.conflicts
            if decidable:
                assert decided.catalog.shape_hash == shape(chosen)
                assert_sound(decided.catalog)


def test_every_class_of_steps_has_a_row_and_every_pair_a_cell():
    assert set(MOVES) | {UnsupportedChange} == set(get_args(Step))
    assert set(PAIRS) == {frozenset(pair) for pair in combinations(MOVES, 2)}


def test_each_move_is_a_plan_of_its_class():
    for step, move in MOVES.items():
        for make in (move.make, move.other):
            plan = plan_migration(BASE, parse_schema(with_hints(make(Schema()).text())))
            if make is move.make:
                assert step in {type(found) for found in plan.steps}, (step, plan.describe())


@pytest.mark.parametrize("step", MOVES, ids=lambda step: step.__name__)
def test_steps_of_one_class(step):
    move = MOVES[step]
    check(move.make, move.make, "both")
    check(move.make, move.other, move.verdict, move.decidable)


@pytest.mark.parametrize("step", MOVES, ids=lambda step: step.__name__)
def test_steps_of_two_classes(step):
    for other, move in MOVES.items():
        if step.__name__ < other.__name__:
            check(MOVES[step].make, move.make, PAIRS[frozenset({step, other})])


NODE = "node Person { name: String @key  age: I32?  must: I32  mood: enum(high, low)?  nick: String? }"
PLAIN = assign_identities(compile_schema(parse_schema(NODE + " node City { name: String @key }")), DOMAIN)


def merged(source, target, prefer=None, base=PLAIN):
    return merge_schemas(base, moved(base, source, "branch"), moved(base, target), prefer)


CITY = " node City { name: String @key }"
SPECIAL = {
    "an edge to a type that the other side dropped": (NODE, NODE + CITY + " edge In: Person -> City", ["edge:In"]),
    "a type renamed to what the other side added": (
        NODE + ' node Town @rename_from("City") { name: String @key }',
        NODE + CITY + " node Town { name: String @key }",
        ["node:Town"],
    ),
    "a property renamed to what the other side added": (
        NODE.replace("nick: String?", 'zip: String? @rename_from("nick")') + CITY,
        NODE.replace("}", "zip: I32? }") + CITY,
        ["node:Person"],
    ),
    "two bounds of one property": (
        NODE.replace(" }", " @range(age, 0..10) }") + CITY,
        NODE.replace(" }", " @range(age, 0..20) }") + CITY,
        ["node:Person"],
    ),
    "a default that a rule of the other side refuses": (
        NODE.replace("age: I32?", "age: I32? @default(50)") + CITY,
        NODE.replace(" }", " @range(age, 0..10) }") + CITY,
        [None],
    ),
    "an edge whose name differs in letter case": (
        NODE + CITY + " edge In: Person -> City",
        NODE + CITY + " edge IN: Person -> City",
        ["edge:In"],
    ),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_what_no_single_step_tells_is_a_conflict_too(name):
    source, target, about = SPECIAL[name]
    assert [conflict.type_key for conflict in merged(source, target).conflicts] == about


def test_two_annotations_of_one_thing_stand_side_by_side():
    one, other = (NODE.replace("age: I32?", f"age: I32? {word}") + CITY for word in ('@owner("a")', '@unit("year")'))
    assert 'age: I32? @owner("a") @unit("year")' in merged(one, other).text


def test_a_name_goes_back_to_what_the_side_that_decides_calls_it():
    source = NODE + ' node Town @rename_from("City") { name: String @key }'
    target = NODE + CITY + " node Town { name: String @key  size: I32? }"
    found = merged(source, target, "target")
    assert found.conflicts == ()
    assert set(found.catalog.nodes) == {"Person", "City", "Town"}
    assert merged(source, target, "source").conflicts != ()


def test_what_an_interface_hands_on_reaches_types_that_the_other_side_added():
    start = "interface Named { name: String } node A implements Named {}"
    base = assign_identities(compile_schema(parse_schema(start)), DOMAIN)
    source = start.replace("name: String", "name: String  nick: String?")
    found = merged(source, start + " node B implements Named {}", base=base)
    assert found.conflicts == ()
    assert [prop.name for prop in found.catalog.nodes["B"].properties] == ["name", "nick"]
    assert_sound(found.catalog)
    one, other = (start.replace("name: String", f"name: String  nick: {kind}?") for kind in ("String", "I32"))
    assert [conflict.type_key for conflict in merged(one, other, base=base).conflicts] == ["interface:Named"]


def test_ids_of_two_branches_never_meet_and_those_of_the_target_win():
    text = NODE.replace("}", "zip: String? }") + CITY + " node Tag { name: String @key }"
    source, target = moved(PLAIN, text, "branch"), moved(PLAIN, text)
    found = merge_schemas(PLAIN, source, target).catalog
    ours, theirs = target.nodes["Tag"], source.nodes["Tag"]
    assert (found.nodes["Tag"].id, found.nodes["Tag"].aliases) == (ours.id, (theirs.id,))
    assert found.nodes["Tag"].incarnation == ours.incarnation
    assert found.nodes["Person"].get("zip").aliases == (source.nodes["Person"].get("zip").id,)
    assert found.next_identity == target.next_identity
    # Either side of what was joined continues it, also when the source has the target's schema.
    again = merge_schemas(source, source, found)
    assert again.catalog == found
    back = merge_schemas(source, found, source, born_as="branch")
    assert back.catalog.nodes["Tag"].id == theirs.id
    assert back.catalog.nodes["Tag"].aliases == (ours.id,)
