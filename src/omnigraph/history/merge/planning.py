"""Planning a merge: which tables it touches, row by row, and what it cannot decide."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints.evaluator import find_violations
from omnigraph.engine.results.encodings import json_texts
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.errors import (
    BranchMissingError,
    LimitExceeded,
    MemoryBudgetError,
    MergeConflict,
    ReadSetChange,
    ReadSetChangedError,
    Violation,
)
from omnigraph.history.diff.rows import TableDelta, table_delta
from omnigraph.history.merge.conflicts import (
    Conflicts,
    TableCounts,
    row_message,
    schema_conflict,
    violation_conflict,
)
from omnigraph.history.merge.decisions import Decisions
from omnigraph.history.merge.resolution import Resolution, changed_on_both, settle_rows
from omnigraph.history.merge.three_way import RowConflicts, TableMerge, adopt, merge_rows
from omnigraph.records import record
from omnigraph.txn.changes import RowChange, id_array
from omnigraph.txn.manifest.rows import TableEntry
from omnigraph.txn.snapshot import GraphSnapshot

DEFAULT_MEMORY_BYTES = 4 << 30


class Budget:
    """Counts the bytes of the rows that a merge holds, and ends it before they are too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = 0

    def check(self, held: int) -> None:
        """Return if ``held`` bytes fit beside what is kept already.

        Raises:
            MemoryBudgetError: they do not.
        """
        actual = self._kept + held
        if actual > self._limit:
            details = LimitExceeded(resource="merge difference bytes", limit=self._limit, actual=actual)
            raise MemoryBudgetError(
                f"the merge needs {actual} bytes of memory, more than the limit of {self._limit}", details=details
            )

    def keep(self, held: int) -> None:
        """Count bytes that stay in memory until the merge is over; raises what :meth:`check` does."""
        self.check(held)
        self._kept += held


def row_images(owner: NodeType | EdgeType, rows: pa.Table) -> list[dict[str, Any]]:
    """Return each row as its properties and, for an edge, the nodes it joins; the id is left out."""
    columns = {prop.name: _values(rows.column(prop.name)) for prop in owner.properties}
    images: list[dict[str, Any]] = [
        {"properties": {name: values[row] for name, values in columns.items()}} for row in range(rows.num_rows)
    ]
    if isinstance(owner, EdgeType):
        ends = zip(rows.column("src").to_pylist(), rows.column("dst").to_pylist(), strict=True)
        for image, (start, end) in zip(images, ends, strict=True):
            image["endpoints"] = {"from": start, "to": end}
    return images


def _values(column: pa.ChunkedArray) -> list[Any]:
    found: list[Any] = []
    for chunk in column.chunks:
        if pa.types.is_large_binary(chunk.type):
            found += [None if item is None else _base64(item) for item in chunk.to_pylist()]
        else:
            found += [json.loads(text) for text in json_texts(chunk)]
    return found


