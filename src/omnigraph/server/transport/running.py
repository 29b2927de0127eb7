"""Requests that are being executed, so that the one who sent a request can stop it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class RunningCalls:
    """The requests under way, by their id and by who sent them. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: dict[tuple[str, str | None], threading.Event] = {}

    @contextmanager
    def entered(self, request_id: str, actor: str | None, stop: threading.Event) -> Iterator[None]:
        """Let a request be stopped while the block runs."""
        key = request_id, actor
        with self._lock:
            self._stops[key] = stop
        try:
            yield
        finally:
            with self._lock:
                if self._stops.get(key) is stop:
                    del self._stops[key]

    def stop(self, request_id: str, actor: str | None) -> bool:
        """Stop a request of an actor; False when it is not under way."""
        with self._lock:
            found = self._stops.get((request_id, actor))
        if found is None:
            return False
        found.set()
        return True
