"""Mutations with a match: what they depend on, what they may change, and what they return."""

from __future__ import annotations

import pytest
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

from omnigraph.engine.results import Result
from omnigraph.errors import AffectedLimitError, ExpectedVersionMismatchError, QueryRuntimeError, UsageError
from omnigraph.ir import compile_query
from omnigraph.runtime import Runtime

SCHEMA = """
node Person { name: String @key  age: I32?  doc: Blob?  kind: enum(a, b)? }
node Badge { slug: String @key  at: Date }
edge Knows: Person -> Person { since: Date? }
"""
SEED = """
{"type": "Person", "data": {"name": "Ann", "age": 34, "doc": "base64:AAEC"}}
{"type": "Person", "data": {"name": "Bo", "age": 28}}
{"type": "Person", "data": {"name": "Cy"}}
{"edge": "Knows", "from": "Ann", "to": "Bo", "data": {"id": "k1"}}
{"edge": "Knows", "from": "Bo", "to": "Cy", "data": {"id": "k2"}}
"""
# What a write passes after it has made up its mind and before it claims a version.
DECIDED = "txn.stage.after_files"
BADGES = """query q() {
    match { $p knows $f }
    insert Badge { slug: concat($p.name, "-friend"), at: today() } for each $p
    return { $p.name, $f.name }
}"""


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    return tmp_path / "graph"


@pytest.fixture
def runtime():
    return Runtime.system({})


@pytest.fixture
def session(root, runtime):
    with open_session(root, runtime=runtime) as session:
        yield session


@pytest.fixture
def meanwhile(root, runtime):
    """Let another session write once, when this one has decided what to publish."""
    with open_session(root) as other:

        def arrange(body):
            waiting = [body]

            def act():
                if waiting:
                    other.mutate(f"query q() {{ {waiting.pop()} }}")

            runtime.failpoints.enable(DECIDED, act)

        yield arrange


def names(session, table):
    return sorted(read_graph(session)[table])


def test_rows_come_back_as_a_result(session):
    result = session.mutate(BADGES)
    assert isinstance(result.rows, Result)
    assert result.rows.columns == ("p.name", "f.name")
    assert result.rows.rows() == [{"p.name": "Ann", "f.name": "Bo"}, {"p.name": "Bo", "f.name": "Cy"}]
    assert result.rows.commit_id == str(result.commit.id)
    assert (result.inserted, result.updated, result.deleted, result.unchanged) == (2, 0, 0, 0)


def test_a_mutation_that_returns_nothing_has_no_rows(session):
    result = session.mutate("query q() { update Person set { age: 1 } where name = 'Ann' }")
    assert result.rows is None
    assert "rows" not in result.to_json()


def test_a_match_is_made_again_when_another_writer_changed_what_it_looked_at(session, meanwhile):
    meanwhile('insert Knows { from: "Cy", to: "Ann" }')
    assert session.mutate(BADGES).inserted == 3
    assert names(session, "node:Badge") == ["Ann-friend", "Bo-friend", "Cy-friend"]


def test_a_match_is_refused_when_another_writer_changed_what_it_looked_at(session, meanwhile):
    meanwhile('insert Knows { from: "Cy", to: "Ann" }')
    with pytest.raises(ExpectedVersionMismatchError):
        session.mutate(BADGES, on_conflict="refuse")
    assert names(session, "node:Badge") == []


def test_an_upsert_is_decided_on_the_state_it_is_published_on(session, meanwhile):
    meanwhile("insert Person { name: 'Di', age: 5 }")
    result = session.mutate("query q() { upsert Person { name: 'Di', kind: 'a' } }")
    assert (result.inserted, result.updated) == (0, 1)
    assert read_graph(session)["node:Person"]["Di"] == {"name": "Di", "age": 5, "doc": None, "kind": "a"}


def test_a_blob_stays_when_other_properties_are_changed_through_a_match(session):
    session.mutate("query q() { match { $p: Person  $p.age > 30 } update $p set { age: $p.age + 1 } }")
    assert read_graph(session)["node:Person"]["Ann"]["doc"] is not None
    session.mutate("query q() { upsert Person { name: 'Ann', age: 1 } }")
    assert read_graph(session)["node:Person"]["Ann"]["doc"] is not None


