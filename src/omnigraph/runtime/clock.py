"""Time, as something that can be handed in: the real clock, and one that tests move by hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol


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
