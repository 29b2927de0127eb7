"""Worlds in which hours pass between two looks, so that every silent claim is past its grace period without waiting."""

from __future__ import annotations

from omnigraph.runtime import Runtime, SystemClock, SystemRandomness
from omnigraph.runtime.failpoints import fail

_HOUR_MS = 3_600_000
_WAIT_S = 10.0
_OWN_END = "txn.recover.after_classify"


class LaterClock(SystemClock):
    """A clock that is hours ahead, and on which hours pass when a test says so."""

    def __init__(self, hours: int) -> None:
        self._hours = hours
        self._passed_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + self._hours * _HOUR_MS

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._passed_s

    def sleep(self, seconds: float) -> None:
        """Let a wait pass in a few looks: long enough for silence to count before the patience of a writer ends."""
        super().sleep(min(seconds, 0.01))
        self._passed_s += _WAIT_S

    def let_hours_pass(self) -> None:
        self._passed_s += self._hours * 3600.0


def later_world(hours: int = 1) -> Runtime:
    """A world in which a graph that is opened has been watched for hours before it is used."""
    return Runtime(clock=LaterClock(hours), randomness=SystemRandomness())


def watch_for_hours(graph, runtime) -> None:
    """Look at an open graph a second time, hours after the first look: what was silent in between is abandoned."""
    runtime.clock.let_hours_pass()
    try:
        graph.refresh()
    except BaseException:
        graph.close()
        raise


class Torn(BaseException):
    """What ends a writer in the middle of its window although the process lives on: no error of ours, no handler."""


def tear_at(runtime: Runtime, point: str, nth: int = 1) -> Runtime:
    """Let the ``nth`` hit of the point, and every later one, tear the write apart."""
    hits = 0

    def tear() -> None:
        nonlocal hits
        hits += 1
        if hits >= nth:
            # A process that died cannot end its own write when it is closed, either.
            if point != _OWN_END:
                runtime.failpoints.enable(_OWN_END, fail(_OWN_END))
            raise Torn

    runtime.failpoints.enable(point, tear)
    return runtime
