"""Every kind of write, sent again under its idempotency key, answers with the first commit and its counts."""

import json

import pytest

import omnigraph
from omnigraph.errors import (
    AffectedLimitError,
    IdempotencyKeyError,
    QueryMemoryError,
    QueryRowLimitError,
    QueryTimeoutError,
)
from omnigraph.operations.transactions import (
    BeginTransactionRequest,
    CallInTransactionRequest,
    CommitTransactionRequest,
)
from omnigraph.operations.writes import LoadRequest, MutateRequest
from omnigraph.runtime import CallContext, SystemClock, calling
from omnigraph.txn.settings import TxnSettings

SCHEMA = "node Person { slug: String @key  age: I64? }\nedge Knows: Person -> Person"
ADD = "query add($slug: String, $age: I64) { insert Person { slug: $slug, age: $age } }"
AGE = "query age($slug: String) { update Person set { age: 9 } where slug = $slug }"
LIST = "query list() { match { $p: Person } return { $p.slug } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    root = tmp_path_factory.mktemp("repeated") / "g.omni"
    with omnigraph.init(root, SCHEMA, settings=TxnSettings(durability="relaxed")) as made:
        yield made


def twice(run, key, payload="p"):
    """Run a call two times as requests with one key, and return both outcomes."""
    outcomes = []
    for number in (1, 2):
        call = CallContext(request_id=f"{key}-{number}", idempotency_key=key, payload_digest=payload)
        with calling(call):
            outcomes.append(run())
    return outcomes


def commits(graph):
    return len(list(graph.log(limit=1000)))


def assert_same(first, again):
    told = again.to_json()
    assert told == first.to_json()
    assert again.commit == first.commit
    assert first.commit.request_id.endswith("-1")


def test_a_mutation_is_run_once(graph):
    before = commits(graph)
    first, again = twice(lambda: graph.mutate(ADD, {"slug": "ann", "age": 1}), "mutate")
    assert_same(first, again)
    assert (first.affected_nodes, commits(graph)) == (1, before + 1)


def test_a_repeated_mutation_is_answered_although_its_text_means_nothing_any_more(graph):
    call = CallContext(idempotency_key="old-text", payload_digest="p")
    with calling(call):
        first = graph.mutate(ADD, {"slug": "old", "age": 1})
        again = graph.mutate("query add() { insert Gone { slug: 1 } }")
    assert again.commit == first.commit


def test_a_batch_a_load_and_a_transaction_are_made_once(graph, tmp_path):
    file = tmp_path / "people.jsonl"
    file.write_text(json.dumps({"type": "Person", "data": {"slug": "file", "age": 3}}) + "\n")
    rows = [{"slug": f"row{number}", "age": number} for number in range(3)]
    assert_same(*twice(lambda: graph.mutate_batch(ADD, rows), "batch"))
    first, again = twice(lambda: graph.load([str(file)], mode="append"), "load")
    assert_same(first, again)
    assert again.nodes_loaded == {"Person": 1}

    def commit_three():
        begun = graph.backend.execute(BeginTransactionRequest()).transaction
        write = MutateRequest(text=ADD, params={"slug": "in", "age": 1})
        for call in (write, LoadRequest(sources=[str(file)], mode="merge")):
            graph.backend.execute(CallInTransactionRequest(transaction=begun, call=call))
        return graph.backend.execute(CommitTransactionRequest(transaction=begun))

    first, again = twice(commit_three, "transaction")
    assert_same(first, again)
    assert [type(call).__name__ for call in again.calls] == ["MutationResult", "LoadResult"]


def test_a_merge_is_made_once_although_its_branch_is_gone(graph):
    branch = graph.create_branch("draft")
    branch.mutate(ADD, {"slug": "drafted", "age": 1})
    graph.mutate(ADD, {"slug": "meanwhile", "age": 1})

    def merge():
        merged = graph.merge("draft")
        if "draft" in [one.name for one in graph.branches()]:
            graph.delete_branch("draft")
        return merged

    first, again = twice(merge, "merge")
    assert_same(first, again)
    assert again.tables


def test_a_revert_and_a_schema_change_are_made_once(graph):
    added = graph.mutate(ADD, {"slug": "undone", "age": 1})
    assert_same(*twice(lambda: graph.revert(added.commit.id), "revert"))
    before = commits(graph)
    first, again = twice(lambda: graph.apply_schema(f"{SCHEMA}\nnode Team {{ name: String @key }}"), "schema")
    assert again.commit == first.commit
    assert commits(graph) == before + 1


def test_another_payload_under_the_key_changes_nothing(graph):
    with calling(CallContext(idempotency_key="reused", payload_digest="a")):
        graph.mutate(ADD, {"slug": "reused", "age": 1})
    with calling(CallContext(idempotency_key="reused", payload_digest="b")), pytest.raises(IdempotencyKeyError):
        graph.mutate(AGE, {"slug": "reused"})
    assert graph.entity("Person", "reused").properties["age"] == 1


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"max_rows": 1}, QueryRowLimitError),
        ({"memory_bytes": 1}, QueryMemoryError),
        ({"deadline_s": SystemClock().monotonic_s() - 1}, QueryTimeoutError),
    ],
)
def test_what_a_request_may_take_caps_its_reads(graph, limits, error):
    graph.mutate(ADD, {"slug": "one", "age": 1})
    graph.mutate(ADD, {"slug": "two", "age": 1})
    with calling(CallContext(**limits)), pytest.raises(error):
        graph.query(LIST, options=omnigraph.QueryOptions(max_rows=1000)).to_arrow()


def test_what_a_request_may_change_caps_its_writes(graph, tmp_path):
    file = tmp_path / "people.jsonl"
    file.write_text("".join(json.dumps({"type": "Person", "data": {"slug": f"f{n}"}}) + "\n" for n in range(3)))
    before = commits(graph)
    with calling(CallContext(max_affected=2)):
        with pytest.raises(AffectedLimitError):
            graph.mutate_batch(ADD, [{"slug": f"m{n}", "age": n} for n in range(3)], max_affected=100)
        with pytest.raises(AffectedLimitError):
            graph.load([str(file)], mode="merge")
    assert commits(graph) == before
