"""What may be asked of a session about exports, in the words of a caller."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.catalog import Catalog
from omnigraph.runtime import Calls, Counters, World, counted
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import MAIN, BranchName, check_callable

if TYPE_CHECKING:
    from omnigraph.engine.export import ExportFormat, ExportResult, ExportSettings
    from omnigraph.engine.export.options import ExportCut, Progress
    from omnigraph.engine.export.stream import ByteSink


class ExportCalls:
    """The calls of a session that write all rows of a state somewhere else."""

    store: GraphStore
    _calls: Calls
    _world: World

    @abstractmethod
    def catalog_at(self, snapshot: Snapshot) -> Catalog:
        """Return the schema that a state follows."""

    @counted
    def export(
        self,
        to: str | Path | Storage,
        format: ExportFormat = "jsonl",  # noqa: A002 - the word that every reader and writer of files uses
        *,
        branch: str = MAIN,
        at: str | None = None,
        types: Sequence[str] | None = None,
        progress: Progress | None = None,
        settings: ExportSettings | None = None,
        counters: Counters | None = None,
    ) -> ExportResult:
        """Write all rows of one pinned state into an empty folder, with a manifest; loading it gives them back.

        Args:
            to: a directory that is empty or does not exist, or ``s3://bucket/prefix``.
            format: ``jsonl``, ``csv`` or ``parquet``.
            branch: where to read.
            at: a reference to an earlier state, such as a commit id, ``main~3`` or ``tag:v1``.
            types: only types of these names; ``node:Name`` and ``edge:Name`` tell two of one name apart.
            progress: told how far it is.
            settings: what it may use of the machine.
            counters: where the calls to storage go.

        Raises:
            ExportTargetError: there is something in the folder.
            ExportTypeError: the schema has no such type.
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
            StorageUnavailableError, StorageDeniedError: the folder cannot be written.
        """
        from omnigraph.engine.export import check_export, export_folder  # noqa: PLC0415 - a read needs none of it

        check_export(format, progress, settings)
        counters = counters or Counters()
        return export_folder(
            self.export_cut(branch, at, types, counters),
            to,
            format,
            world=self._world,
            graph=self.store.storage,
            progress=progress,
            settings=settings,
            counters=counters,
        )

    @counted
    def export_stream(
        self,
        sink: ByteSink,
        *,
        branch: str = MAIN,
        at: str | None = None,
        types: Sequence[str] | None = None,
        progress: Progress | None = None,
        counters: Counters | None = None,
    ) -> ExportResult:
        """Write all rows of one pinned state as JSONL to an open file: edges first, types by name, rows by id.

        Takes and raises what :meth:`export` does; whatever was written before an error is to be thrown away.
        """
        from omnigraph.engine.export import check_sink, export_stream  # noqa: PLC0415 - a read needs none of it

        check_sink(sink)
        check_callable("progress", progress)
        counters = counters or Counters()
        cut = self.export_cut(branch, at, types, counters)
        return export_stream(cut, sink, world=self._world, progress=progress, counters=counters)

    @counted
    def export_cut(self, branch: str, at: str | None, types: Sequence[str] | None, counters: Counters) -> ExportCut:
        """Pin the state that an export is of.

        Raises:
            ExportTypeError: the schema has no such type.
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        """
        from omnigraph.engine.export.options import ExportCut  # noqa: PLC0415 - a read needs none of it

        name = BranchName.parse(branch)
        if at is None:
            snapshot = self.store.snapshot(name, counters)
        else:
            snapshot = self.store.past.resolve_ref(at, name, counters).snapshot
        return ExportCut.of(snapshot, self.catalog_at(snapshot), types)