def test_a_match_behind_a_change_of_its_own_table_reads_no_blobs(session):
    text = """query q() {
        update Person set { age: 50 } where name = 'Ann'
        match { $p: Person  $p.age = 50 }
        update $p set { kind: "a" }
    }"""
    assert session.mutate(text).affected_nodes == 2
    found = read_graph(session)["node:Person"]["Ann"]
    assert (found["age"], found["kind"], found["doc"] is not None) == (50, "a", True)


def test_a_computed_text_must_be_a_value_of_its_enum(session):
    before = commit_ids(session)
    with pytest.raises(Exception, match="kind"):
        session.mutate("query q() { update Person set { kind: lower(name) } where name = 'Ann' }")
    assert commit_ids(session) == before


def test_a_computed_null_is_refused_where_a_value_is_required(session):
    session.mutate("query q() { insert Badge { slug: 'x', at: date('2020-01-01') } }")
    text = "query q($n: I64?) { update Badge set { at: at + days($n) } where slug = 'x' }"
    with pytest.raises(QueryRuntimeError, match=r"Badge 'x': property 'Badge\.at' of type Date cannot be NULL"):
        session.mutate(text, {})


@pytest.mark.parametrize(("most", "is_allowed"), [(4, False), (5, True), (None, True)])
def test_a_mutation_that_would_change_too_much_changes_nothing(session, most, is_allowed):
    text = "query q() { delete Person where age is null or age > 0 }"
    before = read_graph(session)
    if is_allowed:
        assert session.mutate(text, max_affected=most).deleted == 5
        return
    with pytest.raises(AffectedLimitError) as caught:
        session.mutate(text, max_affected=most)
    assert (caught.value.details.limit, caught.value.details.actual) == (4, 5)
    assert read_graph(session) == before


def test_the_limit_of_a_batch_is_for_all_of_its_calls(session):
    text = "query q($n: String) { insert Person { name: $n } }"
    with pytest.raises(AffectedLimitError):
        session.mutate_batch(text, [{"n": "x"}, {"n": "y"}], max_affected=1)
    assert session.mutate_batch(text, [{"n": "x"}, {"n": "y"}], max_affected=2).inserted == 2


def test_the_limit_is_a_whole_number(session):
    with pytest.raises(UsageError, match="max_affected"):
        session.mutate("query q() { delete Person where age > 1 }", max_affected=-1)


def test_a_batch_of_upserts_sees_its_earlier_calls(session):
    text = "query q($n: String, $a: I32) { upsert Person { name: $n, age: $a } return { name, age } }"
    result = session.mutate_batch(text, [{"n": "Di", "a": 1}, {"n": "Di", "a": 2}, {"n": "Ann", "a": 34}])
    assert (result.inserted, result.updated, result.unchanged) == (1, 1, 1)
    assert [row["age"] for row in result.rows.rows()] == [1, 2, 34]


def test_a_batch_names_the_call_that_fails(session):
    text = "query q($n: String, $d: I64) { update Person set { age: 100 / $d } where name = $n }"
    with pytest.raises(Exception, match="to_int"):
        session.mutate_batch(text, [{"n": "Ann", "d": 0}])
    text = "query q($n: String, $d: I64) { update Person set { age: 100 % $d } where name = $n }"
    with pytest.raises(QueryRuntimeError, match="row 2: Person 'Bo'"):
        session.mutate_batch(text, [{"n": "Ann", "d": 1}, {"n": "Bo", "d": 0}])


def test_a_plan_is_shown_with_its_match(session):
    query = compile_query(BADGES, None, session.engine.catalog())
    assert query.plan.describe().splitlines() == [
        "mutation q()",
        "  match",
        "    scan $p: Person",
        "    expand $p -Knows-> $f: Person",
        '  insert node Badge set slug = concat($p.name, "-friend"), at = today(now()) for each $p',
        "  return",
        "    p.name: String? = $p.name",
        "    f.name: String? = $f.name",
    ]
    assert query.plan.to_json()["statements"][0]["kind"] == "match_plan"
