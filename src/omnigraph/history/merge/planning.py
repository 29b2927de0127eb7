"""Planning a merge: which tables it touches, row by row, and what it cannot decide."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.migration import Step
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints.evaluator import find_violations
from omnigraph.engine.results.encodings import json_texts
from omnigraph.engine.schema.apply import find_broken_rows
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.errors import (
    BranchMissingError,
    LimitExceeded,
    MemoryBudgetError,
    MergeConflict,
    Violation,
)
from omnigraph.history.diff.rows import TableDelta
from omnigraph.history.merge.conflicts import TableCounts, row_message, violation_conflict
from omnigraph.history.merge.schemas import (
    MergedRowsAfter,
    MergedView,
    SettledSchemas,
    SideName,
    SideTable,
    settle_schemas,
    side_delta,
    side_table,
)
from omnigraph.history.merge.three_way import (
    Resolution,
    RowConflicts,
    TableMerge,
    adopt,
    changed_on_both,
    merge_rows,
    resolve_rows,
)
from omnigraph.txn.changes import RowChange, TableChange, id_array
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN

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
    def by_name(self) -> dict[SideName, GraphSnapshot]:
        """Base, source, target."""
        return {"base": self.base, "source": self.source, "target": self.target}

    @property
    def share_a_schema(self) -> bool:
        """Whether no side changed the schema."""
        return len({side.state.schema.hash for side in self.by_name.values()}) == 1

    def table(self, name: SideName, table_key: str, schemas: SettledSchemas | None) -> SideTable | None:
        """Return the table that a side has for one of the schema that the merge leads to."""
        return side_table(name, self.by_name[name], table_key, schemas)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergePlan:
    """What a merge does to the target.

    Args:
        catalog: the schema that it leads to.
        schemas: how the schemas of the sides became that one; None when all of them have it.
        changes: per touched table of the target what happens to it.
        rows: the rows to write and the ids to remove, per table of the schema that the merge leads to.
        change: the same for the rules of the schema to judge.
        reads: the tables of the target that the plan and its validation depend on.
        tables: the counts of every table that has anything to count.
        conflicts: what could not be decided, by type and id; nothing may be published while there are any.
    """

    catalog: Catalog
    schemas: SettledSchemas | None
    changes: tuple[TableChange, ...]
    rows: Mapping[str, RowChange]
    change: GraphChange
    reads: frozenset[str]
    tables: tuple[TableCounts, ...]
    conflicts: tuple[MergeConflict, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """What happens to the schema of the target."""
        return () if self.schemas is None else self.schemas.steps

    def view(self, snapshot: GraphSnapshot) -> GraphView:
        """Return a state of the target as the schema has it that the merge leads to, the merge not applied."""
        return GraphView(snapshot, self.catalog) if self.schemas is None else MergedView(snapshot, self.schemas)


def plan_merge(
    sides: Sides,
    catalog_at: Callable[[GraphSnapshot], Catalog],
    resolve: Resolution | None,
    budget: Budget,
    born_as: str | None = None,
) -> MergePlan:
    """Decide about the schema, and about every row that the source changed since the base.

    Tables that the source left as the base has them, or that are the same on both sides, are not read.

    Args:
        sides: what is merged.
        catalog_at: decodes the schema of a state.
        resolve: how to decide what both sides changed.
        budget: how much memory there is.
        born_as: the life of the target, for ids that a merged schema has to make up; None for main.

    Raises:
        BranchMissingError: a branch was deleted.
        HistoryGoneError: the base was reclaimed.
        MemoryBudgetError: what the source changed does not fit the budget.
    """
    schemas: SettledSchemas | None = None
    if not sides.share_a_schema:
        schemas = settle_schemas(sides.by_name, catalog_at, resolve, born_as, budget.check)
        if schemas.conflicts:
            return refused_plan(schemas.catalog, schemas.conflicts)
    catalog = catalog_at(sides.target) if schemas is None else schemas.catalog
    merges, counts, conflicts = {}, {}, list[MergeConflict]()
    owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    for owner in sorted(owners, key=lambda one: one.table_key):
        key = owner.table_key
        with sides.base.reading(), sides.target.reading(), sides.source.reading():
            merged = _merge_table(sides, key, schemas, budget)
        if merged is None:
            continue
        decided = merged if resolve is None else resolve_rows(merged, resolve)
        merges[key], counts[key] = decided, _counts(key, merged, decided)
        conflicts += _described(owner, key, decided.conflicts)
    return _plan(sides, catalog, schemas, merges, counts, conflicts)


def refused_plan(catalog: Catalog, conflicts: Sequence[MergeConflict]) -> MergePlan:
    """Return the plan of a merge that does nothing because schemas are in the way."""
    return MergePlan(
        catalog=catalog,
        schemas=None,
        changes=(),
        rows={},
        change=GraphChange(types={}),
        reads=frozenset(),
        tables=(),
        conflicts=tuple(conflicts),
    )


def _merge_table(sides: Sides, key: str, schemas: SettledSchemas | None, budget: Budget) -> TableMerge | None:
    """Return what happens to one table, None when the source has nothing for it."""
    base, source, target = (sides.table(name, key, schemas) for name in ("base", "source", "target"))
    if source is None or _is_same(source, target) or (_is_same(base, source) and target is not None):
        return None
    # A table that the target lost comes back with all of its rows.
    delta = side_delta(None if target is None else base, source, budget.check)
    budget.keep(delta.size_bytes)
    if target is None or _is_same(base, target):
        # Only what lies on main outlives every branch, so only that may be named by another one. A table that a branch
        # created lies where those of main do.
        is_mains = target is not None or sides.source.state.head.branch == MAIN
        is_on_main = is_mains and source.entry.pin.branch is None and source.can_adopt
        return adopt(delta, source.entry if is_on_main else None)
    rows = _rows_of_target(target, delta)
    budget.keep(rows.nbytes)
    return merge_rows(delta, rows)


def _rows_of_target(target: SideTable, delta: TableDelta) -> pa.Table:
    # Rows of the target may lack what the source has come to require.
    columns = pa.schema([field.with_nullable(True) for field in delta.inserted.schema])
    ids = pa.concat_arrays([id_array(rows) for rows in (delta.inserted, delta.after, delta.deleted)])
    return target.lookup(ids).select(columns.names).cast(columns)


def _is_same(one: SideTable | None, other: SideTable | None) -> bool:
    """Whether two sides have one table with the same rows; its columns may be read in different ways."""
    if one is None or other is None:
        return one is other
    ours, theirs = one.entry, other.entry
    return (ours.object_id, ours.pin, ours.row_count) == (theirs.object_id, theirs.pin, theirs.row_count)


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
    sides: Sides,
    catalog: Catalog,
    schemas: SettledSchemas | None,
    merges: dict[str, TableMerge],
    counts: dict[str, TableCounts],
    conflicts: Sequence[MergeConflict],
) -> MergePlan:
    changes = {key: _row_change(key, merge) for key, merge in merges.items() if not merge.is_empty}
    adopted = {key: merge.outcome for key, merge in merges.items() if merge.outcome is not None}
    reads = frozenset(merges) | _validated_by(changes, catalog)
    if schemas is not None:
        reads |= {check.pair.after.table_key for check in schemas.checks}
    known = ((key, sides.table("target", key, schemas)) for key in reads)
    types = {
        key: TypeChange(type=_owner(catalog, key), rows=change.written, deletes=change.deletes)
        for key, change in changes.items()
    }
    return MergePlan(
        catalog=catalog,
        schemas=schemas,
        changes=tuple(changes.values()) if schemas is None else schemas.combined(changes, adopted),
        rows=changes,
        change=GraphChange(types=types),
        # A type that is new to the target has no table there that could move.
        reads=frozenset(found.entry.table_key for _, found in known if found is not None),
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


def find_rule_conflicts(plan: MergePlan, sides: Sides, newest: GraphSnapshot) -> tuple[MergeConflict, ...]:
    """Return what the merged graph would break, as the one evaluator of all writes sees it; all of it, in its order.

    Args:
        plan: the merge.
        sides: where the images of the rows come from.
        newest: the state of the target that the merge is to be published on.
    """
    found = list(find_violations(plan.change, plan.view(newest), limit=sys.maxsize).items)
    if plan.schemas is not None and plan.schemas.checks:
        found += _broken_rows(plan, plan.schemas, newest)
    conflicts = dict.fromkeys(_conflict(violation, plan.catalog) for violation in found)
    return tuple(_with_images(tuple(conflicts), sides, plan))


def _broken_rows(plan: MergePlan, schemas: SettledSchemas, newest: GraphSnapshot) -> list[Violation]:
    """Return the rows of the target that the merge leaves alone, and that break what the source has come to demand."""
    values = [replace(check, counts_edges=False) for check in schemas.checks]
    counts = [replace(check, required=(), constraints=()) for check in schemas.checks]
    left = MergedRowsAfter(view=MergedView(newest, schemas), written=plan.rows)
    # Edges are counted as they will be, and those that the merge writes are among them.
    after = MergedRowsAfter(view=MergedView(newest, schemas, plan.rows))
    return [
        *find_broken_rows(values, left, limit=sys.maxsize).items,
        *find_broken_rows(counts, after, limit=sys.maxsize).items,
    ]


def _conflict(violation: Violation, catalog: Catalog) -> MergeConflict:
    edge = catalog.edges.get(violation.type_name)
    owner = edge if edge is not None else catalog.nodes[violation.type_name]
    return violation_conflict(violation, owner.table_key, edge)


def _with_images(conflicts: Sequence[MergeConflict], sides: Sides, plan: MergePlan) -> list[MergeConflict]:
    wanted: dict[str, set[str]] = {}
    for conflict in conflicts:
        if conflict.type_key is not None and conflict.entity_id is not None:
            wanted.setdefault(conflict.type_key, set()).add(conflict.entity_id)
    images = {
        (key, name): _images(sides.table(name, key, plan.schemas), ids, _owner(plan.catalog, key))
        for key, ids in wanted.items()
        for name in sides.by_name
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


def _images(side: SideTable | None, ids: set[str], owner: NodeType | EdgeType) -> Mapping[str, dict[str, Any]]:
    if side is None:
        return {}
    try:
        with side.snapshot.reading():
            rows = side.lookup(pa.array(sorted(ids), pa.string()))
    except BranchMissingError:
        # Of a base that was deleted with its branch nothing can be shown. Deletions of the sides are found by others.
        return {}
    return dict(zip(rows.column("id").to_pylist(), row_images(owner, rows), strict=True))
