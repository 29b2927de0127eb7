"""What the commands can be asked for, Python can be asked for too, with the same answers."""

from __future__ import annotations

import json
from datetime import date

import pytest

import omnigraph
from omnigraph.errors import (
    ChangeCursorError,
    ReadOnlyError,
    SchemaSyntaxError,
    TypeMissingError,
    UsageError,
    ValueFormatError,
)
from tests.session_graph import RELAXED

SCHEMA = """
node Person { name: String @key  age: I32? @index  born: Date?  face: Blob?  tags: [String]? }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"
LOADED = """
{"type": "Person", "data": {"name": "ann", "born": "2001-02-03", "face": "base64:aGk=", "tags": ["x", "y"]}}
{"type": "Person", "data": {"name": "bo", "age": 7}}
{"edge": "Knows", "from": "ann", "to": "bo", "data": {"id": "ab", "since": 3}}
"""


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "rows.jsonl").write_text(LOADED)
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as opened:
        opened.load(tmp_path / "rows.jsonl")
        yield opened


def test_an_entity_is_read_by_its_id_at_every_state(graph):
    then = graph.at("main")
    graph.mutate('query u() { update Person set { age: 8 } where name = "bo" }')
    review = graph.create_branch("review", at=then)
    assert [state.entity("Person", "bo")["age"] for state in (then, graph, review)] == [7, 8, 7]
    ann = graph.entity("node:Person", "ann")
    assert ann.properties == {"name": "ann", "age": None, "born": date(2001, 2, 3), "face": b"hi", "tags": ["x", "y"]}
    assert (repr(ann), str(ann).splitlines()[0][:40]) == (
        "<Entity node:Person 'ann'>",
        'Person ann  name: "ann"  age: null  born',
    )
    assert ann.to_json()["properties"] == {
        "name": "ann",
        "age": None,
        "born": "2001-02-03",
        "face": "base64:aGk=",
        "tags": ["x", "y"],
    }
    edge = graph.entity("Knows", "ab")
    assert (edge.kind, edge.source, edge.target, edge["since"]) == ("edge", "ann", "bo", 3)
    assert edge.to_json() == {
        "kind": "edge",
        "type": "Knows",
        "id": "ab",
        "from": "ann",
        "to": "bo",
        "properties": {"since": 3},
    }
    assert "since" in edge._repr_html_()
    assert graph.entity("Person", "nobody") is None
    with pytest.raises(TypeMissingError, match="type 'Persn' was not found") as missing:
        graph.entity("Persn", "ann")
    assert missing.value.hint == "did you mean 'Person'?"
    with pytest.raises(ValueFormatError, match="entity_id must be text, not int"):
        graph.entity("Person", 5)  # type: ignore[arg-type]  # the mistake itself


def test_a_name_that_a_node_type_and_an_edge_type_share_is_told_apart(tmp_path):
    with omnigraph.init(tmp_path / "g", "node Link { a: String @key }\nedge Link: Link -> Link\n") as graph:
        graph.mutate('query q() { insert Link { a: "x" } }')
        assert graph.entity("node:Link", "x").kind == "node"
        assert graph.entity("edge:Link", "x") is None
        with pytest.raises(UsageError, match="both a node type and an edge type are called 'Link'"):
            graph.entity("Link", "x")


def test_a_schema_is_planned_without_being_applied(graph, tmp_path):
    wanted = SCHEMA.replace("age: I32? @index", "age: I32? @index  city: String?")
    plan = graph.plan_schema(wanted)
    assert (plan.is_supported, len(plan.steps)) == (True, 1)
    assert "city" in plan.describe()
    assert "city" not in str(graph.schema)
    assert graph.plan_schema(SCHEMA).is_empty
    assert not graph.plan_schema(SCHEMA.replace("age: I32?", "age: String?")).is_supported
    before = graph.at("main")
    graph.apply_schema(wanted)
    (tmp_path / "wanted.pg").write_text(wanted)
    assert graph.plan_schema(tmp_path / "wanted.pg").is_empty
    assert not before.plan_schema(wanted).is_empty
    with pytest.raises(SchemaSyntaxError):
        graph.plan_schema("node {")
    with pytest.raises(UsageError):
        graph.plan_schema(SCHEMA, allow_data_loss="yes")  # type: ignore[arg-type]  # the mistake itself


def test_a_baseline_gives_all_entities_and_then_the_cursor(graph):
    base = graph.baseline(types=["Person"])
    with pytest.raises(UsageError, match="until all of its entities have been read"):
        _ = base.cursor
    graph.mutate(ADD, {"name": "cy", "age": 1})
    found = list(base)
    assert [(one["type"], one["data"]["id"]) for one in found] == [("Person", "ann"), ("Person", "bo")]
    json.dumps(found)
    assert base.commit_id == str(graph.log()[1].id)
    assert base.commit_id in repr(base)
    (batch,) = graph.feed(base.cursor, types=["Person"])
    assert [change.id for change in batch] == ["cy"]
    assert [next(iter(one)) for one in graph.baseline()] == ["edge", "type", "type", "type"]
    with pytest.raises(TypeMissingError):
        graph.baseline(types=["Persn"])


def test_changes_of_a_commit_are_filtered_and_paged(graph):
    commit = graph.log()[0]
    assert [change.id for change in graph.commit_changes(commit, kinds=["edge"]).block.changes] == ["ab"]
    assert graph.commit_changes(commit, ops=["delete"]).block.changes == ()
    few = omnigraph.PageLimits(changes=1)
    first = graph.commit_changes(commit, types=["Person"], limits=few)
    rest = graph.commit_changes(commit, types=["Person"], limits=few, page_token=first.next_page_token)
    assert [change.id for page in (first, rest) for change in page.block.changes] == ["ann", "bo"]
    with pytest.raises(ChangeCursorError):
        graph.commit_changes(commit, page_token=first.next_page_token)
    with pytest.raises(TypeMissingError):
        graph.commit_changes(commit, types=["Persn"])


def test_indexes_are_built_without_merging_fragments(graph):
    for number in range(3):
        graph.mutate(ADD, {"name": f"p{number}", "age": number})
    done = graph.build_indexes(["Person"], actor="mira", message="index")
    table = done.tables[0]
    assert (table.fragments_before, table.fragments_after) == (4, 4)
    assert {index.action for index in table.indexes} == {"built"}
    assert [(commit.operation, commit.actor, commit.message) for commit in done.commits] == [
        ("ensure_indices", "mira", "index")
    ]
    assert graph.build_indexes(["Person"]).commits == ()
    assert graph.create_branch("review").build_indexes().tables[0].skipped == "inherited"
    with pytest.raises(TypeMissingError):
        graph.build_indexes(["Persn"])
    with omnigraph.open(graph.uri, mode="read_only") as reading, pytest.raises(ReadOnlyError):
        reading.build_indexes()
