"""A merge whose rows tasks decide: a range of ids each, by the code of the local merge; the driver combines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.view import GraphChange
from omnigraph.errors import Effect, InternalError, OmnigraphError
from omnigraph.history.merge.conflicts import Conflicts, TableCounts
from omnigraph.history.merge.decisions import Decision, Decisions, DecisionsMet
from omnigraph.history.merge.planning import (
    ComparedTable,
    MergePlan,
    Sides,
    Ways,
    assemble_plan,
    find_broken_rules,
    find_compared,
    merge_table,
    open_outcomes,
    refused_plan,
    row_change,
    settle_part,
    tables_read,
    with_images,
)
from omnigraph.history.merge.resolution import Resolution
from omnigraph.history.merge.row_conflicts import FirstConflicts
from omnigraph.history.merge.schemas import settle_schemas
from omnigraph.history.merge.three_way import TableMerge
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.history.ranges import Cut, Ranging, SparkHistorySettings, TableRanges, read_range
from omnigraph.spark.history.states import MergedStates, PinnedSides, merge_versions
from omnigraph.spark.loads.decided import DecidedWriter, TableFiles
from omnigraph.spark.loads.written import RowsFile
from omnigraph.spark.pinned_state import PinnedState
from omnigraph.spark.runner import Runner
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import TableTicket, discard_fragments
from omnigraph.txn.changes import RowChange, TableAlter, TableChange, TableRegister, WrittenRows, id_array
from omnigraph.txn.manifest.rows import TableEntry
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import WriteTxn

_FILES = ("inserts", "updates", "deletes")


@record
class DecideOrder:
    """What all tasks of a merge have in common."""

    states: MergedStates
    catalog: Catalog
    scratch: ScratchPlace
    rest: Resolution | None
    max_conflicts: int
    settings: SparkHistorySettings

    def owner(self, table_key: str) -> NodeType | EdgeType:
        """Return the type of a table."""
        return _owner(self.catalog, table_key)


@record
class DecideTask:
    """A range of ids of one table, or all of a table that is small.

    Args:
        table_key: the table.
        cuts: the files of the range; None for all of the table.
        decisions: what is decided about entities in it one by one.
    """

    table_key: str
    cuts: tuple[Cut, ...] | None
    decisions: tuple[Decision, ...] = ()


@record
class Decided:
    """What a task found out about its range, and the files of what is to be written."""

    table_key: str
    counts: TableCounts
    conflicts: Conflicts
    met: DecisionsMet
    files: TableFiles


class ExecutorMerge:
    """Plans merges and reverts, the rows decided and written wherever ``runner`` runs tasks.

    Args:
        storage: where the graph is.
        runner: who works.
        scratch: where tasks leave files for each other.
        settings: how large pieces are.
    """

    def __init__(
        self, storage: Storage, runner: Runner, scratch: ScratchPlace, settings: SparkHistorySettings | None = None
    ) -> None:
        self.storage = storage
        self.runner = runner
        self.scratch = scratch
        self.settings = settings or SparkHistorySettings()

    def plan(self, sides: Sides, catalog_at: Callable[[GraphSnapshot], Catalog], ways: Ways) -> MergePlan:
        """Decide about the schema here, and about every row that the source changed in tasks.

        Raises:
            MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
            BranchMissingError: a branch was deleted.
            HistoryGoneError: the base was reclaimed.
            SparkJobError: a job failed for a reason of its own.
        """
        schemas = None if sides.share_a_schema else settle_schemas(sides.by_name, catalog_at, ways.rest)
        if schemas is not None and schemas.conflicts:
            return refused_plan(schemas.catalog, schemas.conflicts)
        catalog = catalog_at(sides.target) if schemas is None else schemas.catalog
        decisions = Decisions.read(ways.rows, catalog)
        order = DecideOrder(
            states=MergedStates(sides=PinnedSides.of(self.storage, sides), schemas=schemas),
            catalog=catalog,
            scratch=self.scratch,
            rest=ways.rest,
            max_conflicts=ways.max_conflicts,
            settings=self.settings,
        )
        owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
        with sides.base.reading(), sides.target.reading(), sides.source.reading():
            keys = sorted(owner.table_key for owner in owners)
            found = {key: find_compared(sides, key, schemas) for key in keys}
            compared = {key: table for key, table in found.items() if table is not None}
            decided = self._decide(order, compared, decisions)
        decisions.finish()
        return self._plan(order, sides, compared, decided)

    def _decide(self, order: DecideOrder, compared: Mapping[str, ComparedTable], decisions: Decisions) -> list[Decided]:
        ranging = Ranging(compared=order.states, runner=self.runner, scratch=self.scratch, settings=self.settings)
        ranges = ranging.divide({key: merge_versions(table) for key, table in compared.items()})
        tasks = [task for key in compared for task in _tasks(key, ranges[key], decisions.listed(key))]
        answers = self.runner.run(partial(decide_rows, order), tasks, "compare the rows of both branches")
        for answer in answers:
            decisions.learn(answer.met)
        return answers

    def _plan(
        self, order: DecideOrder, sides: Sides, compared: Mapping[str, ComparedTable], decided: Sequence[Decided]
    ) -> ExecutorPlan:
        counts: dict[str, TableCounts] = {}
        files: dict[str, TableFiles] = {}
        conflicts = FirstConflicts(order.max_conflicts)
        for one in decided:
            counts[one.table_key] = one.counts.plus(counts.get(one.table_key))
            files[one.table_key] = files.get(one.table_key, TableFiles()).plus(one.files)
            conflicts.add_described(one.conflicts)
        outcomes = {key: table.outcome for key, table in compared.items() if table.outcome is not None}
        return ExecutorPlan(
            catalog=order.catalog,
            schemas=order.states.schemas,
            changes=(),
            rows={},
            change=GraphChange(types={}),
            reads=tables_read(sides, order.states.schemas, counts, order.catalog),
            tables=tuple(counts[key] for key in sorted(counts) if not counts[key].is_empty),
            conflicts=conflicts.finish(),
            work=self,
            order=order,
            files=files,
            outcomes=outcomes,
        )


@record(eq=False)
class ExecutorPlan(MergePlan):
    """A plan whose rows lie in the scratch place.

    Args:
        work: who has made it.
        order: what its tasks have in common.
        files: by table the rows to write and the ids to remove.
        outcomes: by table a table of main that has exactly these rows already.
    """

    work: ExecutorMerge
    order: DecideOrder
    files: Mapping[str, TableFiles]
    outcomes: Mapping[str, TableEntry]
    _judged: dict[tuple[str, int], Conflicts] = field(default_factory=dict)
    _written: list[WrittenRows] = field(default_factory=list)

    @property
    def is_written_ahead(self) -> bool:
        """Tasks write the rows before the commit begins."""
        return True

    def find_rule_conflicts(self, sides: Sides, newest: GraphSnapshot, max_conflicts: int) -> Conflicts:
        """Have one task ask the rules; a state that was asked about is not asked about again."""
        if all(files.is_empty for files in self.files.values()) and (self.schemas is None or not self.schemas.checks):
            return Conflicts()
        where = str(newest.state.head.branch), newest.state.version
        if where not in self._judged:
            state = PinnedState.of(self.work.storage, newest)
            task = JudgeTask(
                order=self.order, newest=state, files=self.files, outcomes=self.outcomes, max_conflicts=max_conflicts
            )
            with newest.reading():
                (found,) = self.work.runner.run(judge_merge, [task], "check the rules of the schema")
            self._judged[where] = with_images(found, sides, self)
        return self._judged[where]

    def changes_on(self, branch_writer: BranchWriter, txn: WriteTxn) -> Sequence[TableChange]:
        """Have tasks write the rows beside their tables."""
        owns = branch_writer.services.line.owns
        here, elsewhere = dict[str, RowChange](), dict[str, TableFiles]()
        altered = _altered_keys(self)
        for key, files in self.files.items():
            entry = txn.snapshot.state.table(key)
            outcome = self.outcomes.get(key)
            if files.is_empty:
                continue
            if key not in altered and entry is not None and outcome is not None and not owns(entry.pin):
                # The branch names the table of main instead of its own; no row is written.
                here[key] = RowChange(table_key=key, outcome=outcome)
            elif key in altered or entry is None:
                here[key] = self._brought(key, files, outcome)
            else:
                elsewhere[key] = files
        settings = self.work.settings
        writer = DecidedWriter(
            runner=self.work.runner,
            storage=self.work.storage,
            scratch=self.work.scratch,
            write_rows=settings.write_rows,
            write_bytes=settings.memory_bytes,
            fragment_rows=settings.fragment_rows,
            doing="write the merged rows",
        )
        written = writer.write(branch_writer, txn, elsewhere)
        self._written.extend(written)
        branch_writer.services.runtime.failpoints.hit("spark.merge.after_write")
        rows: tuple[TableChange, ...] = tuple(here.values())
        if self.schemas is not None:
            rows = self.schemas.combined(here, self.outcomes)
        return (*rows, *written)

    def discard(self, error: OmnigraphError) -> None:
        """Remove rows that tasks wrote to tables, if ``error`` says that no commit names them."""
        if error.effect is Effect.NONE:
            for change in self._written:
                discard_fragments(TableTicket(storage=self.work.storage, pin=change.base), change.fragments)

    def _brought(self, key: str, files: TableFiles, outcome: TableEntry | None) -> RowChange:
        """Bring the rows of a table here: one that is made or gets other columns in the same commit."""
        owner = self.order.owner(key)
        failpoints = Runtime.system().failpoints
        with open_outcomes(self.work.settings.memory_bytes, failpoints) as outcomes:
            for part in _parts(self.order, key, files, outcome):
                outcomes.add(owner, part)
            return row_change(key, outcomes.of(owner))


def _altered_keys(plan: MergePlan) -> set[str]:
    """Return the tables that the schema of the merge makes, renames or gives other columns."""
    found = set[str]()
    for change in () if plan.schemas is None else plan.schemas.alterations:
        if isinstance(change, TableRegister):
            found.add(change.table_key)
        elif isinstance(change, TableAlter):
            found.add(change.table_key if change.new_key is None else change.new_key)
    return found


def _tasks(key: str, ranges: TableRanges, decisions: Sequence[Decision]) -> list[DecideTask]:
    if ranges.cuts is None:
        return [DecideTask(table_key=key, cuts=None, decisions=tuple(decisions))]
    by_place: dict[int, list[Decision]] = {}
    for one in decisions:
        by_place.setdefault(ranges.place_of(one.entity_id), []).append(one)
    return [
        DecideTask(table_key=key, cuts=ranges.cuts.get(place, ()), decisions=tuple(by_place.get(place, ())))
        for place in ranges.places
        if place in ranges.cuts or place == 0
    ]


def decide_rows(order: DecideOrder, task: DecideTask) -> Decided:
    """Decide about a range of ids and write down what becomes of it."""
    owner, key = order.owner(task.table_key), task.table_key
    table = order.states.find(key)
    if table is None:
        raise InternalError(f"table '{key}' has nothing to compare")
    decisions = Decisions(task.decisions)
    conflicts = FirstConflicts(order.max_conflicts)
    counts: TableCounts | None = None
    files = TableFiles()
    attempt = Runtime.system().ids.ulid()
    if task.cuts is None:
        parts = merge_table(table, order.settings.memory_bytes)
    else:
        parts = iter([table.decide(*read_range(order.scratch, task.cuts, merge_versions(table)))])
    for number, part in enumerate(parts):
        decided, counted = settle_part(owner, part, decisions, order.rest)
        counts = counted.plus(counts)
        conflicts.add(owner, key, decided.conflicts)
        files = files.plus(_put(order.scratch, f"{attempt}-{number}", key, decided))
    if counts is None:
        raise InternalError(f"nothing was compared of table '{key}'")
    return Decided(table_key=key, counts=counts, conflicts=conflicts.finish(), met=decisions.verdict(), files=files)


def _put(scratch: ScratchPlace, attempt: str, key: str, part: TableMerge) -> TableFiles:
    found: dict[str, tuple[RowsFile, ...]] = {}
    for kind, rows in zip(_FILES, (part.inserts, part.updates, pa.table({"id": part.deletes})), strict=True):
        if rows.num_rows:
            name = f"decided/{attempt}-{kind}"
            scratch.put(name, rows)
            found[kind] = (RowsFile(table_key=key, name=name, rows=rows.num_rows, size_bytes=rows.nbytes),)
    return TableFiles(**found)


@record
class JudgeTask:
    """A merge whose rows are decided, and the state that it is to be published on."""

    order: DecideOrder
    newest: PinnedState
    files: Mapping[str, TableFiles]
    outcomes: Mapping[str, TableEntry]
    max_conflicts: int


def judge_merge(task: JudgeTask) -> Conflicts:
    """Return what the merged graph would break; rows beyond a budget lie in temporary files of the task."""
    order, sides = task.order, task.order.states.sides.open()
    with open_outcomes(order.settings.memory_bytes, Runtime.system().failpoints) as outcomes:
        merges: dict[str, TableMerge] = {}
        for key, files in task.files.items():
            owner = order.owner(key)
            for part in _parts(order, key, files, task.outcomes.get(key)):
                outcomes.add(owner, part)
            merges[key] = outcomes.of(owner)
        plan = assemble_plan(sides, order.states.schemas, merges, {}, Conflicts(), order.catalog)
        return find_broken_rules(plan, task.newest.open(), task.max_conflicts)


def _parts(order: DecideOrder, key: str, files: TableFiles, outcome: TableEntry | None) -> Iterator[TableMerge]:
    """Yield what was decided about a table, file by file; something empty if there is none."""
    rows = arrow_schema(order.owner(key)).empty_table()
    none = TableMerge(inserts=rows, updates=rows, deletes=pa.array([], pa.string()), outcome=outcome)
    yield none
    for kind in _FILES:
        for file in getattr(files, kind):
            found = pa.Table.from_batches(order.scratch.read_arrow(file.name))
            yield replace(none, **{kind: id_array(found) if kind == "deletes" else found})


def _owner(catalog: Catalog, key: str) -> NodeType | EdgeType:
    kind, _, name = key.partition(":")
    return catalog.nodes[name] if kind == "node" else catalog.edges[name]
