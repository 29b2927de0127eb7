"""Every storage call of a merge, a revert, a transaction and a change log fails once in turn, until none does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from omnigraph.engine.open_graph import init_graph
from omnigraph.history.merge import merge_branch, revert_commit
from omnigraph.operations.writes import MutateRequest
from omnigraph.store.location import Storage
from omnigraph.values import MAIN, BranchName
from tests.crash.checks import assert_sound
from tests.crash.later import later_world, watch_for_hours
from tests.crash.matrix import IS_FULL
from tests.crash.nth_call import (
    DROP_AFTER,
    ERROR_AFTER,
    LOST_ANSWERS,
    OUTAGE,
    Loop,
    assert_effect_is_true,
    assert_heads_are_pins,
    every_loop,
    fail_call,
)
from tests.crash.torn import IMPATIENT
from tests.marks import first
from tests.merge_graph import DRAFT, change, history_of, put
from tests.session import Session
from tests.session_graph import RELAXED, read_graph

PERSON, KNOWS = "node:Person", "edge:Knows"
SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
_MOST_CALLS = 160


def _write(session, branch):
    """Change two tables in one commit: a row is new, a row is changed, an edge is new."""
    statements = [
        'insert Person { name: "c" }',
        'update Person set { age: 2 } where name = "a"',
        'insert Knows { from: "c", to: "a" }',
    ]
    change(session, "\n".join(statements), branch)


class Merge:
    """A three-way merge over two tables."""

    target = MAIN

    def prepare(self, session):
        """Let both branches go apart."""
        session.store.create_branch(BranchName(DRAFT))
        _write(session, DRAFT)
        put(session, PERSON, {"b": {"name": "b", "age": 5}})

    def run(self, session):
        """Do it."""
        merge_branch(session, DRAFT, self.target)

    def is_done(self, session):
        """Whether it is done; half of it is a failure by itself."""
        rows = read_graph(session, self.target)
        found = {"c" in rows[PERSON], rows[PERSON]["a"]["age"] == 2, len(rows[KNOWS]) == 1}
        assert len(found) == 1, "half of the change is there"
        return found.pop()

    def repeat(self, session):
        """Ask for it once more, if that is what a caller who does not know the outcome does."""


class MergeOfProposal(Merge):
    """The same merge as a proposal, which says that it was merged if and only if it was."""

    def prepare(self, session):
        super().prepare(session)
        check = 'query q() { match { $p: Person $p.name = "x" } return { $p.name } }'
        session.open_proposal(DRAFT, "draft", checks=[check], actor="author")

    def run(self, session):
        session.merge_proposal(1)

    def is_done(self, session):
        is_merged = super().is_done(session)
        assert (session.get_proposal(1).state == "merged") == is_merged
        return is_merged


class MergeIntoBranch(Merge):
    """A merge that forks the tables of its target."""

    target = "other"

    def prepare(self, session):
        session.store.create_branch(BranchName(self.target))
        super().prepare(session)


class MergeOfSchemas(Merge):
    """A merge that brings columns, rows and a type with a table of its own."""

    def prepare(self, session):
        session.store.create_branch(BranchName(DRAFT))
        session.apply_schema(
            SCHEMA.replace("age: I32?", "age: I64?  nick: String?") + "node City { name: String @key }", branch=DRAFT
        )
        _write(session, DRAFT)
        change(session, 'insert City { name: "rome" }', DRAFT)
        put(session, PERSON, {"b": {"name": "b", "age": 5}})

    def is_done(self, session):
        rows = read_graph(session, self.target)
        assert ("node:City" in rows) == ("nick" in rows[PERSON]["a"]) == ("c" in rows[PERSON]), "half of it is there"
        return super().is_done(session)


class Revert(Merge):
    """A commit of two tables undone, upon a later one."""

    def prepare(self, session):
        _write(session, MAIN)
        put(session, PERSON, {"b": {"name": "b", "age": 5}})

    def run(self, session):
        revert_commit(session, history_of(session)[1].id)

    def is_done(self, session):
        return not super().is_done(session)


class Transaction(Merge):
    """Several calls over two tables as one commit, run again because another commit came between them."""

    def prepare(self, session):
        pass

    def run(self, session):
        begun = session.begin_transaction().transaction
        for text in (
            'query a() { insert Person { name: "c" } }',
            'query u() { update Person set { age: 2 } where name = "a" }',
            'query k() { insert Knows { from: "c", to: "a" } }',
        ):
            session.call_in_transaction(begun, MutateRequest(text=text))
        put(session, PERSON, {"b": {"name": "b", "age": 5}})
        session.commit_transaction(begun)


class ApplyLog(Merge):
    """A piece of a change log over two tables: patched, written and deleted, and an edge that goes with its node."""

    log = """
{"type": "Person", "_op": "delete", "_seq": 5, "data": {"name": "b"}}
{"type": "Person", "_op": "patch", "_seq": 2, "data": {"name": "a", "age": 2}}
{"type": "Person", "_seq": 1, "data": {"name": "c"}}
{"edge": "Knows", "_seq": 3, "from": "c", "to": "a", "data": {"id": "ca"}}
"""

    def prepare(self, session):
        change(session, 'insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "a" }')

    def run(self, session):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "log.jsonl"
            file.write_text(self.log.lstrip(), encoding="utf-8")
            return session.load([str(file)], "apply", batch=("people", 4))

    def is_done(self, session):
        rows = read_graph(session, self.target)
        found = {"b" not in rows[PERSON], list(rows[KNOWS]) == ["ca"]}
        assert found == {super().is_done(session)}, "half of the change is there"
        return found.pop()

    def repeat(self, session):
        was_done = self.is_done(session)
        done = self.run(session)
        assert (done.is_repeat, self.is_done(session)) == (was_done, True)
        pieces = [commit for commit in history_of(session) if commit.batch is not None]
        assert [commit.id for commit in pieces] == [done.commit.id]


OPERATIONS = {
    "merge": Merge(),
    "merge_of_proposal": MergeOfProposal(),
    "merge_into_branch": MergeIntoBranch(),
    "merge_of_schemas": MergeOfSchemas(),
    "revert": Revert(),
    "transaction": Transaction(),
    "apply": ApplyLog(),
}
PLAIN = [
    Loop(operation="merge", trouble=ERROR_AFTER, goes_on=True, step=29),
    Loop(operation="merge", trouble=LOST_ANSWERS, goes_on=False, step=41),
    Loop(operation="merge_of_proposal", trouble=ERROR_AFTER, goes_on=False, step=47),
    Loop(operation="merge_into_branch", trouble=OUTAGE, goes_on=True, step=47),
    Loop(operation="merge_of_schemas", trouble=ERROR_AFTER, goes_on=True, step=53),
    Loop(operation="revert", trouble=DROP_AFTER, goes_on=False, step=19),
    Loop(operation="transaction", trouble=ERROR_AFTER, goes_on=True, step=23),
    Loop(operation="apply", trouble=LOST_ANSWERS, goes_on=True, step=23),
]


@pytest.mark.parametrize(
    "loop", first(2, [pytest.param(loop, id=loop.name) for loop in (every_loop(OPERATIONS) if IS_FULL else PLAIN)])
)
@pytest.mark.timeout(900)
def test_no_failing_call_breaks_an_operation_or_makes_its_error_lie(loop, clean_s3_endpoint):
    endpoint, operation = clean_s3_endpoint, OPERATIONS[loop.operation]
    for nth in range(1, _MOST_CALLS, loop.step):
        storage = Storage.open(endpoint.fresh_prefix(), endpoint.storage_options_without_retries)
        init_graph(storage, SCHEMA, settings=RELAXED)
        with Session.open(storage, settings=RELAXED) as session:
            change(session, 'insert Person { name: "a" } insert Person { name: "b" }')
            operation.prepare(session)
        was_hit = _fail_call(endpoint, storage, operation, loop, nth)
        if IS_FULL or not was_hit or nth == 1:
            assert_sound(storage)
        if not was_hit:
            break
    else:
        pytest.fail("the operation never passed untouched")
    assert nth > loop.step


def _fail_call(endpoint, storage, operation, loop, nth):
    """Fail one call, look, let the graph settle, look again; return whether the call came at all."""
    session = Session.open(storage, settings=IMPATIENT)
    try:
        fault = loop.trouble.on_call(nth, storage.prefix)
        error, was_hit = fail_call(endpoint, fault, session.store, lambda: operation.run(session))
        seen = _look(storage, operation)
        assert_effect_is_true(error, seen)
        if loop.goes_on:
            change(session, 'insert Person { name: "next" }', operation.target)
    finally:
        endpoint.clear_faults()
        session.close()
    assert was_hit or error is None, f"failed without a fault: {error!r}"
    runtime = later_world(hours=2)
    with Session.open(storage, runtime=runtime, settings=IMPATIENT) as session:
        watch_for_hours(session.store, runtime)
        final = _look(storage, operation)
        assert_effect_is_true(error, final)
        assert final or not seen, "a visible change has gone"
        assert session.store._stores.control.list_keys("__recovery") == ()
        assert_heads_are_pins(session.store)
        operation.repeat(session)
        change(session, 'insert Person { name: "after" }', operation.target)
    return was_hit


def _look(storage, operation):
    with Session.open(storage, mode="read_only") as session:
        return operation.is_done(session)
