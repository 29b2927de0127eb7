"""What a result says of the read that made it."""

from __future__ import annotations

from typing import Any, Protocol

from omnigraph.records import record
from omnigraph.values.counts import counted


@record
class PropertyColumn:
    """A column that holds a property of an entity."""

    name: str
    column: int


@record
class PatternNode:
    """A node variable whose id is a column."""

    type_name: str
    column: int
    properties: tuple[PropertyColumn, ...] = ()


@record
class PatternEdge:
    """A traversal of one edge between two such variables, by their positions among the nodes, in its direction.

    Without a direction, the edge is stored from one of them to the other, or the other way round.
    """

    type_name: str
    source: int
    target: int
    is_directed: bool = True
    properties: tuple[PropertyColumn, ...] = ()


@record
class ResultPattern:
    """The part of a match that is still to be seen in its rows."""

    nodes: tuple[PatternNode, ...] = ()
    edges: tuple[PatternEdge, ...] = ()


NO_PATTERN = ResultPattern()


class SupportsExplanation(Protocol):
    """A plan that can be shown, to people and to programs."""

    def describe(self) -> str:
        """The plan as text, one step per line."""

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""


@record
class WrittenProperty:
    """What an algorithm has written: the property, the commit (None when no value changed), and how many nodes."""

    property: str
    commit_id: str | None
    updated: int = 0
    unchanged: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "property": self.property,
            "commit": self.commit_id,
            "updated": self.updated,
            "unchanged": self.unchanged,
        }

    def __str__(self) -> str:
        where = "nothing to commit" if self.commit_id is None else f"commit {self.commit_id}"
        return f"wrote {self.property}: {counted(self.updated, 'node')} updated, {self.unchanged} unchanged, {where}"


@record
class ReadInfo:
    """Which query was read from where. Of ``branch`` and ``snapshot`` the one is set that the caller asked for.

    ``commit_id`` is the head of exactly the snapshot that the rows come from. ``pattern`` tells which columns are
    nodes. ``warnings`` are sentences about parameters that are legal and probably not meant. ``written`` is what became
    a property. What ``explanation`` expects of a step may be that of a state whose tables had about the same size.
    """

    query_name: str
    branch: str | None = None
    snapshot: str | None = None
    commit_id: str | None = None
    elapsed_s: float = 0.0
    explanation: SupportsExplanation | None = None
    pattern: ResultPattern = NO_PATTERN
    warnings: tuple[str, ...] = ()
    written: WrittenProperty | None = None

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
        return f"{counted(row_count, 'row')}{origin} via {self.query_name}"
