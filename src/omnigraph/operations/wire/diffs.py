"""``ReceivedDiff``: a difference that was worked out elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.history.diff.change import EntityChange
    from omnigraph.history.diff.compare import DiffStats
    from omnigraph.operations.reads import PinnedState


class ReceivedDiff:
    """What :class:`~omnigraph.history.diff.compare.GraphDiff` is where both states can be read.

    Changes are kept as they arrive, so that it can be iterated again; counting them waits for all of them.
    """

    def __init__(self, before: PinnedState, after: PinnedState, changes: Iterator[EntityChange]) -> None:
        self.before = before
        self.after = after
        self._arriving: Iterator[EntityChange] | None = changes
        self._changes: list[EntityChange] = []
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[EntityChange]:
        position = 0
        while self._has(position):
            yield self._changes[position]
            position += 1

    def stats(self) -> DiffStats:
        """Return how many entities differ, by type."""
        from omnigraph.history.diff.compare import DiffStats  # noqa: PLC0415 - loaded for responses that hold one

        return DiffStats.of(self)

    def to_json(self) -> dict[str, Any]:
        """Return the whole difference as JSON values."""
        from omnigraph.history.diff.compare import diff_to_json  # noqa: PLC0415 - see above

        return diff_to_json(self.before.state, self.after.state, list(self))

    def _has(self, position: int) -> bool:
        with self._lock:
            if position < len(self._changes):
                return True
            if self._arriving is None:
                return False
            found = next(self._arriving, None)
            if found is None:
                self._arriving = None
                return False
            self._changes.append(found)
            return True
