"""Decisions about single conflicts on a graph: what they write, what is refused, and conflicts as rows."""

from __future__ import annotations

import json
import pickle
import re
from datetime import date

import pytest
from tests.merge_graph import DRAFT, Template, head_of, put
from tests.session_graph import read_graph

from omnigraph.errors import MergeConflictsError, MergeDecisionError, UsageError, error_from_json
from omnigraph.history.diff.parts import DEFAULT_MEMORY_BYTES
from omnigraph.history.merge import Conflicts, merge_branch, preview_merge, revert_commit
from omnigraph.history.merge.decisions import rows_of_mapping

PERSON, KNOWS = "node:Person", "edge:Knows"
SCHEMA = """
node Person {
    name: String  level: enum(low, high)?  age: I32?  tags: [String]?  photo: Blob?
    place: Vector(2)?  born: Date?  seen: DateTime?  badge: String?
    @range(age, 0..150)  @unique(badge)
}
edge Knows: Person -> Person { note: String? }
"""
SEED = """
{"type": "Person", "data": {"id": "a", "name": "a", "age": 1, "badge": "taken"}}
{"type": "Person", "data": {"id": "b", "name": "b", "age": 1}}
{"type": "Person", "data": {"id": "c", "name": "c", "age": 1}}
{"type": "Person", "data": {"id": "d", "name": "d", "age": 1}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}}
"""
EMPTY = dict.fromkeys(("level", "tags", "photo", "place", "born", "seen", "badge"))


def person(**values):
    return {"name": "old", "age": 1, **EMPTY, **values}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    made = Template(tmp_path_factory.mktemp("decide"), SCHEMA, SEED)
    with made.open() as session:
        put(
            session,
            PERSON,
            {
                "b": person(name="s", age=2, born=1, tags=["s"]),
                "c": person(age=2),
                "d": person(age=2),
                "new": person(name="s"),
            },
            DRAFT,
        )
        put(session, KNOWS, {"ab": {"src": "c", "dst": "b", "note": None}}, DRAFT)
        put(
            session,
            PERSON,
            {
                "b": person(name="t", age=3, born=2, tags=["t"]),
                "c": None,
                "d": person(name="d", age=1, seen=5),
                "new": person(name="t"),
            },
        )
        put(session, KNOWS, {"ab": {"src": "d", "dst": "b", "note": None}})
    # What is copied from here on has the conflicts.
    made.original = made.original.with_name("copy1")
    return made


def _merge(session, decisions, **options):
    return merge_branch(session, DRAFT, decisions=rows_of_mapping(decisions), **options)


def test_conflicts_are_rows_by_property_and_by_entity(template):
    with template.open() as session:
        found = preview_merge(session, DRAFT).conflicts
        with pytest.raises(MergeConflictsError) as refused:
            merge_branch(session, DRAFT)
    assert refused.value.conflicts == found == error_from_json(refused.value.to_json()).conflicts
    rows = [(row.kind, row.type, row.id, row.property) for row in found.rows()]
    assert rows == [
        ("divergent_update", KNOWS, "ab", "from/to"),
        ("divergent_update", PERSON, "b", "name"),
        ("divergent_update", PERSON, "b", "age"),
        ("divergent_update", PERSON, "b", "tags"),
        ("divergent_update", PERSON, "b", "born"),
        ("delete_vs_update", PERSON, "c", None),
        ("divergent_update", PERSON, "d", None),
        ("divergent_insert", PERSON, "new", "name"),
    ]
    table = found.to_arrow()
    assert table.column_names == ["kind", "type", "id", "property", "base", "ours", "theirs", "message"]
    assert [json.loads(table.column(side)[4].as_py()) for side in ("ours", "theirs")] == ["1970-01-03", "1970-01-02"]
    assert table.column("base")[7].as_py() is table.column("ours")[5].as_py() is None
    assert json.loads(table.column("ours")[0].as_py()) == {"from": "d", "to": "b"}
    assert found.to_pandas()["property"].tolist()[:2] == ["from/to", "name"]
    assert found.to_polars()["id"].to_list() == [row[2] for row in rows]
    assert [row["resolution"] for row in found.to_json()] == [None] * 8
    assert re.split(r"[ |]+", str(found).splitlines()[0]) == [
        "kind",
        "type",
        "id",
        "property",
        "base",
        "ours",
        "theirs",
    ]
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 - our own
    assert (again, again.total) == (found, 5)
    assert isinstance(again, Conflicts)


