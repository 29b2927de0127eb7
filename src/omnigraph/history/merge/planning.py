"""Planning a merge: which tables it touches, row by row, and what it cannot decide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.migration import Step
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints.evaluator import find_violations
from omnigraph.engine.load.spool import Spool, open_spool
from omnigraph.engine.schema.apply import find_broken_rows
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.errors import (
    MAX_CONFLICTS,
    BranchMissingError,
    MergeConflict,
    OmnigraphError,
    Violation,
    Violations,
)
from omnigraph.history.diff.parts import DEFAULT_MEMORY_BYTES, count_parts, iter_parts, sorted_by_id, whole_delta
from omnigraph.history.diff.rows import TableDelta, expect_same_columns, rows_delta
from omnigraph.history.diff.selection import select_differing
from omnigraph.history.merge.conflicts import (
    Conflicts,
    TableCounts,
    violation_conflict,
)
from omnigraph.history.merge.decisions import Decisions
from omnigraph.history.merge.resolution import Resolution, settle_rows
from omnigraph.history.merge.row_conflicts import FirstConflicts, describe_rows, json_images
from omnigraph.history.merge.schemas import (
    MergedRowsAfter,
    MergedView,
    SettledSchemas,
    SideName,
    SideTable,
    settle_schemas,
    side_table,
)
from omnigraph.history.merge.three_way import RowConflicts, TableMerge, adopt, merge_rows
from omnigraph.records import record
from omnigraph.runtime import Failpoints
from omnigraph.store.memory import give_back_memory
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import RowChange, TableChange, id_array
from omnigraph.txn.manifest.rows import TableEntry
from omnigraph.txn.manifest.shared import OwnRows
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import WriteTxn
from omnigraph.values import MAIN

# Ids in such numbers are not worth a Python object each.
_MANY_IDS = 1 << 17


@record(eq=False)
class Sides:
    """The three states that a merge is decided on.

    ``rows`` are those of the rows which differ between base and source that are meant; all of them when None.
    """

    base: GraphSnapshot
    source: GraphSnapshot
    target: GraphSnapshot
    rows: OwnRows | None = None

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


@record(eq=False)
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
    conflicts: Conflicts

    @property
    def steps(self) -> tuple[Step, ...]:
        """What happens to the schema of the target."""
        return () if self.schemas is None else self.schemas.steps

    @property
    def is_written_ahead(self) -> bool:
        """Whether rows are written before the commit begins, so that the rules are better asked first."""
        return False

    def find_rule_conflicts(self, sides: Sides, newest: GraphSnapshot, max_conflicts: int) -> Conflicts:
        """Return what the merged graph would break, as the one evaluator of all writes sees it, in its order.

        Args:
            sides: where the images of the rows come from.
            newest: the state of the target that the merge is to be published on.
            max_conflicts: how many are told one by one.
        """
        return with_images(find_broken_rules(self, newest, max_conflicts), sides, self)

    def changes_on(self, branch_writer: BranchWriter, txn: WriteTxn) -> Sequence[TableChange]:
        """Return what to publish with a transaction on the state that the plan was made for."""
        del branch_writer, txn
        return self.changes

    def discard(self, error: OmnigraphError) -> None:
        """Remove what was written for a commit that ended with an error."""

    def view(self, snapshot: GraphSnapshot) -> GraphView:
        """Return a state of the target as the schema has it that the merge leads to, the merge not applied."""
        return GraphView(snapshot, self.catalog) if self.schemas is None else MergedView(snapshot, self.schemas)


@record
class Ways:
    """How conflicts are decided, and what a merge may use.

    Args:
        rest: how everything is decided that no decision is about.
        rows: decisions about single conflicts, as they were given.
        max_conflicts: how many conflicts are told one by one.
        memory_bytes: how much of the rows that differ is in memory at once; more of them lie in temporary files.
    """

    rest: Resolution | None = None
    rows: tuple[Any, ...] = ()
    max_conflicts: int = MAX_CONFLICTS
    memory_bytes: int = DEFAULT_MEMORY_BYTES


def plan_merge(
    sides: Sides, catalog_at: Callable[[GraphSnapshot], Catalog], ways: Ways, failpoints: Failpoints
) -> MergePlan:
    """Decide about the schema, and about every row that the source changed since the base.

    Tables that the source left as the base has them, or that are the same on both sides, are not read.

    Raises:
        MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
        BranchMissingError: a branch was deleted.
        HistoryGoneError: the base was reclaimed.
        FileAccessError: the temporary files have no room.
    """
    schemas: SettledSchemas | None = None
    if not sides.share_a_schema:
        schemas = settle_schemas(sides.by_name, catalog_at, ways.rest)
        if schemas.conflicts:
            return refused_plan(schemas.catalog, schemas.conflicts)
    catalog = catalog_at(sides.target) if schemas is None else schemas.catalog
    decisions = Decisions.read(ways.rows, catalog)
    merges, counts = dict[str, TableMerge](), dict[str, TableCounts]()
    conflicts = FirstConflicts(ways.max_conflicts)
    owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    # What is spooled stays readable for as long as something holds it.
    with open_outcomes(ways.memory_bytes, failpoints) as outcomes:
        for owner in sorted(owners, key=lambda one: one.table_key):
            key = owner.table_key
            with sides.base.reading(), sides.target.reading(), sides.source.reading():
                compared = find_compared(sides, key, schemas)
                for part in () if compared is None else merge_table(compared, ways.memory_bytes):
                    decided, counted = settle_part(owner, part, decisions, ways.rest)
                    counts[key] = counted.plus(counts.get(key))
                    conflicts.add(owner, key, decided.conflicts)
                    outcomes.add(owner, decided)
            if key in counts:
                merges[key] = outcomes.of(owner)
    decisions.finish()
    if any(merge.is_large for merge in merges.values()):
        # Other threads write the rows, and have no use for what this one keeps.
        give_back_memory()
    return assemble_plan(sides, schemas, merges, counts, conflicts.finish(), catalog)


def settle_part(
    owner: NodeType | EdgeType, part: TableMerge, decisions: Decisions, rest: Resolution | None
) -> tuple[TableMerge, TableCounts]:
    """Return a part of a table's merge with its conflicts decided as far as they are, and what it amounts to."""
    key = owner.table_key
    made = decisions.of_type(key)
    is_sound = decisions.meet(describe_rows(owner, key, _named(part.conflicts, made)))
    decided = _in_order(settle_rows(part, made, rest)) if part.conflicts and is_sound else part
    was, left = (sum(len(item.ids) for item in merge.conflicts) for merge in (part, decided))
    return decided, TableCounts(
        type_key=key,
        inserted=decided.inserts.num_rows,
        updated=decided.updates.num_rows,
        deleted=len(decided.deletes),
        resolved=was - left,
        conflicts=left,
    )


