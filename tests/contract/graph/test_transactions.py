"""Several calls as one commit: what they see of each other, what becomes of them, and what other writers do to them."""

# ruff: noqa: PT012 - what raises is the end of the block of a transaction

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph
from omnigraph.errors import (
    AffectedLimitError,
    BadRowsError,
    ConstraintViolationError,
    ExpectedVersionMismatchError,
    GraphClosedError,
    KeyExistsError,
    Kind,
    PreconditionFailedError,
    QueryRuntimeError,
    QuerySyntaxError,
    ReadOnlyError,
    SchemaMovedError,
    TransactionConflictError,
    TransactionEndedError,
    UsageError,
)
from omnigraph.operations.history import LogRequest
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.transactions import BeginTransactionRequest, CallInTransactionRequest
from omnigraph.operations.writes import MutateRequest
from tests.session_graph import RELAXED

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique  @range(age, 0..200) }
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"
OLDER = "query older($name: String) { update Person set { age: age + 1 } where name = $name }"
FORGET = "query forget($name: String) { delete Person where name = $name }"
KNOW = "query know($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
NOTE = "query note($text: String) { insert Note { text: $text } return { id } }"
COUNT = "query count() { match { $p: Person } return { count($p) as n } }"
AGES = "query ages() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
FRIENDS = "query friends() { match { $p: Person  $p knows $q } return { $p.name, $q.name } order { $p.name, $q.name } }"
NOTES = "query notes() { match { $n: Note } return { id($n) as id, $n.text } }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as opened:
        opened.mutate_batch(ADD, [{"name": "ann", "age": 1}, {"name": "bo", "age": 2}])
        yield opened


@pytest.fixture
def other(graph):
    """Another writer."""
    with omnigraph.open(graph.uri, settings=RELAXED) as opened:
        yield opened


def ages(state):
    return {row["p.name"]: row["p.age"] for row in state.query(AGES)}


def test_several_calls_see_each_other_and_become_one_commit(graph):
    before = graph.log()[0]
    with graph.transaction(message="one", actor="mira") as t:
        added = t.mutate(ADD, {"name": "cy", "age": 3})
        t.mutate(OLDER, {"name": "cy"})
        t.mutate_batch(KNOW, [{"a": "ann", "b": "cy"}, {"a": "bo", "b": "ann"}])
        gone = t.mutate(FORGET, {"name": "bo"})
        assert ages(t) == {"ann": 1, "cy": 4}
        assert [tuple(row.values()) for row in t.query(FRIENDS)] == [("ann", "cy")]
        assert t.entity("Person", "cy")["age"] == 4
        assert t.entity("Person", "bo") is None
        assert (gone.deleted, gone.commit, t.published) == (2, None, None)
        assert ages(graph) == {"ann": 1, "bo": 2}
    commit = graph.log()[0]
    assert (commit.parent, commit.operation, commit.message, commit.actor) == (before.id, "transaction", "one", "mira")
    assert commit.touched == ("edge:Knows", "node:Person")
    assert t.published == added.commit == gone.commit == commit
    assert (added.inserted, gone.deleted, gone.branch, gone.actor) == (1, 2, "main", "mira")
    assert ages(graph) == {"ann": 1, "cy": 4}
    assert "committed" in repr(t)
    assert (repr(added)[:20], str(added)) == (
        "<result of write 1 o",
        "changed main via add: 1 node, 0 edges\nactor_id: mira",
    )


def test_an_exception_and_a_rollback_leave_nothing(graph):
    head = graph.log()[0]
    with pytest.raises(ZeroDivisionError), graph.transaction() as t:
        t.mutate(ADD, {"name": "cy", "age": 3})
        _ = 1 / 0
    with graph.transaction() as undone:
        undone.mutate(ADD, {"name": "cy", "age": 3})
        undone.rollback()
    with graph.transaction():
        pass
    with graph.transaction() as reading:
        assert len(reading.query(AGES)) == 2
    assert (graph.log()[0], t.is_open, undone.published, reading.published) == (head, False, None, None)


