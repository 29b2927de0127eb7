"""Stable ids: drawn in a fixed order, carried through renames, never used twice."""

from __future__ import annotations

from omnigraph.catalog import Catalog, IdentityMatches, assign_identities, carry_identities, compile_schema
from omnigraph.lang.pg import parse_schema

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def _fresh(text: str) -> Catalog:
    return assign_identities(compile_schema(parse_schema(text)), DOMAIN)


def _ids(owner) -> dict[str, int]:
    return {prop.name: prop.id for prop in owner.properties}


def test_a_fresh_graph_draws_types_then_properties_then_tables():
    catalog = _fresh("node Person { name: String @key  age: I32? } edge Knows: Person -> Person")
    person, knows = catalog.nodes["Person"], catalog.edges["Knows"]
    assert (person.id, knows.id) == (1, 2)
    assert _ids(person) == {"name": 4, "age": 3}
    assert (person.incarnation, knows.incarnation) == (5, 6)
    assert catalog.next_identity == 7
    assert catalog.identity_domain == DOMAIN


def test_interfaces_come_first_and_injected_properties_have_ids_of_their_own():
    catalog = _fresh("edge E: B -> A  node B implements Z {} node A {} interface Z { z: String }")
    assert catalog.interfaces["Z"].id == 1
    assert (catalog.nodes["A"].id, catalog.nodes["B"].id, catalog.edges["E"].id) == (2, 3, 4)
    assert _ids(catalog.interfaces["Z"]) == {"z": 5}
    assert _ids(catalog.nodes["B"]) == {"z": 6}
    tables = [catalog.nodes["A"], catalog.nodes["B"], catalog.edges["E"]]
    assert [table.incarnation for table in tables] == [7, 8, 9]


def test_properties_keep_declaration_order_although_ids_follow_names():
    catalog = _fresh("node A { z: String  y: String  x: String }")
    assert [prop.name for prop in catalog.nodes["A"].properties] == ["z", "y", "x"]
    assert _ids(catalog.nodes["A"]) == {"z": 4, "y": 3, "x": 2}


def test_a_rename_keeps_the_ids_of_type_property_and_table():
    accepted = _fresh("node Person { name: String @key  age: I32? } edge Knows: Person -> Person { since: Date? }")
    desired = compile_schema(
        parse_schema("node Human { full: String @key  age: I32? } edge Knows: Human -> Human { since: Date? }")
    )
    matches = IdentityMatches(
        types={("node", "Human"): "Person", ("edge", "Knows"): "Knows"},
        properties={
            ("node", "Human", "full"): "name",
            ("node", "Human", "age"): "age",
            ("edge", "Knows", "since"): "since",
        },
    )
    carried = carry_identities(desired, accepted, matches)
    old, human = accepted.nodes["Person"], carried.nodes["Human"]
    assert (human.id, human.incarnation) == (old.id, old.incarnation)
    assert _ids(human) == {"full": _ids(old)["name"], "age": _ids(old)["age"]}
    assert carried.edges["Knows"].id == accepted.edges["Knows"].id
    assert carried.next_identity == accepted.next_identity
    assert carried.shape_hash == desired.shape_hash


def test_additions_draw_on_from_the_counter_in_the_fixed_order():
    accepted = _fresh("node Person { name: String @key }")
    assert accepted.next_identity == 4
    desired = compile_schema(
        parse_schema("node City { b: String  a: String } node Person { nick: String?  name: String @key }")
    )
    matches = IdentityMatches(types={("node", "Person"): "Person"}, properties={("node", "Person", "name"): "name"})
    carried = carry_identities(desired, accepted, matches)
    city, person = carried.nodes["City"], carried.nodes["Person"]
    assert city.id == 4
    # Person has the smaller type id, so its added property is drawn before those of City.
    assert _ids(person) == {"name": 2, "nick": 5}
    assert _ids(city) == {"a": 6, "b": 7}
    assert city.incarnation == 8
    assert carried.next_identity == 9


def test_a_name_that_was_dropped_and_came_back_is_somebody_else():
    accepted = _fresh("node Person { name: String @key }")
    gone = carry_identities(compile_schema(parse_schema("")), accepted, IdentityMatches())
    assert gone.next_identity == accepted.next_identity
    again = carry_identities(compile_schema(parse_schema("node Person { name: String @key }")), gone, IdentityMatches())
    person = again.nodes["Person"]
    assert {person.id, person.incarnation, *_ids(person).values()}.isdisjoint({1, 2, 3})


def test_an_accepted_key_keeps_its_order_through_reordering_and_renames():
    accepted = _fresh("node M { tenant: String  slot: U32  @key(tenant, slot) }")
    desired = compile_schema(parse_schema("node M { tenant: String  aaa: U32  @key(aaa, tenant) }"))
    matches = IdentityMatches(
        types={("node", "M"): "M"},
        properties={("node", "M", "tenant"): "tenant", ("node", "M", "aaa"): "slot"},
    )
    assert carry_identities(desired, accepted, matches).nodes["M"].key == ("tenant", "aaa")


def test_an_edge_key_keeps_its_order_too():
    accepted = _fresh("node A {} edge E: A -> A { since: Date  @key(since, dst, src) }")
    desired = compile_schema(parse_schema("node A {} edge E: A -> A { day: Date  @key(src, dst, day) }"))
    matches = IdentityMatches(
        types={("node", "A"): "A", ("edge", "E"): "E"}, properties={("edge", "E", "day"): "since"}
    )
    assert carry_identities(desired, accepted, matches).edges["E"].key == ("day", "dst", "src")


def test_a_key_over_other_columns_is_taken_as_written():
    accepted = _fresh("node M { a: String  b: String  @key(b, a) }")
    desired = compile_schema(parse_schema("node M { a: String  b: String  c: String  @key(c, a) }"))
    matches = IdentityMatches(types={("node", "M"): "M"}, properties={("node", "M", "a"): "a", ("node", "M", "b"): "b"})
    assert carry_identities(desired, accepted, matches).nodes["M"].key == ("c", "a")


def test_columns_stay_where_they_are_and_added_ones_follow():
    accepted = _fresh("node M { a: String  b: String }")
    desired = compile_schema(parse_schema("node M { y: I32?  b2: String  x: I32?  a: String }"))
    matches = IdentityMatches(
        types={("node", "M"): "M"}, properties={("node", "M", "a"): "a", ("node", "M", "b2"): "b"}
    )
    carried = carry_identities(desired, accepted, matches)
    assert [prop.name for prop in carried.nodes["M"].properties] == ["a", "b2", "y", "x"]
