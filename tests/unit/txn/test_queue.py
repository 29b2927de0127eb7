"""Writers of one process take turns; a leader brings every follower its own result or error."""

import threading

import pytest

from omnigraph.errors import GraphClosedError, InternalError
from omnigraph.runtime import ManualClock, SystemClock, start_thread
from omnigraph.txn.publish.writer import BranchQueue
from omnigraph.txn.services import graph_closed


@pytest.fixture
def make():
    """Make queues that are closed in the end; the thread of each ends with it."""
    made = []

    def make(
        run, *, can_group=lambda work: False, max_group=8, wait_s=20.0, clock=None, forsake=lambda work, outcome: None
    ):
        queue = BranchQueue(
            run,
            can_group=can_group,
            max_group=max_group,
            wait_s=wait_s,
            clock=clock or SystemClock(),
            busy=lambda waited_s: TimeoutError(f"{waited_s:.0f}"),
            refuse=graph_closed,
            forsake=forsake,
        )
        made.append(queue)
        return queue

    yield make
    for queue in made:
        queue.close()
        assert queue._thread is None or not queue._thread.is_alive()


def _in_threads(count, run):
    threads = [start_thread(f"q{number}", lambda number=number: run(number)) for number in range(count)]
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()


def test_only_one_batch_runs_at_a_time_and_everybody_gets_an_answer(make):
    running, most, answers = [0], [0], {}

    def run(batch):
        running[0] += 1
        most[0] = max(most[0], running[0])
        result = [work * 10 for work in batch]
        running[0] -= 1
        return result

    queue = make(run)
    _in_threads(16, lambda number: answers.__setitem__(number, queue.submit(number)))
    assert most[0] == 1
    assert answers == {number: number * 10 for number in range(16)}


def test_a_leader_takes_those_behind_it_along(make):
    first_runs, may_go_on = threading.Event(), threading.Event()
    batches = []

    def run(batch):
        batches.append(list(batch))
        if not first_runs.is_set():
            first_runs.set()
            assert may_go_on.wait(300)
        return [None for _ in batch]

    queue = make(run, can_group=lambda work: True, max_group=3)
    threads = [start_thread("lead", lambda: queue.submit("a"))]
    assert first_runs.wait(300)
    for name in "bcde":
        threads.append(start_thread(name, lambda name=name: queue.submit(name)))
        while queue.waiting < len(threads) - 1:
            assert threads[-1].is_alive()
    may_go_on.set()
    for thread in threads:
        thread.join(300)
    assert batches == [["a"], ["b", "c", "d"], ["e"]]


def test_a_member_that_cannot_share_waits_for_its_own_turn(make):
    first_runs, may_go_on = threading.Event(), threading.Event()
    batches = []

    def run(batch):
        batches.append(list(batch))
        if len(batches) == 1:
            first_runs.set()
            assert may_go_on.wait(300)
        return [None for _ in batch]

    queue = make(run, can_group=lambda work: work != "alone")
    threads = [start_thread("lead", lambda: queue.submit("a"))]
    assert first_runs.wait(300)
    for name in ("b", "alone", "c"):
        threads.append(start_thread(name, lambda name=name: queue.submit(name)))
        while queue.waiting < len(threads) - 1:
            assert threads[-1].is_alive()
    may_go_on.set()
    for thread in threads:
        thread.join(300)
    assert batches == [["a"], ["b"], ["alone"], ["c"]]


def test_each_member_gets_its_own_error_and_the_queue_goes_on(make):
    def run(batch):
        return [InternalError("no") if work == "bad" else work for work in batch]

    queue = make(run, can_group=lambda work: True)
    with pytest.raises(InternalError, match="no"):
        queue.submit("bad")
    assert queue.submit("good") == "good"


def test_a_leader_that_breaks_frees_the_queue_and_its_followers(make):
    calls = []

    def run(batch):
        calls.append(batch)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return list(batch)

    queue = make(run, can_group=lambda work: True)
    with pytest.raises(KeyboardInterrupt):
        queue.submit("first")
    assert queue.submit("second") == "second"


class Blocked:
    """Work that has begun and goes on when it is told to."""

    def __init__(self):
        self.batches, self.begun, self.may_end = [], threading.Event(), threading.Event()

    def __call__(self, batch):
        self.batches.append(list(batch))
        self.begun.set()
        assert self.may_end.wait(300)
        return list(batch)


def test_a_thread_that_waits_in_vain_leaves_and_its_work_is_never_done(make):
    clock, run = ManualClock(), Blocked()
    queue = make(run, wait_s=30.0, clock=clock)
    first = start_thread("first", lambda: queue.submit("first"))
    assert run.begun.wait(300)
    outcomes = []

    def wait_in_vain():
        with pytest.raises(TimeoutError, match="31"):
            queue.submit("second")
        outcomes.append("left")

    second = start_thread("second", wait_in_vain)
    while not queue.waiting:
        assert second.is_alive()
    clock.sleep(31)
    second.join(300)
    assert outcomes == ["left"]
    run.may_end.set()
    first.join(300)
    assert queue.submit("third") == "third"
    assert run.batches == [["first"], ["third"]]


def test_a_thread_waits_on_while_others_get_their_turns(make):
    clock, runs = ManualClock(), []

    def run(batch):
        runs.append(batch[0])
        clock.sleep(25)
        return list(batch)

    queue = make(run, wait_s=30.0, clock=clock)
    _in_threads(6, queue.submit)
    assert sorted(runs) == list(range(6))


def test_a_closed_queue_refuses_work_and_has_done_what_it_was_given(make):
    run, answers = Blocked(), []
    queue = make(run)
    threads = [start_thread("first", lambda: answers.append(queue.submit("first")))]
    assert run.begun.wait(300)
    threads.append(start_thread("second", lambda: answers.append(queue.submit("second"))))
    while not queue.waiting:
        assert threads[1].is_alive()
    closer = start_thread("closer", queue.close)
    while not queue._is_closed:
        assert closer.is_alive()
    with pytest.raises(GraphClosedError):
        queue.submit("late")
    run.may_end.set()
    for thread in [*threads, closer]:
        thread.join(300)
        assert not thread.is_alive()
    assert sorted(answers) == ["first", "second"]
    queue.close()