def test_a_call_that_fails_leaves_nothing_behind_and_the_others_go_on(graph, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"type": "Person", "data": {"name": "x", "age": "old"}}\n')
    (tmp_path / "known.jsonl").write_text(
        '{"type": "Note", "data": {"id": "n", "text": "t"}}\n{"type": "Person", "data": {"name": "cy"}}\n'
    )
    with graph.transaction() as t:
        t.mutate(ADD, {"name": "cy", "age": 3})
        with pytest.raises(QuerySyntaxError):
            t.mutate("query q() { insrt }")
        with pytest.raises(AffectedLimitError):
            t.mutate("query q() { update Person set { age: 9 } where age >= 0 }", max_affected=2)
        with pytest.raises(KeyExistsError):
            t.mutate('query q() { insert Person { name: "dee" }  insert Person { name: "cy" } strict }')
        with pytest.raises(QueryRuntimeError):
            t.mutate('query q() { update Person set { age: age * 2000000000 } where name = "cy" }')
        with pytest.raises(BadRowsError):
            t.load(tmp_path / "bad.jsonl")
        with pytest.raises(KeyExistsError):
            t.load(tmp_path / "known.jsonl")
        with pytest.raises(UsageError):
            t.query(AGES, options=omnigraph.QueryOptions(streams=True))
        assert ages(t) == {"ann": 1, "bo": 2, "cy": 3}
        assert t.query(NOTES).rows() == []
    assert ages(graph) == {"ann": 1, "bo": 2, "cy": 3}


def test_rules_are_checked_once_on_what_is_left(graph):
    with graph.transaction() as t:
        t.mutate(KNOW, {"a": "ann", "b": "cy"})
        t.mutate('query q() { update Person set { age: 999 } where name = "bo" }')
        t.mutate(ADD, {"name": "cy", "age": 3})
        t.mutate('query q() { update Person set { age: 7 } where name = "bo" }')
    assert ages(graph) == {"ann": 1, "bo": 7, "cy": 3}
    head = graph.log()[0]
    with pytest.raises(ConstraintViolationError), graph.transaction() as broken:
        broken.mutate(ADD, {"name": "dee", "age": 3})
        broken.mutate(KNOW, {"a": "ann", "b": "nobody"})
    assert graph.log()[0] == head
    with pytest.raises(TransactionEndedError, match="has failed"):
        broken.commit()


def test_loads_and_mutations_build_on_each_other(graph, tmp_path):
    for name, rows in {
        "append": '{"type": "Person", "data": {"name": "cy", "age": 3}}\n{"type": "Note", "data": {"text": "x"}}\n',
        "merge": '{"type": "Person", "data": {"name": "cy", "email": "c"}}\n'
        '{"type": "Person", "data": {"name": "bo"}}\n',
        "patch": '{"type": "Person", "data": {"name": "cy", "age": 5}}\n',
        "overwrite": '{"type": "Person", "data": {"name": "eve", "age": 5}}\n',
    }.items():
        (tmp_path / f"{name}.jsonl").write_text(rows)
    with graph.transaction() as t:
        assert t.load(tmp_path / "append.jsonl").total == 2
        t.mutate(OLDER, {"name": "cy"})
        assert ages(t)["cy"] == 4
        t.load(tmp_path / "merge.jsonl", "merge")
        assert ages(t) == {"ann": 1, "bo": None, "cy": None}
        t.load(tmp_path / "patch.jsonl", "merge", patch=True)
        assert t.entity("Person", "cy").properties == {"name": "cy", "age": 5, "email": "c"}
        last = t.load(tmp_path / "overwrite.jsonl", "overwrite")
        t.mutate(OLDER, {"name": "eve"})
        t.mutate(OLDER, {"name": "ann"})
        t.mutate(ADD, {"name": "fay", "age": 1})
        assert ages(t) == {"eve": 6, "fay": 1}
    assert ages(graph) == {"eve": 6, "fay": 1}
    assert (last.mode, last.nodes_loaded, last.commit) == ("overwrite", {"Person": 1}, graph.log()[0])
    assert len(graph.query(NOTES)) == 1


def test_calls_that_nobody_looked_at_are_run_again_on_what_others_wrote(graph, other):
    with graph.transaction() as t:
        older = t.mutate(OLDER, {"name": "ann"})
        t.mutate("query q() { update Person set { age: 50 } where age > 5 }")
        note = t.mutate(NOTE, {"text": "kept"})
        other.mutate('query q() { update Person set { age: 10 } where name = "ann" }')
    assert ages(graph) == {"ann": 50, "bo": 2}
    assert [commit.operation for commit in graph.log()][:2] == ["transaction", "mutate"]
    assert (older.updated, older.commit) == (1, graph.log()[0])
    assert graph.query(NOTES).rows() == [{"id": note.rows.rows()[0]["id"], "n.text": "kept"}]


