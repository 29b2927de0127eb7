"""Staging: turning logical changes into durable but invisible files, and those into table actions of a plan.

A crash anywhere in here leaves files that nothing names. Existing tables are only prepared; a new table and the
first version of a forked one are finished on the spot, because their place is unknown to everybody else until the
publish names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import assert_never

import msgspec

from omnigraph.errors import ExpectedVersionMismatchError, TableMovedError
from omnigraph.records import record
from omnigraph.runtime import Runtime, side_by_side
from omnigraph.store.staging import (
    CompactedFragments,
    StagedCommit,
    stage_change,
    stage_columns,
    stage_compaction,
    stage_create,
    stage_indexes,
    stage_overwrite,
    stage_steps,
    stage_written,
    stage_written_whole,
)
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.store import TableStore
from omnigraph.store.tables.table import Table
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.changes import (
    Compaction,
    ExternalChange,
    IndexBuilds,
    RowChange,
    TableAlter,
    TableChange,
    TableDrop,
    TableRegister,
    TableReplace,
    TableSteps,
    WrittenRows,
)
from omnigraph.txn.manifest.rows import TableEntry, TableRename, Tombstone
from omnigraph.txn.publish.phases import moved
from omnigraph.txn.publish.plan import ActionKind, TableAction
from omnigraph.txn.settings import Syncing, TxnSettings
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import CommitId, OperationId


def landing_place(tables: TableStore, entry: TableEntry, change: ExternalChange, *, is_inherited: bool) -> TablePin:
    """Return the version that a change made elsewhere goes on top of.

    Args:
        tables: the tables of the graph.
        entry: the table as the branch has it.
        change: what was made.
        is_inherited: the branch does not own the table, so that a fork was prepared.

    Raises:
        ExpectedVersionMismatchError: the files lie at a place that is no longer the table's.
    """
    if is_inherited:
        if tables.is_untouched_fork(change.base, entry.pin):
            return change.base
    elif (entry.pin.location, entry.pin.branch) == (change.base.location, change.base.branch):
        return entry.pin
    raise moved(change.table_key, change.base.version, entry.pin.version)


def stage_external(
    tables: TableStore, pin: TablePin, change: ExternalChange, *, operation_id: OperationId, runtime: Runtime
) -> tuple[StagedCommit, ...]:
    """Stage a change made elsewhere on top of ``pin``, as commits that follow one another; none when it does nothing.

    Raises:
        ExpectedVersionMismatchError: the table has moved too far from what the change was made on.
    """
    table = tables.open(pin)
    try:
        match change:
            case WrittenRows():
                staged = _stage_rows(table, change, operation_id, runtime)
                return () if staged is None else (staged,)
            case TableSteps():
                base = tables.open(change.base)
                return stage_steps(table, base, change.steps, operation_id=operation_id, runtime=runtime)
            case _:
                assert_never(change)
    except TableMovedError as error:
        raise _moved(table, change) from error


def kinds_of(change: ExternalChange) -> tuple[ActionKind, ...]:
    """Return the actions that a change made elsewhere is recorded as, one for each of its commits."""
    match change:
        case WrittenRows():
            return (change.kind,)
        case TableSteps():
            return tuple(
                ActionKind.REWRITE if isinstance(step, CompactedFragments) else ActionKind.INDEX
                for step in change.steps
            )
        case _:
            assert_never(change)


def _stage_rows(table: Table, change: WrittenRows, operation_id: OperationId, runtime: Runtime) -> StagedCommit | None:
    if not change.is_append and table.pin != change.base:
        raise _moved(table, change)
    if change.replaces_all:
        return stage_written_whole(table, change.fragments, operation_id=operation_id, runtime=runtime)
    return stage_written(
        table,
        change.fragments,
        shrunk=change.shrunk,
        removed=change.removed,
        operation_id=operation_id,
        runtime=runtime,
    )


def _moved(table: Table, change: ExternalChange) -> ExpectedVersionMismatchError:
    return moved(change.table_key, change.base.version, table.pin.version)


# Of a type's name in the name of its folder: names of files are bounded.
_MAX_TYPE_NAME = 64


@record
class StagedTable:
    """One table's part of a plan with what the publish will say about the table.

    The commits of its actions follow one another.
    """

    actions: tuple[TableAction, ...]
    entry: TableEntry | None = None
    tombstone: Tombstone | None = None
    rename: TableRename | None = None


class Stager:
    """Stages the changes of one branch."""

    def __init__(
        self,
        tables: TableStore,
        line: BranchIncarnation,
        syncing: Syncing,
        runtime: Runtime,
        settings: TxnSettings,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._tables = tables
        self._line = line
        self._syncing = syncing
        self._world = runtime
        self._settings = settings
        self._pool = pool

    def stage(
        self, snapshot: GraphSnapshot, changes: Iterable[TableChange], operation_id: OperationId, commit_id: CommitId
    ) -> tuple[StagedTable | None, ...]:
        """Stage every change, tables side by side; None stands for a change that turned out to do nothing."""
        suffix = self._fresh_suffix()

        def one(change: TableChange) -> StagedTable | None:
            staged = self._stage_one(snapshot, change, operation_id, commit_id, suffix)
            self._world.failpoints.hit("txn.stage.after_table")
            return staged

        return side_by_side(self._pool, one, tuple(changes))

    def register(self, tables: Sequence[TableRegister], operation_id: OperationId) -> tuple[StagedTable, ...]:
        """Create tables that nothing names yet, side by side."""
        suffix = self._fresh_suffix()

        def one(table: TableRegister) -> StagedTable:
            return self._register(table, operation_id, suffix)

        return side_by_side(self._pool, one, tuple(tables))

    def place(self, pin: TablePin) -> TablePin:
        """Return where changes of a table go: to itself, or to a fork when the branch only inherits it."""
        if self._line.owns(pin):
            return pin
        fork = self._tables.fork(pin, f"{self._line.lance_branch}.{self._fresh_suffix()}")
        self._syncing.line(fork.location, fork.branch or "", fork.version)
        return fork

    def _stage_one(
        self, snapshot: GraphSnapshot, change: TableChange, operation_id: OperationId, commit_id: CommitId, suffix: str
    ) -> StagedTable | None:
        match change:
            case TableRegister():
                if change.outcome is not None and self._line.lance_branch is not None:
                    return _adopted(change.table_key, change.outcome)
                return self._register(change, operation_id, suffix)
            case TableDrop():
                entry = snapshot.entry(change.table_key)
                stone = Tombstone(
                    table_key=entry.table_key,
                    object_id=entry.object_id,
                    pin=entry.pin,
                    dropped_by=commit_id,
                    dropped_at_ms=self._world.clock.now_ms(),
                )
                return StagedTable(
                    actions=(TableAction(kind=ActionKind.TOMBSTONE, table_key=change.table_key),), tombstone=stone
                )
            case TableAlter():
                return self._alter(snapshot, change, operation_id)
            case RowChange() | TableReplace() | IndexBuilds() | Compaction():
                return self._stage_existing(snapshot, change, operation_id)
            case WrittenRows() | TableSteps():
                return self._stage_elsewhere(snapshot, change, operation_id)
            case _:
                assert_never(change)

    def _alter(self, snapshot: GraphSnapshot, change: TableAlter, operation_id: OperationId) -> StagedTable:
        staged = None
        if change.schema is not None:
            staged = self._stage_existing(snapshot, change, operation_id)
        elif change.rows is not None:
            staged = self._stage_existing(snapshot, change.rows, operation_id)
        if staged is None:
            # What only changes its name stays where and as it is.
            staged = StagedTable(actions=(TableAction(kind=ActionKind.ALTER, table_key=change.table_key),))
        if change.new_key is None:
            return staged
        entry = None if staged.entry is None else msgspec.structs.replace(staged.entry, table_key=change.new_key)
        return replace(staged, entry=entry, rename=TableRename(old_key=change.table_key, new_key=change.new_key))

    def _stage_existing(
        self,
        snapshot: GraphSnapshot,
        change: RowChange | TableReplace | TableAlter | IndexBuilds | Compaction,
        operation_id: OperationId,
    ) -> StagedTable | None:
        entry = snapshot.entry(change.table_key)
        outcome = change.outcome if isinstance(change, RowChange | TableAlter) else None
        if outcome is not None and not self._line.owns(entry.pin):
            return _adopted(change.table_key, outcome)
        table = self._tables.open(self.place(entry.pin))
        commit = self._stage_commit(table, change, operation_id)
        return None if commit is None else self._staged(entry, (_action_kind(change),), (commit,))

    def _stage_elsewhere(
        self, snapshot: GraphSnapshot, change: ExternalChange, operation_id: OperationId
    ) -> StagedTable | None:
        entry = snapshot.entry(change.table_key)
        is_inherited = not self._line.owns(entry.pin)
        pin = landing_place(self._tables, entry, change, is_inherited=is_inherited)
        commits = stage_external(self._tables, pin, change, operation_id=operation_id, runtime=self._world)
        return self._staged(entry, kinds_of(change), commits) if commits else None

    def _staged(self, entry: TableEntry, kinds: Sequence[ActionKind], commits: Sequence[StagedCommit]) -> StagedTable:
        key, last = entry.table_key, commits[-1]
        outcome = msgspec.structs.replace(entry, pin=last.after, row_count=last.row_count)
        if not self._line.owns(entry.pin):
            for commit in commits:
                self._finish(commit)
            return StagedTable(actions=(TableAction(kind=ActionKind.FORK, table_key=key),), entry=outcome)
        actions = tuple(
            TableAction(kind=kind, table_key=key, commit=commit) for kind, commit in zip(kinds, commits, strict=True)
        )
        return StagedTable(actions=actions, entry=outcome)

    def _stage_commit(
        self,
        table: Table,
        change: RowChange | TableReplace | TableAlter | IndexBuilds | Compaction,
        operation_id: OperationId,
    ) -> StagedCommit | None:
        match change:
            case RowChange():
                return stage_change(
                    table,
                    upserts=change.written,
                    deletes=change.deletes,
                    operation_id=operation_id,
                    runtime=self._world,
                    # Inserts were checked against this very state before they came here.
                    assume_new=change.upserts is None,
                    tail_limit=self._settings.tail_limit,
                )
            case TableReplace():
                return stage_overwrite(table, change.rows, operation_id=operation_id, runtime=self._world)
            case TableAlter():
                return stage_columns(
                    table,
                    table.schema if change.schema is None else change.schema,
                    change.origins,
                    change.fills,
                    upserts=None if change.rows is None else change.rows.written,
                    deletes=() if change.rows is None else change.rows.deletes,
                    operation_id=operation_id,
                    runtime=self._world,
                )
            case IndexBuilds():
                staged = stage_indexes(table, change.builds, operation_id=operation_id, runtime=self._world)
                return staged.commit
            case Compaction():
                return stage_compaction(table, operation_id=operation_id, runtime=self._world)
            case _:
                assert_never(change)

    def _register(self, change: TableRegister, operation_id: OperationId, suffix: str) -> StagedTable:
        location = f"{change.folder}/{_folder_name(change)}-{suffix}"
        commit = stage_create(
            self._tables.datasets, location, change.schema, change.rows, operation_id=operation_id, runtime=self._world
        )
        self._finish(commit)
        entry = TableEntry(
            table_key=change.table_key, object_id=change.object_id, pin=commit.after, row_count=commit.row_count
        )
        return StagedTable(
            actions=(TableAction(kind=ActionKind.REGISTER, table_key=change.table_key),),
            entry=entry,
        )

    def _fresh_suffix(self) -> str:
        """Return what makes the name of a place unique.

        What a failed attempt left behind, of this write or of one that crashed, can then neither be mistaken for the
        table nor stand in the way of the next attempt.
        """
        return self._world.ids.ulid()[-8:].lower()

    def _finish(self, commit: StagedCommit) -> None:
        self._syncing.before_landing(commit)
        self._tables.commit(commit)
        self._syncing.after_landing(commit)


def _adopted(table_key: str, outcome: TableEntry) -> StagedTable:
    """What lies on main is named as it is; the next write to it forks from there."""
    return StagedTable(actions=(TableAction(kind=ActionKind.ADOPT, table_key=table_key),), entry=outcome)


def _action_kind(change: RowChange | TableReplace | TableAlter | IndexBuilds | Compaction) -> ActionKind:
    match change:
        case RowChange():
            return change.kind
        case TableReplace():
            return ActionKind.OVERWRITE
        case TableAlter():
            return ActionKind.ALTER
        case IndexBuilds():
            return ActionKind.INDEX
        case Compaction():
            return ActionKind.REWRITE
        case _:
            assert_never(change)


def _folder_name(change: TableRegister) -> str:
    """Return what the folder of a new table is called: its type as it is named now, and the numbers that identify it.

    People and other tools read the name; nothing here does, so that it stays as it is when the type is renamed.
    """
    name = change.table_key.partition(":")[2][:_MAX_TYPE_NAME]
    numbers = "-".join(part.lstrip("0") or "0" for part in change.object_id.split("-"))
    return f"{name}-{numbers}"
