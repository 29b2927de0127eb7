"""The change feed as a stream of micro-batches, planned and read without Spark around it."""

from __future__ import annotations

import json

import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.errors import ChangeCursorError, SparkUnsupportedError, UsageError
from omnigraph.spark.source.changes import ChangeStreamReader, change_schema
from omnigraph.spark.source.options import SourceOptions

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  raw: Blob?  emb: Vector(2)? }
edge Knows: Person -> Person { since: I32? }
"""
DATA = {"name": "ada", "age": 1, "born": "1970-01-02", "seen": "1970-01-01T00:00:00.005Z", "raw": "base64:AAE="}
SEED = json.dumps({"type": "Person", "data": {**DATA, "emb": [1, 2]}})


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "g", SCHEMA, SEED)
    return tmp_path / "g"


def reader(root, **options):
    parsed = SourceOptions.parse({"graph": str(root), "changes": "true", **options})
    return ChangeStreamReader(parsed, change_schema(parsed))


def mutate(root, text):
    with open_session(root) as session:
        return str(session.mutate(text, actor="ann").commit.id)


def add(root, name):
    return mutate(root, f'query q() {{ insert Person {{ name: "{name}" }} }}')


def pull(stream, start):
    """One micro-batch: its rows, and the offset that it ends at."""
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    # Offsets go through Spark's log as JSON.
    end = json.loads(json.dumps(end))
    rows = [row for part in stream.partitions(start, end) for batch in stream.read(part) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["sequence"], row["id"])), end


def told(rows):
    return [(row["op"], row["type"], row["id"]) for row in rows]


def test_a_stream_delivers_each_commit_once_and_then_nothing(root):
    stream = reader(root)
    rows, end = pull(stream, stream.initialOffset())
    assert rows == []
    first = add(root, "bob")
    mutate(root, 'query q() { update Person set { age: 2 } where name = "ada" }')
    mutate(root, 'query q() { insert Knows { from: "ada", to: "bob" } delete Person where name = "bob" }')
    rows, end = pull(reader(root), end)
    assert told(rows)[:2] == [("insert", "Person", "bob"), ("update", "Person", "ada")]
    assert (rows[0]["commit"], rows[0]["actor"], rows[0]["before"]) == (first, "ann", None)
    assert json.loads(rows[1]["before"])["properties"]["age"] == 1
    assert json.loads(rows[1]["after"])["properties"]["age"] == 2
    assert rows[1]["changed"] == ["age"]
    assert [row["sequence"] for row in rows] == sorted(row["sequence"] for row in rows)
    again = reader(root)
    assert again.latestOffset(end, again.getDefaultReadLimit()) == end


def test_one_type_has_its_own_columns_before_and_after(root):
    stream = reader(root, type="Person", start="beginning")
    rows, end = pull(stream, stream.initialOffset())
    (row,) = rows
    after = row["after"]
    assert (after["id"], after["age"], after["raw"], after["emb"]) == ("ada", 1, b"\x00\x01", [1.0, 2.0])
    assert (str(after["born"]), after["seen"].microsecond) == ("1970-01-02", 5_000)
    mutate(root, 'query q() { insert Knows { from: "ada", to: "ada" } }')
    assert pull(stream, end)[0] == []


def test_a_baseline_is_everything_there_is_and_then_what_follows(root):
    stream = reader(root, start="baseline")
    start = stream.initialOffset()
    add(root, "bob")
    rows, end = pull(stream, start)
    assert told(rows) == [("baseline", "Person", "ada")]
    assert told(pull(stream, end)[0]) == [("insert", "Person", "bob")]


@pytest.mark.parametrize("start", ["now", "baseline", "beginning"])
def test_a_first_batch_that_is_repeated_begins_where_it_began(root, start):
    stream = reader(root, start=start)
    begin = stream.initialOffset()
    add(root, "bob")
    rows, end = pull(stream, begin)
    add(root, "cy")
    again = reader(root, start=start)
    repeated = [
        row
        for part in again.partitions(again.initialOffset(), end)
        for batch in again.read(part)
        for row in batch.to_pylist()
    ]
    assert sorted(told(repeated)) == sorted(told(rows))


def test_a_batch_takes_a_bounded_number_of_commits_up_to_the_target(root):
    stream = reader(root, max_commits="2", partitions="1")
    end = stream.initialOffset()
    for name in ("b", "c", "d"):
        add(root, name)
    stream.prepareForTriggerAvailableNow()
    add(root, "late")
    found = []
    for _ in range(3):
        rows, end = pull(stream, end)
        found.append([row["id"] for row in rows])
    assert found == [["b", "c"], ["d"], []]


def test_a_stream_keeps_its_columns_through_changes_of_the_schema_and_has_the_newer_ones_when_it_is_restarted(root):
    stream = reader(root, type="Person")
    start = stream.initialOffset()
    add(root, "bob")
    newer = """
    node Human @rename_from("Person") { name: String @key  years: I64? @rename_from("age")  nick: String?  born: Date? }
    edge Knows: Human -> Human { since: I32? }
    """
    with open_session(root) as session:
        session.apply_schema(newer)
    mutate(root, 'query q() { update Human set { years: 7, nick: "b" } where name = "bob" }')
    rows, end = pull(stream, start)
    assert told(rows) == [("insert", "Person", "bob"), ("update", "Human", "bob")]
    assert list(rows[1]["after"]) == ["id", "name", "age", "born", "seen", "raw", "emb"]
    assert (rows[1]["after"]["age"], rows[1]["after"]["seen"]) == (7, None)
    assert sorted(rows[1]["changed"]) == ["age", "nick"]
    mutate(root, 'query q() { update Human set { years: 5000000000 } where name = "bob" }')
    with pytest.raises(SparkUnsupportedError, match="does not fit the column that the stream began with"):
        pull(stream, end)
    restarted = reader(root, type="Human")
    rows, _ = pull(restarted, end)
    assert (rows[0]["after"]["years"], rows[0]["after"]["nick"]) == (5_000_000_000, "b")
    # Columns of today for changes of earlier schemas, too.
    first = reader(root, type="Human", start="beginning")
    rows, _ = pull(first, first.initialOffset())
    assert [(row["after"]["years"], row["after"]["nick"]) for row in rows if row["id"] == "ada"] == [(1, None)]


def test_offsets_of_another_branch_and_unknown_places_are_refused(root):
    stream = reader(root)
    _, end = pull(stream, stream.initialOffset())
    with open_session(root) as session:
        session.create_branch("side")
    other = reader(root, branch="side")
    with pytest.raises(ChangeCursorError):
        other.latestOffset(end, other.getDefaultReadLimit())
    with pytest.raises(UsageError, match="invalid feed start"):
        reader(root, start="yesterday").initialOffset()
    commit = add(root, "bob")
    stream = reader(root, start=commit)
    add(root, "cy")
    assert told(pull(stream, stream.initialOffset())[0]) == [("insert", "Person", "cy")]