def _in_order(merge: TableMerge) -> TableMerge:
    """Return a merge with its rows by id, as they are where nothing had to be decided: rules name rows in order."""
    deletes = merge.deletes.take(pc.sort_indices(merge.deletes))
    return replace(merge, inserts=sorted_by_id(merge.inserts), updates=sorted_by_id(merge.updates), deletes=deletes)


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
        conflicts=Conflicts(conflicts),
    )


class Outcomes:
    """What a merge writes, table by table: in memory up to a budget, beyond it in temporary files."""

    def __init__(self, inserts: Spool, updates: Spool, deletes: Spool) -> None:
        self._rows = inserts, updates
        self._deletes = deletes
        self._empty: dict[str, TableMerge] = {}

    def add(self, owner: NodeType | EdgeType, part: TableMerge) -> None:
        """Take what happens to the next rows of a table."""
        self._empty[owner.table_key] = replace(
            part, inserts=part.inserts.slice(0, 0), updates=part.updates.slice(0, 0), deletes=part.deletes.slice(0, 0)
        )
        for spool, rows in zip(self._rows, (part.inserts, part.updates), strict=True):
            if rows.num_rows:
                spool.add(owner, rows, has_fresh_ids=True)
        if len(part.deletes):
            self._deletes.add(owner, pa.table({"id": part.deletes}), has_fresh_ids=True)

    def of(self, owner: NodeType | EdgeType) -> TableMerge:
        """Return all that happens to a table, of which everything was taken."""
        key = owner.table_key
        found = self._empty[key]
        inserts, updates = (
            spool.table(key) if key in spool.owners else none
            for spool, none in zip(self._rows, (found.inserts, found.updates), strict=True)
        )
        deletes = self._deletes.column(key, KEY) if key in self._deletes.owners else found.deletes
        return replace(found, inserts=inserts, updates=updates, deletes=deletes, conflicts=())


