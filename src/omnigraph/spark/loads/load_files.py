"""A load on Spark from its sources, files or frames, to one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import pyarrow as pa

from omnigraph.engine.load import LoadMode, LoadProgress, OnDelete, Source
from omnigraph.engine.load.intake import ProblemList
from omnigraph.engine.load.options import Progress, check_batch, check_load, check_on_delete
from omnigraph.engine.load.reading.tables import owner_of
from omnigraph.engine.load.sources.expand import expand_sources
from omnigraph.engine.load.sources.source import STDIN
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import BadValue, BatchRepeatedError, UsageError
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.local.writes import find_batch
from omnigraph.spark.jobs import command_jobs
from omnigraph.spark.keys import Places
from omnigraph.spark.loads.frames import FrameRows, bind_frame
from omnigraph.spark.loads.job import LoadJob, SparkLoadRequest
from omnigraph.spark.loads.options import SparkLoadResult, SparkLoadSettings
from omnigraph.spark.loads.parts import places_of, read_part, split_sources
from omnigraph.spark.loads.rows import ClusterBy, cluster_columns
from omnigraph.spark.loads.written import LoadedPart, PartWriter, WriteOrders
from omnigraph.spark.runner import Runner, SparkRunner, answer_batch
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.store.files import is_remote
from omnigraph.txn.transaction import OnConflict
from omnigraph.values import (
    MAIN,
    CommitId,
    Ulid,
    check_choice,
    check_flag,
    check_instance,
    check_text,
    checked_names,
    checked_text,
    unfit,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.graph.graph import Graph


# What the jobs of a load are for that no task of ours does.
_RULES = "check the rules"


class _Plain(TypedDict):
    mode: LoadMode
    branch: str
    actor: str | None
    message: str | None
    on_conflict: OnConflict
    errors_to: str | Path | None
    progress: Progress | None
    limit: int
    truncate: bool
    on_delete: OnDelete


def request_of(
    engine: OpenGraph,
    *,
    expected_head: str | None,
    cluster_by: ClusterBy | None,
    settings: SparkLoadSettings | None,
    batch: tuple[str, int] | None,
    **plain: Unpack[_Plain],
) -> SparkLoadRequest:
    """Return the request that the arguments of a public call make.

    Raises:
        UsageError: an argument is of another type or out of bounds, or rows cannot be ordered as they say.
        ValueFormatError: the expected head is no id of a commit.
    """
    check_load(plain["mode"], errors_to=plain["errors_to"], progress=plain["progress"], limit=plain["limit"])
    check_instance("settings", settings, SparkLoadSettings)
    check_flag("truncate", plain["truncate"])
    check_on_delete(plain["on_delete"], plain["mode"])
    if cluster_by is not None and plain["mode"] == "apply":
        details = BadValue(what="cluster_by", value=str(cluster_by)[:80], expected="append, merge or overwrite")
        raise UsageError("the rows of a change log cannot be ordered by a column", details=details)
    check_choice("on_conflict", plain["on_conflict"], get_args(OnConflict))
    for what in ("actor", "message"):
        checked_text(what, plain[what])
    return SparkLoadRequest(
        expected_head=commit_id(expected_head),
        cluster_by=cluster_columns(engine.catalog(plain["branch"]), cluster_by),
        settings=settings or SparkLoadSettings(),
        batch=check_batch(batch),
        **plain,
    )


def check_sources(sources: object) -> None:
    """Refuse what is not several sources.

    Raises:
        UsageError: it is one source, or something else.
    """
    if isinstance(sources, str | bytes) or not isinstance(sources, Sequence):
        raise unfit("sources", sources, "a list of sources")
    for source in sources:
        check_instance("source", source, (str, Source), optional=False)


def check_frames(frames: object, columns: object) -> None:
    """Refuse what is not a frame per type, and names of its columns per type.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(frames, Mapping):
        raise unfit("frames", frames, "a frame per type")
    for name, frame in frames.items():
        check_text("type", name)
        if not callable(getattr(frame, "mapInArrow", None)) or isinstance(frame, type):
            raise unfit("frames", frame, "a frame per type")
    if columns is not None and not isinstance(columns, Mapping):
        raise unfit("columns", columns, "names of columns per type")
    for names in (columns or {}).values():
        if not isinstance(names, Mapping):
            raise unfit("columns", names, "names of columns per type")
        checked_names("columns", (*names, *names.values()))


def commit_id(text: str | None) -> CommitId | None:
    """Return the commit of a text.

    Raises:
        ValueFormatError: it is no id of a commit.
    """
    return None if text is None else CommitId(Ulid.parse(text))


