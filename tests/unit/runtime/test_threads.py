"""Two functions side by side: their thread is gone when the call is over, however it ends."""

import threading

import pytest

from omnigraph.runtime import run_both


@pytest.fixture
def threads():
    """Return a function that names the threads that were not there before."""
    before = set(threading.enumerate())
    return lambda: [thread.name for thread in threading.enumerate() if thread not in before]


class Slow:
    """Ends when it is allowed to."""

    def __init__(self):
        self.may_end, self.has_ended = threading.Event(), False

    def __call__(self):
        assert self.may_end.wait(300)
        self.has_ended = True
        return "slow"


def test_both_answers_come_in_order_and_the_second_from_a_thread_of_that_name(threads):
    meeting = threading.Barrier(2)

    def meet():
        meeting.wait(300)
        return threading.current_thread().name

    assert run_both("pair", meet, meet) == (threading.current_thread().name, "omnigraph-pair")
    assert threads() == []


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_a_failure_of_the_first_waits_for_the_second(threads, problem):
    slow = Slow()

    def fail():
        slow.may_end.set()
        raise problem

    with pytest.raises(problem):
        run_both("pair", fail, slow)
    assert slow.has_ended
    assert threads() == []


def test_a_failure_of_the_second_is_raised(threads):
    with pytest.raises(ZeroDivisionError):
        run_both("pair", lambda: 1, lambda: 1 / 0)
    assert threads() == []


@pytest.mark.parametrize("moment", ["start", "join"])
def test_an_interrupt_while_the_thread_starts_or_ends_waits_for_it(threads, monkeypatch, moment):
    slow, real, comes = Slow(), getattr(threading.Thread, moment), [KeyboardInterrupt]

    def interrupted(thread, *arguments):
        if moment == "start":
            real(thread)
        slow.may_end.set()
        if comes:
            raise comes.pop()
        real(thread, *arguments)

    monkeypatch.setattr(threading.Thread, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_both("pair", slow.may_end.set, slow)
    assert slow.has_ended
    assert threads() == []
