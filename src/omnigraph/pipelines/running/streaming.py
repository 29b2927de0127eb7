"""A pipeline that goes on: one commit per micro-batch over all flows, so that nodes and edges never race.

The rows of all sources come as one stream, each in the column of its source. A micro-batch is a run whose mark says
which one it is, and so one that Spark delivers again after a failure changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import RunConflictError
from omnigraph.pipelines.check.validation import validate
from omnigraph.pipelines.declare import Pipeline
from omnigraph.pipelines.model import Declaration, Publish
from omnigraph.pipelines.results import RunProgress, RunReport
from omnigraph.pipelines.running.batch_run import Run
from omnigraph.pipelines.running.options import RunOptions, checked_options, declaration_of
from omnigraph.pipelines.running.progress import ReadSoFar
from omnigraph.pipelines.running.reading import Reading, SourceRows
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.spark.steps.streams import StreamQuery, flow_of, rows_of_flow, start_stream
from omnigraph.values import check_whole

_ATTEMPTS = 3


class Stream:
    """A pipeline that is running as a stream. ``reports`` has what its micro-batches did, the newest last."""

    def __init__(self, query: StreamQuery, batches: _Batches) -> None:
        self._query = query
        self._batches = batches

    @property
    def reports(self) -> tuple[RunReport, ...]:
        """What the micro-batches of this process did."""
        return tuple(self._batches.reports)

    @property
    def is_active(self) -> bool:
        """Whether it goes on."""
        return self._query.is_active

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it ends, and return whether it has.

        Raises:
            OmnigraphError: what a micro-batch raised.
        """
        return self._query.wait(timeout_s, self._batches.problem)

    def stop(self) -> None:
        """End it; a micro-batch that is under way is published or not, and delivered again in the second case."""
        self._query.stop()


def stream(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    pipeline: Declaration | Pipeline,
    graph: Any,
    *,
    checkpoint: str | Path,
    spark: Any = None,
    branch: str | None = None,
    publish: Publish | None = None,
    every_s: float | None = None,
    files_per_batch: int | None = None,
    progress: Callable[[RunProgress], None] | None = None,
    quarantine_to: str | Path | None = None,
    actor: str | None = None,
) -> Stream:
    """Run a pipeline over what its sources have and get, one commit per micro-batch.

    Args:
        pipeline: what was declared.
        graph: the open graph.
        checkpoint: a folder that Spark reaches, where it keeps how far streams were read; it belongs to this stream.
        spark: the session to work with; that of this process, or one that is started, when None.
        branch: where to write; the branch of the declaration when None.
        publish: how each micro-batch becomes visible; as the declaration says when None.
        every_s: how often to look for something new; what is there now is read, and the stream ends, when None.
        files_per_batch: how many files of a source a micro-batch takes at most.
        progress: told how far each micro-batch is.
        quarantine_to: a folder for rejected rows; a folder of the graph when None.
        actor: who asks for it.

    Raises:
        PipelineInvalidError: the declaration makes no sense.
        UsageError: a source cannot be read as a stream.
        OmnigraphError: what a micro-batch raises, when all that is there now is read.
    """
    declaration = declaration_of(pipeline)
    options = checked_options(
        declaration,
        branch=branch,
        publish=publish,
        progress=progress,
        quarantine_to=None if quarantine_to is None else str(quarantine_to),
        actor=actor,
    )
    check_whole("files_per_batch", files_per_batch, least=1, optional=True)
    engine = engine_of(graph)
    validate(declaration, engine.catalog(options.branch), is_stream=True)
    session = session_for(engine.store.storage, spark)
    reading = Reading(pipeline=declaration.name, spark=session, so_far=ReadSoFar(run=None, head=""))
    flows = [
        flow_of(
            session,
            source.name,
            frame=None if source.function is None else reading.frame_of(source),
            format=source.format,
            paths=source.paths,
            options=source.options,
            files_per_batch=files_per_batch,
        )
        for source in declaration.sources
    ]
    batches = _Batches(engine, declaration, options, session)
    query = start_stream(flows, batches.take, name=declaration.name, checkpoint=str(checkpoint), every_s=every_s)
    started = Stream(query, batches)
    if every_s is None:
        started.wait()
    return started


class _Batches:
    """Takes the micro-batches of a stream."""

    def __init__(self, engine: OpenGraph, declaration: Declaration, options: RunOptions, spark: Any) -> None:
        self._engine = engine
        self._declaration = declaration
        self._options = options
        self._spark = spark
        self._lock = threading.Lock()
        self.reports: list[RunReport] = []
        self.problem: list[BaseException] = []

    def take(self, frame: Any, number: int, query: str) -> None:
        """Publish a micro-batch, unless the branch has it."""
        try:
            report = self._take(frame, number, query)
        except BaseException as error:
            self.problem.append(error)
            raise
        if report is not None:
            with self._lock:
                self.reports.append(report)

    def _take(self, frame: Any, number: int, query: str) -> RunReport | None:
        attempt = 0
        sources = {
            source.name: SourceRows(read=partial(rows_of_flow, frame, source.name), has_news=True, progress={})
            for source in self._declaration.sources
        }
        while True:
            attempt += 1
            try:
                return Run(self._engine, self._declaration, self._options, self._spark).take_batch(
                    sources, query, number
                )
            except RunConflictError:
                if attempt >= _ATTEMPTS:
                    raise
