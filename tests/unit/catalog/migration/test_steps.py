"""What a step looks like to people; its JSON is covered by the corpus."""

from __future__ import annotations

import pytest

from omnigraph.catalog.migration import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    DeclaredConstraint,
    DropConstraint,
    DropProperty,
    DropType,
    ExtendEnum,
    MakeNullable,
    MakeRequired,
    RenameProperty,
    RenameType,
    Step,
    Tier,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)
from omnigraph.catalog.migration import codes as table
from omnigraph.catalog.model import AnnotationValue, CardinalityRule, PropertyType, Scalar

PERSON = {"type_kind": "node", "type_name": "Person"}
UNIQUE = DeclaredConstraint(kind="Unique", columns=("a", "b"))
CHECK = DeclaredConstraint(kind="Check", columns=("a",), pattern='"\\d')

LINES = [
    (AddType(type_kind="node", name="City"), Tier.SAFE, "add node type City"),
    (
        RenameType(type_kind="edge", old_name="Knows", new_name="Met"),
        Tier.SAFE,
        "rename edge type Knows to Met",
    ),
    (
        AddProperty(**PERSON, property_name="nick", property_type=PropertyType(scalar=Scalar.STRING, nullable=True)),
        Tier.SAFE,
        "add property Person.nick: String?",
    ),
    (RenameProperty(**PERSON, old_name="a", new_name="b"), Tier.SAFE, "rename property Person.a to b"),
    (MakeNullable(**PERSON, property_name="a"), Tier.SAFE, "make property Person.a nullable"),
    (
        MakeRequired(**PERSON, property_name="a"),
        Tier.VALIDATED,
        "make property Person.a required [OG-MF-104, validated]",
    ),
    (
        WidenProperty(
            **PERSON,
            property_name="a",
            old_type=PropertyType(scalar=Scalar.I32),
            new_type=PropertyType(scalar=Scalar.I64),
        ),
        Tier.SAFE,
        "widen property Person.a from I32 to I64",
    ),
    (
        ChangeCardinality(
            type_kind="edge", type_name="Knows", old_rule=CardinalityRule(maximum=1), new_rule=CardinalityRule()
        ),
        Tier.SAFE,
        "change cardinality of Knows from 0..1 to 0..*",
    ),
    (
        ChangeCardinality(
            type_kind="edge", type_name="Knows", old_rule=CardinalityRule(), new_rule=CardinalityRule(minimum=2)
        ),
        Tier.VALIDATED,
        "change cardinality of Knows from 0..* to 2..* [validated]",
    ),
    (
        ExtendEnum(**PERSON, property_name="a", added_values=("x", "y")),
        Tier.SAFE,
        "extend enum Person.a with x, y",
    ),
    (AddConstraint(**PERSON, constraint=UNIQUE), Tier.SAFE, "add constraint @unique(a, b) to Person"),
    (
        AddConstraint(**PERSON, constraint=CHECK, validate=True),
        Tier.VALIDATED,
        'add constraint @check(a, "\\"\\\\d") to Person [validated]',
    ),
    (
        DropConstraint(**PERSON, constraint=UNIQUE),
        Tier.SAFE,
        "drop constraint @unique(a, b) of Person",
    ),
    (
        UpdateTypeMetadata(
            type_kind="node",
            name="Person",
            annotations=(
                AnnotationValue(name="deprecated"),
                AnnotationValue(name="owner", value="ann", keywords=(("team", "x"),)),
            ),
        ),
        Tier.SAFE,
        'set annotations of node type Person: @deprecated @owner("ann", team="x")',
    ),
    (
        UpdatePropertyMetadata(**PERSON, property_name="a", annotations=()),
        Tier.SAFE,
        "set annotations of property Person.a: none",
    ),
    (
        DropType(type_kind="edge", name="Knows", mode="soft", code=table.DROP_EDGE_TYPE),
        Tier.DESTRUCTIVE,
        "drop edge type Knows (soft) [OG-DS-103, destructive]",
    ),
    (
        DropProperty(**PERSON, property_name="a", mode="hard", code=table.DROP_PROPERTY),
        Tier.DESTRUCTIVE,
        "drop property Person.a (hard) [OG-DS-104, destructive]",
    ),
    (
        DropProperty(type_kind="interface", type_name="Named", property_name="a", mode="soft", code=None),
        Tier.SAFE,
        "drop property Named.a (soft)",
    ),
    (
        UnsupportedChange(entity="node:Person.a", reason="because", code=table.CHANGE_PROPERTY_TYPE),
        Tier.DESTRUCTIVE,
        "unsupported change on node:Person.a: because [OG-MF-106, destructive]",
    ),
    (UnsupportedChange(entity="schema", reason="because"), None, "unsupported change on schema: because"),
]


@pytest.mark.parametrize(
    ("step", "tier", "line"), LINES, ids=[f"{step.kind}-{n}" for n, (step, *_) in enumerate(LINES)]
)
def test_step_describes_itself_in_one_line_with_code_and_tier(step, tier, line):
    assert step.describe() == line
    assert step.tier is tier


def test_every_kind_of_step_is_described_here():
    assert {type(step) for step, *_ in LINES} == set(Step.__args__)


def test_kinds_are_distinct():
    kinds = [step.kind for step in Step.__args__]
    assert len(set(kinds)) == len(kinds)


def test_refusal_message_begins_with_its_code_if_it_has_one():
    coded = UnsupportedChange(entity="node:A.b", reason="because", code=table.ADD_REQUIRED_PROPERTY)
    assert coded.message == "[OG-MF-103] because"
    assert UnsupportedChange(entity="node:A", reason="because").message == "because"


@pytest.mark.parametrize(
    ("low", "high", "text"), [(0, 1, "0..1"), (None, 2.5, "..2.5"), (-3, None, "-3..")], ids=["both", "high", "low"]
)
def test_range_is_written_as_the_language_writes_it(low, high, text):
    assert str(DeclaredConstraint(kind="Range", columns=("a",), low=low, high=high)) == f"@range(a, {text})"
