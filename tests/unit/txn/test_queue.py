"""Writers of one process take turns; a leader brings every follower its own result or error."""

import threading

import pytest

from omnigraph.errors import InternalError
from omnigraph.runtime import start_thread
from omnigraph.txn.queue import BranchQueue


def _in_threads(count, run):
    threads = [start_thread(f"q{number}", lambda number=number: run(number)) for number in range(count)]
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_only_one_batch_runs_at_a_time_and_everybody_gets_an_answer():
    running, most, answers = [0], [0], {}

    def run(batch):
        running[0] += 1
        most[0] = max(most[0], running[0])
        result = [work * 10 for work in batch]
        running[0] -= 1
        return result

    queue = BranchQueue(run, can_group=lambda work: False, max_group=8)
    _in_threads(16, lambda number: answers.__setitem__(number, queue.submit(number)))
    assert most[0] == 1
    assert answers == {number: number * 10 for number in range(16)}


def test_a_leader_takes_those_behind_it_along():
    first_runs, may_go_on = threading.Event(), threading.Event()
    batches = []

    def run(batch):
        batches.append(list(batch))
        if not first_runs.is_set():
            first_runs.set()
            assert may_go_on.wait(20)
        return [None for _ in batch]

    queue = BranchQueue(run, can_group=lambda work: True, max_group=3)
    threads = [start_thread("lead", lambda: queue.submit("a"))]
    assert first_runs.wait(20)
    for name in "bcde":
        threads.append(start_thread(name, lambda name=name: queue.submit(name)))
        while len(queue._waiting) < len(threads) - 1:
            assert threads[-1].is_alive()
    may_go_on.set()
    for thread in threads:
        thread.join(20)
    assert batches == [["a"], ["b", "c", "d"], ["e"]]


def test_a_member_that_cannot_share_waits_for_its_own_turn():
    first_runs, may_go_on = threading.Event(), threading.Event()
    batches = []

    def run(batch):
        batches.append(list(batch))
        if len(batches) == 1:
            first_runs.set()
            assert may_go_on.wait(20)
        return [None for _ in batch]

    queue = BranchQueue(run, can_group=lambda work: work != "alone", max_group=8)
    threads = [start_thread("lead", lambda: queue.submit("a"))]
    assert first_runs.wait(20)
    for name in ("b", "alone", "c"):
        threads.append(start_thread(name, lambda name=name: queue.submit(name)))
        while len(queue._waiting) < len(threads) - 1:
            assert threads[-1].is_alive()
    may_go_on.set()
    for thread in threads:
        thread.join(20)
    assert batches == [["a"], ["b"], ["alone"], ["c"]]


def test_each_member_gets_its_own_error_and_the_queue_goes_on():
    def run(batch):
        return [InternalError("no") if work == "bad" else work for work in batch]

    queue = BranchQueue(run, can_group=lambda work: True, max_group=8)
    with pytest.raises(InternalError, match="no"):
        queue.submit("bad")
    assert queue.submit("good") == "good"


def test_a_leader_that_breaks_frees_the_queue_and_its_followers():
    calls = []

    def run(batch):
        calls.append(batch)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return list(batch)

    queue = BranchQueue(run, can_group=lambda work: True, max_group=8)
    with pytest.raises(KeyboardInterrupt):
        queue.submit("first")
    assert queue.submit("second") == "second"
