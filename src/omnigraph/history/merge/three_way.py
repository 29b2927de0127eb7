"""The three-way decision per row: what the source changed since the base, met by what the target has.

The source's difference names every row that can be touched. Rows it does not name stay as the target has them, so
the work follows the size of that difference and never the size of a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.equality import rows_equal
from omnigraph.history.diff.rows import READ_WHOLE, TableDelta
from omnigraph.history.merge.conflicts import ConflictKind
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY
from omnigraph.txn.changes import id_array
from omnigraph.txn.manifest.rows import TableEntry

Mask = npt.NDArray[np.bool_]


@record(eq=False)
class RowConflicts:
    """Rows of one table that one kind of conflict is about, sorted by id; an image is None where no row is there.

    ``settled`` names by id what is decided of a row that is not decided as a whole.
    """

    kind: ConflictKind
    ids: pa.Array
    base: pa.Table | None
    source: pa.Table | None
    target: pa.Table | None
    settled: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def only(self, chosen: Mask) -> RowConflicts:
        """Return the conflicts of the rows that a mask chooses."""
        if chosen.all():
            return self
        mask = pa.array(chosen)
        base, source, target = (None if rows is None else rows.filter(mask) for rows in self.images)
        return replace(self, ids=self.ids.filter(mask), base=base, source=source, target=target)

    @property
    def images(self) -> tuple[pa.Table | None, pa.Table | None, pa.Table | None]:
        """The rows of base, source and target."""
        return self.base, self.source, self.target


@record(eq=False)
class TableMerge:
    """What a merge does to one table of the target.

    Args:
        inserts: whole rows whose ids the target does not have.
        updates: whole rows that replace rows of the target.
        deletes: ids of rows of the target to remove.
        conflicts: what could not be decided.
        outcome: a table of main that has exactly these rows already.
    """

    inserts: pa.Table
    updates: pa.Table
    deletes: pa.Array
    conflicts: tuple[RowConflicts, ...] = ()
    outcome: TableEntry | None = None

    @property
    def is_large(self) -> bool:
        """Whether so many rows change that memory is worth a thought."""
        return bool(max(self.inserts.num_rows, self.updates.num_rows, len(self.deletes)) > READ_WHOLE)

    @property
    def is_empty(self) -> bool:
        """Whether the target's table stays as it is."""
        return not (self.inserts.num_rows or self.updates.num_rows or len(self.deletes))


def adopt(delta: TableDelta, outcome: TableEntry | None = None) -> TableMerge:
    """Return the merge of a table that the target has not touched since the base: it becomes the source's."""
    return TableMerge(inserts=delta.inserted, updates=delta.after, deletes=id_array(delta.deleted), outcome=outcome)


def merge_rows(delta: TableDelta, target: pa.Table) -> TableMerge:
    """Decide every row that the source changed.

    Args:
        delta: how the source differs from the base.
        target: the rows of the target, in the same columns, that have one of the ids in ``delta``.
    """
    inserted, updated, deleted = (_Meeting.of(rows, target) for rows in (delta.inserted, delta.after, delta.deleted))
    was_updated = _Meeting.of(delta.before, target)
    follows = rows_equal(was_updated.met, updated.target)
    agrees = rows_equal(updated.met, updated.target)
    dies = rows_equal(deleted.met, deleted.target)
    found = (
        _conflicts(
            ConflictKind.DIVERGENT_INSERT,
            ~rows_equal(inserted.met, inserted.target),
            source=inserted.met,
            target=inserted.target,
        ),
        _conflicts(
            ConflictKind.DIVERGENT_UPDATE,
            ~follows & ~agrees,
            base=was_updated.met,
            source=updated.met,
            target=updated.target,
        ),
        _conflicts(
            ConflictKind.DELETE_VS_UPDATE,
            np.ones(updated.alone.num_rows, dtype=np.bool_),
            base=was_updated.alone,
            source=updated.alone,
        ),
        _conflicts(ConflictKind.DELETE_VS_UPDATE, ~dies, base=deleted.met, target=deleted.target),
    )
    return TableMerge(
        inserts=inserted.alone,
        updates=updated.met.filter(pa.array(follows)),
        deletes=id_array(deleted.met.filter(pa.array(dies))),
        conflicts=tuple(conflicts for conflicts in found if conflicts is not None),
    )


@record(eq=False)
class _Meeting:
    """Rows of one side beside those of the target: ``met`` and ``target`` pair up, ``alone`` has no partner."""

    alone: pa.Table
    met: pa.Table
    target: pa.Table

    @classmethod
    def of(cls, rows: pa.Table, target: pa.Table) -> _Meeting:
        places = pc.index_in(rows.column(KEY), value_set=id_array(target))
        is_met = pc.is_valid(places)
        return cls(
            alone=rows.filter(pc.invert(is_met)),
            met=rows.filter(is_met),
            target=target.take(places.drop_null()).select(rows.column_names),
        )


def _conflicts(
    kind: ConflictKind,
    chosen: Mask,
    *,
    base: pa.Table | None = None,
    source: pa.Table | None = None,
    target: pa.Table | None = None,
) -> RowConflicts | None:
    if not chosen.any():
        return None
    named = next(rows for rows in (source, target, base) if rows is not None)
    return RowConflicts(kind=kind, ids=id_array(named), base=base, source=source, target=target).only(chosen)
