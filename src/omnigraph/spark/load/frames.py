"""Loads of DataFrames: each is read where its partitions are, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.engine.load import LoadMode, Source
from omnigraph.engine.load.binding import Binding, bind, owner_of
from omnigraph.engine.load.options import Progress
from omnigraph.engine.load.parquet import misfits
from omnigraph.engine.load.problems import ProblemList
from omnigraph.engine.rows import RowProblem
from omnigraph.engine.session import GraphSession
from omnigraph.spark.given import session_of
from omnigraph.spark.keys import Places
from omnigraph.spark.load.asked import check_frames, request_of
from omnigraph.spark.load.clustering import ClusterBy
from omnigraph.spark.load.job import LoadJob, LoadRequest
from omnigraph.spark.load.options import SparkLoadResult, SparkLoadSettings
from omnigraph.spark.load.reading import read_batches
from omnigraph.spark.load.written import PartWriter, WriteOrders, WrittenPart
from omnigraph.spark.runner import SparkRunner, answer_batch
from omnigraph.spark.session import given_or_started
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.graph import Graph


def load_frames(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    graph: Graph | GraphSession,
    frames: Mapping[str, DataFrame],
    mode: LoadMode = "append",
    *,
    spark: SparkSession | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    branch: str = MAIN,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | None = None,
    errors_to: str | Path | None = None,
    progress: Progress | None = None,
    limit: int = 100,
    cluster_by: ClusterBy | None = None,
    settings: SparkLoadSettings | None = None,
) -> SparkLoadResult:
    """Publish the rows of frames, one per type, as one commit, or nothing.

    Columns are properties by name; edges have ``from`` and ``to`` as well, and ``id`` may be given. Each frame is
    evaluated once. Problems name a frame as ``<Type>`` and its rows by their number, in the order of its partitions.

    Args:
        graph: the open graph.
        frames: by type; a name that a node type and an edge type share is written ``node:Name`` or ``edge:Name``.
        mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` replaces whole types.
        spark: the session of the frames; that of this process when None.
        columns: per type the frame's column for a property where the two names differ.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        errors_to: a file of this machine for all problems, one JSON object per line.
        progress: told how far the load is.
        limit: how many problems the error holds.
        cluster_by: as for :func:`omnigraph.spark.load`.
        settings: what tasks may use.

    Raises:
        OmnigraphError: whatever :func:`omnigraph.spark.load` does.
    """
    check_frames(frames, columns)
    session = session_of(graph)
    request = request_of(
        session,
        mode=mode,
        branch=branch,
        actor=actor,
        message=message,
        expected_head=expected_head,
        errors_to=errors_to,
        progress=progress,
        limit=limit,
        cluster_by=cluster_by,
        settings=settings,
    )
    runner = SparkRunner(spark=given_or_started(spark))
    job = LoadJob(session, request, runner)

    def read(written: list[WrittenPart]) -> Places:
        bindings = _bind(job, request, frames, columns or {})
        return _read(job, runner, frames, bindings, written)

    return job.run(read)


def _bind(
    job: LoadJob, request: LoadRequest, frames: Mapping[str, DataFrame], columns: Mapping[str, Mapping[str, str]]
) -> dict[str, Binding]:
    bindings: dict[str, Binding] = {}
    with ProblemList(request.limit, request.errors_to) as problems:
        for name, frame in frames.items():
            source = Source(path=_title(name), format="parquet", type_name=name, columns=columns.get(name, {}))
            owner = owner_of(source, job.orders.catalog)
            bound = bind(source, owner, frame.columns)
            found = [bound] if isinstance(bound, RowProblem) else misfits(bound, frame.limit(0).toArrow().schema)
            problems.add(problem.violation(source.name) for problem in found)
            if not isinstance(bound, RowProblem):
                bindings[name] = bound
        problems.fail()
    return bindings


def _read(
    job: LoadJob,
    runner: SparkRunner,
    frames: Mapping[str, DataFrame],
    bindings: Mapping[str, Binding],
    parts: list[WrittenPart],
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
            part: WrittenPart | None = found.get(number)
            names.append(_title(name))
            offsets.append(rows)
            if part is not None:
                parts.append(part)
                rows += part.lines
    return Places(names=tuple(names), offsets=tuple(offsets))


def _work(
    orders: WriteOrders, binding: Binding, title: str, first: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415 - Spark is loaded where it is used

    context = TaskContext.get()
    number = first + (0 if context is None else context.partitionId())
    writer = PartWriter(orders, number=number, source_number=number, source_name=title)
    yield answer_batch(number, partial(read_batches, orders, binding, writer, batches))


def _title(name: str) -> str:
    return f"<{name}>"
