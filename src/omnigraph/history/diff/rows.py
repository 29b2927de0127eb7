"""The difference between two versions of one table: which rows came, went, or hold other values.

Content decides. Files and deletions only tell which rows need not be looked at, so that equal rewrites, compaction,
reverse ranges and branches give exact answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.equality import columns_equal, rows_equal
from omnigraph.errors import InternalError
from omnigraph.history.diff.change import ChangeOp
from omnigraph.history.diff.selection import Addresses, Selection, select_differing
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS
from omnigraph.store.tables.table import Table

Check = Callable[[int], None]
Places = npt.NDArray[np.int64]

_SLICE_ROWS, _BLOB_ROWS = 2048, 64
_NONE: Addresses = np.zeros(0, dtype=np.uint64)


@record(eq=False)
class StoredDifferingRows:
    """Rows of one version, known by id and address, ids ascending."""

    selection: Selection | None
    ids: pa.ChunkedArray
    addresses: Addresses

    @property
    def size_bytes(self) -> int:
        """What is in memory of them."""
        return int(self.ids.nbytes + self.addresses.nbytes)

    @property
    def slice_rows(self) -> int:
        """How many of them are best taken at once: a call for each slice, and all of it in memory."""
        return _BLOB_ROWS if self.selection is not None and self.selection.table.blobs else _SLICE_ROWS

    def take(self, places: Places) -> pa.Table:
        """Read the rows at these places, which ascend; they come by id."""
        if self.selection is None:
            return pa.table({KEY: pa.array([], pa.string())})
        chosen = self.selection.only(self.addresses[places])
        rows = chosen.read(self.selection.table.schema.names)
        return rows.take(pc.sort_indices(rows.column(KEY))) if rows.num_rows > 1 else rows

    def read_all(self) -> pa.Table:
        """Read all of the rows, by id."""
        return self.take(np.arange(len(self.addresses)))


@record(eq=False)
class StoredDelta:
    """Which rows of two versions differ; ``before`` and ``after`` are the same ids."""

    inserted: StoredDifferingRows
    deleted: StoredDifferingRows
    before: StoredDifferingRows
    after: StoredDifferingRows


def find_stored_delta(lost: Selection | None, gained: Selection | None, told: Check) -> StoredDelta:
    """Return how two selections differ.

    One column is compared at a time, so that memory holds the ids and one column of both sides, never whole tables.
    """
    old, new = _keys(lost), _keys(gained)
    held = old.nbytes + new.nbytes
    told(held)
    places = places_of(old.column(KEY), new.column(KEY))
    is_kept = places >= 0
    partners = places[is_kept]
    is_other = np.zeros(len(partners), dtype=np.bool_)
    if lost is not None and gained is not None and len(partners):
        kept, taken = pa.array(is_kept), pa.array(partners)
        for name in lost.table.schema.names:
            if name != KEY:
                was, will = (side.read((name,)).column(0) for side in (lost, gained))
                told(held + was.nbytes + will.nbytes)
                is_other |= ~columns_equal(was.filter(kept), will.take(taken))
    return StoredDelta(
        inserted=_rows(gained, new, np.flatnonzero(is_unnamed(places, new.num_rows))),
        deleted=_rows(lost, old, np.flatnonzero(~is_kept)),
        before=_rows(lost, old, np.flatnonzero(is_kept)[is_other]),
        after=_rows(gained, new, partners[is_other]),
    )


def places_of(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Places:
    """Return where each id of ``old`` stands in ``new``, -1 for those that do not."""
    whole = new.chunk(0) if new.num_chunks == 1 else pa.concat_arrays([pa.array([], new.type), *new.chunks])
    found = pc.index_in(old, value_set=whole)
    places: Places = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return places


def is_unnamed(places: Places, count: int) -> npt.NDArray[np.bool_]:
    """Return which of ``count`` rows no place names."""
    mask = np.ones(count, dtype=np.bool_)
    mask[places[places >= 0]] = False
    return mask


def _keys(side: Selection | None) -> pa.Table:
    if side is None:
        return pa.table({KEY: pa.array([], pa.string()), ROW_ADDRESS: pa.array([], pa.uint64())})
    return side.read((KEY, ROW_ADDRESS))


def _rows(side: Selection | None, keys: pa.Table, places: Places) -> StoredDifferingRows:
    chosen = keys.take(pa.array(places))
    chosen = chosen.take(pc.sort_indices(chosen.column(KEY)))
    addresses: Addresses = chosen.column(ROW_ADDRESS).to_numpy() if len(places) else _NONE
    return StoredDifferingRows(selection=side, ids=chosen.column(KEY), addresses=addresses)


__all__ = ["READ_WHOLE", "Check", "TableDelta", "rows_delta", "rows_equal", "selected_delta", "table_delta"]

# Up to so many rows on a side they are read whole; beyond it column after column, and whole only where they differ.
READ_WHOLE = 50_000


@record(eq=False)
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

    def only(self, is_wanted: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> TableDelta:
        """Return the rows whose ids are wanted."""
        inserted, deleted, before, after = (
            rows.filter(is_wanted(rows.column(KEY))) for rows in (self.inserted, self.deleted, self.before, self.after)
        )
        return TableDelta(inserted=inserted, deleted=deleted, before=before, after=after)

    @property
    def row_count(self) -> int:
        """How many rows differ."""
        return int(self.inserted.num_rows + self.deleted.num_rows + self.after.num_rows)

    @property
    def size_bytes(self) -> int:
        """What the rows take in memory."""
        return int(sum(rows.nbytes for rows in (self.inserted, self.deleted, self.before, self.after)))


def table_delta(before: Table | None, after: Table | None, check: Check | None = None) -> TableDelta:
    """Return how a table changed; None stands for a table that is not there.

    Args:
        before: the earlier version.
        after: the later version, with the same columns.
        check: is told how many bytes are held, as often as that grows; it stops the work by raising.

    Raises:
        InternalError: the versions have different columns.
    """
    expect_same_columns(before, after)
    lost, gained = select_differing(before, after)
    return selected_delta(lost, gained, check)


def selected_delta(lost: Selection | None, gained: Selection | None, check: Check | None = None) -> TableDelta:
    """Return how a table changed whose differing rows are selected already; takes and raises what a delta does."""
    shown = gained if gained is not None else lost
    if shown is None:
        raise InternalError("cannot compare two missing tables")
    told = check or (lambda _: None)
    if lost is None or gained is None or not lost.row_count or not gained.row_count:
        return _one_sided(shown.table, lost, gained, told)
    if max(lost.row_count, gained.row_count) <= READ_WHOLE:
        return _read_whole(lost, gained, told)
    return _read_by_column(lost, gained, told)


def rows_delta(before: pa.Table, after: pa.Table) -> TableDelta:
    """Return the difference between two sets of rows with the same columns; ids are unique in each."""
    return _delta(_sorted(before), _sorted(after))


def _one_sided(shown: Table, lost: Selection | None, gained: Selection | None, told: Check) -> TableDelta:
    none = shown.schema.empty_table()
    deleted = none if lost is None or not lost.row_count else _sorted(_read(lost))
    told(deleted.nbytes)
    inserted = none if gained is None or not gained.row_count else _sorted(_read(gained))
    told(deleted.nbytes + inserted.nbytes)
    return TableDelta(inserted=inserted, deleted=deleted, before=none, after=none)


def _read_whole(lost: Selection, gained: Selection, told: Check) -> TableDelta:
    old = _sorted(_read(lost))
    told(old.nbytes)
    new = _sorted(_read(gained))
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


def _read_by_column(lost: Selection, gained: Selection, told: Check) -> TableDelta:
    stored = find_stored_delta(lost, gained, told)
    delta = TableDelta(
        inserted=stored.inserted.read_all(),
        deleted=stored.deleted.read_all(),
        before=stored.before.read_all(),
        after=stored.after.read_all(),
    )
    told(delta.size_bytes)
    return delta


def _read(rows: Selection) -> pa.Table:
    return rows.read(rows.table.schema.names)


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
            f"cannot compare versions of '{after.pin.location}' with different columns:"
            f" before={sorted(old)} after={sorted(new)}"
        )


_SLICE_ROWS = 512


class DifferingRows(Protocol):
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

    def take(self, places: Places) -> pa.Table:
        """Return the rows at these places, which ascend."""


@record(kw_only=False, eq=False)
class InMemoryRows:
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

    def take(self, places: Places) -> pa.Table:
        """Return the rows at these places."""
        return self.rows.take(pa.array(places))


@record(eq=False)
class ChangedRows:
    """The difference between two versions of a table; ``before`` and ``after`` are the same ids."""

    inserted: DifferingRows
    deleted: DifferingRows
    before: DifferingRows
    after: DifferingRows

    @classmethod
    def held(cls, delta: TableDelta) -> ChangedRows:
        """Return a difference that is in memory."""
        return cls(
            inserted=InMemoryRows(delta.inserted),
            deleted=InMemoryRows(delta.deleted),
            before=InMemoryRows(delta.before),
            after=InMemoryRows(delta.after),
        )

    @property
    def counts(self) -> dict[ChangeOp, int]:
        """How many rows each operation changed."""
        return {"insert": len(self.inserted.ids), "update": len(self.after.ids), "delete": len(self.deleted.ids)}

    @property
    def size_bytes(self) -> int:
        """What is in memory of them."""
        return sum(rows.size_bytes for rows in (self.inserted, self.deleted, self.before, self.after))


def find_changed_rows(before: Table | None, after: Table | None, check: Check | None = None) -> ChangedRows:
    """Return how a table changed; memory holds no more than ids and one column when that was much.

    Takes and raises what ``table_delta`` does.
    """
    expect_same_columns(before, after)
    lost, gained = select_differing(before, after)
    if max(0 if side is None else side.row_count for side in (lost, gained)) <= READ_WHOLE:
        return ChangedRows.held(selected_delta(lost, gained, check))
    stored = find_stored_delta(lost, gained, check or (lambda _: None))
    return ChangedRows(inserted=stored.inserted, deleted=stored.deleted, before=stored.before, after=stored.after)
