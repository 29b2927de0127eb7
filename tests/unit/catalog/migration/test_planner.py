"""Plans as a whole: what they carry over, and what applying code reads from them."""

from __future__ import annotations

import pytest

from omnigraph.catalog.migration import MigrationPlan, plan_creation, plan_migration
from omnigraph.catalog.model import Catalog
from omnigraph.errors import SchemaPlanError
from omnigraph.lang.pg import parse_schema

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
BASE = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""


def accept(text: str) -> Catalog:
    return plan_creation(parse_schema(text), DOMAIN).catalog


def plan(before: str, after: str) -> MigrationPlan:
    return plan_migration(accept(before), parse_schema(after))


def test_creation_adds_every_type_and_numbers_it():
    created = plan_creation(parse_schema(BASE), DOMAIN)
    assert [step.describe() for step in created.steps] == ["add node type Person", "add edge type Knows"]
    assert created.is_supported
    assert created.catalog.identity_domain == DOMAIN
    assert (created.catalog.nodes["Person"].id, created.catalog.edges["Knows"].id) == (1, 2)


def test_creation_of_an_empty_schema_has_no_step():
    created = plan_creation(parse_schema(""), DOMAIN)
    assert created.is_empty
    assert created.describe() == "no schema changes"


def test_hints_are_inert_while_a_graph_is_created():
    text = 'node Human @rename_from("Person") { full: String @key @rename_from("name") }'
    created = plan_creation(parse_schema(text), DOMAIN)
    assert [(remark.code, remark.entity) for remark in created.diagnostics] == [
        ("inert_initialization_rename_hint", "node:Human"),
        ("inert_initialization_rename_hint", "node:Human.full"),
    ]
    assert created.diagnostics[1].to_json() == {
        "code": "inert_initialization_rename_hint",
        "entity": "node:Human.full",
        "message": '@rename_from("name") has no effect on node:Human.full when the graph is created',
        "place": {"line": 1, "column": 55},
    }


def test_renamed_types_and_properties_keep_their_ids_and_table():
    before = accept(BASE)
    renamed = plan(
        BASE,
        'node Human @rename_from("Person") { full: String @key @rename_from("name")  age: I32? }'
        "edge Knows: Human -> Human { since: Date? }",
    ).catalog
    old, new = before.nodes["Person"], renamed.nodes["Human"]
    assert (new.id, new.incarnation) == (old.id, old.incarnation)
    assert new.get("full").id == old.get("name").id
    assert renamed.edges["Knows"].incarnation == before.edges["Knows"].incarnation
    assert renamed.next_identity == before.next_identity


def test_type_dropped_and_added_again_is_another_type():
    before = accept(BASE)
    without = plan(BASE, "").catalog
    again = plan_migration(without, parse_schema(BASE)).catalog
    assert again.nodes["Person"].id >= before.next_identity
    assert again.nodes["Person"].incarnation != before.nodes["Person"].incarnation


def test_reordered_key_columns_keep_the_order_they_were_accepted_in():
    text = "node M {{ tenant: String  slot: U32  @key({}) }}"
    planned = plan(text.format("tenant, slot"), text.format("slot, tenant"))
    assert planned.is_empty
    assert planned.catalog.nodes["M"].key == ("tenant", "slot")


def test_key_order_is_kept_through_a_rename():
    planned = plan(
        "node M { tenant: String  slot: U32  @key(tenant, slot) }",
        'node M { aaa: U32 @rename_from("slot")  tenant: String  @key(aaa, tenant) }',
    )
    assert planned.catalog.nodes["M"].key == ("tenant", "aaa")


def test_first_refusal_is_what_applying_fails_with():
    planned = plan(BASE, BASE.replace("age: I32?", "age: String?  phone: String"))
    assert not planned.is_supported
    assert planned.first_refusal.message.startswith("[OG-MF-106] changing property type")
    assert len(planned.steps) == 2


def test_supported_plan_has_no_refusal():
    planned = plan(BASE, BASE.replace("age: I32?", "age: I32?  nick: String?"))
    assert planned.first_refusal is None
    assert planned.to_json()["supported"] is True


def test_steps_to_validate_are_those_that_rows_can_contradict():
    planned = plan(
        BASE,
        """
        node Person { name: String @key  age: I32 @index  nick: String? @unique  phone: String
            @range(age, 0..)
        }
        edge Knows: Person -> Person { since: Date? }
        """,
    )
    assert [step.describe() for step in planned.validated_steps] == [
        "make property Person.age required [OG-MF-104, validated]",
        "add constraint @range(age, 0..) to Person [validated]",
    ]


def test_plan_is_described_with_a_line_per_step():
    planned = plan(BASE, BASE.replace("age: I32?", ""))
    assert planned.describe() == "- drop property Person.age (soft) [OG-DS-104, destructive]"


def test_hint_error_shows_its_place_and_the_near_name():
    with pytest.raises(SchemaPlanError, match="no accepted declaration has that name") as caught:
        plan(BASE, 'node Human @rename_from("Persons") { name: String @key }')
    shown = str(caught.value)
    assert "<schema>:1:12:" in shown
    assert "did you mean 'Person'?" in shown


def test_type_hint_is_judged_before_any_property_hint():
    text = 'node Person { name: String @key @rename_from("x")  b: I32? @rename_from("y") }\nnode Q @rename_from("z") {}'
    with pytest.raises(SchemaPlanError, match="node:Q"):
        plan(BASE, text)


def test_a_node_that_newly_receives_a_hinted_property_simply_gets_it():
    planned = plan(
        "interface I { old: String? }  node A implements I { slug: String @key }  node B { slug: String @key }",
        'interface I { x: String? @rename_from("old") }  node A implements I { slug: String @key }'
        "  node B implements I { slug: String @key }",
    )
    assert "add property B.x: String?" in planned.describe()
    assert "rename property A.old to x" in planned.describe()


def test_a_name_given_up_by_a_rename_can_be_taken_by_an_added_property_only_later():
    """An exact name always wins, so within one plan the old name cannot be both source and target."""
    with pytest.raises(SchemaPlanError, match="consumed more than once"):
        plan(BASE, BASE.replace("age: I32?", 'years: I32? @rename_from("age")  age: String?'))
