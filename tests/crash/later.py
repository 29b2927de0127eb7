"""Worlds whose clocks are hours ahead, so that every silent claim is past its grace period without any waiting."""

from __future__ import annotations

from omnigraph.runtime import SystemClock, SystemRandomness, World

_HOUR_MS = 3_600_000


class _LaterClock(SystemClock):
    def __init__(self, hours: int) -> None:
        self._hours = hours

    def now_ms(self) -> int:
        return super().now_ms() + self._hours * _HOUR_MS


def later_world(hours: int = 1) -> World:
    """The real world, some hours from here."""
    return World(clock=_LaterClock(hours), randomness=SystemRandomness())


class Torn(BaseException):
    """What ends a writer in the middle of its window although the process lives on: no error of ours, no handler."""


def tear_at(world: World, point: str, nth: int = 1) -> World:
    """Let the ``nth`` hit of the point, and every later one, tear the write apart."""
    hits = 0

    def tear() -> None:
        nonlocal hits
        hits += 1
        if hits >= nth:
            raise Torn

    world.failpoints.enable(point, tear)
    return world
