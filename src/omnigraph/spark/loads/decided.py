"""Rows that were compared with what is stored on their way into tables: fragments and deletion lists of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnigraph.records import record
from omnigraph.spark.loads.rows import MergedRows, MergeRowsTask, group_files, merge_rows, remove_rows
from omnigraph.spark.loads.tables import shrink_tables, written_rows
from omnigraph.spark.loads.written import RowsFile
from omnigraph.spark.runner import Runner
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.portable import TableTicket
from omnigraph.txn.changes import WrittenRows
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.transaction import WriteTxn


@record
class TableFiles:
    """What happens to one table, in files of the scratch place.

    Args:
        inserts: whole rows whose ids are not stored.
        updates: whole rows that replace stored ones.
        deletes: ids of stored rows to remove.
    """

    inserts: tuple[RowsFile, ...] = ()
    updates: tuple[RowsFile, ...] = ()
    deletes: tuple[RowsFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the table stays as it is."""
        return not (self.inserts or self.updates or self.deletes)

    def plus(self, other: TableFiles) -> TableFiles:
        """Return these files and those of other entities."""
        return TableFiles(
            inserts=(*self.inserts, *other.inserts),
            updates=(*self.updates, *other.updates),
            deletes=(*self.deletes, *other.deletes),
        )


@record
class DecidedWriter:
    """Brings decided rows into the tables of one transaction.

    Args:
        runner: who works.
        storage: where the graph is.
        scratch: where the rows are.
        write_rows: how many rows one task writes.
        write_bytes: how many bytes of rows one task writes.
        fragment_rows: rows per fragment at most.
        doing: what an error says the work was for.
    """

    runner: Runner
    storage: Storage
    scratch: ScratchPlace
    write_rows: int
    write_bytes: int
    fragment_rows: int
    doing: str = "write the rows"

    def write(self, branch_writer: BranchWriter, txn: WriteTxn, tables: Mapping[str, TableFiles]) -> list[WrittenRows]:
        """Have the rows uploaded and return the change of each table."""
        placed = {key: branch_writer.prepare(txn, key) for key in tables}
        tasks = [task for key, files in tables.items() for task in self._tasks(key, files, placed[key])]
        merged: dict[str, list[MergedRows]] = {key: [] for key in tables}
        for task, done in zip(tasks, self.runner.run(write_piece, tasks, self.doing), strict=True):
            merged[task.rows.table_key].append(done)
        shrunk = shrink_tables(self.runner, self.storage, self.scratch, placed, merged)
        return [
            written_rows(
                key, placed[key], [text for done in merged[key] for text in done.fragments], shrunk.get(key, {})
            )
            for key in tables
        ]

    def _tasks(self, key: str, files: TableFiles, pin: TablePin) -> Iterator[WriteTask]:
        ticket = TableTicket(storage=self.storage, pin=pin)
        for some, removes in ((files.inserts, False), (files.updates, False), (files.deletes, True)):
            for group in group_files(some, rows=self.write_rows, size_bytes=self.write_bytes):
                rows = MergeRowsTask(
                    scratch=self.scratch,
                    ticket=ticket,
                    table_key=key,
                    files=group,
                    is_new=some is files.inserts,
                    fragment_rows=self.fragment_rows,
                )
                yield WriteTask(rows=rows, removes=removes)


@record
class WriteTask:
    """Rows to write to a table, or ids to remove from it."""

    rows: MergeRowsTask
    removes: bool


def write_piece(task: WriteTask) -> MergedRows:
    """Do what a task is for."""
    return remove_rows(task.rows) if task.removes else merge_rows(task.rows)
