"""Reads on Spark: the same text, the same plan and the same rows as in process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.query.explain import explain
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.run import pattern_of
from omnigraph.engine.query.runner import PreparedRead
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.errors import OmnigraphError
from omnigraph.ir import ParamsForm
from omnigraph.ir.model import ReadPlan
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.local.reads import read_call
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.request import NOTHING
from omnigraph.records import record
from omnigraph.runtime import Runtime, in_context, start_thread
from omnigraph.spark.jobs import command_jobs, is_connect
from omnigraph.spark.queries.liveness import result_uses
from omnigraph.spark.queries.lowering import lower_match, lower_output
from omnigraph.spark.queries.reading import Reading, Sizes
from omnigraph.spark.queries.refusals import check_lowerable
from omnigraph.spark.queries.relations import FrameRelation, FrameRelations, Relation, Relations, Task
from omnigraph.spark.queries.scans import Tables
from omnigraph.spark.queries.stages import lower_stages
from omnigraph.spark.queries.tasks.groups import MergeGroupsTask, NoRowsTask
from omnigraph.spark.queries.tasks.rows import TaskParameters
from omnigraph.spark.queries.tasks.wire import SparkTypesTask, decode_output, output_wire_schema, spark_names
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.store.location import Storage
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.graph.graph import Graph


_LOOK_S = 0.05


@contextmanager
def watched(spark: SparkSession, options: QueryOptions, limits: Limits) -> Iterator[None]:
    """End the jobs that are started inside once the read meets a limit of time or is told to stop.

    Raises:
        QueryTimeoutError, QueryCancelledError: that happened.
    """
    if options.timeout_ms is None and options.cancel is None:
        yield
        return
    tag = f"omnigraph-{Runtime.system().ids.ulid()}"
    jobs = _jobs_of(spark)
    is_over = threading.Event()
    met: list[OmnigraphError] = []

    def watch() -> None:
        while not is_over.wait(_LOOK_S):
            try:
                limits.check()
            except OmnigraphError as error:
                met.append(error)
                jobs.end(tag)
                return

    jobs.begin(tag)
    watcher = start_thread("query-watch", in_context(watch))
    try:
        yield
    except Exception as error:
        if met:
            raise met[0] from error
        raise
    finally:
        is_over.set()
        watcher.join()
        jobs.forget(tag)
    limits.check()


class _Jobs(Protocol):
    """The jobs that this thread starts, under a tag by which they can be ended."""

    def begin(self, tag: str) -> None: ...

    def end(self, tag: str) -> None: ...

    def forget(self, tag: str) -> None: ...


class _SessionJobs:
    """Jobs of a session of Spark Connect."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def begin(self, tag: str) -> None:
        self._spark.addTag(tag)

    def end(self, tag: str) -> None:
        self._spark.interruptTag(tag)

    def forget(self, tag: str) -> None:
        self._spark.removeTag(tag)


