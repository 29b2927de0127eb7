"""A load on Spark from its sources, files or frames, to one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.engine.load import LoadMode, LoadProgress, Source
from omnigraph.engine.load.binding import owner_of
from omnigraph.engine.load.options import Progress
from omnigraph.engine.load.sources import STDIN, expand_sources
from omnigraph.engine.session import GraphSession
from omnigraph.spark.given import session_of
from omnigraph.spark.keys import Places
from omnigraph.spark.load.asked import check_sources, request_of
from omnigraph.spark.load.clustering import ClusterBy
from omnigraph.spark.load.job import LoadJob, LoadRequest
from omnigraph.spark.load.options import SparkLoadResult, SparkLoadSettings
from omnigraph.spark.load.parts import split_sources
from omnigraph.spark.load.reading import read_part
from omnigraph.spark.load.written import WrittenPart
from omnigraph.spark.runner import Runner, SparkRunner
from omnigraph.spark.session import given_or_started
from omnigraph.store.inputs import is_remote
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph import Graph


def load(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    graph: Graph | GraphSession,
    sources: Sequence[Source | str],
    mode: LoadMode = "append",
    *,
    spark: SparkSession | None = None,
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
    """Read every row of the sources on Spark and publish all of them as one commit, or nothing.

    Args:
        graph: the open graph.
        sources: files, folders, globs and ``s3://`` addresses that every worker can read.
        mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` replaces whole types.
        spark: the session to work with; that of this process, or one that is started, when None.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        errors_to: a file of this machine for all problems, one JSON object per line.
        progress: told how far the load is.
        limit: how many problems the error holds.
        cluster_by: the column by which rows are ordered in their table, by type; ``key`` takes the first column of
            each node type's key, ids where there is none, and the sources of edges.
        settings: what tasks may use.

    Raises:
        SparkUnsupportedError: a source is standard input, or rows leave a vector to be computed.
        SparkJobError: a job failed for a reason of its own.
        OmnigraphError: whatever :func:`omnigraph.engine.load.load` does.
    """
    check_sources(sources)
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
    # Started last: a call that makes no sense is refused before there is a session of Spark.
    return run_load(session, sources, request, SparkRunner(spark=given_or_started(spark)))


def run_load(
    session: GraphSession, sources: Sequence[Source | str], request: LoadRequest, runner: Runner
) -> SparkLoadResult:
    """Load sources with whichever runner."""
    job = LoadJob(session, request, runner)

    def read(written: list[WrittenPart]) -> Places:
        files = expand_sources(sources, job.storage.options, check_sums=request.settings.read.check_sums)
        # A file that no type fits is refused before anybody reads.
        for source in files:
            if source.kind != "jsonl":
                owner_of(source, job.orders.catalog)
        if request.progress is not None:
            request.progress(LoadProgress(phase="read", bytes_total=sum(file.size_bytes or 0 for file in files)))
        parts = split_sources([reachable(source) for source in files], runner, request.settings)
        written += runner.run(partial(read_part, job.orders), parts, "read the input")
        return Places(names=tuple(source.name for source in files))

    return job.run(read)


def reachable(source: Source) -> Source:
    """Return a source as workers find it, who may run in another folder; messages call it as the caller does."""
    if source.path == STDIN or is_remote(source.path):
        return source
    return replace(source, path=str(Path(source.path).absolute()), called=source.name)
