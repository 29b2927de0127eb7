"""What the rules need of an engine that runs their texts: relations by name, rows by text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.records import record
from omnigraph.spark.rules.change import WrittenType


@record
class StoredRows:
    """Stored rows of a type: ``id`` and one column more, or ``id`` alone.

    Args:
        type: whose rows.
        column: the other column: an end of an edge, or ``value`` for the text of a tuple.
        tuple_of: the columns of that tuple.
        near: the column that has to hold one of ``wanted``.
        wanted: a text that gives one column of values; without it all rows are wanted. An engine may give more rows.
    """

    type: NodeType | EdgeType
    column: str | None = None
    tuple_of: tuple[str, ...] = ()
    near: str = "id"
    wanted: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return ("id",) if self.column is None else ("id", self.column)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the table."""
        return ("id", *(name for name in self.tuple_of or self.names if name != "id"))


class RuleEngine(Protocol):
    """Runs texts over named relations. Names go into texts between back-ticks."""

    def keys(self, part: WrittenType, columns: Sequence[str]) -> str:
        """Return the relation of a type's keys, with at least ``columns``."""
        ...

    def stored(self, wanted: StoredRows) -> str | None:
        """Return a relation of stored rows, or None when there are none."""
        ...

    def define(self, text: str, *, is_reused: bool = False) -> str:
        """Return the relation that a text gives; one that is reused may be worth keeping."""
        ...

    def rows(self, text: str, *, asks: str, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Run a text on behalf of the rule called ``asks`` and return its rows as they come."""
        ...

    def save(self, text: str, name: str) -> tuple[str, ...]:
        """Write the rows of a text to scratch objects whose names start with ``name``; return their names."""
        ...