def test_decisions_of_every_form_are_written_as_one_commit(template):
    with template.open() as session:
        done = _merge(
            session,
            {
                ("Knows", "ab", "from/to"): {"value": {"from": "a", "to": "d"}},
                ("Person", "b", "name"): {"value": "ours"},
                ("Person", "b", "age"): 5,
                ("node:Person", "b", "tags"): ["x", "y"],
                ("Person", "b", "born"): date(2026, 1, 31),
                ("Person", "c"): "base",
                ("Person", "new"): "theirs",
            },
            resolve="ours",
        )
        graph = read_graph(session)
        assert [(table.type_key, table.resolved) for table in done.tables] == [(KNOWS, 1), (PERSON, 4)]
        assert graph[KNOWS]["ab"]["dst"] == "d"
        b = graph[PERSON]["b"]
        assert (b["name"], b["age"], b["tags"]) == ("ours", 5, ["x", "y"])
        assert b["born"] == "2026-01-31"
        assert graph[PERSON]["c"]["age"] == 1
        # Decided by the default: the whole row of the target.
        assert (graph[PERSON]["d"]["age"], graph[PERSON]["new"]["name"]) == (1, "s")


def test_a_property_that_is_not_decided_stays_in_conflict_alone(template):
    with template.open() as session:
        decided = rows_of_mapping({("Person", "b", "name"): "ours", ("Person", "b", "age"): "base"})
        left = preview_merge(session, DRAFT, decisions=decided).conflicts.rows()
        assert [row.property for row in left if row.id == "b"] == ["tags", "born"]
        assert len(left) == 6


BAD = {
    "unknown entity": ({("Person", "zoe"): "ours"}, "Person 'zoe' is not in conflict"),
    "unknown type": ({("Persona", "b"): "ours"}, "type 'Persona' does not exist"),
    "unknown property": ({("Person", "b", "nam"): 1}, "no property 'nam'; did you mean 'name'?"),
    "property not in conflict": ({("Person", "b", "photo"): "ours"}, "'photo' of Person 'b' is not in conflict"),
    "property of a deleted one": ({("Person", "c", "age"): "ours"}, "decide the whole entity"),
    "unknown word": ({("Person", "b", "name"): "our"}, "did you mean 'ours'?; a text is written"),
    "word for an entity": ({("Person", "b"): "mine"}, "is not one of ours, theirs, base, properties"),
    "value for an entity": ({("Person", "b"): 5}, "decides a property"),
    "wrong type": ({("Person", "b", "age"): {"value": "x"}}, "expects I32"),
    "out of range of its type": ({("Person", "b", "age"): 1 << 40}, "exceeds Int32"),
    "null where required": ({("Person", "b", "name"): {"value": None}}, "cannot be null"),
    "no base": ({("Person", "new", "name"): "base"}, "is not in the base"),
    "ends": ({("Knows", "ab", "from/to"): {"value": {"from": "a"}}}, "the ends of an edge"),
    "a delete by properties": ({("Person", "c"): "properties"}, "'properties' does not resolve a delete_vs_update"),
}


def test_decisions_that_cannot_be_followed_are_refused_and_change_nothing(template):
    with template.open() as session:
        before = head_of(session)
        for what, (decisions, message) in BAD.items():
            with pytest.raises(MergeDecisionError) as refused:
                _merge(session, decisions, resolve="ours")
            assert message in refused.value.message, what
            with pytest.raises(MergeDecisionError):
                preview_merge(session, DRAFT, decisions=rows_of_mapping(decisions))
        twice = rows_of_mapping({("Person", "b"): "ours"}) * 2
        with pytest.raises(MergeDecisionError, match="Person 'b' has two decisions"):
            merge_branch(session, DRAFT, decisions=twice)
        for bad, message in (("x", "not an object"), ({"type": "Person", "id": "b", "res": 1}, "unknown field")):
            with pytest.raises(MergeDecisionError, match=message):
                merge_branch(session, DRAFT, decisions=[bad])
        for bad in ("ours", {"type": "Person"}, 7):
            with pytest.raises(UsageError):
                merge_branch(session, DRAFT, decisions=bad)
        with pytest.raises(UsageError, match="a conflict is named by"):
            rows_of_mapping({"Person": "ours"})
        assert head_of(session) == before


