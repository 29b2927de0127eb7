"""Every object-store call around an offer fails once in turn, of its owner and of whoever publishes it.

A write is offered, the world stands still, and one process goes on alone, so that every call is its own. Whatever
happens, what each writer was told is true, and no write is there twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from omnigraph.runtime import Runtime, SystemClock, SystemRandomness
from omnigraph.runtime.failpoints import fail, on_nth
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName
from tests.crash.checks import assert_sound
from tests.crash.later import later_world
from tests.crash.matrix import IS_FULL
from tests.crash.nth_call import (
    DROP_AFTER,
    DROP_BEFORE,
    ERROR_AFTER,
    ERROR_BEFORE,
    LOST_ANSWERS,
    OUTAGE,
    Loop,
    assert_effect_is_true,
    assert_heads_are_pins,
    every_loop,
    fail_call,
)
from tests.crash.offer_scenes import BLOCKER, COMPANION, write_twice
from tests.marks import first
from tests.txn_graph import PERSON, TEAM, authority_of, history, init_graph, node_rows, open_graph, read_ids

pytestmark = [pytest.mark.more, pytest.mark.long]

SUBJECT = "subject"
_MOST_CALLS = 160
_LONGEST_S = 120
_BY_CLAIMS = TxnSettings(durability="relaxed", line_up=False, claim_wait_s=6.0)
# It presumes a writer dead that has left a claim behind, and that nobody has seen for a moment.
_PRESUMING = TxnSettings(durability="relaxed", line_up=False, claim_wait_s=20.0, grace_s=0.3)
_HASTY = TxnSettings(durability="relaxed", line_up=False, claim_wait_s=0.05)


class Stop:
    """A failpoint that keeps a writer until it is let go."""

    def __init__(self, stack: ExitStack, runtime: Runtime, point: str) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        stack.callback(self.go)
        runtime.failpoints.enable(point, on_nth(1, self._stay))

    def wait(self) -> None:
        """Return when the writer is there."""
        assert self._reached.wait(_LONGEST_S)

    def go(self) -> None:
        """Let it go on."""
        self._go.set()

    def _stay(self) -> None:
        self._reached.set()
        assert self._go.wait(_LONGEST_S)


class Scene:
    """A blocker in its window, and a write that was offered behind it and waits for nothing but to go on."""

    def __init__(self, storage, stack):
        self.storage = storage
        self._stack = stack
        self._pool = stack.enter_context(ThreadPoolExecutor(3))
        self.blocker, self._blocking = self.start(BLOCKER, Runtime.system({}), "txn.publish.before_cas")
        self._blocking.wait()

    def start(self, mark, runtime, point, settings=_BY_CLAIMS):
        """Let somebody write, and stop at a point; return the outcome to come and the stop."""
        stop = Stop(self._stack, runtime, point)
        graph = self._stack.enter_context(open_graph(self.storage, settings=settings, runtime=runtime))
        return self.submit(lambda: write_twice(graph, mark)), stop

    def submit(self, run: Callable[[], object]) -> Future:
        return self._pool.submit(run)

    def release_blocker(self):
        self._blocking.go()
        self.blocker.result(_LONGEST_S)


class Holder:
    """A writer that finds the offer of a companion and publishes it with its own write."""

    fewest_calls = 15
    gives_up = False

    def play(self, scene, stack, endpoint, fault):
        """Fail one call of the subject; return what it was told, what the companion was, and whether the call came."""
        companion, offered = scene.start(COMPANION, Runtime.system({}), "txn.offer.after_put", _PRESUMING)
        offered.wait()
        graph = stack.enter_context(open_graph(scene.storage, settings=_BY_CLAIMS))
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.INSERT, actor=SUBJECT)
        txn.insert(PERSON, node_rows([SUBJECT]))
        txn.insert(TEAM, node_rows([SUBJECT]))
        scene.release_blocker()
        error, was_hit = fail_call(endpoint, fault, graph, lambda: branch_writer.commit(txn))
        offered.go()
        return graph, error, companion, was_hit


class Owner:
    """A writer whose offer another one publishes while it looks away."""

    fewest_calls = 3
    gives_up = False
    point = "txn.offer.after_put"
    settings = _BY_CLAIMS

    def world(self):
        """Where it lives: nothing else goes wrong there."""
        return Runtime.system({})

    def play(self, scene, stack, endpoint, fault):
        companion, aside = scene.start(COMPANION, Runtime.system({}), "txn.offer.before_put")
        aside.wait()
        runtime = self.world()
        stop = Stop(stack, runtime, self.point)
        graph = stack.enter_context(open_graph(scene.storage, settings=self.settings, runtime=runtime))
        subject = scene.submit(lambda: write_twice(graph, SUBJECT))
        stop.wait()
        aside.go()
        # Its write is published by the companion.
        scene.release_blocker()
        companion.result(_LONGEST_S)

        def run():
            stop.go()
            subject.result(_LONGEST_S)

        error, was_hit = fail_call(endpoint, fault, graph, run)
        return graph, error, companion, was_hit


class ClockAhead(SystemClock):
    """Wall time as a machine has it whose clock is an hour ahead."""

    def now_ms(self):
        return super().now_ms() + 3_600_000


class LateOwner(Owner):
    """A writer that gives up and takes its offer back although it was published; its put was not answered.

    Its clock is ahead of that of the companion, for which the time of the offer is not over.
    """

    point = "txn.offer.before_withdraw"
    settings = _HASTY

    def world(self):
        runtime = Runtime(clock=ClockAhead(), randomness=SystemRandomness())
        runtime.failpoints.enable("txn.offer.after_put", fail("txn.offer.after_put"))
        return runtime


class HastyOwner:
    """A writer that offers, waits and takes its offer back, while the holder of the branch does nothing."""

    fewest_calls = 12
    gives_up = True

    def play(self, scene, stack, endpoint, fault):
        graph = stack.enter_context(open_graph(scene.storage, settings=_HASTY))
        graph.snapshot(BranchName(MAIN))
        error, was_hit = fail_call(endpoint, fault, graph, lambda: write_twice(graph, SUBJECT))
        assert error is not None
        scene.release_blocker()
        return graph, error, None, was_hit


OPERATIONS = {"holder": Holder(), "owner": Owner(), "late_owner": LateOwner(), "hasty_owner": HastyOwner()}
PLAIN = [
    Loop(operation="holder", trouble=ERROR_AFTER, goes_on=True, step=6),
    Loop(operation="holder", trouble=LOST_ANSWERS, goes_on=False, step=7),
    Loop(operation="owner", trouble=DROP_BEFORE, goes_on=True, step=2),
    Loop(operation="late_owner", trouble=OUTAGE, goes_on=False, step=3),
    Loop(operation="holder", trouble=OUTAGE, goes_on=True, step=9),
    Loop(operation="late_owner", trouble=DROP_AFTER, goes_on=True, step=2),
    Loop(operation="hasty_owner", trouble=ERROR_AFTER, goes_on=True, step=4),
    Loop(operation="hasty_owner", trouble=OUTAGE, goes_on=False, step=5),
    Loop(operation="holder", trouble=ERROR_BEFORE, goes_on=False, step=5),
]


@pytest.mark.parametrize(
    "loop", first(2, [pytest.param(loop, id=loop.name) for loop in (every_loop(OPERATIONS) if IS_FULL else PLAIN)])
)
@pytest.mark.timeout(900)
def test_no_failing_call_around_an_offer_loses_or_doubles_a_write(loop, clean_s3_endpoint):
    operation = OPERATIONS[loop.operation]
    for nth in range(1, _MOST_CALLS, loop.step):
        if not _fail_call(clean_s3_endpoint, operation, loop, nth):
            break
    else:
        pytest.fail("the operation never passed untouched")
    assert nth > operation.fewest_calls


def _fail_call(endpoint, operation, loop, nth):
    storage = init_graph(endpoint.fresh_prefix(), endpoint.storage_options_without_retries)
    with ExitStack() as stack:
        scene = Scene(storage, stack)
        fault = loop.trouble.on_call(nth, storage.prefix)
        try:
            graph, error, companion, was_hit = operation.play(scene, stack, endpoint, fault)
            seen = _look(storage, SUBJECT)
            assert_effect_is_true(error, seen)
            if loop.goes_on:
                write_twice(graph, "next")
        finally:
            endpoint.clear_faults()
        if companion is not None:
            companion.result(_LONGEST_S)
    assert was_hit or error is None or operation.gives_up, f"failed without a fault: {error!r}"
    versions = _assert_settles(storage, error, seen, companion is not None)
    if not was_hit and companion is not None:
        assert versions[SUBJECT] == versions[COMPANION], "the offer was not taken along"
    return was_hit


def _assert_settles(storage, error, seen, has_companion):
    with open_graph(storage, runtime=later_world(hours=2), settings=_BY_CLAIMS) as graph:
        write_twice(graph, "last")
        final = _look(storage, SUBJECT)
        assert_effect_is_true(error, final)
        assert final or not seen, "a visible change has gone"
        assert not has_companion or _look(storage, COMPANION)
        assert _look(storage, BLOCKER)
        commits = history(graph)
        actors = [commit.actor for commit in commits]
        assert all(actors.count(mark) <= 1 for mark in (SUBJECT, COMPANION, BLOCKER))
        assert_heads_are_pins(graph)
    assert_sound(storage)
    return {commit.actor: commit.manifest_version for commit in commits}


def _look(storage, mark):
    """Whether a write is there; half of it, or twice, is a failure by itself."""
    with open_graph(storage, mode="read_only") as graph:
        found = {read_ids(graph, key).count(mark) for key in (PERSON, TEAM)}
    assert len(found) == 1, "half of the write is there"
    count = found.pop()
    assert count <= 1, "the write is there twice"
    return count == 1