class _ContextJobs:
    """Jobs of a session in this process, whose tags on the session itself end nothing."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def begin(self, tag: str) -> None:
        self._context.addJobTag(tag)

    def end(self, tag: str) -> None:
        self._context.cancelJobsWithTag(tag)

    def forget(self, tag: str) -> None:
        self._context.removeJobTag(tag)


def _jobs_of(spark: SparkSession) -> _Jobs:
    return _SessionJobs(spark) if is_connect(spark) else _ContextJobs(spark)


@record
class LoweredRead:
    """A read as a relation, and the task that makes the result of its rows in one place, if it needs one."""

    read: ReadPlan
    relation: Relation
    last: Task | None

    @property
    def has_row_for_each(self) -> bool:
        """Whether there is a row in the relation for every one of the result, and no other."""
        if self.read.stages:
            return self.last is None
        return self.read.groups != () and self.read.limit is None


def query(
    graph: Graph | LocalBackend | OpenGraph,
    text: str | bytes,
    params: Any = None,
    name: str | None = None,
    *,
    spark: SparkSession | None = None,
    params_form: ParamsForm = "host",
    branch: str = MAIN,
    at: str | None = None,
    options: QueryOptions | None = None,
    source_name: str = "<query>",
) -> Result:
    """Compile a read, run it on Spark and return its rows, which the driver holds.

    Takes what the embedded engine takes, and the session of Spark to use; rows, order and types are the same.

    Raises:
        SparkUnsupportedError: the read searches text or vectors; no job was started.
        SparkJobError: a job failed for a reason that is none of ours.
        OmnigraphError: whatever the embedded engine raises for such a read.
    """
    request = QueryRequest(
        text=text,
        params=params,
        name=name,
        params_form=params_form,
        branch=branch,
        at=at,
        options=options,
        source_name=source_name,
    )
    return run_query(graph, request, spark)


def run_query(
    graph: Graph | LocalBackend | OpenGraph, request: QueryRequest, spark: SparkSession | None = None
) -> Result:
    """Run a read on Spark; see :func:`query`."""
    engine = engine_of(graph)
    prepared = engine.calls.run(lambda: engine.reads.prepare(read_call(request, NOTHING)))
    check_lowerable(prepared)
    relations = FrameRelations(spark=session_for(engine.store.storage, spark))
    with (
        command_jobs(relations.spark, "query", prepared.plan.read.name),
        watched(relations.spark, prepared.context.options, prepared.context.limits),
    ):
        lowered = lower(relations, engine.store.storage, prepared, relations.parallelism)
        rows = collect(lowered, prepared)
    info = ReadInfo(
        query_name=lowered.read.name,
        branch=request.branch if request.at is None else None,
        snapshot=request.at,
        commit_id=str(prepared.snapshot.state.head.commit),
        elapsed_s=prepared.context.limits.elapsed_s,
        explanation=explain(prepared.plan, prepared.context.trace),
        pattern=pattern_of(lowered.read),
        warnings=prepared.warnings,
    )
    return Result(rows.schema, rows, info, prepared.context.counters)


def frame(
    graph: Graph | LocalBackend | OpenGraph,
    text: str | bytes,
    params: Any = None,
    name: str | None = None,
    *,
    spark: SparkSession | None = None,
    params_form: ParamsForm = "host",
    branch: str = MAIN,
    at: str | None = None,
    options: QueryOptions | None = None,
    source_name: str = "<query>",
) -> DataFrame:
    """Return the result of a read as a DataFrame that is computed when it is used, on the snapshot of this moment.

    Columns are named without dots: ``$p.code`` is ``p_code``, unless it has an alias. Instants are timestamps,
    unsigned integers are wider ones, vectors arrays. An order is that of one partition.
    Walks of many hops along more edges than a worker holds run here. Takes and raises what :func:`query` does.
    """
    engine = engine_of(graph)
    request = QueryRequest(
        text=text,
        params=params,
        name=name,
        params_form=params_form,
        branch=branch,
        at=at,
        options=options,
        source_name=source_name,
    )
    prepared = engine.calls.run(lambda: engine.reads.prepare(read_call(request, NOTHING)))
    check_lowerable(prepared)
    relations = FrameRelations(spark=session_for(engine.store.storage, spark))
    with command_jobs(relations.spark, "query", prepared.plan.read.name):
        lowered = lower(relations, engine.store.storage, prepared, relations.parallelism)
    relation = lowered.relation
    assert isinstance(relation, FrameRelation)  # noqa: S101 - relations of Spark beget no others
    if isinstance(lowered.last, MergeGroupsTask):
        relation = relation.union(relations.read(NoRowsTask(grouping=lowered.last.grouping), 1))
    if lowered.last is not None:
        relation = relation.spread(()).map(lowered.last)
    shown = relation.map(SparkTypesTask(read=lowered.read)).made()
    names = spark_names([output.name for output in lowered.read.outputs])
    return shown.toDF(*names) if names else shown


def lower(
    relations: Relations,
    storage: Storage,
    prepared: PreparedRead,
    parallelism: int,
    *,
    sizes: Sizes | None = None,
) -> LoweredRead:
    """Return a prepared read as a relation.

    Nothing of it is read yet, but for walks of many hops along more edges than a worker may hold.

    Raises:
        HistoryGoneError: a cleanup reclaimed the state.
    """
    read = prepared.plan.read
    given = TaskParameters(
        parameters=prepared.context.parameters,
        fits_literals=prepared.plan.fits_literals,
        max_hops=prepared.context.options.max_hops,
    )
    tables = Tables(storage, prepared, parallelism)
    reading = Reading(relations=relations, tables=tables, given=given, sizes=sizes or Sizes())
    with prepared.snapshot.reading():
        if read.stages:
            relation, last = lower_stages(reading, prepared.plan)
        else:
            rows, layout = lower_match(reading, prepared.plan.steps, result_uses(read))
            relation, last = lower_output(read, given, rows, layout)
    return LoweredRead(read=read, relation=relation, last=last)


def collect(lowered: LoweredRead, prepared: PreparedRead) -> pa.Table:
    """Return the rows of the result, within the limits of the read.

    Raises:
        QueryRowLimitError, QueryMemoryError, QueryTimeoutError, QueryCancelledError: it met one of them.
    """
    limits, most = prepared.context.limits, prepared.context.options.max_rows
    relation = lowered.relation
    if most is not None and lowered.has_row_for_each:
        # One row too many is enough to know that there are too many.
        relation = relation.limit(most + 1)
    limits.check()
    rows = relation.collect()
    limits.check(rows.nbytes)
    if lowered.last is not None:
        rows = _table(lowered.last.run(iter(rows.to_batches())), lowered.last.schema)
    limits.check_rows(rows.num_rows)
    return decode_output(lowered.read, rows.cast(output_wire_schema(lowered.read)))


def _table(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema)
