"""What has happened since a runtime was made: events that a server shows as figures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType


class Tally:
    """Counts events by name; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, event: str, count: int = 1) -> None:
        """Count an event, or several of a kind."""
        with self._lock:
            self._counts[event] += count

    def counts(self) -> Mapping[str, int]:
        """Return what was counted until this moment."""
        with self._lock:
            return MappingProxyType(dict(self._counts))