@contextmanager
def open_outcomes(memory_bytes: int, failpoints: Failpoints) -> Iterator[Outcomes]:
    """Make a place for what a merge writes; it leaves no file behind."""
    share = max(memory_bytes // 8, 1)
    with ExitStack() as stack:
        spools = [stack.enter_context(open_spool(share, failpoints)) for _ in range(3)]
        yield Outcomes(*spools)


def _named(found: Sequence[RowConflicts], ids: Collection[str]) -> list[RowConflicts]:
    """Return the conflicts that are about one of these ids."""
    if not ids:
        return []
    wanted = pa.array(ids, pa.string())
    return [item.only(pc.is_in(item.ids, value_set=wanted).to_numpy(zero_copy_only=False)) for item in found]


@record(eq=False)
class ComparedTable:
    """What a merge compares of one table; all sides in the same columns.

    Args:
        base: what the source is compared with; None where all of its rows count as new.
        source: the source's table.
        target: the target's table; None when it takes over what the source has.
        outcome: a table of main that has exactly the rows of the source, if that is known.
        is_meant: tells which of the ids that differ are meant; all of them when None.
    """

    base: Table | None
    source: Table
    target: Table | None
    outcome: TableEntry | None = None
    is_meant: Callable[[pa.ChunkedArray], pa.ChunkedArray] | None = None

    def decide(self, was: pa.Table, will: pa.Table, *beside: pa.Table) -> TableMerge:
        """Return what happens to a range of ids.

        Args:
            was: the rows of the base that the source does not share.
            will: the rows of the source that the base does not share.
            beside: if there is a target, the same two for the base and the target.
        """
        delta = self._meant(rows_delta(was, will))
        return self._decide(delta, None if self.target is None else _target_rows(delta, *beside))

    def decide_whole(self, delta: TableDelta) -> TableMerge:
        """Return what happens to the table if all that differs is known."""
        delta = self._meant(delta)
        return self._decide(delta, None if self.target is None else _rows_of_target(self.target, delta))

    def _meant(self, delta: TableDelta) -> TableDelta:
        return delta if self.is_meant is None else delta.only(self.is_meant)

    def _decide(self, delta: TableDelta, target: pa.Table | None) -> TableMerge:
        return adopt(delta, self.outcome) if target is None else merge_rows(delta, target)


def find_compared(sides: Sides, key: str, schemas: SettledSchemas | None) -> ComparedTable | None:
    """Return what has to be compared of one table; None when the source has nothing for it."""
    base, source, target = (sides.table(name, key, schemas) for name in ("base", "source", "target"))
    if source is None or _is_same(source, target) or (_is_same(base, source) and target is not None):
        return None
    # A table that the target lost comes back with all of its rows.
    old = None if base is None or target is None else base.table
    if sides.rows is not None:
        # What is not meant keeps the target from being what the source is.
        is_meant = partial(sides.rows.mask, key)
        return ComparedTable(
            base=old, source=source.table, target=None if target is None else target.table, is_meant=is_meant
        )
    if target is not None and not _is_same(base, target):
        return ComparedTable(base=old, source=source.table, target=target.table)
    # Only what lies on main outlives every branch, so only that may be named by another one. A table that a branch
    # created lies where those of main do.
    is_mains = target is not None or sides.source.state.head.branch == MAIN
    is_on_main = is_mains and source.entry.pin.branch is None and source.can_adopt
    return ComparedTable(base=old, source=source.table, target=None, outcome=source.entry if is_on_main else None)


def merge_table(table: ComparedTable, memory_bytes: int) -> Iterator[TableMerge]:
    """Yield what happens to one table, range of ids by range.

    In one piece the rows of the target are looked up. Piece by piece that would read the target again and again; there,
    a row that the target has not touched since the base is the one that the base has.
    """
    expect_same_columns(table.base, table.source)
    differing = select_differing(table.base, table.source)
    whole = whole_delta(*differing, memory_bytes)
    if whole is not None:
        yield table.decide_whole(whole)
        return
    beside = () if table.target is None else select_differing(table.base, table.target)
    count = count_parts((*differing, *beside), memory_bytes)
    for rows in iter_parts(differing, beside, count, memory_bytes):
        yield table.decide(*rows)


def _target_rows(delta: TableDelta, lost: pa.Table, gained: pa.Table) -> pa.Table:
    """Return the target's rows of the ids in a difference, from how the target differs from the same base."""
    touched = pa.concat_arrays([id_array(lost), id_array(gained)])
    old = pa.concat_tables([delta.deleted, delta.before])
    untouched = old.filter(pc.invert(pc.is_in(old.column(KEY), value_set=touched)))
    ids = pa.concat_arrays([id_array(rows) for rows in (delta.inserted, delta.after, delta.deleted)])
    own = gained.filter(pc.is_in(gained.column(KEY), value_set=ids))
    columns = delta.inserted.schema
    return pa.concat_tables([rows.select(columns.names).cast(columns) for rows in (untouched, own)])


def _rows_of_target(target: Table, delta: TableDelta) -> pa.Table:
    columns = delta.inserted.schema
    ids = pa.concat_arrays([id_array(rows) for rows in (delta.inserted, delta.after, delta.deleted)])
    found = target.lookup(ids, columns.names)
    return found.select(columns.names).cast(columns)


def _is_same(one: SideTable | None, other: SideTable | None) -> bool:
    """Whether two sides have one table with the same rows; its columns may be read in different ways."""
    if one is None or other is None:
        return one is other
    ours, theirs = one.entry, other.entry
    return (ours.object_id, ours.pin, ours.row_count) == (theirs.object_id, theirs.pin, theirs.row_count)


def assemble_plan(
    sides: Sides,
    schemas: SettledSchemas | None,
    merges: Mapping[str, TableMerge],
    counts: Mapping[str, TableCounts],
    conflicts: Conflicts,
    catalog: Catalog,
) -> MergePlan:
    """Return the plan of a merge of which every table is decided."""
    changes = {key: row_change(key, merge) for key, merge in merges.items() if not merge.is_empty}
    adopted = {key: merge.outcome for key, merge in merges.items() if merge.outcome is not None}
    types = {
        # No id stands twice, because each was decided once.
        key: TypeChange(type=_owner(catalog, key), rows=change.written, deletes=change.deletes, has_fresh_ids=True)
        for key, change in changes.items()
    }
    return MergePlan(
        catalog=catalog,
        schemas=schemas,
        changes=tuple(changes.values()) if schemas is None else schemas.combined(changes, adopted),
        rows=changes,
        change=GraphChange(types=types),
        reads=tables_read(sides, schemas, counts, catalog),
        tables=tuple(counts[key] for key in sorted(counts) if not counts[key].is_empty),
        conflicts=conflicts,
    )


def tables_read(
    sides: Sides, schemas: SettledSchemas | None, counts: Mapping[str, TableCounts], catalog: Catalog
) -> frozenset[str]:
    """Return the tables of the target that a merge depends on: those it decides about, and those that rules ask."""
    reads = frozenset(counts) | _validated_by(counts, catalog)
    if schemas is not None:
        reads |= {check.pair.after.table_key for check in schemas.checks}
    known = (sides.table("target", key, schemas) for key in reads)
    # A type that is new to the target has no table there that could move.
    return frozenset(found.entry.table_key for found in known if found is not None)


def row_change(key: str, merge: TableMerge) -> RowChange:
    """Return what a merge does to a table as a change of its rows."""
    return RowChange(
        table_key=key,
        inserts=merge.inserts if merge.inserts.num_rows else None,
        # The target was asked for them, and the merge is refused if its table moves.
        has_fresh_ids=True,
        upserts=merge.updates if merge.updates.num_rows else None,
        deletes=merge.deletes if len(merge.deletes) > _MANY_IDS else tuple(merge.deletes.to_pylist()),
        outcome=merge.outcome,
    )


def _validated_by(counts: Mapping[str, TableCounts], catalog: Catalog) -> frozenset[str]:
    """Return the tables, other than those that change, on which it depends whether the merged graph is sound."""
    reads: set[str] = set()
    for edge in catalog.edges.values():
        ends = {f"node:{edge.from_type}", f"node:{edge.to_type}"}
        change = counts.get(edge.table_key)
        if change is not None and change.inserted + change.updated:
            reads |= ends
        if any(end in counts and counts[end].deleted for end in ends):
            reads.add(edge.table_key)
    return frozenset(reads)


def _owner(catalog: Catalog, key: str) -> NodeType | EdgeType:
    kind, _, name = key.partition(":")
    return catalog.nodes[name] if kind == "node" else catalog.edges[name]


def find_broken_rules(plan: MergePlan, newest: GraphSnapshot, max_conflicts: int) -> Conflicts:
    """Return what the merged graph would break on a state of the target, without the images of rows."""
    found = find_violations(plan.change, plan.view(newest), limit=max_conflicts)
    items, total = list(found.items), found.total
    if plan.schemas is not None and plan.schemas.checks:
        for broken in _broken_rows(plan, plan.schemas, newest, max_conflicts):
            # Sources whose edges the merge writes were counted already.
            fresh = [item for item in broken.items if item not in items]
            items += fresh
            total += broken.total - len(broken.items) + len(fresh)
    return Conflicts([_conflict(violation, plan.catalog) for violation in items[:max_conflicts]], total=total)


def _broken_rows(plan: MergePlan, schemas: SettledSchemas, newest: GraphSnapshot, limit: int) -> Iterator[Violations]:
    """Yield the rows of the target that the merge leaves alone, and that break what the source has come to demand."""
    values = [replace(check, counts_edges=False) for check in schemas.checks]
    counts = [replace(check, required=(), constraints=()) for check in schemas.checks]
    left = MergedRowsAfter(view=MergedView(newest, schemas), written=plan.rows)
    yield find_broken_rows(values, left, limit=limit)
    # Edges are counted as they will be, and those that the merge writes are among them.
    yield find_broken_rows(counts, MergedRowsAfter(view=MergedView(newest, schemas, plan.rows)), limit=limit)


def _conflict(violation: Violation, catalog: Catalog) -> MergeConflict:
    edge = catalog.edges.get(violation.type_name)
    owner = edge if edge is not None else catalog.nodes[violation.type_name]
    return violation_conflict(violation, owner.table_key, edge)


def with_images(conflicts: Conflicts, sides: Sides, plan: MergePlan) -> Conflicts:
    """Return broken rules with the rows of every side that they are about."""
    wanted: dict[str, set[str]] = {}
    for conflict in conflicts:
        if conflict.type_key is not None and conflict.entity_id is not None:
            wanted.setdefault(conflict.type_key, set()).add(conflict.entity_id)
    images = {
        (key, name): _images(sides.table(name, key, plan.schemas), ids, _owner(plan.catalog, key))
        for key, ids in wanted.items()
        for name in sides.by_name
    }
    shown = [
        replace(
            conflict,
            base=images.get((conflict.type_key or "", "base"), {}).get(conflict.entity_id or ""),
            source=images.get((conflict.type_key or "", "source"), {}).get(conflict.entity_id or ""),
            target=images.get((conflict.type_key or "", "target"), {}).get(conflict.entity_id or ""),
        )
        for conflict in conflicts
    ]
    return Conflicts(shown, total=conflicts.total)


def _images(side: SideTable | None, ids: set[str], owner: NodeType | EdgeType) -> Mapping[str, dict[str, Any]]:
    if side is None:
        return {}
    try:
        with side.snapshot.reading():
            table = side.table
            rows = table.lookup(pa.array(sorted(ids), pa.string()), table.schema.names)
    except BranchMissingError:
        # Of a base that was deleted with its branch nothing can be shown. Deletions of the sides are found by others.
        return {}
    return dict(zip(rows.column("id").to_pylist(), json_images(owner, rows), strict=True))
