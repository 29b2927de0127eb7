"""Batches of calls: one commit, the statements one after the other, and inserts in columns that mean the same."""

from __future__ import annotations

import pytest
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

from omnigraph.errors import (
    ConstraintViolationError,
    ExternalBlobError,
    PreconditionFailedError,
    QueryMeaningError,
    QueryParameterError,
    WrongQueryKindError,
)

SCHEMA = """
node Person { name: String @key  age: I32?  seen: DateTime? }
edge Knows: Person -> Person { since: Date? }
node Thing {
    code: String
    n: U32
    mood: enum(glad, sad)?
    small: I32?  large: I64?  most: U64?
    narrow: F32? wide: F64?
    flag: Bool?
    day: Date?   instant: DateTime?
    names: [String]?  days: [Date]?
    spot: Vector(2)?
    body: Blob?
    @key(code, n)
}
"""
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age, seen: now() } }"


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    return tmp_path / "graph"


@pytest.fixture
def session(root):
    with open_session(root) as session:
        yield session


def ages(session):
    return {name: row["age"] for name, row in read_graph(session)["node:Person"].items()}


@pytest.mark.parametrize("count", [1, 3, 50])
def test_batch_is_one_commit_of_all_calls(session, count):
    before = len(commit_ids(session))
    done = session.mutate_batch(ADD, [{"name": f"p{number}", "age": number} for number in range(count)], actor="ann")
    assert (done.affected_nodes, done.affected_edges) == (count, 0)
    assert done.commit.actor == "ann"
    assert len(commit_ids(session)) == before + 1
    assert ages(session) == {f"p{number}": number for number in range(count)}


@pytest.mark.parametrize("count", [2, 40])
def test_of_several_calls_with_one_key_the_last_counts(session, count):
    done = session.mutate_batch(ADD, [{"name": "same", "age": number} for number in range(count)])
    assert done.affected_nodes == count
    assert ages(session) == {"same": count - 1}


def test_every_call_sees_what_the_ones_before_it_did(session):
    text = """query q($name: String, $age: I32) {
        insert Person { name: $name, age: $age }
        update Person set { age: 100 } where age < $age
        delete Person where name = "b"
    }"""
    rows = [{"name": "a", "age": 1}, {"name": "b", "age": 2}, {"name": "c", "age": 3}, {"name": "d", "age": 101}]
    done = session.mutate_batch(text, rows)
    # Four inserts; a is updated for b, nobody for c, and both for d; b is gone before c comes.
    assert done.affected_nodes == 4 + 1 + 0 + 2 + 1
    assert ages(session) == {"a": 100, "c": 100, "d": 101}


def test_all_calls_have_one_instant(session):
    session.mutate_batch(ADD, [{"name": f"p{number}"} for number in range(30)])
    assert len({row["seen"] for row in read_graph(session)["node:Person"].values()}) == 1


def test_nodes_and_the_edges_between_them_come_in_one_batch(session):
    text = """query q($name: String, $to: String, $since: Date?) {
        insert Person { name: $name }
        insert Knows { from: $name, to: $to, since: $since }
    }"""
    rows = [{"name": f"p{number}", "to": f"p{(number + 1) % 20}", "since": "2020-01-01"} for number in range(20)]
    done = session.mutate_batch(text, rows)
    assert (done.affected_nodes, done.affected_edges) == (20, 20)
    edges = read_graph(session)["edge:Knows"].values()
    assert sorted((row["src"], row["dst"]) for row in edges) == sorted((row["name"], row["to"]) for row in rows)


def test_batch_without_calls_makes_no_commit_and_still_demands_the_head(session):
    before = commit_ids(session)
    done = session.mutate_batch(ADD, [])
    assert (done.commit, done.affected_nodes) == (None, 0)
    assert commit_ids(session) == before
    with pytest.raises(PreconditionFailedError):
        session.mutate_batch(ADD, [], expected_head="01ARZ3NDEKTSV4RRFFQ69G5FAV")


@pytest.mark.parametrize("count", [3, 30])
def test_bad_call_is_named_and_nothing_is_written(session, count):
    rows = [{"name": f"p{number}"} for number in range(count)]
    with pytest.raises(QueryParameterError, match=f"row {count}: parameter 'age' does not fit"):
        session.mutate_batch(ADD, [*rows[:-1], {"name": "x", "age": "old"}])
    optional = "query q($name: String?) { insert Person { name: $name } }"
    with pytest.raises(QueryMeaningError, match=f"row {count}: property .* of type String cannot be NULL"):
        session.mutate_batch(optional, [*rows[:-1], {"name": None}, {"name": None}])
    with pytest.raises(ConstraintViolationError, match="src 'nobody' not found in Person"):
        session.mutate_batch("query q($to: String) { insert Knows { from: $to, to: $to } }", [{"to": "nobody"}] * count)
    assert ages(session) == {}


