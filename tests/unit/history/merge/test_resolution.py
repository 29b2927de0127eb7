"""Resolving rows that both sides changed: one side wins, or both do where they changed different properties."""

from __future__ import annotations

import pytest
from tests.merge_graph import DRAFT, Template, conflicts_of, kinds_of, put
from tests.session_graph import read_graph

from omnigraph.errors import UsageError
from omnigraph.history.merge import merge_branch

PERSON, KNOWS = "node:Person", "edge:Knows"
SCHEMA = """
node Person { name: String  age: I32?  tags: [String]?  photo: Blob?  place: Vector(2)? }
edge Knows: Person -> Person { note: String? }
"""
SEED = """
{"type": "Person", "data": {"id": "a", "name": "a"}}
{"type": "Person", "data": {"id": "b", "name": "b"}}
{"type": "Person", "data": {"id": "c", "name": "c"}}
{"type": "Person", "data": {"id": "both", "name": "old", "age": 1}}
{"type": "Person", "data": {"id": "gone", "name": "old", "age": 1}}
{"type": "Person", "data": {"id": "dropped", "name": "old", "age": 1}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}}
"""


def person(**values):
    return {"name": "old", "age": 1, "tags": None, "photo": None, "place": None, **values}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("resolve"), SCHEMA, SEED)


def _conflict_everywhere(session):
    put(
        session,
        PERSON,
        {"both": person(age=2), "gone": person(age=2), "dropped": None, "new": person(name="source")},
        DRAFT,
    )
    put(session, PERSON, {"both": person(age=3), "gone": None, "dropped": person(age=3), "new": person(name="target")})


def test_ours_keeps_the_target_in_every_kind_of_row_conflict(template):
    with template.open() as session:
        _conflict_everywhere(session)
        before = read_graph(session)
        result = merge_branch(session, DRAFT, resolve="ours")
        assert read_graph(session) == before
        assert (result.tables[0].resolved, result.tables[0].conflicts) == (4, 0)
        assert result.commit.merged_parent is not None


def test_theirs_takes_the_source_in_every_kind_of_row_conflict(template):
    with template.open() as session:
        _conflict_everywhere(session)
        merge_branch(session, DRAFT, resolve="theirs")
        assert read_graph(session) == read_graph(session, DRAFT)


def test_different_properties_of_one_row_are_combined(template):
    with template.open() as session:
        put(session, PERSON, {"both": person(age=None, tags=["x", "y"])}, DRAFT)
        put(session, PERSON, {"both": person(name="new", photo=b"\x00\x01", place=[0.5, -0.0])})
        result = merge_branch(session, DRAFT, resolve="properties")
        assert read_graph(session)[PERSON]["both"] == {
            "name": "new",
            "age": None,
            "tags": ["x", "y"],
            "photo": "base64:AAE=",
            "place": [0.5, -0.0],
        }
        assert (result.tables[0].updated, result.tables[0].resolved) == (1, 1)


def test_a_property_that_both_sides_set_alike_is_no_conflict_and_one_set_differently_is(template):
    with template.open() as session:
        put(session, PERSON, {"both": person(name="new", age=2), "gone": person(age=2)}, DRAFT)
        put(session, PERSON, {"both": person(name="new", tags=[]), "gone": person(age=3, name="x")})
        (conflict,) = conflicts_of(session, resolve="properties")
        assert kinds_of([conflict]) == [("divergent_update", PERSON, "gone")]
        assert conflict.properties == ("age",)
        images = [image["properties"]["age"] for image in (conflict.base, conflict.source, conflict.target)]
        assert images == [1, 2, 3]
        put(session, PERSON, {"gone": person(age=2, name="x")})
        merge_branch(session, DRAFT, resolve="properties")
        assert read_graph(session)[PERSON]["both"]["tags"] == []
        assert read_graph(session)[PERSON]["both"]["age"] == 2


def test_properties_do_not_decide_between_a_row_and_none(template):
    with template.open() as session:
        _conflict_everywhere(session)
        kinds = [conflict.kind for conflict in conflicts_of(session, resolve="properties")]
        assert kinds == ["divergent_update", "delete_vs_update", "delete_vs_update", "divergent_insert"]


def test_the_ends_of_an_edge_are_decided_together(template):
    with template.open() as session:
        put(session, KNOWS, {"ab": {"src": "c", "dst": "b", "note": None}}, DRAFT)
        put(session, KNOWS, {"ab": {"src": "a", "dst": "c", "note": "kept"}})
        (conflict,) = conflicts_of(session, resolve="properties")
        assert conflict.properties == ("src", "dst")
        assert conflict.source["endpoints"] == {"from": "c", "to": "b"}
        put(session, KNOWS, {"ab": {"src": "a", "dst": "b", "note": "kept"}})
        merge_branch(session, DRAFT, resolve="properties")
        assert read_graph(session)[KNOWS]["ab"] == {"src": "c", "dst": "b", "note": "kept"}


def test_a_resolution_that_would_orphan_an_edge_is_still_a_conflict(template):
    with template.open() as session:
        put(session, PERSON, {"dropped": None}, DRAFT)
        put(session, PERSON, {"dropped": person(age=9)})
        put(session, KNOWS, {"x": {"src": "dropped", "dst": "a", "note": None}})
        assert kinds_of(conflicts_of(session, resolve="theirs")) == [("orphan_edge", KNOWS, "x")]
        merge_branch(session, DRAFT, resolve="ours")


def test_an_unknown_resolution_is_refused(template):
    with template.open() as session, pytest.raises(UsageError, match="unknown conflict resolution"):
        merge_branch(session, DRAFT, resolve="mine")