def test_what_was_shown_to_the_caller_must_not_have_changed(graph, other):
    def shown_by_a_read(t):
        assert ages(t)["ann"] == 1

    def shown_by_a_count(t):
        assert t.mutate("query q() { update Person set { age: 5 } where age < 2 }").updated == 1

    def shown_by_an_entity(t):
        assert t.entity("Person", "bo") is not None

    for show in (shown_by_a_read, shown_by_a_count, shown_by_an_entity):
        before = ages(graph)
        with pytest.raises(TransactionConflictError) as conflict, graph.transaction() as t:
            show(t)
            t.mutate(NOTE, {"text": "decided"})
            other.mutate(OLDER, {"name": "bo"})
        assert (conflict.value.kind, conflict.value.details.table_key) == (Kind.CONFLICT, "node:Person")
        assert "run_transaction" in conflict.value.hint
        assert ages(graph) == before | {"bo": before["bo"] + 1}
        assert not t.is_open
    assert len(graph.query(NOTES)) == 0


def test_an_entity_that_was_shown_depends_on_no_other(graph, other):
    with graph.transaction() as t:
        assert t.entity("Person", "nobody") is None
        t.mutate(NOTE, {"text": "decided"})
        other.mutate(OLDER, {"name": "bo"})
    with pytest.raises(TransactionConflictError), graph.transaction() as late:
        assert late.entity("Person", "nobody") is None
        late.mutate(NOTE, {"text": "too late"})
        other.mutate(ADD, {"name": "nobody", "age": 1})
    assert [row["n.text"] for row in graph.query(NOTES)] == ["decided"]


def test_what_was_not_shown_may_change_and_the_ids_that_were_shown_stay(graph, other):
    with graph.transaction() as t:
        (row,) = t.mutate(NOTE, {"text": "first"}).rows.rows()
        assert t.entity("Note", row["id"])["text"] == "first"
        t.mutate(OLDER, {"name": "ann"})
        other.mutate(OLDER, {"name": "ann"})
        other.optimize(["Note"])
    assert ages(graph)["ann"] == 3
    assert graph.query(NOTES).rows() == [{"id": row["id"], "n.text": "first"}]
    with graph.transaction() as tidied:
        assert ages(tidied)["ann"] == 3
        tidied.mutate(OLDER, {"name": "ann"})
        other.build_indexes()
    assert ages(graph)["ann"] == 4


def test_inserts_go_on_beside_others_and_clashes_are_told(graph, other):
    with graph.transaction() as t:
        t.mutate(ADD, {"name": "cy", "age": 3})
        other.mutate(ADD, {"name": "dee", "age": 4})
    assert sorted(ages(graph)) == ["ann", "bo", "cy", "dee"]
    mail = 'query mail($n: String) { insert Person { name: $n, email: "same" } }'
    with pytest.raises(ConstraintViolationError), graph.transaction() as late:
        late.mutate(mail, {"n": "eve"})
        other.mutate(mail, {"n": "fay"})
    assert "eve" not in ages(graph)


def test_a_head_can_be_demanded_and_running_again_refused(graph, other):
    head = graph.log()[0]
    with graph.transaction(expected_head=head) as t:
        t.mutate(OLDER, {"name": "ann"})
    with pytest.raises(PreconditionFailedError):
        graph.transaction(expected_head=head)
    with pytest.raises(PreconditionFailedError), graph.transaction(expected_head=graph.log()[0]) as late:
        late.mutate(ADD, {"name": "cy", "age": 3})
        other.mutate(NOTE, {"text": "x"})
    with pytest.raises(ExpectedVersionMismatchError), graph.transaction(on_conflict="refuse") as strict:
        strict.mutate(OLDER, {"name": "ann"})
        other.mutate(OLDER, {"name": "ann"})
    assert ages(graph) == {"ann": 3, "bo": 2}
    with pytest.raises(UsageError):
        graph.transaction(on_conflict="retry")  # type: ignore[arg-type]  # the mistake itself


def test_a_function_is_called_again_when_what_it_read_has_changed(graph, other):
    seen = []

    def raise_to_ann(t):
        seen.append(ages(t)["ann"])
        if len(seen) < 3:
            other.mutate(OLDER, {"name": "ann"})
        t.mutate('query q($a: I32) { update Person set { age: $a } where name = "bo" }', {"a": seen[-1] * 10})
        return len(seen)

    assert graph.run_transaction(raise_to_ann, message="level", actor="mira") == 3
    assert (seen, ages(graph)) == ([1, 2, 3], {"ann": 3, "bo": 30})
    assert (graph.log()[0].message, graph.log()[0].actor) == ("level", "mira")
    seen.clear()
    with pytest.raises(TransactionConflictError):
        graph.run_transaction(raise_to_ann, attempts=2)
    for wrong in ({"attempts": 0}, {"run": None}):
        with pytest.raises(UsageError):
            graph.run_transaction(**{"run": raise_to_ann, **wrong})