def test_reads_cannot_be_made_in_batches(session):
    with pytest.raises(WrongQueryKindError):
        session.mutate_batch("query q() { match { $p: Person } return { $p } }", [{}])


THING = """query q($code: String, $n: I64, $mood: String?, $small: I64?, $large: I32?, $most: I64?, $narrow: F64?,
    $wide: I32?, $flag: Bool?, $day: Date?, $instant: DateTime?, $names: [String]?, $days: [Date]?, $spot: Vector(2)?,
    $body: Blob?) {
    insert Thing { code: $code, n: $n, mood: $mood, small: $small, large: $large, most: $most, narrow: $narrow,
        wide: $wide, flag: $flag, day: $day, instant: $instant, names: $names, days: $days, spot: $spot, body: $body }
}"""


def things():
    full = {
        "mood": "glad",
        "small": -5,
        "large": 7,
        "most": (1 << 63) - 1,
        "narrow": 0.1,
        "wide": 3,
        "flag": True,
        "day": "2020-02-29",
        "instant": "2020-02-29T12:00:00.123Z",
        "names": ["a", "é"],
        "days": ["1969-12-31", "2020-01-01"],
        "spot": [0.1, 2],
        "body": b"\x00bytes",
    }
    rows = [{"code": f"c|{number}", "n": number, **full} for number in range(6)]
    rows += [{"code": 'q"\\', "n": number} for number in range(6)]
    rows += [{"code": name, "n": 9, name: value} for name, value in full.items()]
    return rows


def test_columns_store_what_single_calls_store(root, tmp_path):
    create_graph(tmp_path / "other", SCHEMA)
    with open_session(root) as together, open_session(tmp_path / "other") as single:
        done = together.mutate_batch(THING, things())
        assert done.affected_nodes == len(things())
        for row in things():
            single.mutate(THING, row)
        assert read_graph(together) == read_graph(single)


@pytest.mark.parametrize(
    ("flaw", "error", "says"),
    [
        ({"small": 1 << 31}, QueryMeaningError, "does not fit I32"),
        ({"n": -1}, QueryMeaningError, "does not fit U32"),
        ({"narrow": 1e39}, QueryMeaningError, "does not fit F32"),
        (
            {"body": "https://example.org/x"},
            ExternalBlobError,
            r"is not allowed in this graph \(property",
        ),
        ({"mood": "cross"}, ConstraintViolationError, "invalid enum value 'cross' for Thing.mood"),
    ],
)
def test_value_that_does_not_fit_is_refused_in_columns_as_it_is_alone(session, flaw, error, says):
    rows = things()
    with pytest.raises(error, match=says) as alone:
        session.mutate(THING, rows[4] | flaw)
    with pytest.raises(error, match=says) as together:
        session.mutate_batch(THING, [*rows[:4], rows[4] | flaw, *rows[5:]])
    message = alone.value.message if error is ConstraintViolationError else f"row 5: {alone.value.message}"
    assert together.value.message == message
    assert read_graph(session)["node:Thing"] == {}


def test_text_of_many_inserts_means_its_statements_one_after_the_other(session):
    lines = [f'insert Person {{ name: "p{number % 7}", age: {number} }}' for number in range(20)]
    lines += [f'insert Knows {{ from: "p{number}", to: "p1" }}' for number in range(7)]
    lines += ['delete Person where name = "p3"', *(f'insert Person {{ name: "q{number}" }}' for number in range(9))]
    done = session.mutate("query q() { " + "\n".join(lines) + " }")
    assert (done.affected_nodes, done.affected_edges) == (20 + 1 + 9, 7 + 1)
    expected = {f"p{number % 7}": number for number in range(20)} | {f"q{number}": None for number in range(9)}
    del expected["p3"]
    assert ages(session) == expected
    assert len(read_graph(session)["edge:Knows"]) == 6


def test_made_up_ids_differ_within_a_batch(session):
    session.mutate_batch(ADD, [{"name": "a"}])
    done = session.mutate_batch('query q() { insert Knows { from: "a", to: "a" } }', [{}] * 25)
    assert done.affected_edges == 25
    assert len(read_graph(session)["edge:Knows"]) == 25
