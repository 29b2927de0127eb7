"""Planning a merge: which tables it touches, row by row, and what it cannot decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.change import GraphChange, TypeChange
from omnigraph.errors import MergeConflict, ReadSetChange, ReadSetChangedError
from omnigraph.history.diff.rows import TableDelta, table_delta
from omnigraph.history.merge.budget import Budget
from omnigraph.history.merge.conflicts import row_message, schema_conflict
from omnigraph.history.merge.images import row_images
from omnigraph.history.merge.resolve import Resolution, changed_on_both, resolve_rows
from omnigraph.history.merge.results import TableCounts
from omnigraph.history.merge.three_way import RowConflicts, TableMerge, adopt, merge_rows
from omnigraph.runtime import Counters
from omnigraph.txn.changes import RowChange, id_array
from omnigraph.txn.manifest.rows import TableEntry
from omnigraph.txn.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """The three states that a merge is decided on."""

    base: Snapshot
    source: Snapshot
    target: Snapshot

    @property
    def all(self) -> tuple[Snapshot, Snapshot, Snapshot]:
        """Base, source, target."""
        return self.base, self.source, self.target


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergePlan:
    """What a merge does to the target.

    Args:
        changes: per touched table the rows to write and the ids to remove.
        change: the same for the rules of the schema to judge.
        reads: the tables that the plan and its validation depend on.
        tables: the counts of every table that has anything to count.
        conflicts: what could not be decided, by type and id; nothing may be published while there are any.
    """

    changes: tuple[RowChange, ...]
    change: GraphChange
    reads: frozenset[str]
    tables: tuple[TableCounts, ...]
    conflicts: tuple[MergeConflict, ...]


def plan_merge(
    sides: Sides, catalog: Catalog, resolve: Resolution | None, budget: Budget, counters: Counters
) -> MergePlan:
    """Decide every row that the source changed since the base.

    Tables that the source left as the base has them, or that are the same on both sides, are not read.

    Raises:
        ReadSetChangedError: a table is not the same table on every side.
        BranchMissingError: a branch was deleted.
        HistoryGoneError: the base was reclaimed.
        MemoryBudgetError: what the source changed does not fit the budget.
    """
    diverged = _schema_divergence(sides)
    if diverged is not None:
        return _plan({}, {}, (diverged,), catalog)
    merges, counts, conflicts = {}, {}, list[MergeConflict]()
    keys = sorted({key for side in sides.all for key in side.state.tables})
    for owner, key in ((_owner(catalog, key), key) for key in keys):
        with sides.base.reading(), sides.target.reading(), sides.source.reading():
            merged = _merge_table(sides, key, budget, counters)
        if merged is None:
            continue
        decided = merged if resolve is None else resolve_rows(merged, resolve)
        merges[key], counts[key] = decided, _counts(key, merged, decided)
        conflicts += _described(owner, key, decided.conflicts)
    return _plan(merges, counts, conflicts, catalog)


def _schema_divergence(sides: Sides) -> MergeConflict | None:
    base, source, target = (side.state.schema.hash for side in sides.all)
    if base == source == target:
        return None
    if source == target:
        return schema_conflict("both sides have accepted another schema than their common base")
    changed = [name for name, found in (("source", source), ("target", target)) if found != base]
    return schema_conflict(f"{' and '.join(changed)} accepted another schema than the common base")


def _merge_table(sides: Sides, key: str, budget: Budget, counters: Counters) -> TableMerge | None:
    """Return what happens to one table, None when the source has nothing for it."""
    base, source, target = (side.state.table(key) for side in sides.all)
    _expect_one_table(key, base, source, target)
    if _is_same(source, target) or _is_same(base, source):
        return None
    delta = table_delta(
        None if base is None else sides.base.table(key, counters),
        None if source is None else sides.source.table(key, counters),
        counters,
        budget.check,
    )
    budget.keep(sum(rows.nbytes for rows in (delta.inserted, delta.deleted, delta.before, delta.after)))
    if _is_same(base, target):
        # Only what lies on main outlives every branch, so only that may be named by another one.
        is_on_main = source is not None and source.pin.branch is None
        return adopt(delta, source if is_on_main else None)
    rows = _rows_of_target(sides.target, key, delta, counters)
    budget.keep(rows.nbytes)
    return merge_rows(delta, rows)


def _rows_of_target(target: Snapshot, key: str, delta: TableDelta, counters: Counters) -> pa.Table:
    columns = delta.inserted.schema
    ids = pa.concat_arrays([id_array(rows) for rows in (delta.inserted, delta.after, delta.deleted)])
    found = target.table(key, counters).lookup(ids, columns.names, counters)
    return found.select(columns.names).cast(columns)


def _expect_one_table(key: str, *entries: TableEntry | None) -> None:
    found = {None if entry is None else (entry.object_id, entry.pin.location) for entry in entries}
    if len(found) > 1:
        names = [("none" if entry is None else entry.object_id) for entry in entries]
        details = ReadSetChange(member=f"branch_merge_dataset_identity:{key}", expected=names[0], actual=names[-1])
        raise ReadSetChangedError(f"the table is not the same on every side table={key}", details=details)


def _is_same(one: TableEntry | None, other: TableEntry | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.object_id, one.pin, one.row_count) == (other.object_id, other.pin, other.row_count)


def _counts(key: str, found: TableMerge, decided: TableMerge) -> TableCounts:
    before, after = (sum(len(item.ids) for item in merge.conflicts) for merge in (found, decided))
    return TableCounts(
        type_key=key,
        inserted=decided.inserts.num_rows,
        updated=decided.updates.num_rows,
        deleted=len(decided.deletes),
        resolved=before - after,
        conflicts=after,
    )


def _described(owner: NodeType | EdgeType, key: str, found: Sequence[RowConflicts]) -> list[MergeConflict]:
    conflicts = []
    for item in found:
        images = [
            [None] * len(item.ids) if rows is None else row_images(owner, rows)
            for rows in (item.base, item.source, item.target)
        ]
        for entity_id, clashing, base, source, target in zip(
            item.ids.to_pylist(), changed_on_both(item), *images, strict=True
        ):
            conflicts.append(
                MergeConflict(
                    kind=item.kind.value,
                    message=row_message(item.kind, entity_id),
                    type_key=key,
                    entity_id=entity_id,
                    properties=clashing,
                    base=base,
                    source=source,
                    target=target,
                )
            )
    return sorted(conflicts, key=lambda conflict: (conflict.entity_id or "").encode())


def _plan(
    merges: dict[str, TableMerge],
    counts: dict[str, TableCounts],
    conflicts: Sequence[MergeConflict],
    catalog: Catalog,
) -> MergePlan:
    changes = {key: _row_change(key, merge) for key, merge in merges.items() if not merge.is_empty}
    types = {
        key: TypeChange(type=_owner(catalog, key), rows=change.written, deletes=change.deletes)
        for key, change in changes.items()
    }
    return MergePlan(
        changes=tuple(changes.values()),
        change=GraphChange(types=types),
        reads=frozenset(merges) | _validated_by(changes, catalog),
        tables=tuple(counts[key] for key in sorted(counts) if not counts[key].is_empty),
        conflicts=tuple(conflicts),
    )


def _row_change(key: str, merge: TableMerge) -> RowChange:
    return RowChange(
        table_key=key,
        inserts=merge.inserts if merge.inserts.num_rows else None,
        # The target was asked for them, and the merge is refused if its table moves.
        has_fresh_ids=True,
        upserts=merge.updates if merge.updates.num_rows else None,
        deletes=tuple(merge.deletes.to_pylist()),
        outcome=merge.outcome,
    )


def _validated_by(changes: dict[str, RowChange], catalog: Catalog) -> frozenset[str]:
    """Return the tables, other than those that change, on which it depends whether the merged graph is sound."""
    reads: set[str] = set()
    for edge in catalog.edges.values():
        ends = {f"node:{edge.from_type}", f"node:{edge.to_type}"}
        change = changes.get(edge.table_key)
        if change is not None and change.written is not None:
            reads |= ends
        if any(end in changes and changes[end].deletes for end in ends):
            reads.add(edge.table_key)
    return frozenset(reads)


def _owner(catalog: Catalog, key: str) -> NodeType | EdgeType:
    kind, _, name = key.partition(":")
    return catalog.nodes[name] if kind == "node" else catalog.edges[name]
