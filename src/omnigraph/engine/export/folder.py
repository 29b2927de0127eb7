"""An export into a folder: claim it, write the files, and say last that it is complete.

Nothing here knows who does it, so that the session and any other process write the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.export.encoders import column_names, new_encoder
from omnigraph.engine.export.manifest import FOLDERS, MANIFEST, MARKER, SCHEMA, ExportedFile, ExportManifest, TypeFiles
from omnigraph.engine.export.options import (
    FORMATS,
    ExportCut,
    ExportedType,
    ExportFormat,
    ExportProgress,
    ExportResult,
    ExportSettings,
    Progress,
)
from omnigraph.errors import BadValue, ExportTargetError, OmnigraphError
from omnigraph.records import record
from omnigraph.runtime import Runtime, current_counters, in_context
from omnigraph.store.files import FileFolder
from omnigraph.store.location import Storage
from omnigraph.store.tables.table import Table
from omnigraph.values import check_choice
from omnigraph.values.temporal import format_datetime

BATCH_ROWS = 8_192
BATCH_BLOB_ROWS = 64


@record
class ExportPart:
    """One file to write: whole fragments of one table."""

    table_key: str
    path: str
    fragment_ids: tuple[int, ...]
    rows: int


def plan_parts(owner: NodeType | EdgeType, table: Table, form: ExportFormat, rows_per_file: int) -> list[ExportPart]:
    """Return the files of a table, in the order of its rows; none when it has no rows."""
    groups: list[list[tuple[int, int]]] = []
    for fragment in table.fragments:
        if not fragment.row_count:
            continue
        if not groups or sum(rows for _, rows in groups[-1]) >= rows_per_file:
            groups.append([])
        groups[-1].append((fragment.metadata.id, fragment.row_count))
    folder = FOLDERS["edge" if isinstance(owner, EdgeType) else "node"]
    return [
        ExportPart(
            table_key=owner.table_key,
            path=f"{folder}/{owner.name}/part-{number:05d}.{form}",
            fragment_ids=tuple(fragment_id for fragment_id, _ in group),
            rows=sum(rows for _, rows in group),
        )
        for number, group in enumerate(groups)
    ]


def write_part(
    table: Table,
    owner: NodeType | EdgeType,
    part: ExportPart,
    form: ExportFormat,
    folder: FileFolder,
    wrote: Callable[[int, int], None] | None = None,
) -> ExportedFile:
    """Write one file and say what is in it.

    Args:
        table: the pinned table.
        owner: the type of its rows.
        part: which file.
        form: how it is written.
        folder: where it goes.
        wrote: told the rows and bytes of each batch.

    Raises:
        ChangeValueError: a value has no form in which it could be read back.
        StorageUnavailableError, StorageDeniedError: the file cannot be written.
    """
    rows = 0
    with folder.create(part.path) as sink:
        encoder = new_encoder(form, owner, sink)
        try:
            for batch in scan_part(table, owner, part):
                before = sink.size_bytes
                encoder.write(batch)
                rows += batch.num_rows
                if wrote is not None:
                    wrote(batch.num_rows, sink.size_bytes - before)
            encoder.close()
        except BaseException:
            encoder.abandon()
            raise
    return ExportedFile(
        path=part.path,
        rows=rows,
        size_bytes=sink.size_bytes,
        sha256=sink.sha256,
        longest_bytes=encoder.longest_bytes,
    )


def scan_part(table: Table, owner: NodeType | EdgeType, part: ExportPart) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in stored order, columns in the order in which they are written."""
    names = column_names(owner)
    size = BATCH_BLOB_ROWS if table.blobs else BATCH_ROWS
    for batch in table.scan(names, fragment_ids=part.fragment_ids, batch_size=size):
        yield batch.select(names)


WriteParts = Callable[[Sequence[ExportPart]], Iterable[ExportedFile]]


def export_folder(
    cut: ExportCut,
    target: str | Path | Storage,
    form: ExportFormat,
    *,
    runtime: Runtime,
    graph: Storage,
    progress: Progress | None = None,
    settings: ExportSettings | None = None,
) -> ExportResult:
    """Write every row of a cut into an empty folder, one folder per type, and a manifest behind the last file.

    Args:
        cut: what to export.
        target: a directory, or ``s3://bucket/prefix``, which is reached as the graph is when that is on S3 too.
        form: how files are written.
        runtime: clock and failpoints.
        graph: where the graph is.
        progress: told how far the export is; from several threads, but never from two at once.
        settings: what the export may use of the machine.

    Raises:
        ExportTargetError: there is something in the folder.
        ChangeValueError: a value has no form in which it could be read back.
        HistoryGoneError: the state was reclaimed.
        StorageUnavailableError, StorageDeniedError: the folder cannot be written.
    """
    settings = settings or ExportSettings()
    job = ExportJob.plan(cut, target, form, graph=graph, settings=settings)
    meter = _Meter(progress, cut.row_count)

    def write(part: ExportPart) -> ExportedFile:
        table = cut.snapshot.table(part.table_key)
        done = write_part(table, job.owners[part.table_key], part, form, job.folder, meter.add)
        runtime.failpoints.hit("engine.export.after_file")
        return done

    def write_all(parts: Sequence[ExportPart]) -> Iterable[ExportedFile]:
        with ThreadPoolExecutor(max_workers=settings.threads, thread_name_prefix="omnigraph-export") as pool:
            futures = [pool.submit(in_context(write), part) for part in parts]
            try:
                return [future.result() for future in futures]
            except BaseException:
                meter.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    return job.run(write_all, runtime)


