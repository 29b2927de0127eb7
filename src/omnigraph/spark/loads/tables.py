"""The rows of each type on their way into its table: written already, or put aside and written when it is known how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import assert_never

from omnigraph.engine.load import LoadMode
from omnigraph.records import record
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.loads.rows import (
    MergedRows,
    MergeRowsTask,
    ShrinkTask,
    cluster_rows,
    group_files,
    merge_rows,
    shrink_fragments,
)
from omnigraph.spark.loads.written import LoadedType
from omnigraph.spark.rules import Superseded
from omnigraph.spark.runner import InProcessRunner, Runner
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.portable import TableTicket
from omnigraph.txn.changes import WrittenRows
from omnigraph.txn.publish.phases import moved
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.transaction import WriteTxn

_FRAGMENTS_PER_TASK = 32
_REPLACED_AT_ONCE = 50_000


@record
class TableChanges:
    """What is to be published; how many rows per table were there exactly so, and how many replace stored ones."""

    changes: tuple[WrittenRows, ...]
    unchanged: Mapping[str, int]
    replaced: Mapping[str, int] = field(default_factory=dict)


@record
class TableWriter:
    """Brings the rows of a load into the tables of one transaction.

    Args:
        runner: who works.
        storage: where the graph is.
        scratch: where rows were put aside.
        mode_of: what happens to the stored rows of a table.
        settings: how large pieces are.
        cluster_by: the column that neighbouring rows should share, by table.
    """

    runner: Runner
    storage: Storage
    scratch: ScratchPlace
    mode_of: Callable[[str], LoadMode]
    settings: SparkLoadSettings
    cluster_by: Mapping[str, str] = field(default_factory=dict)

    def write(
        self,
        branch_writer: BranchWriter,
        txn: WriteTxn,
        types: Mapping[str, LoadedType],
        direct: Mapping[str, TableTicket],
        superseded: Mapping[str, Superseded],
    ) -> TableChanges:
        """Write what was put aside and return the changes of all tables.

        Args:
            branch_writer: the branch.
            txn: the transaction.
            types: what was read, by table.
            direct: where rows of a table were written to as they were read.
            superseded: rows that do not count, by table.

        Raises:
            ExpectedVersionMismatchError: a table is not where its rows were written to.
        """
        placed = {key: self._place(branch_writer, txn, key, direct) for key in types}
        tasks = []
        for key, loaded in types.items():
            is_empty = not txn.snapshot.entry(key).row_count
            tasks += self._tasks(loaded, placed[key], superseded.get(key), is_empty=is_empty)
        merged: dict[str, list[MergedRows]] = {key: [] for key in types}
        for task, done in zip(tasks, self.runner.run(merge_rows, tasks, "write the rows"), strict=True):
            merged[task.table_key].append(done)
        shrunk = shrink_tables(self.runner, self.storage, self.scratch, placed, merged)
        changes = []
        for key, loaded in types.items():
            written = tuple(fragment for done in merged[key] for fragment in done.fragments)
            change = written_rows(
                key,
                placed[key],
                (*loaded.fragments, *written),
                shrunk.get(key, {}),
                replaces_all=self.mode_of(key) == "overwrite",
            )
            if change.fragments or (change.replaces_all and txn.snapshot.entry(key).row_count):
                changes.append(change)
            elif change.replaces_all:
                # Rows that somebody else adds to it before the commit must go, too.
                txn.read_table(key)
        counts = {key: sum(done.unchanged for done in some) for key, some in merged.items()}
        replaced = {key: sum(done.replaced for done in some) for key, some in merged.items()}
        return TableChanges(
            changes=tuple(changes), unchanged={key: n for key, n in counts.items() if n}, replaced=replaced
        )

    def _place(
        self, branch_writer: BranchWriter, txn: WriteTxn, key: str, direct: Mapping[str, TableTicket]
    ) -> TablePin:
        pin = branch_writer.prepare(txn, key)
        ticket = direct.get(key)
        if ticket is not None and (pin.location, pin.branch) != (ticket.pin.location, ticket.pin.branch):
            raise moved(key, ticket.pin.version, pin.version)
        return pin

    def _tasks(
        self, loaded: LoadedType, pin: TablePin, superseded: Superseded | None, *, is_empty: bool
    ) -> list[MergeRowsTask]:
        settings = self.settings
        is_new = loaded.has_fresh_ids or _is_strict(self.mode_of(loaded.owner.table_key)) or is_empty
        column = self.cluster_by.get(loaded.owner.table_key)
        if column is not None:
            groups = cluster_rows(self.runner, self.scratch, loaded.aside, column, settings)
        else:
            size = settings.fragment_rows if is_new else settings.merge_rows
            groups = group_files(loaded.aside, rows=size, size_bytes=settings.flush_bytes)
        return [
            MergeRowsTask(
                scratch=self.scratch,
                ticket=TableTicket(storage=self.storage, pin=pin),
                table_key=loaded.owner.table_key,
                files=group,
                losers=() if superseded is None else superseded.files,
                is_new=is_new,
                sort_by=column,
                fragment_rows=settings.fragment_rows,
            )
            for group in groups
        ]


def _is_strict(mode: LoadMode) -> bool:
    match mode:
        case "append" | "overwrite":
            return True
        case "merge" | "apply":
            return False
        case _:
            assert_never(mode)


def shrink_tables(
    runner: Runner,
    storage: Storage,
    scratch: ScratchPlace,
    placed: Mapping[str, TablePin],
    merged: Mapping[str, Sequence[MergedRows]],
) -> dict[str, dict[int, str | None]]:
    """Return by table the fragments that lose rows, with their longer deletion lists; None for one that loses all.

    Args:
        runner: who works.
        storage: where the graph is.
        scratch: where the lists of rows that are replaced or removed are.
        placed: where changes of each table go.
        merged: what became of the rows that were written.
    """
    tasks: list[ShrinkTask] = []
    for key, done in merged.items():
        touched = sorted({number for item in done for number in item.touched})
        ticket = TableTicket(storage=storage, pin=placed[key])
        for start in range(0, len(touched), _FRAGMENTS_PER_TASK):
            some = tuple(touched[start : start + _FRAGMENTS_PER_TASK])
            files = [item.offsets for item in done if item.offsets and not set(some).isdisjoint(item.touched)]
            tasks.append(
                ShrinkTask(scratch=scratch, ticket=ticket, table_key=key, fragments=some, offsets=tuple(files))
            )
    found: dict[str, dict[int, str | None]] = {}
    replaced = sum(item.replaced for done in merged.values() for item in done)
    # Lists of so few places are written sooner than a job is started.
    chosen = InProcessRunner() if replaced <= _REPLACED_AT_ONCE else runner
    answers = chosen.run(shrink_fragments, tasks, "write the deletion lists")
    for task, shrunk in zip(tasks, answers, strict=True):
        found.setdefault(task.table_key, {}).update(shrunk)
    return found


def written_rows(
    table_key: str,
    pin: TablePin,
    fragments: Sequence[str],
    shrunk: Mapping[int, str | None],
    *,
    replaces_all: bool = False,
) -> WrittenRows:
    """Return the change of a table whose fragments and deletion lists are uploaded."""
    return WrittenRows(
        table_key=table_key,
        base=pin,
        fragments=tuple(fragments),
        shrunk=tuple(fragment for fragment in shrunk.values() if fragment is not None),
        removed=tuple(number for number, fragment in shrunk.items() if fragment is None),
        replaces_all=replaces_all,
    )
