"""No merge makes a graph that a load or a mutation would have refused."""

from __future__ import annotations

import pytest
from tests.merge_graph import DRAFT, Template, conflicts_of, head_of, kinds_of, put
from tests.session_graph import read_graph

from omnigraph.errors import MergeConflictsError
from omnigraph.history.merge import merge_branch, preview_merge

PERSON, KNOWS, LEADS = "node:Person", "edge:Knows", "edge:Leads"
SCHEMA = """
node Person {
    name: String @key
    mail: String? @unique
    first: String?
    born: Date?
    level: I32?
    mood: enum(good, bad)?
    @unique(first, born)
    @range(level, 0..9)
}
node Team { name: String @key }
edge Knows: Person -> Person
edge Leads: Person -> Team @card(1..2)
"""
SEED = """
{"type": "Person", "data": {"name": "a", "mail": "a@x"}}
{"type": "Person", "data": {"name": "b"}}
{"type": "Team", "data": {"name": "red"}}
{"type": "Team", "data": {"name": "blue"}}
{"type": "Team", "data": {"name": "green"}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}}
{"edge": "Leads", "from": "a", "to": "red", "data": {"id": "ar"}}
"""


def person(name, **values):
    return {"name": name, "mail": None, "first": None, "born": None, "level": None, "mood": None, **values}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("rules"), SCHEMA, SEED)


def _refused(session, **options):
    before, head = read_graph(session), head_of(session)
    preview = preview_merge(session, DRAFT)
    conflicts = conflicts_of(session, **options)
    assert conflicts == preview.conflicts
    assert (read_graph(session), head_of(session)) == (before, head)
    return conflicts


def test_a_unique_value_that_each_side_gave_to_another_row_is_a_conflict(template):
    with template.open() as session:
        put(session, PERSON, {"c": person("c", mail="c@x")}, DRAFT)
        put(session, PERSON, {"d": person("d", mail="c@x")})
        (conflict,) = _refused(session)
        assert kinds_of([conflict]) == [("unique_violation", PERSON, "c")]
        assert conflict.message == "@unique violation on Person.mail: value 'c@x' held by 'd' and 'c'"
        assert (conflict.base, conflict.target) == (None, None)
        assert conflict.source["properties"]["mail"] == "c@x"


def test_a_unique_tuple_is_compared_as_a_whole(template):
    with template.open() as session:
        put(session, PERSON, {"c": person("c", first="x", born=100)}, DRAFT)
        put(session, PERSON, {"d": person("d", first="x", born=101)})
        assert merge_branch(session, DRAFT).commit is not None
        put(session, PERSON, {"e": person("e", first="x", born=102)}, DRAFT)
        put(session, PERSON, {"f": person("f", first="x", born=102)})
        assert kinds_of(_refused(session)) == [("unique_violation", PERSON, "e")]


def test_a_unique_value_that_the_target_gave_up_is_free(template):
    with template.open() as session:
        put(session, PERSON, {"c": person("c", mail="a@x"), "a": person("a")}, DRAFT)
        put(session, PERSON, {"d": person("d")})
        merge_branch(session, DRAFT)
        assert read_graph(session)[PERSON]["c"]["mail"] == "a@x"


def test_an_edge_to_a_node_that_the_target_removed_is_an_orphan_on_every_route(template):
    with template.open() as session:
        put(session, KNOWS, {"ba": {"src": "b", "dst": "a"}}, DRAFT)
        put(session, LEADS, {"ar": None})
        put(session, KNOWS, {"ab": None})
        put(session, PERSON, {"a": None})
        (conflict,) = _refused(session)
        assert kinds_of([conflict]) == [("orphan_edge", KNOWS, "ba")]
        assert conflict.message == "dst 'a' not found in Person"
        assert conflict.source["endpoints"] == {"from": "b", "to": "a"}


def test_an_edge_that_the_target_kept_although_the_source_removed_its_node_is_an_orphan(template):
    with template.open() as session:
        put(session, KNOWS, {"ab": None}, DRAFT)
        put(session, LEADS, {"ar": None}, DRAFT)
        put(session, PERSON, {"a": None}, DRAFT)
        put(session, LEADS, {"ab": {"src": "a", "dst": "blue"}, "ag": {"src": "a", "dst": "green"}})
        conflicts = _refused(session)
        assert kinds_of(conflicts) == [("orphan_edge", LEADS, "ab"), ("orphan_edge", LEADS, "ag")]
        assert {conflict.message for conflict in conflicts} == {"src 'a' not found in Person"}
        assert (conflicts[0].source, conflicts[0].target["endpoints"]) == (None, {"from": "a", "to": "blue"})


def test_edges_of_both_sides_count_together(template):
    with template.open() as session:
        put(session, LEADS, {"ab": {"src": "a", "dst": "blue"}}, DRAFT)
        put(session, LEADS, {"ag": {"src": "a", "dst": "green"}})
        (conflict,) = _refused(session)
        assert kinds_of([conflict]) == [("cardinality_violation", LEADS, None)]
        assert conflict.message == "@card violation on edge Leads: source 'a' has 3 edges (max 2)"


def test_a_source_that_loses_its_last_edge_by_both_sides_together_is_found(template):
    with template.open() as session:
        put(session, LEADS, {"ab": {"src": "a", "dst": "blue"}})
        session.store.create_branch(type(session.snapshot().state.head.branch)("other"))
        put(session, LEADS, {"ab": {"src": "b", "dst": "blue"}}, "other")
        put(session, LEADS, {"ar": None})
        found = conflicts_of(session, "other")
        assert [conflict.message for conflict in found] == [
            "@card violation on edge Leads: source 'a' has 0 edges (min 1)"
        ]


def test_a_value_outside_its_range_or_enumeration_cannot_be_merged(template):
    with template.open() as session:
        put(session, PERSON, {"c": person("c", level=10), "d": person("d", mood="odd")}, DRAFT)
        conflicts = _refused(session)
        assert [(conflict.kind, conflict.entity_id) for conflict in conflicts] == [
            ("value_constraint_violation", None)
        ] * 2


def test_row_conflicts_come_alone_and_violations_only_without_them(template):
    with template.open() as session:
        put(session, PERSON, {"a": person("a", level=1), "c": person("c", mail="d@x")}, DRAFT)
        put(session, PERSON, {"a": person("a", level=2), "d": person("d", mail="d@x")})
        assert kinds_of(_refused(session)) == [("divergent_update", PERSON, "a")]
        assert kinds_of(conflicts_of(session, resolve="ours")) == [("unique_violation", PERSON, "c")]


def test_the_text_of_the_error_shows_the_first_three_conflicts(template):
    with template.open() as session:
        put(session, PERSON, {name: person(name, level=1) for name in "vwxyz"}, DRAFT)
        put(session, PERSON, {name: person(name, level=2) for name in "vwxyz"})
        with pytest.raises(MergeConflictsError) as refused:
            merge_branch(session, DRAFT)
        shown = [f"node type 'Person', entity id '{name}' (divergent_insert)" for name in "vwx"]
        assert refused.value.message == f"merge conflicts: {'; '.join(shown)}; and 2 more"
        assert len(refused.value.to_json()["details"]["items"]) == 5
