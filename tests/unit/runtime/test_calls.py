"""What can be closed ends when its last call has, and refuses those that come later."""

import threading

import pytest

from omnigraph.runtime import Calls, counted, start_thread


class TooLateError(Exception):
    pass


class Thing:
    def __init__(self):
        self._calls = Calls(TooLateError)

    @counted
    def outer(self, run):
        """Run something inside a call."""
        return run()

    @counted
    def inner(self):
        return "done"

    def close(self):
        self._calls.close()


def test_closing_waits_for_calls_under_way_and_lets_them_make_others():
    thing, begun, may_end, answers = Thing(), threading.Event(), threading.Event(), []

    def work():
        begun.set()
        assert may_end.wait(300)
        return thing.inner()

    caller = start_thread("caller", lambda: answers.append(thing.outer(work)))
    assert begun.wait(300)
    closer = start_thread("closer", thing.close)
    while not thing._calls._is_closed:
        assert closer.is_alive()
    with pytest.raises(TooLateError):
        thing.inner()
    assert closer.is_alive()
    may_end.set()
    for thread in (caller, closer):
        thread.join(300)
        assert not thread.is_alive()
    assert answers == ["done"]


def test_a_call_that_closes_does_not_wait_for_itself():
    thing = Thing()
    thing.outer(thing.close)
    with pytest.raises(TooLateError):
        thing.inner()


def test_a_call_that_fails_is_over():
    thing = Thing()
    with pytest.raises(ZeroDivisionError):
        thing.outer(lambda: 1 / 0)
    closer = start_thread("closer", thing.close)
    closer.join(300)
    assert not closer.is_alive()


def test_threads_that_ended_are_forgotten():
    thing = Thing()
    for _ in range(20):
        start_thread("caller", thing.inner).join(300)
    assert len(thing._calls._locks) <= 2


def test_a_counted_method_keeps_its_name_and_text():
    assert (Thing.outer.__name__, Thing.outer.__doc__) == ("outer", "Run something inside a call.")
