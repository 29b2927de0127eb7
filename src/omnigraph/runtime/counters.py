"""What an operation cost: storage calls by class, bytes, and how many of them had to wait for each other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.records import record


@record
class Cost:
    """The cost of an operation. ``serial_stages`` is how many round trips followed one another."""

    calls: Mapping[str, int]
    serial_stages: int
    bytes_read: int
    bytes_written: int

    @property
    def total_calls(self) -> int:
        """Calls of every class together."""
        return sum(self.calls.values())

    def to_json(self) -> dict[str, Any]:
        """Return the cost as metrics and results show it."""
        return {
            "storage.calls": self.total_calls,
            "storage.calls_by_class": dict(sorted(self.calls.items())),
            "storage.serial_stages": self.serial_stages,
            "storage.bytes_read": self.bytes_read,
            "storage.bytes_written": self.bytes_written,
        }


class Counters:
    """Collects the cost of one operation; threads of the operation may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._serial_stages = 0
        self._bytes_read = 0
        self._bytes_written = 0

    def add_calls(self, call_class: str, count: int = 1, *, bytes_read: int = 0, bytes_written: int = 0) -> None:
        """Count calls of one class with the bytes they moved."""
        with self._lock:
            self._calls[call_class] += count
            self._bytes_read += bytes_read
            self._bytes_written += bytes_written

    def add_serial_stages(self, count: int = 1) -> None:
        """Count round trips that could not begin before everything counted so far had ended."""
        with self._lock:
            self._serial_stages += count

    def add(self, cost: Cost) -> None:
        """Take over what another collector counted, as something that came after everything counted so far."""
        self.add_parallel((cost,))

    def add_parallel(self, costs: Iterable[Cost]) -> None:
        """Take over what ran side by side: calls and bytes add up, of the serial stages only the longest counts."""
        together = tuple(costs)
        with self._lock:
            for cost in together:
                self._calls.update(cost.calls)
                self._bytes_read += cost.bytes_read
                self._bytes_written += cost.bytes_written
            self._serial_stages += max((cost.serial_stages for cost in together), default=0)

    def cost(self) -> Cost:
        """Return what was counted until this moment."""
        with self._lock:
            return Cost(
                calls=dict(self._calls),
                serial_stages=self._serial_stages,
                bytes_read=self._bytes_read,
                bytes_written=self._bytes_written,
            )
