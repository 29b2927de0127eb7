"""The three-way decision per row: what the source changed since the base, met by what the target has.

The source's difference names every row that can be touched. Rows it does not name stay as the target has them, so
the work follows the size of that difference and never the size of a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ENDPOINTS
from omnigraph.engine.equality import columns_equal, rows_equal
from omnigraph.errors import BadValue, InternalError, UsageError
from omnigraph.history.diff.rows import TableDelta
from omnigraph.history.merge.conflicts import ConflictKind
from omnigraph.store.tables.pinned import KEY
from omnigraph.txn.changes import id_array
from omnigraph.txn.manifest.rows import TableEntry
from omnigraph.values import meant

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowConflicts:
    """Rows of one table that one kind of conflict is about, sorted by id; an image is None where no row is there."""

    kind: ConflictKind
    ids: pa.Array
    base: pa.Table | None
    source: pa.Table | None
    target: pa.Table | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    mask = pa.array(chosen)
    base, source, target = (None if rows is None else rows.filter(mask) for rows in (base, source, target))
    named = next(rows for rows in (source, target, base) if rows is not None)
    return RowConflicts(kind=kind, ids=id_array(named), base=base, source=source, target=target)


Resolution = Literal["ours", "theirs", "properties"]
RESOLUTIONS: tuple[Resolution, ...] = ("ours", "theirs", "properties")
_SHOWN = 100


def check_resolution(resolve: object) -> None:
    """Return if ``resolve`` names a way to resolve conflicts, or none.

    Raises:
        UsageError: it does not.
    """
    if resolve is not None and not (isinstance(resolve, str) and resolve in RESOLUTIONS):
        shown = resolve if isinstance(resolve, str) and resolve.isascii() else ascii(resolve)
        details = BadValue(what="resolve", value=shown[:_SHOWN], expected=", ".join(RESOLUTIONS))
        message = f"unknown conflict resolution {ascii(resolve)[:_SHOWN]}"
        raise UsageError(message, details=details, hint=meant(resolve, RESOLUTIONS))


def resolve_rows(merge: TableMerge, resolve: Resolution) -> TableMerge:
    """Return the merge with as many of its row conflicts decided as ``resolve`` can decide."""
    if not merge.conflicts:
        return merge
    match resolve:
        case "ours":
            return replace(merge, conflicts=())
        case "theirs":
            return _take_source(merge)
        case "properties":
            return _combine(merge)
        case _:
            assert_never(resolve)


def changed_on_both(conflicts: RowConflicts) -> list[tuple[str, ...]]:
    """Return for each row the properties that both sides gave different values; none where a side has no row."""
    if conflicts.source is None or conflicts.target is None:
        return [()] * len(conflicts.ids)
    clashes = _clashes(conflicts, conflicts.source, conflicts.target)
    return [tuple(name for name, mask in clashes.items() if mask[row]) for row in range(len(conflicts.ids))]


def _take_source(merge: TableMerge) -> TableMerge:
    inserts, updates, deletes = [merge.inserts], [merge.updates], [merge.deletes]
    for conflicts in merge.conflicts:
        if conflicts.source is None:
            deletes.append(conflicts.ids)
        elif conflicts.target is None:
            inserts.append(conflicts.source)
        else:
            updates.append(conflicts.source)
    return TableMerge(
        inserts=pa.concat_tables(inserts), updates=pa.concat_tables(updates), deletes=pa.concat_arrays(deletes)
    )


def _combine(merge: TableMerge) -> TableMerge:
    updates, left = [merge.updates], []
    for conflicts in merge.conflicts:
        if conflicts.kind is not ConflictKind.DIVERGENT_UPDATE:
            left.append(conflicts)
            continue
        rows, rest = _combine_updates(conflicts)
        updates.append(rows)
        if len(rest.ids):
            left.append(rest)
    return replace(merge, updates=pa.concat_tables(updates), conflicts=tuple(left))


def _combine_updates(conflicts: RowConflicts) -> tuple[pa.Table, RowConflicts]:
    """Return the rows whose sides changed different properties, combined, and what is left undecided."""
    base, source, target = conflicts.base, conflicts.source, conflicts.target
    if base is None or source is None or target is None:
        raise InternalError("a conflicting update lacks one of its images")
    clashes = _clashes(conflicts, source, target)
    is_clear = ~np.logical_or.reduce([np.zeros(len(conflicts.ids), dtype=np.bool_), *clashes.values()])
    # What the source left alone is the target's to say.
    is_left = {name: _equal(base, source, names) for names in _groups(source) for name in names}
    columns = [
        source.column(name) if name == KEY else _choose(is_left[name], target.column(name), source.column(name))
        for name in source.column_names
    ]
    combined = pa.table(columns, schema=source.schema)
    # Of what is clear, a row that comes out as the target has it already needs no write.
    chosen, others = pa.array(is_clear & ~rows_equal(combined, target)), pa.array(~is_clear)
    rest = RowConflicts(
        kind=conflicts.kind,
        ids=id_array(source.filter(others)),
        base=base.filter(others),
        source=source.filter(others),
        target=target.filter(others),
    )
    return combined.filter(chosen), rest


def _clashes(conflicts: RowConflicts, source: pa.Table, target: pa.Table) -> Mapping[str, Mask]:
    """Return per property the rows where the sides differ and neither left it as the base has it."""
    base = conflicts.base
    found: dict[str, Mask] = {}
    for names in _groups(source):
        is_open = ~_equal(source, target, names)
        if base is not None:
            is_open &= ~_equal(base, source, names) & ~_equal(base, target, names)
        found.update(dict.fromkeys(names, is_open))
    return found


def _groups(rows: pa.Table) -> list[tuple[str, ...]]:
    """Return the columns that are decided together.

    The two ends of an edge are one thing: taking one from each side would join nodes that nobody joined.
    """
    ends = tuple(name for name in ENDPOINTS if name in rows.column_names)
    singles = [(name,) for name in rows.column_names if name not in {KEY, *ends}]
    return [ends, *singles] if ends else [*singles]


def _choose(mask: Mask, chosen: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    places = np.arange(len(mask))
    both = pa.chunked_array([*chosen.chunks, *other.chunks], chosen.type)
    return both.take(pa.array(np.where(mask, places, places + len(mask))))


def _equal(one: pa.Table, other: pa.Table, names: tuple[str, ...]) -> Mask:
    is_equal = np.ones(one.num_rows, dtype=np.bool_)
    for name in names:
        is_equal &= columns_equal(one.column(name), other.column(name))
    return is_equal