def load(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    graph: Graph | LocalBackend | OpenGraph,
    sources: Sequence[Source | str],
    mode: LoadMode = "append",
    *,
    spark: SparkSession | None = None,
    branch: str = MAIN,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | None = None,
    on_conflict: OnConflict = "rerun",
    errors_to: str | Path | None = None,
    progress: Progress | None = None,
    limit: int = 100,
    truncate: bool = False,
    on_delete: OnDelete = "cascade",
    batch: tuple[str, int] | None = None,
    cluster_by: ClusterBy | None = None,
    settings: SparkLoadSettings | None = None,
) -> SparkLoadResult:
    """Read every row of the sources on Spark and publish all of them as one commit, or nothing.

    Args:
        graph: the open graph.
        sources: files, folders, globs and ``s3://`` addresses that every worker can read.
        mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` replaces whole types,
            ``apply`` takes the rows of a change log, each with an operation and perhaps a sequence.
        spark: the session to work with; that of this process, or one that is started, when None.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        on_conflict: ``refuse`` raises when another writer changed rows that it compared with its own or replaces,
            instead of writing them again for the newer state.
        errors_to: a file of this machine for all problems, one JSON object per line.
        progress: told how far the load is.
        limit: how many problems the error holds.
        truncate: cut instants that are finer than a millisecond; otherwise such a row is refused.
        on_delete: with ``apply``, whether the edges of a deleted node go with it, or such a delete is refused.
        batch: the name of a stream and the number of this piece of it. A call that is repeated changes nothing, and
            returns the commit of the first.
        cluster_by: the column by which rows are ordered in their table, by type; ``key`` takes the first column of
            each node type's key, ids where there is none, and the sources of edges.
        settings: what tasks may use.

    Raises:
        SparkUnsupportedError: a source is standard input, or rows leave a vector to be computed.
        SparkJobError: a job failed for a reason of its own.
        OmnigraphError: whatever :func:`omnigraph.engine.load.load` does.
    """
    check_sources(sources)
    engine = engine_of(graph)
    request = request_of(
        engine,
        mode=mode,
        branch=branch,
        actor=actor,
        message=message,
        expected_head=expected_head,
        on_conflict=on_conflict,
        errors_to=errors_to,
        progress=progress,
        limit=limit,
        truncate=truncate,
        on_delete=on_delete,
        batch=batch,
        cluster_by=cluster_by,
        settings=settings,
    )
    # Started last: a call that makes no sense is refused before there is a session of Spark.
    runner = SparkRunner(spark=session_for(engine.store.storage, spark), command="load")
    with command_jobs(runner.spark, runner.command, _RULES):
        return run_load(engine, sources, request, runner)


def unless_repeated(
    engine: OpenGraph, request: SparkLoadRequest, run: Callable[[], SparkLoadResult]
) -> SparkLoadResult:
    """Run a load; if it is a piece of a stream that the branch has already, return the commit of the first.

    Raises:
        BatchRepeatedError: the branch has a later piece, and history does not tell of this one.
        OmnigraphError: whatever the load raises.
    """
    try:
        return run()
    except BatchRepeatedError:
        mark = request.batch
        first = None if mark is None else find_batch(engine, request.branch, mark)
        if first is None:
            raise
        repeated = SparkLoadResult.repeated(first, {"mode": request.mode})
        return replace(repeated, is_repeat=True)


def run_load(
    engine: OpenGraph, sources: Sequence[Source | str], request: SparkLoadRequest, runner: Runner
) -> SparkLoadResult:
    """Load sources with whichever runner."""
    return unless_repeated(engine, request, lambda: _run_load(engine, sources, request, runner))


def _run_load(
    engine: OpenGraph, sources: Sequence[Source | str], request: SparkLoadRequest, runner: Runner
) -> SparkLoadResult:
    job = LoadJob(engine, request, runner)

    def read(written: list[LoadedPart]) -> Places:
        files = expand_sources(sources, job.storage.options, check_sums=request.settings.read.check_sums)
        # A file that no type fits is refused before anybody reads.
        owners = [owner_of(source, job.orders.catalog) for source in files if source.is_table]
        job.name_tables(owner.table_key for owner in owners)
        if job.orders.takes_changes:
            files = tuple(replace(file, takes_changes=True) for file in files)
        if request.progress is not None:
            request.progress(LoadProgress(phase="read", bytes_total=sum(file.size_bytes or 0 for file in files)))
        parts = split_sources([reachable(source) for source in files], request.settings, runner.cores)
        written += runner.run(partial(read_part, job.orders), parts, "read the input")
        return places_of(parts, written)

    return job.run(read)


def reachable(source: Source) -> Source:
    """Return a source as workers find it, who may run in another folder; messages call it as the caller does."""
    if source.path == STDIN or is_remote(source.path):
        return source
    return replace(source, path=str(Path(source.path).absolute()), called=source.name)


