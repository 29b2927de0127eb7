"""A write that is sent again under its idempotency key is done once, whoever sends it where and when."""

import threading

import pytest
from tests.txn_graph import PERSON, RELAXED, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import IdempotencyKeyError, KeyExistsError, RequestDeadlineError, RequestRepeatedError
from omnigraph.runtime import CallContext, ManualClock, Runtime, SystemRandomness, calling, start_thread
from omnigraph.txn.manifest import requests
from omnigraph.txn.manifest.lineage import RECENT_LIMIT
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings


def asked(key, payload="p", request_id=None):
    return calling(CallContext(request_id=request_id, idempotency_key=key, payload_digest=payload))


def keyed_insert(graph, key, ids, *, payload="p", actor=None, receipt=None):
    with asked(key, payload):
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.INSERT, actor=actor)
        txn.insert(PERSON, node_rows(ids))
        txn.receipt = receipt
        return branch_writer.commit(txn)


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


def test_a_commit_says_which_request_asked_for_it(storage):
    with open_graph(storage) as graph:
        with calling(CallContext(request_id="req-1")):
            commit = insert(graph, PERSON, node_rows(["a"])).commit
        assert (commit.request_id, commit.to_json()["request_id"]) == ("req-1", "req-1")
        assert insert(graph, PERSON, node_rows(["b"])).commit.request is None


def test_a_repeated_request_is_told_of_the_first_commit_by_every_process(storage):
    with open_graph(storage) as graph:
        first = keyed_insert(graph, "k", ["a"], receipt=lambda: {"n": 1}).commit
        with pytest.raises(RequestRepeatedError) as again:
            keyed_insert(graph, "k", ["a"])
    with open_graph(storage) as graph, pytest.raises(RequestRepeatedError) as elsewhere:
        keyed_insert(graph, "k", ["a"])
    assert {again.value.details.commit_id, elsewhere.value.details.commit_id} == {first.id}
    with open_graph(storage) as graph:
        stored = history(graph)[0]
        assert (stored.request.receipt, read_ids(graph, PERSON)) == ({"n": 1}, ["a"])


def test_another_payload_under_a_key_is_refused_and_changes_nothing(storage):
    with open_graph(storage) as graph:
        first = keyed_insert(graph, "k", ["a"]).commit
        with pytest.raises(IdempotencyKeyError, match="used before") as refused:
            keyed_insert(graph, "k", ["b"], payload="q")
        assert (refused.value.details.commit_id, read_ids(graph, PERSON)) == (first.id, ["a"])


def test_a_key_belongs_to_its_actor(storage):
    with open_graph(storage) as graph:
        for actor in ("ann", "bob", None):
            keyed_insert(graph, "k", [str(actor)], actor=actor)
        assert read_ids(graph, PERSON) == ["None", "ann", "bob"]


def test_a_write_that_failed_leaves_its_key_free(storage):
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        with pytest.raises(KeyExistsError):
            keyed_insert(graph, "k", ["a"])
        assert keyed_insert(graph, "k", ["b"], payload="q").commit is not None


def test_a_key_is_found_in_folded_history(storage):
    with open_graph(storage) as graph:
        first = keyed_insert(graph, "first", ["first"]).commit
        for number in range(2 * RECENT_LIMIT):
            keyed_insert(graph, f"k{number}", [f"n{number}"])
        assert len(authority_of(graph).snapshot().manifest.lineage) >= 2
    with open_graph(storage) as graph:
        with pytest.raises(RequestRepeatedError) as again:
            keyed_insert(graph, "first", ["first"])
        assert again.value.details.commit_id == first.id
        with pytest.raises(RequestRepeatedError):
            keyed_insert(graph, "k7", ["n7"])


def test_a_key_that_another_process_used_meanwhile_is_found_before_the_publish(storage):
    with open_graph(storage) as here, open_graph(storage) as there:
        with asked("k"):
            txn = authority_of(here).begin(WriteKind.INSERT)
            txn.insert(PERSON, node_rows(["a"]))
        first = keyed_insert(there, "k", ["a"]).commit
        with pytest.raises(RequestRepeatedError) as refused:
            authority_of(here).commit(txn)
        assert refused.value.details.commit_id == first.id
        assert read_ids(here, PERSON) == ["a"]