def test_a_decision_is_refused_when_its_conflict_is_another_by_now(template):
    with template.open() as session:
        rows = [{**row, "resolution": "ours"} for row in preview_merge(session, DRAFT).conflicts.to_json()]
        rows[2]["place"] = "decided.jsonl:3"
        put(session, PERSON, {"b": person(name="t", age=4, born=2, tags=["t"]), "c": person(age=9)})
        with pytest.raises(MergeDecisionError) as refused:
            merge_branch(session, DRAFT, decisions=rows)
        problems = refused.value.details.items
        assert [(one.entity_id, one.property) for one in problems] == [("b", "age"), ("c", None)]
        assert problems[0].place == "decided.jsonl:3"
        assert refused.value.message.startswith("decided.jsonl:3: the conflict of Person 'b' has changed since")
        assert "ours was 3 and is 4" in refused.value.message
        put(session, PERSON, {"b": person(name="t", age=3, born=2, tags=["t"]), "c": None})
        before = read_graph(session)
        assert merge_branch(session, DRAFT, decisions=rows).commit is not None
        assert read_graph(session) == before


def test_values_of_decisions_keep_every_rule(template):
    with template.open() as session:
        for name, value in (("age", 151), ("badge", None)):
            put(session, PERSON, {"b": person(age=3, badge="t")})
            put(session, PERSON, {"b": person(age=2, badge="s")}, DRAFT)
            decided = {("Person", "b", name): {"value": "taken" if value is None else value}}
            with pytest.raises(MergeConflictsError) as refused:
                _merge(session, decided, resolve="ours")
            (conflict,) = refused.value.conflicts
            assert conflict.kind == ("value_constraint_violation" if name == "age" else "unique_violation")
            assert "no resolution settles these" in refused.value.hint


def test_of_many_conflicts_the_first_are_told_and_all_are_counted_and_decided(template):
    with template.open() as session:
        every = preview_merge(session, DRAFT).conflicts
        for memory_bytes in (1, DEFAULT_MEMORY_BYTES):
            with pytest.raises(MergeConflictsError) as refused:
                merge_branch(session, DRAFT, max_conflicts=3, memory_bytes=memory_bytes)
            told = refused.value.conflicts
            assert (told, told.total) == (every[:3], 5)
            assert str(told).endswith("… and 2 more conflicts")
            assert refused.value.to_json()["details"]["total"] == 5
            decided = [{**row, "resolution": "ours"} for row in every.to_json()]
            assert preview_merge(session, DRAFT, decisions=decided, memory_bytes=memory_bytes).conflicts == ()
            with pytest.raises(MergeDecisionError, match="Person 'zoe' is not in conflict"):
                _merge(session, {("Person", "zoe"): "ours"}, memory_bytes=memory_bytes)


def test_a_revert_is_decided_like_a_merge(template):
    with template.open() as session:
        put(session, PERSON, {"a": person(name="first", age=7, badge="taken")})
        undone = head_of(session)
        put(session, PERSON, {"a": person(name="second", age=8, badge="taken", seen=9)})
        with pytest.raises(MergeConflictsError) as refused:
            revert_commit(session, undone)
        assert [(row.property, row.base, row.ours, row.theirs) for row in refused.value.conflicts.rows()] == [
            ("name", "first", "second", "a"),
            ("age", 7, 8, 1),
        ]
        decided = rows_of_mapping({("Person", "a", "name"): "theirs"})
        revert_commit(session, undone, decisions=decided, resolve="ours")
        row = read_graph(session)[PERSON]["a"]
        assert (row["name"], row["age"]) == ("a", 8)
        assert row["seen"] is not None
