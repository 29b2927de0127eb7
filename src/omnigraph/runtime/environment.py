"""What the engine needs from outside: time, randomness and ids, in one object that tests can replace."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Protocol
from uuid import UUID

from omnigraph.records import record
from omnigraph.runtime.failpoints import FAILPOINTS, Failpoints
from omnigraph.runtime.tally import Tally
from omnigraph.values.ids import ENTROPY_BITS, Ulid


class Clock(Protocol):
    """Wall time for records, monotonic time for durations, and waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds on the machine's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for real."""
        time.sleep(seconds)


class ManualClock:
    """A clock that stands still until told otherwise; sleeping moves it instead of waiting."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._lock = threading.Lock()
        self._start_ms = start_ms
        self._elapsed_s = 0.0

    def now_ms(self) -> int:
        """The moment this clock was last moved to."""
        with self._lock:
            return self._start_ms + round(self._elapsed_s * 1000)

    def monotonic_s(self) -> float:
        """Seconds this clock was moved since it was made."""
        with self._lock:
            return self._elapsed_s

    def sleep(self, seconds: float) -> None:
        """Move the clock forward and return at once."""
        with self._lock:
            self._elapsed_s += max(0.0, seconds)

    def set_back(self, seconds: float) -> None:
        """Let wall time go back, as when somebody corrects a clock; monotonic time stays."""
        with self._lock:
            self._start_ms -= round(seconds * 1000)


class Randomness(Protocol):
    """Bits for ids and fractions for jitter."""

    def bits(self, count: int) -> int:
        """Return a number of ``count`` random bits."""

    def fraction(self) -> float:
        """Return a number in ``[0, 1)``."""


class SystemRandomness:
    """The operating system's source; safe to share between threads and across fork."""

    def __init__(self) -> None:
        self._source = random.SystemRandom()

    def bits(self, count: int) -> int:
        """Return a number of ``count`` random bits."""
        return self._source.getrandbits(count)

    def fraction(self) -> float:
        """Return a number in ``[0, 1)``."""
        return self._source.random()


class SeededRandomness:
    """The same numbers for the same seed, so that a failing run can be repeated."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def bits(self, count: int) -> int:
        """Return the next number of ``count`` bits."""
        return self._source.getrandbits(count)

    def fraction(self) -> float:
        """Return the next number in ``[0, 1)``."""
        return self._source.random()


CHECKS_VARIABLE = "OMNIGRAPH_CHECK_MEMORY"
# Inside one millisecond ids go up by a random stride, not by one: a forked child inherits the last id and would
# otherwise hand out the very ids that its parent does.
_STRIDE_BITS = 40
# A whole block of ids needs more room to jump, or two blocks could overlap.
_BLOCK_STRIDE_BITS = 64


class IdSource:
    """Makes ULIDs that are unique everywhere and ascending within this source."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last_entropy = 0

    def ulid(self) -> Ulid:
        """Return an id greater than every id this source gave before, also when the wall clock goes back."""
        return self._take(1, _STRIDE_BITS)

    def reserve(self, count: int) -> Ulid:
        """Return the first of ``count`` ULIDs with consecutive numbers, which this source gives to nobody else."""
        return self._take(count, _BLOCK_STRIDE_BITS)

    def uuid(self) -> str:
        """Return a random UUID, the form in which Lance wants a transaction to be named."""
        return str(UUID(int=self._randomness.bits(128), version=4))

    def _take(self, count: int, stride_bits: int) -> Ulid:
        with self._lock:
            now_ms = self._clock.now_ms()
            if now_ms > self._last_ms:
                first_ms, first = now_ms, self._randomness.bits(ENTROPY_BITS)
            else:
                first_ms, first = self._last_ms, self._last_entropy + 1 + self._randomness.bits(stride_bits)
            if first + count > 1 << ENTROPY_BITS:
                first_ms, first = first_ms + 1, self._randomness.bits(stride_bits)
            self._last_ms, self._last_entropy = first_ms, first + count - 1
            return Ulid.from_parts(first_ms, first)


@record(slots=False)
class Runtime:
    """Clock, randomness, ids, failpoints and the tally of one engine.

    Args:
        clock: time.
        randomness: bits for ids and fractions for jitter.
        failpoints: the places where it fails on purpose.
        tally: figures of what has happened.
        checks_memory: compare what is held in memory of a version with its tables as soon as it is made; for tests.
    """

    clock: Clock
    randomness: Randomness
    failpoints: Failpoints = field(default_factory=lambda: Failpoints(FAILPOINTS))
    tally: Tally = field(default_factory=Tally)
    checks_memory: bool = False
    ids: IdSource = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", IdSource(self.clock, self.randomness))

    @classmethod
    def system(cls, environment: Mapping[str, str] | None = None) -> Runtime:
        """Return the real world; failpoints and checks as the environment asks for them."""
        variables = os.environ if environment is None else environment
        return cls(
            clock=SystemClock(),
            randomness=SystemRandomness(),
            failpoints=Failpoints.from_environment(FAILPOINTS, variables),
            checks_memory=variables.get(CHECKS_VARIABLE) == "1",
        )

    @classmethod
    def seeded(cls, seed: int) -> Runtime:
        """Return a world that repeats itself exactly for the same seed."""
        return cls(clock=ManualClock(), randomness=SeededRandomness(seed))