def test_a_key_is_forgotten_after_its_time(tmp_path):
    clock = ManualClock()
    runtime = Runtime(clock=clock, randomness=SystemRandomness())
    storage = init_graph(tmp_path / "g", runtime=runtime)
    settings = TxnSettings(durability="relaxed", key_s=3600)
    with open_graph(storage, runtime=runtime, settings=settings) as graph:
        keyed_insert(graph, "k", ["a"])
        clock.sleep(3599)
        with pytest.raises(RequestRepeatedError):
            keyed_insert(graph, "k", ["a"])
        clock.sleep(2)
        keyed_insert(graph, "k", ["b"])
    clock.sleep(3601)
    with open_graph(storage, runtime=runtime, settings=settings) as graph:
        keyed_insert(graph, "k", ["c"])
        assert read_ids(graph, PERSON) == ["a", "b", "c"]


def test_only_the_newest_keys_are_kept_in_memory(storage, monkeypatch):
    monkeypatch.setattr(requests, "MAX_KEYS", 3)
    with open_graph(storage) as graph:
        for number in range(5):
            keyed_insert(graph, f"k{number}", [f"n{number}"])
        keyed = authority_of(graph).services.keyed
        assert len(keyed._positions) == 3
        with pytest.raises(RequestRepeatedError):
            keyed_insert(graph, "k4", ["n4"])


@pytest.mark.parametrize("is_grouped", [True, False])
def test_the_same_key_sent_twice_at_once_gives_one_commit(storage, is_grouped):
    runtime = Runtime.system({})
    reached, may_go_on = threading.Event(), threading.Event()

    def hold():
        reached.set()
        assert may_go_on.wait(300)

    runtime.failpoints.enable("txn.publish.before_cas", hold)
    outcomes = []

    def send(graph, key, payload="p"):
        try:
            outcomes.append(keyed_insert(graph, key, ["a"], payload=payload).commit.id)
        except (RequestRepeatedError, IdempotencyKeyError) as error:
            outcomes.append(error)

    with open_graph(storage, runtime=runtime, settings=RELAXED, group_commit=is_grouped) as graph:
        threads = [start_thread("first", lambda: insert(graph, PERSON, node_rows(["first"])))]
        assert reached.wait(300)
        queue = authority_of(graph)._queue
        for payload in ("p", "p", "q"):
            threads.append(start_thread("send", lambda payload=payload: send(graph, "k", payload)))
            while queue.waiting < len(threads) - 1:
                assert threads[-1].is_alive()
        may_go_on.set()
        for thread in threads:
            thread.join(300)
        published = [one for one in outcomes if isinstance(one, str)]
        repeated = [one for one in outcomes if isinstance(one, RequestRepeatedError)]
        reused = [one for one in outcomes if isinstance(one, IdempotencyKeyError)]
        assert (len(published), len(repeated), len(reused)) == (1, 1, 1)
        assert repeated[0].details.commit_id == published[0]
        assert sum(commit.request is not None for commit in history(graph)) == 1
        assert read_ids(graph, PERSON) == ["a", "first"]


def test_a_write_behind_its_deadline_is_not_published(storage):
    clock = ManualClock()
    runtime = Runtime(clock=clock, randomness=SystemRandomness())
    with open_graph(storage, runtime=runtime) as graph:
        branch_writer = authority_of(graph)
        with calling(CallContext(deadline_s=clock.monotonic_s() + 1)):
            txn = branch_writer.begin(WriteKind.INSERT)
            txn.insert(PERSON, node_rows(["late"]))
        clock.sleep(1.5)
        with pytest.raises(RequestDeadlineError, match="deadline") as refused:
            branch_writer.commit(txn)
        assert (refused.value.details.actual, read_ids(graph, PERSON)) == (500, [])