@record
class ExportJob:
    """An export that is planned to the last file; who writes the files is somebody else's choice."""

    cut: ExportCut
    folder: FileFolder
    form: ExportFormat
    owners: dict[str, NodeType | EdgeType]
    parts: tuple[ExportPart, ...]

    @classmethod
    def plan(
        cls,
        cut: ExportCut,
        target: str | Path | Storage,
        form: ExportFormat,
        *,
        graph: Storage,
        settings: ExportSettings,
    ) -> ExportJob:
        """Decide which files there will be; writes nothing.

        Raises:
            UsageError: there is no such format.
            ValueFormatError: the target is no place for files.
            ExportTargetError: the target lies inside the graph.
        """
        check_choice("format", form, FORMATS)
        storage = _storage(target, graph)
        if f"{storage.root}/".startswith(f"{graph.root}/"):
            details = BadValue(what="folder", value=storage.root, expected="a folder outside the graph")
            raise ExportTargetError(f"folder '{storage.root}' is inside the graph", details=details)
        parts: list[ExportPart] = []
        for owner in cut.owners:
            table = cut.snapshot.table(owner.table_key)
            parts += plan_parts(owner, table, form, settings.rows_per_file)
        folder = FileFolder(storage=storage, is_durable=settings.is_durable)
        owners = {owner.table_key: owner for owner in cut.owners}
        return cls(cut=cut, folder=folder, form=form, owners=owners, parts=tuple(parts))

    def run(self, write: WriteParts, runtime: Runtime) -> ExportResult:
        """Write all files through ``write``, which gives one answer per part in any order, then the manifest.

        Its cost is what the current counters hold, with the planning that they counted before.
        """
        started_s = runtime.clock.monotonic_s()
        with claimed_folder(self.folder, runtime), self.cut.snapshot.reading():
            files = {file.path: file for file in write(self.parts)}
            manifest = self._manifest(files, runtime)
            self.folder.put(SCHEMA, manifest.schema.encode())
            self.folder.put(MANIFEST, manifest.to_bytes())
        return ExportResult(
            target=self.folder.storage.root,
            format=self.form,
            branch=manifest.branch,
            commit_id=manifest.commit_id,
            types=tuple(
                ExportedType(
                    kind=item.kind,
                    name=item.name,
                    rows=item.rows,
                    files=len(item.files),
                    bytes_written=sum(file.size_bytes for file in item.files),
                )
                for item in manifest.types
            ),
            elapsed_s=runtime.clock.monotonic_s() - started_s,
            cost=current_counters().cost(),
        )

    def _manifest(self, files: dict[str, ExportedFile], runtime: Runtime) -> ExportManifest:
        state = self.cut.snapshot.state
        types = []
        for owner in self.cut.owners:
            mine = tuple(files[part.path] for part in self.parts if part.table_key == owner.table_key)
            types.append(
                TypeFiles(
                    kind="edge" if isinstance(owner, EdgeType) else "node",
                    name=owner.name,
                    rows=sum(file.rows for file in mine),
                    files=mine,
                )
            )
        return ExportManifest(
            format=self.form,
            branch=state.head.branch,
            commit_id=str(state.head.commit),
            schema_hash=state.schema.hash,
            schema=state.schema.source,
            created_at=format_datetime(runtime.clock.now_ms()),
            types=tuple(types),
        )


def refuse_filled(folder: FileFolder) -> None:
    """Return if there is nothing in a folder.

    Raises:
        ExportTargetError: there is something.
    """
    if not folder.is_empty():
        raise _filled(folder)


def _filled(folder: FileFolder) -> ExportTargetError:
    root = folder.storage.root
    details = BadValue(what="folder", value=root, expected="an empty or new folder")
    return ExportTargetError(f"folder '{root}' is not empty", details=details)


@contextmanager
def claimed_folder(folder: FileFolder, runtime: Runtime) -> Iterator[None]:
    """Hold an empty folder for an export; if anything goes wrong it is empty again, as far as storage still answers.

    Raises:
        ExportTargetError: there is something in the folder.
    """
    refuse_filled(folder)
    mark = f"an export began here at {format_datetime(runtime.clock.now_ms())} and has not finished\n".encode()
    if not folder.claim(MARKER, mark):
        raise _filled(folder)
    try:
        yield
    except BaseException:
        with suppress(OmnigraphError):
            for inner in FOLDERS.values():
                folder.remove_folder(inner)
            for name in (MANIFEST, SCHEMA, MARKER):
                folder.remove(name)
        raise
    folder.remove(MARKER)


class _Meter:
    """Adds up what several threads write."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._lock = threading.Lock()
        self._rows = self._bytes = 0
        self._is_stopped = False

    def stop(self) -> None:
        """Make every thread that goes on writing give up at its next batch."""
        self._is_stopped = True

    def add(self, rows: int, bytes_written: int) -> None:
        """Count a batch and tell who listens.

        Raises:
            CancelledError: nobody wants the rest.
        """
        if self._is_stopped:
            raise CancelledError
        with self._lock:
            self._rows += rows
            self._bytes += bytes_written
            if self._progress is not None:
                state = ExportProgress(rows=self._rows, rows_total=self._total, bytes_written=self._bytes)
                self._progress(state)


def _storage(target: str | Path | Storage, graph: Storage) -> Storage:
    if isinstance(target, Storage):
        return target
    plain = Storage.open(target)
    return plain if plain.is_local or graph.is_local else Storage.open(target, graph.options)