def load_frames(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    graph: Graph | LocalBackend | OpenGraph,
    frames: Mapping[str, DataFrame],
    mode: LoadMode = "append",
    *,
    spark: SparkSession | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    branch: str = MAIN,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | None = None,
    on_conflict: OnConflict = "rerun",
    errors_to: str | Path | None = None,
    progress: Progress | None = None,
    limit: int = 100,
    truncate: bool = False,
    on_delete: OnDelete = "cascade",
    batch: tuple[str, int] | None = None,
    cluster_by: ClusterBy | None = None,
    settings: SparkLoadSettings | None = None,
) -> SparkLoadResult:
    """Publish the rows of frames, one per type, as one commit, or nothing.

    Columns are properties by name; edges have ``from`` and ``to`` as well, and ``id`` may be given. With ``apply``,
    ``_op`` and ``_seq`` are operation and sequence, and a frame of the change stream is taken as it is; one of all
    types may have any name. Each frame is evaluated once. Problems name a frame as ``<Type>`` and its rows by their
    number, in the order of its partitions.

    Args:
        graph: the open graph.
        frames: by type; a name that a node type and an edge type share is written ``node:Name`` or ``edge:Name``.
        mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` replaces whole types,
            ``apply`` takes the rows of a change log, each with an operation and perhaps a sequence.
        spark: the session of the frames; that of this process when None.
        columns: per type the frame's column for a property where the two names differ.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        on_conflict: ``refuse`` raises when another writer changed rows that it compared with its own or replaces,
            instead of writing them again for the newer state.
        errors_to: a file of this machine for all problems, one JSON object per line.
        progress: told how far the load is.
        limit: how many problems the error holds.
        truncate: cut instants that are finer than a millisecond; otherwise such a row is refused.
        on_delete: with ``apply``, whether the edges of a deleted node go with it, or such a delete is refused.
        batch: the name of a stream and the number of this piece of it. A call that is repeated changes nothing, and
            returns the commit of the first.
        cluster_by: as for :func:`omnigraph.spark.load`.
        settings: what tasks may use.

    Raises:
        OmnigraphError: whatever :func:`omnigraph.spark.load` does.
    """
    check_frames(frames, columns)
    engine = engine_of(graph)
    request = request_of(
        engine,
        mode=mode,
        branch=branch,
        actor=actor,
        message=message,
        expected_head=expected_head,
        on_conflict=on_conflict,
        errors_to=errors_to,
        progress=progress,
        limit=limit,
        truncate=truncate,
        on_delete=on_delete,
        batch=batch,
        cluster_by=cluster_by,
        settings=settings,
    )
    runner = SparkRunner(spark=session_for(engine.store.storage, spark), command="load")
    with command_jobs(runner.spark, runner.command, _RULES):
        return unless_repeated(engine, request, lambda: _load_frames(engine, frames, columns, request, runner))


def _load_frames(
    engine: OpenGraph,
    frames: Mapping[str, DataFrame],
    columns: Mapping[str, Mapping[str, str]] | None,
    request: SparkLoadRequest,
    runner: SparkRunner,
) -> SparkLoadResult:
    job = LoadJob(engine, request, runner)

    def read(written: list[LoadedPart]) -> Places:
        bindings = _bind(job, request, frames, columns or {})
        job.name_tables(key for bound in bindings.values() for key in bound.table_keys)
        return _read(job, runner, frames, bindings, written)

    return job.run(read)


def _bind(
    job: LoadJob, request: SparkLoadRequest, frames: Mapping[str, DataFrame], columns: Mapping[str, Mapping[str, str]]
) -> dict[str, FrameRows]:
    bindings: dict[str, FrameRows] = {}
    with ProblemList(request.limit, request.errors_to) as problems:
        for name, frame in frames.items():
            source = Source(
                path=_title(name),
                format="parquet",
                type_name=name,
                columns=columns.get(name, {}),
                takes_changes=job.orders.takes_changes,
            )
            bound = bind_frame(source, job.orders.catalog, frame.limit(0).toArrow().schema)
            if isinstance(bound, FrameRows):
                bindings[name] = bound
            else:
                problems.add(one for problem in bound for one in problem.violations(source.name))
        problems.fail()
    return bindings


def _read(
    job: LoadJob,
    runner: SparkRunner,
    frames: Mapping[str, DataFrame],
    bindings: Mapping[str, FrameRows],
    parts: list[LoadedPart],
) -> Places:
    """Add what tasks told to ``parts``; return what the row numbers stand for."""
    names: list[str] = []
    offsets: list[int] = []
    for name, frame in frames.items():
        work = partial(_work, job.orders, bindings[name], _title(name), len(names))
        found = dict(runner.collect(frame, work, f"read the frame of {name}"))
        rows = 0
        # Each partition is a source of its own, because nobody knows beforehand how many rows the others have.
        for number in range(len(names), max(found, default=-1) + 1):
            part: LoadedPart | None = found.get(number)
            names.append(_title(name))
            offsets.append(rows)
            if part is not None:
                parts.append(part)
                rows += part.lines
    return Places(names=tuple(names), offsets=tuple(offsets))


def _work(
    orders: WriteOrders, rows: FrameRows, title: str, first: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415 - Spark is loaded where it is used

    context = TaskContext.get()
    number = first + (0 if context is None else context.partitionId())
    writer = PartWriter(orders, number=number, source_number=number, source_name=title)
    yield answer_batch(number, partial(rows.read, orders, writer, batches))


def _title(name: str) -> str:
    return f"<{name}>"
