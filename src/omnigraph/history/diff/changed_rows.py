"""The rows that differ between two versions of a table, wherever they are: few in memory, many in storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from omnigraph.history.diff.rows import READ_WHOLE, Check, TableDelta, expect_same_columns, selected_delta
from omnigraph.history.diff.selection import select_differing
from omnigraph.history.diff.stored import Places, find_stored_delta
from omnigraph.runtime import Counters
from omnigraph.store.table import KEY, Table

_SLICE_ROWS = 512


class Rows(Protocol):
    """Rows by ascending id."""

    @property
    def ids(self) -> pa.ChunkedArray:
        """Their ids."""

    @property
    def size_bytes(self) -> int:
        """What is in memory of them."""

    @property
    def slice_rows(self) -> int:
        """How many of them are best taken at once."""

    def take(self, places: Places, counters: Counters) -> pa.Table:
        """Return the rows at these places, which ascend."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldRows:
    """Rows that are in memory."""

    rows: pa.Table

    @property
    def ids(self) -> pa.ChunkedArray:
        """Their ids."""
        return self.rows.column(KEY)

    @property
    def size_bytes(self) -> int:
        """What they take."""
        return int(self.rows.nbytes)

    @property
    def slice_rows(self) -> int:
        """How many of them are best turned into values at once."""
        return _SLICE_ROWS

    def take(self, places: Places, counters: Counters) -> pa.Table:  # noqa: ARG002 - needs no call
        """Return the rows at these places."""
        return self.rows.take(pa.array(places))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangedRows:
    """The difference between two versions of a table; ``before`` and ``after`` are the same ids."""

    inserted: Rows
    deleted: Rows
    before: Rows
    after: Rows

    @classmethod
    def held(cls, delta: TableDelta) -> ChangedRows:
        """Return a difference that is in memory."""
        return cls(
            inserted=HeldRows(delta.inserted),
            deleted=HeldRows(delta.deleted),
            before=HeldRows(delta.before),
            after=HeldRows(delta.after),
        )

    @property
    def size_bytes(self) -> int:
        """What is in memory of them."""
        return sum(rows.size_bytes for rows in (self.inserted, self.deleted, self.before, self.after))


def find_changed_rows(
    before: Table | None, after: Table | None, counters: Counters, check: Check | None = None
) -> ChangedRows:
    """Return how a table changed; memory holds no more than ids and one column when that was much.

    Takes and raises what ``table_delta`` does.
    """
    expect_same_columns(before, after)
    lost, gained = select_differing(before, after, counters)
    if max(0 if side is None else side.row_count for side in (lost, gained)) <= READ_WHOLE:
        return ChangedRows.held(selected_delta(lost, gained, counters, check))
    stored = find_stored_delta(lost, gained, counters, check or (lambda _: None))
    return ChangedRows(inserted=stored.inserted, deleted=stored.deleted, before=stored.before, after=stored.after)