def _base64(content: bytes) -> str:
    return f"base64:{base64.b64encode(content).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """The three states that a merge is decided on."""

    base: GraphSnapshot
    source: GraphSnapshot
    target: GraphSnapshot

    @property
    def all(self) -> tuple[GraphSnapshot, GraphSnapshot, GraphSnapshot]:
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
    conflicts: Conflicts


@record
class Ways:
    """How conflicts are decided: ``rows`` are decisions as they were given, ``rest`` is for everything else."""

    rest: Resolution | None = None
    rows: tuple[Any, ...] = ()


def plan_merge(sides: Sides, catalog: Catalog, ways: Ways, budget: Budget) -> MergePlan:
    """Decide every row that the source changed since the base.

    Tables that the source left as the base has them, or that are the same on both sides, are not read.

    Raises:
        MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
        ReadSetChangedError: a table is not the same table on every side.
        BranchMissingError: a branch was deleted.
        HistoryGoneError: the base was reclaimed.
        MemoryBudgetError: what the source changed does not fit the budget.
    """
    decisions = Decisions.read(ways.rows, catalog)
    diverged = _schema_divergence(sides)
    if diverged is not None:
        return _plan({}, {}, (diverged,), catalog)
    merges, counts, conflicts = {}, {}, list[MergeConflict]()
    keys = sorted({key for side in sides.all for key in side.state.tables})
    for owner, key in ((_owner(catalog, key), key) for key in keys):
        with sides.base.reading(), sides.target.reading(), sides.source.reading():
            merged = _merge_table(sides, key, budget)
        if merged is None:
            continue
        made = decisions.of_type(key)
        is_sound = decisions.meet(_described(owner, key, _named(merged.conflicts, made)))
        decided = settle_rows(merged, made, ways.rest) if is_sound else merged
        merges[key], counts[key] = decided, _counts(key, merged, decided)
        conflicts += _described(owner, key, decided.conflicts)
    decisions.finish()
    return _plan(merges, counts, conflicts, catalog)


def _named(found: Sequence[RowConflicts], ids: Collection[str]) -> list[RowConflicts]:
    """Return the conflicts that are about one of these ids."""
    if not ids:
        return []
    wanted = pa.array(ids, pa.string())
    return [item.only(pc.is_in(item.ids, value_set=wanted).to_numpy(zero_copy_only=False)) for item in found]


def _schema_divergence(sides: Sides) -> MergeConflict | None:
    base, source, target = (side.state.schema.hash for side in sides.all)
    if base == source == target:
        return None
    if source == target:
        return schema_conflict("both sides changed the schema since their common base")
    changed = [name for name, found in (("source", source), ("target", target)) if found != base]
    return schema_conflict(f"{' and '.join(changed)} changed the schema since the common base")


def _merge_table(sides: Sides, key: str, budget: Budget) -> TableMerge | None:
    """Return what happens to one table, None when the source has nothing for it."""
    base, source, target = (side.state.table(key) for side in sides.all)
    _expect_one_table(key, base, source, target)
    if _is_same(source, target) or _is_same(base, source):
        return None
    delta = table_delta(
        None if base is None else sides.base.table(key),
        None if source is None else sides.source.table(key),
        budget.check,
    )
    budget.keep(sum(rows.nbytes for rows in (delta.inserted, delta.deleted, delta.before, delta.after)))
    if _is_same(base, target):
        # Only what lies on main outlives every branch, so only that may be named by another one.
        is_on_main = source is not None and source.pin.branch is None
        return adopt(delta, source if is_on_main else None)
    rows = _rows_of_target(sides.target, key, delta)
    budget.keep(rows.nbytes)
    return merge_rows(delta, rows)


def _rows_of_target(target: GraphSnapshot, key: str, delta: TableDelta) -> pa.Table:
    columns = delta.inserted.schema
    ids = pa.concat_arrays([id_array(rows) for rows in (delta.inserted, delta.after, delta.deleted)])
    found = target.table(key).lookup(ids, columns.names)
    return found.select(columns.names).cast(columns)


def _expect_one_table(key: str, *entries: TableEntry | None) -> None:
    found = {None if entry is None else (entry.object_id, entry.pin.location) for entry in entries}
    if len(found) > 1:
        names = [("none" if entry is None else entry.object_id) for entry in entries]
        details = ReadSetChange(member=f"branch_merge_dataset_identity:{key}", expected=names[0], actual=names[-1])
        raise ReadSetChangedError(f"table '{key}' is not the same on every side", details=details)


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
        conflicts=Conflicts(conflicts),
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


def find_rule_conflicts(plan: MergePlan, sides: Sides, view: GraphView) -> Conflicts:
    """Return what the merged graph would break, as the one evaluator of all writes sees it; all of it, in its order.

    Args:
        plan: the merge.
        sides: where the images of the rows come from.
        view: the state of the target that the merge is to be published on.
    """
    found = find_violations(plan.change, view, limit=sys.maxsize)
    conflicts = [_conflict(violation, view.catalog) for violation in found.items]
    return Conflicts(_with_images(conflicts, sides, view.catalog))


def _conflict(violation: Violation, catalog: Catalog) -> MergeConflict:
    edge = catalog.edges.get(violation.type_name)
    owner = edge if edge is not None else catalog.nodes[violation.type_name]
    return violation_conflict(violation, owner.table_key, edge)


def _with_images(conflicts: Sequence[MergeConflict], sides: Sides, catalog: Catalog) -> list[MergeConflict]:
    wanted: dict[str, set[str]] = {}
    for conflict in conflicts:
        if conflict.type_key is not None and conflict.entity_id is not None:
            wanted.setdefault(conflict.type_key, set()).add(conflict.entity_id)
    images = {
        (key, name): _images(side, key, ids, catalog)
        for key, ids in wanted.items()
        for name, side in (("base", sides.base), ("source", sides.source), ("target", sides.target))
    }
    return [
        replace(
            conflict,
            base=images.get((conflict.type_key or "", "base"), {}).get(conflict.entity_id or ""),
            source=images.get((conflict.type_key or "", "source"), {}).get(conflict.entity_id or ""),
            target=images.get((conflict.type_key or "", "target"), {}).get(conflict.entity_id or ""),
        )
        for conflict in conflicts
    ]


def _images(side: GraphSnapshot, key: str, ids: set[str], catalog: Catalog) -> Mapping[str, dict[str, Any]]:
    kind, _, name = key.partition(":")
    owner = catalog.nodes[name] if kind == "node" else catalog.edges[name]
    try:
        with side.reading():
            table = side.table(key)
            rows = table.lookup(pa.array(sorted(ids), pa.string()), table.schema.names)
    except BranchMissingError:
        # Of a base that was deleted with its branch nothing can be shown. Deletions of the sides are found by others.
        return {}
    return dict(zip(rows.column("id").to_pylist(), row_images(owner, rows), strict=True))
