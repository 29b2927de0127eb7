"""How much one answer carries: a number of changes, and a number of bytes that never holds back the first of them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from omnigraph.errors import ChangeLimitError, LimitExceeded
from omnigraph.history.diff.change import EntityChange
from omnigraph.records import record
from omnigraph.values import check_whole

DEFAULT_CHANGES, MAX_CHANGES = 1_000, 8_192
DEFAULT_BYTES, MAX_BYTES = 4 << 20, 32 << 20
DEFAULT_COMMITS, MAX_COMMITS = 128, 512


@record
class PageLimits:
    """What a page may hold.

    Args:
        changes: how many changes at most.
        size_bytes: how many bytes, measured on the changes as JSON; a page always carries its first change.
        commits: how many commits a poll looks at.

    Raises:
        UsageError: a limit is not a whole number, or below 1.
        ChangeLimitError: a limit is above what one answer may carry.
    """

    changes: int = DEFAULT_CHANGES
    size_bytes: int = DEFAULT_BYTES
    commits: int = DEFAULT_COMMITS

    def __post_init__(self) -> None:
        for name in ("changes", "size_bytes", "commits"):
            check_whole(name, getattr(self, name), least=1)
        _within(self.changes, MAX_CHANGES, "commit_changes_page_changes")
        _within(self.size_bytes, MAX_BYTES, "commit_changes_page_bytes")
        _within(self.commits, MAX_COMMITS, "change_feed_commits_per_poll")


class PageBudget:
    """What is left of a page while it is filled."""

    def __init__(self, limits: PageLimits) -> None:
        self._limits = limits
        self._changes = 0
        self._size_bytes = 0

    @property
    def is_spent(self) -> bool:
        """Whether no further change fits for sure."""
        return self._changes >= self._limits.changes or self._size_bytes >= self._limits.size_bytes

    def fill(self, changes: Iterator[EntityChange]) -> tuple[list[EntityChange], bool]:
        """Draw changes until the page is full; return them, and whether there are more."""
        drawn: list[EntityChange] = []
        for change in changes:
            size = len(msgspec.json.encode(change.to_json()))
            is_first = self._changes == 0
            if not is_first and (self.is_spent or self._size_bytes + size > self._limits.size_bytes):
                return drawn, True
            drawn.append(change)
            self._changes += 1
            self._size_bytes += size
        return drawn, False


def _within(value: int, limit: int, resource: str) -> None:
    if value > limit:
        exceeded = LimitExceeded(resource=resource, limit=limit, actual=value)
        raise ChangeLimitError(f"a page cannot be that large {resource}={value} limit={limit}", details=exceeded)
