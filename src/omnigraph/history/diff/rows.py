"""The difference between two versions of one table: which rows came, went, or hold other values.

Content decides. Files and deletions only tell which rows need not be looked at, so that equal rewrites, compaction,
reverse ranges and branches give exact answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError
from omnigraph.history.diff.equality import rows_equal
from omnigraph.history.diff.selection import Selection, select_differing
from omnigraph.history.diff.stored import Check, find_stored_delta, is_unnamed, places_of
from omnigraph.runtime import Counters
from omnigraph.store.table import KEY, Table

__all__ = ["READ_WHOLE", "Check", "TableDelta", "rows_delta", "rows_equal", "selected_delta", "table_delta"]

# Up to so many rows on a side they are read whole; beyond it column after column, and whole only where they differ.
READ_WHOLE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableDelta:
    """Rows that differ, with all their columns, sorted by id inside each table.

    Args:
        inserted: rows that only the later version has.
        deleted: rows that only the earlier version has.
        before: rows that both have with other values, as they were.
        after: the same rows, in the same order, as they are.
    """

    inserted: pa.Table
    deleted: pa.Table
    before: pa.Table
    after: pa.Table

    @property
    def row_count(self) -> int:
        """How many rows differ."""
        return int(self.inserted.num_rows + self.deleted.num_rows + self.after.num_rows)

    @property
    def size_bytes(self) -> int:
        """What the rows take in memory."""
        return int(sum(rows.nbytes for rows in (self.inserted, self.deleted, self.before, self.after)))


def table_delta(
    before: Table | None, after: Table | None, counters: Counters, check: Check | None = None
) -> TableDelta:
    """Return how a table changed; None stands for a table that is not there.

    Args:
        before: the earlier version.
        after: the later version, with the same columns.
        counters: where the calls go.
        check: is told how many bytes are held, as often as that grows; it stops the work by raising.

    Raises:
        InternalError: the versions have different columns.
    """
    expect_same_columns(before, after)
    lost, gained = select_differing(before, after, counters)
    return selected_delta(lost, gained, counters, check)


def selected_delta(
    lost: Selection | None, gained: Selection | None, counters: Counters, check: Check | None = None
) -> TableDelta:
    """Return how a table changed whose differing rows are selected already; takes and raises what a delta does."""
    shown = gained if gained is not None else lost
    if shown is None:
        raise InternalError("a difference was asked for between no table and no table")
    told = check or (lambda _: None)
    if lost is None or gained is None or not lost.row_count or not gained.row_count:
        return _one_sided(shown.table, lost, gained, counters, told)
    if max(lost.row_count, gained.row_count) <= READ_WHOLE:
        return _read_whole(lost, gained, counters, told)
    return _read_by_column(lost, gained, counters, told)


def rows_delta(before: pa.Table, after: pa.Table) -> TableDelta:
    """Return the difference between two sets of rows with the same columns; ids are unique in each."""
    return _delta(_sorted(before), _sorted(after))


def _one_sided(
    shown: Table, lost: Selection | None, gained: Selection | None, counters: Counters, told: Check
) -> TableDelta:
    none = shown.schema.empty_table()
    deleted = none if lost is None or not lost.row_count else _sorted(_read(lost, counters))
    told(deleted.nbytes)
    inserted = none if gained is None or not gained.row_count else _sorted(_read(gained, counters))
    told(deleted.nbytes + inserted.nbytes)
    return TableDelta(inserted=inserted, deleted=deleted, before=none, after=none)


def _read_whole(lost: Selection, gained: Selection, counters: Counters, told: Check) -> TableDelta:
    old = _sorted(_read(lost, counters))
    told(old.nbytes)
    new = _sorted(_read(gained, counters))
    told(old.nbytes + new.nbytes)
    return _delta(old, new)


def _delta(old: pa.Table, new: pa.Table) -> TableDelta:
    places = places_of(old.column(KEY), new.column(KEY))
    is_kept = places >= 0
    before, after = old.filter(pa.array(is_kept)), new.take(pa.array(places[is_kept]))
    is_other = pa.array(~rows_equal(before, after))
    return TableDelta(
        inserted=new.filter(pa.array(is_unnamed(places, new.num_rows))),
        deleted=old.filter(pa.array(~is_kept)),
        before=before.filter(is_other),
        after=after.filter(is_other),
    )


def _read_by_column(lost: Selection, gained: Selection, counters: Counters, told: Check) -> TableDelta:
    stored = find_stored_delta(lost, gained, counters, told)
    delta = TableDelta(
        inserted=stored.inserted.read_all(counters),
        deleted=stored.deleted.read_all(counters),
        before=stored.before.read_all(counters),
        after=stored.after.read_all(counters),
    )
    told(delta.size_bytes)
    return delta


def _read(rows: Selection, counters: Counters) -> pa.Table:
    return rows.read(rows.table.schema.names, counters)


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.take(pc.sort_indices(rows.column(KEY))) if rows.num_rows > 1 else rows


def expect_same_columns(before: Table | None, after: Table | None) -> None:
    """See that two versions can be compared.

    Raises:
        InternalError: they cannot.
    """
    if before is None or after is None:
        return
    old = {field.name: field.type for field in before.schema}
    new = {field.name: field.type for field in after.schema}
    if old != new:
        raise InternalError(
            f"versions with different columns were to be compared location={after.pin.location}"
            f" before={sorted(old)} after={sorted(new)}"
        )
