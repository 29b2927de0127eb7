"""An export that executors write: planned and completed as ever, each file by the task that scans its fragments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.export import ExportFormat, ExportProgress, ExportResult, ExportSettings, check_export
from omnigraph.engine.export.folder import ExportJob, ExportPart, write_part
from omnigraph.engine.export.holds import holding_graph
from omnigraph.engine.export.manifest import ExportedFile
from omnigraph.engine.export.options import Progress
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.local.reads import export_cut
from omnigraph.records import record
from omnigraph.runtime import Runtime, counting
from omnigraph.spark.runner import Runner, SparkRunner
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import check_shared, session_for
from omnigraph.store.files import FileFolder
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import TableTicket
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.graph import Graph


def export(
    graph: Graph | LocalBackend | OpenGraph,
    to: str | Path | Storage,
    format: ExportFormat = "jsonl",  # noqa: A002 - the word that every reader and writer of files uses
    *,
    spark: SparkSession | None = None,
    branch: str = MAIN,
    at: str | None = None,
    types: Sequence[str] | None = None,
    progress: Progress | None = None,
    settings: ExportSettings | None = None,
) -> ExportResult:
    """Write all rows of one pinned state into an empty folder, the same files as ``OpenGraph.export`` writes.

    Args:
        graph: the open graph.
        to: a folder that every executor reaches under this name, or ``s3://bucket/prefix``.
        format: ``jsonl``, ``csv`` or ``parquet``.
        spark: the session to work with, the one of this process when None.
        branch: where to read.
        at: a reference to an earlier state, such as a commit id, ``main~3`` or ``tag:v1``.
        types: only types of these names.
        progress: told how far it is.
        settings: how large files are, and whether they are synced.

    Raises:
        ExportTargetError: there is something in the folder.
        ExportTypeError: the schema has no such type.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        SparkUnsupportedError: workers do not see the folder.
        SparkJobError: the job failed for a reason of its own.
    """
    check_export(format, progress, settings)
    engine = engine_of(graph)
    storage = engine.store.storage
    with counting(), holding_graph(storage, engine.runtime):
        cut = engine.calls.run(lambda: export_cut(engine, branch, at, types))
        job = ExportJob.plan(cut, to, format, graph=storage, settings=settings or ExportSettings())
        ready = session_for(storage, spark)
        writer = ExecutorExport(job, storage, SparkRunner(spark=ready, command="export"), progress)

        def write(parts: Sequence[ExportPart]) -> Sequence[ExportedFile]:
            check_shared(ready, job.folder.storage)
            return writer.write(parts)

        return job.run(write, Runtime.system())


class ExecutorExport:
    """Writes the files of a planned export, each wherever ``runner`` runs it."""

    def __init__(self, job: ExportJob, storage: Storage, runner: Runner, progress: Progress | None = None) -> None:
        self._job = job
        self._storage = storage
        self._runner = runner
        self._progress = progress or (lambda _: None)

    def write(self, parts: Sequence[ExportPart]) -> Sequence[ExportedFile]:
        """Write the files and say what is in each."""
        job, total = self._job, self._job.cut.row_count
        pieces = [
            ExportPiece(
                ticket=TableTicket(storage=self._storage, pin=job.cut.snapshot.entry(part.table_key).pin),
                owner=job.owners[part.table_key],
                part=part,
                format=job.form,
                folder=job.folder,
            )
            for part in parts
        ]
        self._progress(ExportProgress(rows=0, rows_total=total, bytes_written=0))
        files = self._runner.run(write_piece, pieces, "export rows")
        written = sum(file.size_bytes for file in files)
        self._progress(ExportProgress(rows=sum(file.rows for file in files), rows_total=total, bytes_written=written))
        return files


@record
class ExportPiece:
    """One file to write, and everything that is needed for it."""

    ticket: TableTicket
    owner: NodeType | EdgeType
    part: ExportPart
    format: ExportFormat
    folder: FileFolder


def write_piece(piece: ExportPiece) -> ExportedFile:
    """Write one file; another attempt at it writes the same bytes in its place.

    What it costs is counted nowhere, as in another process, also where the runner is this one.
    """
    with counting():
        return write_part(piece.ticket.open(), piece.owner, piece.part, piece.format, piece.folder)
