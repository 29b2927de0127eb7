"""Staging what other processes have made: their files lie where they lie, so it lands there or not at all."""

from __future__ import annotations

from typing import assert_never

from omnigraph.errors import ExpectedVersionMismatchError, TableMovedError
from omnigraph.runtime import Counters, World
from omnigraph.store.pins import TablePin
from omnigraph.store.staging import (
    StagedCommit,
    stage_built_indexes,
    stage_compacted,
    stage_written,
    stage_written_whole,
)
from omnigraph.store.table import Table
from omnigraph.store.tables import TableStore
from omnigraph.txn.changes import BuiltIndexes, CompactedTable, MadeElsewhere, WrittenRows
from omnigraph.txn.manifest.rows import TableEntry
from omnigraph.txn.plan import ActionKind
from omnigraph.txn.rebase import moved
from omnigraph.values import OperationId


def landing_place(
    tables: TableStore, entry: TableEntry, change: MadeElsewhere, *, is_inherited: bool, counters: Counters
) -> TablePin:
    """Return the version that a change made elsewhere goes on top of.

    Args:
        tables: the tables of the graph.
        entry: the table as the branch has it.
        change: what was made.
        is_inherited: the branch does not own the table, so that a fork was prepared.
        counters: where the calls go.

    Raises:
        ExpectedVersionMismatchError: the files lie at a place that is no longer the table's.
    """
    if is_inherited:
        if tables.is_untouched_fork(change.base, entry.pin, counters):
            return change.base
    elif (entry.pin.location, entry.pin.branch) == (change.base.location, change.base.branch):
        return entry.pin
    raise moved(change.table_key, change.base.version, entry.pin.version)


def stage_elsewhere(
    tables: TableStore,
    pin: TablePin,
    change: MadeElsewhere,
    *,
    operation_id: OperationId,
    world: World,
    counters: Counters,
) -> StagedCommit | None:
    """Stage a change made elsewhere on top of ``pin``; None when it does nothing.

    Raises:
        ExpectedVersionMismatchError: the table has moved too far from what the change was made on.
    """
    table = tables.open(pin, counters)
    try:
        match change:
            case WrittenRows():
                return _stage_rows(table, change, operation_id, world)
            case CompactedTable():
                return stage_compacted(
                    table, change.base, change.results, operation_id=operation_id, world=world, counters=counters
                )
            case BuiltIndexes():
                base = tables.open(change.base, counters)
                return stage_built_indexes(
                    table, base, change.indexes, operation_id=operation_id, world=world, counters=counters
                )
            case _:
                assert_never(change)
    except TableMovedError as error:
        raise _moved(table, change) from error


def kind_of(change: MadeElsewhere) -> ActionKind:
    """Return the action that a change made elsewhere is recorded as."""
    match change:
        case WrittenRows():
            return change.kind
        case CompactedTable():
            return ActionKind.REWRITE
        case BuiltIndexes():
            return ActionKind.INDEX
        case _:
            assert_never(change)


def _stage_rows(table: Table, change: WrittenRows, operation_id: OperationId, world: World) -> StagedCommit | None:
    if not change.is_append and table.pin != change.base:
        raise _moved(table, change)
    if change.replaces_all:
        return stage_written_whole(table, change.fragments, operation_id=operation_id, world=world)
    return stage_written(
        table,
        change.fragments,
        shrunk=change.shrunk,
        removed=change.removed,
        operation_id=operation_id,
        world=world,
    )


def _moved(table: Table, change: MadeElsewhere) -> ExpectedVersionMismatchError:
    return moved(change.table_key, change.base.version, table.pin.version)
