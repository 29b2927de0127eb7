"""How a writer waits in the line of its machine: what it looks at, how often, and when it goes on without the line."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from omnigraph.runtime.environment import ManualClock
from omnigraph.txn.offers.line import Holder, News
from omnigraph.txn.publish.waiting import Patience, Turns


class Line:
    """A line that does not move; counts how often somebody asks what it tells."""

    is_held = False

    def __init__(self, state, *, is_next=False, asides=0):
        self.is_next = is_next
        self._state, self._asides = state, asides
        self.looks_at_holder = self.looks_at_news = 0

    @property
    def holder(self):
        self.looks_at_holder += 1
        return self._state

    def news(self):
        self.looks_at_news += 1
        return News()

    def try_take(self, *, in_line):
        return False

    def announce(self, offer):
        pass

    def step_aside(self):
        self._asides -= 1
        return self._asides >= 0


class Waiter:
    """A writer with an offer that nobody publishes, until it has waited for so long."""

    name = "one.offer"

    def __init__(self, clock, until_s):
        self._clock, self._until_s = clock, until_s

    def make(self, base):
        pass

    def is_among(self, offers):
        return False

    def is_gone(self):
        return self._clock.monotonic_s() >= self._until_s


@pytest.fixture
def wait():
    """Returns for how many seconds a writer waits in a line, at most for so many."""

    def measure(line, until_s):
        clock = ManualClock()
        services = SimpleNamespace(
            runtime=SimpleNamespace(clock=clock, tally=SimpleNamespace(add=lambda name: None)),
            settings=SimpleNamespace(claim_wait_s=60.0),
            stores=SimpleNamespace(control=SimpleNamespace(storage=SimpleNamespace(is_local=False))),
        )
        now_s = clock.monotonic_s()
        batch = SimpleNamespace(is_forsaken=False, is_late=lambda clock: False)
        base = SimpleNamespace(state=SimpleNamespace(version=7))
        patience = Patience(now_s, now_s, now_s, moved_s=now_s)
        Turns(services, line).wait(batch, Waiter(clock, now_s + until_s), base, patience)
        return clock.monotonic_s() - now_s

    return measure


def test_nobody_looks_at_the_holder_before_it_has_lost_patience(wait):
    line = Line(Holder.RUNNING)
    assert wait(line, 1.9) == pytest.approx(1.9, abs=0.3)
    assert line.looks_at_news > 50
    assert line.looks_at_holder == 0


@pytest.mark.parametrize(
    ("state", "patience_s"), [(Holder.RUNNING, 10.0), (Holder.UNKNOWN, 2.0), (Holder.STOPPED, 2.0)]
)
def test_one_that_is_known_to_run_is_waited_for_longer(wait, state, patience_s):
    assert wait(Line(state), 60.0) == pytest.approx(patience_s, abs=0.1)


def test_every_other_line_is_tried_for_as_long_as_the_first_one(wait):
    assert wait(Line(Holder.STOPPED, asides=3), 60.0) == pytest.approx(8.0, abs=0.1)


def test_those_behind_the_next_one_look_the_rarer_the_longer_they_wait(wait):
    behind, following = Line(Holder.RUNNING), Line(Holder.RUNNING, is_next=True)
    wait(behind, 1.9)
    wait(following, 1.9)
    assert behind.looks_at_news < 200
    assert following.looks_at_news > 2_000
