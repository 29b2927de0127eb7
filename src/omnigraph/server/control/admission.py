"""What may begin: how many writes and change streams of one actor, and of all, are under way, and how large."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnigraph.errors import AdmissionError, LimitExceeded
from omnigraph.server.control.settings import AdmissionLimits

# Who asks where callers do not say who they are.
ANONYMOUS = "anonymous"


class Admission:
    """Counts what is under way. Of any number of writes that come at once, exactly as many are let in as fit."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._writes: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._feeds: Counter[str] = Counter()
        self.refused = 0

    @property
    def under_way(self) -> int:
        """How many writes have been let in and have not ended."""
        with self._lock:
            return self._writes.total()

    @contextmanager
    def admit(self, actor: str | None, size: int) -> Iterator[None]:
        """Let a write of an estimated size in until the block ends.

        Raises:
            AdmissionError: too much is under way; nothing was written.
        """
        name = ANONYMOUS if actor is None else actor
        with self._lock:
            self._refuse(name, size)
            self._writes[name] += 1
            self._bytes[name] += size
        try:
            yield
        finally:
            with self._lock:
                self._writes[name] -= 1
                self._bytes[name] -= size
                if not self._writes[name]:
                    del self._writes[name], self._bytes[name]

    def follow(self, actor: str | None) -> Callable[[], None]:
        """Let a change stream begin, and return what is called when it has ended.

        Raises:
            AdmissionError: there are too many.
        """
        name, limits = ANONYMOUS if actor is None else actor, self._limits
        with self._lock:
            for resource, limit, actual in (
                ("change streams of one actor", limits.actor_feeds, self._feeds[name] + 1),
                ("change streams", limits.all_feeds, self._feeds.total() + 1),
            ):
                _expect_room(resource, limit, actual)
            self._feeds[name] += 1

        def leave() -> None:
            with self._lock:
                self._feeds[name] -= 1
                if not self._feeds[name]:
                    del self._feeds[name]

        return leave

    def _refuse(self, name: str, size: int) -> None:
        limits = self._limits
        for resource, limit, actual in (
            ("concurrent writes of one actor", limits.actor_writes, self._writes[name] + 1),
            ("bytes in concurrent writes of one actor", limits.actor_bytes, self._bytes[name] + size),
            ("concurrent writes", limits.all_writes, self._writes.total() + 1),
            ("bytes in concurrent writes", limits.all_bytes, self._bytes.total() + size),
        ):
            if actual > limit:
                self.refused += 1
            _expect_room(resource, limit, actual)


def _expect_room(resource: str, limit: int, actual: int) -> None:
    if actual > limit:
        details = LimitExceeded(resource=resource, limit=limit, actual=actual)
        raise AdmissionError(f"too many {resource}: at most {limit} at the same time", details=details)
