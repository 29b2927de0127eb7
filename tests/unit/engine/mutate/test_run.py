"""Mutations and other writers: who may go on, who is refused, and what a mutation that does nothing still demands."""

from __future__ import annotations

import pytest
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

from omnigraph.engine.mutate import run_mutation
from omnigraph.errors import (
    ConstraintViolationError,
    EntityChangedError,
    ExpectedVersionMismatchError,
    PreconditionFailedError,
    SchemaMovedError,
)
from omnigraph.ir import compile_query, expect_mutation
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { code: String @key }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "Ann", "age": 34}}
{"type": "Person", "data": {"name": "Bo", "age": 28}}
{"edge": "Knows", "from": "Ann", "to": "Bo", "data": {"id": "k1"}}
"""


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    return tmp_path / "graph"


@pytest.fixture
def session(root):
    with open_session(root) as session:
        yield session


class _Overtaken(BranchWriter):
    """An authority whose transactions meet another write between their beginning and their commit."""

    def __init__(self, inner, meanwhile):
        self.services = inner.services
        self._inner = inner
        self._meanwhile = meanwhile

    def begin(self, *args, **options):
        return self._inner.begin(*args, **options)

    def commit(self, txn):
        self._meanwhile()
        return self._inner.commit(txn)


def mutate_overtaken(session, body, meanwhile, **options):
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    plan = expect_mutation(compile_query(f"query q() {{ {body} }}", None, session.catalog()))
    overtaken = _Overtaken(branch_writer, lambda: session.mutate(f"query q() {{ {meanwhile} }}"))
    return run_mutation(overtaken, session.catalog(), plan, {}, **options)


def test_insert_goes_on_upon_a_newer_state(session):
    done = mutate_overtaken(session, 'insert Person { name: "Eve" }', 'insert Person { name: "Cy" }')
    assert done.commit is not None
    assert sorted(read_graph(session)["node:Person"]) == ["Ann", "Bo", "Cy", "Eve"]


def test_insert_upon_a_newer_state_replaces_what_came_between(session):
    mutate_overtaken(session, 'insert Person { name: "Eve", age: 2 }', 'insert Person { name: "Eve", age: 1 }')
    assert read_graph(session)["node:Person"]["Eve"] == {"name": "Eve", "age": 2}


def test_edge_to_a_node_that_was_deleted_meanwhile_is_refused(session):
    with pytest.raises(ConstraintViolationError, match="dst 'Bo' not found in Person"):
        mutate_overtaken(session, 'insert Knows { from: "Ann", to: "Bo" }', 'delete Person where name = "Bo"')
    assert read_graph(session)["edge:Knows"] == {}


@pytest.mark.parametrize(
    ("body", "meanwhile", "table"),
    [
        ("update Person set { age: 1 } where age > 30", 'insert Person { name: "Eve" }', "node:Person"),
        (
            'update Person set { age: 1 } where name = "Ann"',
            'update Person set { age: 9 } where name = "Ann"',
            "node:Person",
        ),
        ('delete Person where name = "Ann"', 'insert Knows { from: "Bo", to: "Ann" }', "edge:Knows"),
        ('delete Knows where from = "Ann"', 'insert Knows { from: "Ann", to: "Ann" }', "edge:Knows"),
        (
            'insert Team { code: "t" } update Person set { age: 2 } where age > 90',
            'update Person set { age: 99 } where name = "Bo"',
            "node:Person",
        ),
    ],
)
def test_update_or_delete_with_refuse_is_refused_when_what_it_read_has_moved(session, body, meanwhile, table):
    with pytest.raises(ExpectedVersionMismatchError, match=table):
        mutate_overtaken(session, body, meanwhile, on_conflict="refuse")


def test_update_goes_on_when_only_other_tables_moved(session):
    done = mutate_overtaken(session, 'update Person set { age: 1 } where name = "Ann"', 'insert Team { code: "t" }')
    assert done.commit is not None
    assert read_graph(session)["node:Person"]["Ann"]["age"] == 1


@pytest.mark.parametrize(
    "body", ['insert Person { name: "Eve" }', 'delete Person where name = "Nobody"', 'delete Person where name = "Bo"']
)
def test_expected_head_is_demanded_even_if_nothing_would_change(session, body):
    stale, head = commit_ids(session)[1], commit_ids(session)[0]
    before = read_graph(session)
    with pytest.raises(PreconditionFailedError):
        session.mutate(f"query q() {{ {body} }}", expected_head=stale)
    assert read_graph(session) == before
    session.mutate(f"query q() {{ {body} }}", expected_head=head)


def test_expected_head_is_final_for_an_insert_too(session):
    head = commit_ids(session)[0]
    with pytest.raises(PreconditionFailedError):
        mutate_overtaken(session, 'insert Team { code: "a" }', 'insert Team { code: "b" }', expected_head=head)


def test_plan_of_another_schema_is_refused(session):
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    plan = expect_mutation(compile_query('query q() { insert Team { code: "t" } }', None, session.catalog()))
    with pytest.raises(SchemaMovedError):
        run_mutation(branch_writer, session.catalog(), plan, {}, schema_hash="sha256:other")


def test_each_touched_table_advances_by_one_version(session):
    before = session.snapshot().state.tables
    session.mutate(
        'query q() { insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Bo" }'
        ' update Person set { age: 1 } where age > 0 delete Knows where from = "Ann" insert Team { code: "t" } }'
    )
    after = session.snapshot().state.tables
    assert {key: after[key].pin.version - before[key].pin.version for key in before} == dict.fromkeys(before, 1)


def test_result_tells_what_it_cost_and_where_it_is(session):
    done = session.mutate('query q() { insert Team { code: "t" } }', actor="me")
    assert done.manifest_version == session.snapshot().state.version
    assert done.commit.manifest_version == done.manifest_version
    assert (done.commit.actor, done.commit.operation) == ("me", "insert")
    assert done.cost.total_calls > 0
    assert session.mutate('query q() { delete Team where code = "t" }').commit.operation == "mutate"


GUARDED = 'update Person set { age: 50 } where name = "Ann" if version = "?"'


def test_a_guarded_update_is_lost_to_a_write_that_came_between(session):
    """It is run again on the newer state, where its row is at another version."""
    body = GUARDED.replace("?", version_of(session, "Ann"))
    with pytest.raises(EntityChangedError) as caught:
        mutate_overtaken(session, body, 'update Person set { age: 9 } where name = "Ann"', history=session.store.refs)
    assert caught.value.details.actual == version_of(session, "Ann")
    assert read_graph(session)["node:Person"]["Ann"]["age"] == 9


def test_a_guarded_update_goes_on_after_a_write_of_another_row(session):
    body = GUARDED.replace("?", version_of(session, "Ann"))
    mutate_overtaken(session, body, 'update Person set { age: 9 } where name = "Bo"', history=session.store.refs)
    assert read_graph(session)["node:Person"]["Ann"]["age"] == 50
    assert read_graph(session)["node:Person"]["Bo"]["age"] == 9


def version_of(session, name):
    """Return the commit that last changed a person."""
    text = "query q($n: String) { match { $p: Person { name: $n } } return { version($p) as v } }"
    (row,) = session.query(text, {"n": name}).to_arrow().to_pylist()
    return row["v"]