def test_another_schema_ends_a_transaction_and_a_function_is_called_again(graph, other):
    wider = SCHEMA.replace("text: String", "text: String  by: String?")
    with pytest.raises(SchemaMovedError), graph.transaction() as t:
        t.mutate(NOTE, {"text": "x"})
        other.apply_schema(wider)
    calls = []

    def note(t):
        calls.append(1)
        t.mutate(NOTE, {"text": "x"})
        if len(calls) == 1:
            other.apply_schema(SCHEMA)

    graph.run_transaction(note)
    assert (len(calls), len(graph.query(NOTES))) == (2, 1)


def test_ended_transactions_say_so(graph):
    with graph.transaction() as t:
        t.mutate(OLDER, {"name": "ann"})
        assert t.commit() == t.published
        for use in (t.commit, t.rollback, lambda: t.query(AGES), lambda: t.mutate(OLDER, {"name": "ann"}), t.__enter__):
            with pytest.raises(TransactionEndedError, match="was committed and accepts no further calls") as refused:
                use()
            assert refused.value.kind is Kind.INVALID
    undone = graph.transaction()
    undone.rollback()
    undone.rollback()
    with pytest.raises(TransactionEndedError, match="was rolled back"):
        undone.commit()
    assert (ages(graph)["ann"], len(graph.log())) == (2, 3)


def test_what_a_transaction_decides_is_not_for_its_calls_to_say(graph):
    begun = graph.backend.execute(BeginTransactionRequest())

    def call(request):
        return graph.backend.execute(CallInTransactionRequest(transaction=begun.transaction, call=request))

    with pytest.raises(UsageError, match="actor belongs to the whole transaction"):
        call(MutateRequest(text=OLDER, params={"name": "ann"}, actor="x"))
    with pytest.raises(UsageError, match="at belongs to the whole transaction"):
        call(QueryRequest(text=AGES, at="main~1"))
    with pytest.raises(UsageError, match="a transaction does not take the call 'log'"):
        call(LogRequest())
    with pytest.raises(TransactionEndedError, match="no open transaction 'x'"):
        graph.backend.execute(CallInTransactionRequest(transaction="x", call=QueryRequest(text=AGES)))


def test_a_transaction_belongs_to_its_branch(graph):
    review = graph.create_branch("review")
    with review.transaction(message="side") as t:
        t.mutate(OLDER, {"name": "ann"})
        assert (t.branch, ages(t)["ann"]) == ("review", 2)
    assert (ages(graph)["ann"], ages(review)["ann"], review.log()[0].message) == (1, 2, "side")


def test_writes_inside_the_block_are_those_of_another_writer(graph):
    with graph.transaction() as outer:
        outer.mutate(OLDER, {"name": "ann"})
        graph.mutate(OLDER, {"name": "ann"})
        with graph.transaction() as inner:
            inner.mutate(OLDER, {"name": "ann"})
            assert (ages(inner)["ann"], ages(graph)["ann"]) == (3, 2)
    assert ages(graph)["ann"] == 4
    with pytest.raises(TransactionConflictError), graph.transaction() as reading:
        assert ages(reading)["ann"] == 4
        graph.mutate(OLDER, {"name": "bo"})
        reading.mutate(OLDER, {"name": "ann"})


def test_threads_share_a_transaction_and_have_their_own(graph):
    with ThreadPoolExecutor(4) as pool:
        with graph.transaction() as t:
            list(pool.map(lambda number: t.mutate(ADD, {"name": f"p{number}", "age": number}), range(8)))
            list(pool.map(lambda _: t.mutate(OLDER, {"name": "ann"}), range(8)))
            assert {len(found) for found in pool.map(lambda _: ages(t), range(4))} == {10}
        assert (len(graph.log()), ages(graph)["ann"]) == (3, 9)

        def raise_bo(_):
            with graph.transaction() as mine:
                mine.mutate(OLDER, {"name": "bo"})
                mine.mutate(OLDER, {"name": "bo"})

        list(pool.map(raise_bo, range(6)))
    assert ages(graph)["bo"] == 14


def test_closed_and_read_only_graphs_take_no_transaction(graph, tmp_path):
    with omnigraph.open(graph.uri, mode="read_only") as reading, pytest.raises(ReadOnlyError):
        reading.transaction()
    opened = omnigraph.open(graph.uri, settings=RELAXED)
    with pytest.raises(GraphClosedError), opened.transaction() as t:
        t.mutate(OLDER, {"name": "ann"})
        opened.close()
    opened = omnigraph.open(graph.uri, settings=RELAXED)
    with pytest.raises(KeyError), opened.transaction():
        opened.close()
        raise KeyError
    assert ages(graph)["ann"] == 1
