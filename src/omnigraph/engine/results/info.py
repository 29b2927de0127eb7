"""What a result says of the read that made it."""

from __future__ import annotations

from typing import Any, Protocol

from omnigraph.engine.results.pattern import NO_PATTERN, ResultPattern
from omnigraph.records import record


class Explanation(Protocol):
    """A plan that can be shown, to people and to programs."""

    def describe(self) -> str:
        """The plan as text, one step per line."""

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""


@record
class ReadInfo:
    """Which query was read from where. Of ``branch`` and ``snapshot`` the one is set that the caller asked for.

    ``commit_id`` is the head of exactly the snapshot that the rows come from. ``pattern`` tells which columns are
    nodes.
    """

    query_name: str
    branch: str | None = None
    snapshot: str | None = None
    commit_id: str | None = None
    elapsed_s: float = 0.0
    explanation: Explanation | None = None
    pattern: ResultPattern = NO_PATTERN

    @property
    def target(self) -> dict[str, str | None]:
        """What was read, as documents name it."""
        return {"branch": self.branch, "snapshot": self.snapshot}

    def headline(self, row_count: int) -> str:
        """Return the line that stands above rows.

        >>> ReadInfo(query_name="find", branch="main").headline(2)
        '2 rows from branch main via find'
        """
        if self.snapshot is not None:
            origin = f" from snapshot {self.snapshot}"
        else:
            origin = "" if self.branch is None else f" from branch {self.branch}"
        return f"{row_count} rows{origin} via {self.query_name}"
