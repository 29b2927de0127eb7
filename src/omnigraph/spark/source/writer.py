"""Writes of the data source: one commit per write, one commit per micro-batch of a stream.

Spark does this in a process of its own, without a session. It asks for an abort also when a commit failed, or when it
only never heard of its success: then files that the commit may have published must stay. They are removed only while
the scratch place says that nothing can name them, which a commit takes back before it does anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from omnigraph.catalog import Catalog
from omnigraph.engine.load import LoadMode, OnDelete, Source
from omnigraph.engine.load.embedding import MissingVectors
from omnigraph.engine.load.intake import ProblemList
from omnigraph.engine.load.options import check_on_delete
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import (
    BadValue,
    BatchRepeatedError,
    ConstraintViolationError,
    InternalError,
    KeyExistsError,
    OmnigraphError,
    SchemaMovedError,
    UsageError,
)
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.keys import Places
from omnigraph.spark.loads.frames import FrameRows, bind_frame, has_every_type
from omnigraph.spark.loads.job import LoadJob, SparkLoadRequest
from omnigraph.spark.loads.load_files import commit_id
from omnigraph.spark.loads.text_lines import are_lines
from omnigraph.spark.loads.written import LoadedPart, PartWriter, WriteOrders
from omnigraph.spark.runner import ThreadRunner
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.pinning import find_type, reading_engine
from omnigraph.spark.source.reporting import reporting
from omnigraph.spark.source.types import plain_schema
from omnigraph.spark.source.waiting import when_ends_exist
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.portable import TableTicket, discard_fragments
from omnigraph.txn.manifest.rows import BatchMark
from omnigraph.txn.publish.phases import moved
from omnigraph.values import BranchName

_PROBLEMS = 100
_LONGEST_APP = 200


@record
class WritePlan:
    """One write, or the writes of one stream.

    Args:
        storage: where the graph is.
        branch: where to write.
        type_name: the type of all rows; None for lines of the load format and changes of all types, which say it.
        mode: what happens to rows that exist.
        columns: the columns that rows have, and their types.
        scratch: where tasks put what only this write looks at.
        actor: who writes.
        message: what commits say.
        expected_head: the commit that the branch must be at.
        app: what names the stream, when the caller or its checkpoint does.
        truncate: cut instants that are finer than a millisecond; otherwise such a row is refused.
        on_delete: what a change log does with the edges of deleted nodes.
        end_patience_s: how long a commit waits for the ends of its edges.
    """

    storage: Storage
    branch: str
    type_name: str | None
    mode: LoadMode
    columns: pa.Schema
    scratch: ScratchPlace
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    app: str | None = None
    truncate: bool = False
    on_delete: OnDelete = "cascade"
    end_patience_s: int = 0

    @classmethod
    def begin(cls, options: SourceOptions, columns: pa.Schema, *, overwrite: bool) -> WritePlan:
        """Return the plan for options, after a look at the schema: columns that do not fit cost no job.

        Raises:
            BadRowsError: a column is unknown, missing or of another type.
            TypeMissingError, BranchMissingError: there is no such type or branch.
            UsageError: the options contradict each other.
        """
        mode = _mode(options, overwrite=overwrite)
        check_on_delete(options.on_delete, mode)
        plan = cls(
            storage=options.storage,
            branch=_branch(options),
            type_name=_type_name(options, mode, columns),
            mode=mode,
            columns=columns,
            scratch=ScratchPlace(storage=options.storage, operation_id=str(Runtime.system().ids.ulid())),
            actor=options.actor,
            message=options.message,
            expected_head=options.expected_head,
            app=_app(options),
            truncate=options.truncate,
            on_delete=options.on_delete,
            end_patience_s=options.wait_for_ends,
        )
        plan.binding(reading_engine(plan.storage).catalog(plan.branch))
        return plan

    @property
    def title(self) -> str:
        """What problems call the frame."""
        if self.type_name is not None:
            return f"<{self.type_name}>"
        return "<lines>" if are_lines(self.columns) else "<changes>"

    def binding(self, catalog: Catalog) -> FrameRows:
        """Return how rows are read: which column is which property.

        Raises:
            BadRowsError: a column is unknown, missing or of another type.
        """
        # By the name of its table, so that one that a node type and an edge type share stays refused.
        name = None if self.type_name is None else find_type(catalog, self.type_name).table_key
        source = Source(path=self.title, format="parquet", type_name=name, takes_changes=self.mode == "apply")
        bound = bind_frame(source, catalog, self.columns)
        if isinstance(bound, FrameRows):
            return bound
        with ProblemList(_PROBLEMS, None) as problems:
            problems.add(one for problem in bound for one in problem.violations(source.name))
            problems.fail()
        raise InternalError("columns that do not fit were not reported")

    def at(self, operation_id: str) -> WritePlan:
        """Return the plan with the scratch place of another process that made one for the same stream."""
        return replace(self, scratch=ScratchPlace(storage=self.storage, operation_id=operation_id))


def _branch(options: SourceOptions) -> str:
    if options.at is not None:
        details = BadValue(what="snapshot", value=options.at, expected="option branch")
        raise UsageError("only a branch can be written to", details=details)
    return options.branch


def _mode(options: SourceOptions, *, overwrite: bool) -> LoadMode:
    if options.mode is None:
        return "overwrite" if overwrite else "append"
    if overwrite and options.mode != "overwrite":
        details = BadValue(what="mode", value=options.mode, expected="Spark's append mode with it")
        raise UsageError("the two write modes cannot be combined", details=details)
    return options.mode


def _type_name(options: SourceOptions, mode: LoadMode, columns: pa.Schema) -> str | None:
    if options.type_name is None and are_lines(columns):
        return None
    if mode != "apply" or not has_every_type(columns):
        return options.the_type()
    if options.type_name is not None:
        details = BadValue(what="type", value=options.type_name, expected="no option type")
        raise UsageError("changes of all types are applied to all types", details=details)
    return None


def _app(options: SourceOptions) -> str | None:
    if options.app is not None and not 0 < len(options.app) <= _LONGEST_APP:
        details = BadValue(what="app", value=options.app[:_LONGEST_APP], expected=f"1 to {_LONGEST_APP} characters")
        raise UsageError("the name of the stream is empty or too long", details=details)
    return options.app


MAY_GO = b"nothing names them"


@record
class StagedRows:
    """What a task tells of its partition.

    Args:
        part: what it wrote.
        schema_hash: the schema that the rows were read with.
        read_on: the version of the branch that the task looked at.
        place: where fragments were written to; None when rows were put aside.
        operation_id: the scratch place that they are in.
        leave: the scratch object that says, while it holds ``MAY_GO``, that no commit can name the fragments.
    """

    part: LoadedPart
    schema_hash: str
    read_on: int
    place: TablePin | None
    operation_id: str
    leave: str


def stage_rows(plan: WritePlan, number: int, batches: Iterator[pa.RecordBatch]) -> StagedRows:
    """Read the rows of partition ``number`` and write them beside their table.

    A stream outlives the versions that it began with, so every task looks at the newest state.

    Raises:
        BadRowsError: a column is unknown, missing or of another type.
        SparkUnsupportedError: rows leave a vector to be computed.
    """
    session = reading_engine(plan.storage)
    snapshot = session.snapshot(plan.branch)
    catalog = session.catalog_at(snapshot)
    rows = plan.binding(catalog)
    is_log = plan.mode == "apply"
    pins = {key: snapshot.entry(key).pin for key in rows.table_keys}
    # A table that the branch only inherits has no place of its own yet; a merge compares before it writes; and what is
    # to be published later, if not at once, must not lie where a commit that fails removes it.
    owns = session.store.branch_incarnation(BranchName.parse(plan.branch)).owns
    is_direct = bool(pins) and plan.mode != "merge" and not is_log and all(map(owns, pins.values()))
    is_direct = is_direct and not plan.end_patience_s
    vectors = None if is_log else MissingVectors.find(catalog, session.embedder)
    orders = WriteOrders(
        catalog=catalog,
        scratch=plan.scratch,
        tickets={key: TableTicket(storage=plan.storage, pin=pin) for key, pin in pins.items()} if is_direct else {},
        truncate=plan.truncate,
        opened=None if vectors is None else vectors.catalog,
        takes_changes=is_log,
    )
    writer = PartWriter(orders, number=number, source_number=number, source_name=plan.title)
    part = rows.read(orders, writer, batches)
    runtime = Runtime.system()
    # Another attempt at the same partition has one of its own, which says nothing about these fragments.
    leave = f"leave/{number}-{runtime.ids.ulid()}"
    if is_direct and part.types:
        plan.scratch.put(leave, MAY_GO)
    runtime.failpoints.hit("spark.source.after_rows")
    return StagedRows(
        part=part,
        schema_hash=snapshot.state.schema.hash,
        read_on=snapshot.state.version,
        place=next(iter(pins.values())) if is_direct else None,
        operation_id=plan.scratch.operation_id,
        leave=leave,
    )


_MUST_STAY = b"a commit may name them"


def publish(plan: WritePlan, staged: Sequence[StagedRows], batch: BatchMark | None = None) -> None:
    """Make what tasks staged visible as one commit; without a row there is none.

    With ``batch`` this is a piece of a stream, which is published once however often it is asked for.

    Raises:
        OmnigraphError: whatever :func:`omnigraph.engine.load.load` does.
    """
    failpoints = Runtime.system().failpoints
    failpoints.hit("spark.source.before_publish")
    with OpenGraph.open(plan.storage) as session:
        # A delivery that is repeated after a schema change or beside its own rows must not even be judged.
        if batch is not None and _is_there(session, plan, batch):
            take_away(plan, staged)
            return
        try:
            when_ends_exist(session, plan.branch, plan.end_patience_s, lambda: _publish(session, plan, staged, batch))
        except BatchRepeatedError:
            pass
        except (KeyExistsError, ConstraintViolationError):
            # Its own rows are in the way when it was published a moment ago.
            if batch is None or not _is_there(session, plan, batch):
                raise
    failpoints.hit("spark.source.after_publish")
    _clear(plan, staged)


def take_away(plan: WritePlan, staged: Sequence[StagedRows]) -> None:
    """Remove what tasks staged; files that a commit may have published stay."""
    for item in staged:
        scratch = plan.at(item.operation_id).scratch
        if item.place is not None and scratch.get(item.leave) == MAY_GO:
            fragments = [text for found in item.part.types for text in found.fragments]
            discard_fragments(TableTicket(storage=plan.storage, pin=item.place), fragments)
    _clear(plan, staged)


def _clear(plan: WritePlan, staged: Sequence[StagedRows]) -> None:
    for place in {item.operation_id for item in staged} or {plan.scratch.operation_id}:
        plan.at(place).scratch.clear()


def stream_mark(plan: WritePlan, number: int, query_id: str | None, checkpoint: str | None) -> BatchMark:
    """Return what marks a micro-batch: the caller's name for the stream, else the one that its checkpoint gives it.

    Raises:
        UsageError: there is neither.
    """
    app = plan.app or query_id or checkpoint
    if app is None:
        details = BadValue(what="app", value="", expected="a name that stays the same when the stream is restarted")
        raise UsageError("a stream needs the option 'app'", details=details)
    return BatchMark(app=app, number=number)


def _publish(session: OpenGraph, plan: WritePlan, staged: Sequence[StagedRows], batch: BatchMark | None) -> None:
    parts = sorted((item.part for item in staged), key=lambda part: part.number)
    # A micro-batch without a row tells nothing; a frame without one is what an overwrite puts into the type.
    is_emptied = plan.mode == "overwrite" and batch is None
    if not any(part.lines for part in parts) and not is_emptied:
        return
    _expect_schema(session, plan, staged)
    plan = plan.at(next((item.operation_id for item in staged), plan.scratch.operation_id))
    request = SparkLoadRequest(
        mode=plan.mode,
        branch=plan.branch,
        actor=plan.actor,
        message=plan.message,
        expected_head=commit_id(plan.expected_head),
        batch=batch,
        on_delete=plan.on_delete,
    )
    # The process that Spark commits in has no session, so that its own threads do what tasks do elsewhere.
    job = LoadJob(session, request, ThreadRunner())
    tickets = {key: TableTicket(storage=plan.storage, pin=pin) for key, pin in _written_to(staged).items()}
    orders = replace(job.orders, scratch=plan.scratch, tickets=tickets)
    if staged:
        job.resume(orders, min(item.read_on for item in staged))
    job.name_tables(plan.binding(orders.catalog).table_keys)
    lines = [part.lines for part in parts]
    count = max((part.number for part in parts), default=-1) + 1
    by_number = dict(zip((part.number for part in parts), accumulate(lines, initial=0), strict=False))
    offsets = tuple(by_number.get(number, 0) for number in range(count))
    for item in staged:
        if item.place is not None and item.part.types:
            plan.at(item.operation_id).scratch.put(item.leave, _MUST_STAY)
    try:
        job.finish(parts, Places(names=(plan.title,) * count, offsets=offsets))
    except OmnigraphError as error:
        job.discard(parts, error)
        raise


def _written_to(staged: Sequence[StagedRows]) -> dict[str, TablePin]:
    """Return where fragments of each table are; tasks that saw a branch deleted and made again do not go together."""
    found: dict[str, TablePin] = {}
    for item in staged:
        for written in item.part.types:
            if item.place is None or not written.fragments:
                continue
            known = found.setdefault(written.table_key, item.place)
            if (known.location, known.branch) != (item.place.location, item.place.branch):
                raise moved(written.table_key, known.version, item.place.version)
    return found


def _is_there(session: OpenGraph, plan: WritePlan, batch: BatchMark) -> bool:
    state = session.store.snapshot(BranchName.parse(plan.branch)).state
    last = state.batches.get(batch.app)
    return last is not None and last >= batch.number


def _expect_schema(session: OpenGraph, plan: WritePlan, staged: Sequence[StagedRows]) -> None:
    found = session.snapshot(plan.branch).state.schema.hash
    for item in staged:
        if item.schema_hash != found:
            details = BadValue(what="schema", value=found, expected=item.schema_hash)
            raise SchemaMovedError("the accepted schema changed while the rows were being written", details=details)


# What Spark calls the identity that a stream keeps in its checkpoint.
_QUERY_ID = "sql.streaming.queryId"


@record(frozen=False, kw_only=False, slots=False)
class StagedMessage(WriterCommitMessage):
    """What a task tells the process that commits; ``query_id`` names the stream."""

    staged: StagedRows
    query_id: str | None = None


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of one type as one commit."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    @classmethod
    def begin(cls, options: SourceOptions, schema: StructType, *, overwrite: bool) -> BatchWriter:
        """Return the writer for options and the columns of a frame."""
        return cls(WritePlan.begin(options, plain_schema(schema), overwrite=overwrite))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a partition."""
        with reporting():
            return _stage(self._plan, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what tasks have staged."""
        with reporting():
            publish(self._plan, [message.staged for message in _told(messages)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take away what tasks have staged."""
        with reporting():
            take_away(self._plan, [message.staged for message in _told(messages)])


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of one type as one commit per micro-batch, each exactly once."""

    def __init__(self, plan: WritePlan, checkpoint: str | None) -> None:
        self._plan = plan
        self._checkpoint = checkpoint

    @classmethod
    def begin(cls, options: SourceOptions, schema: StructType, *, overwrite: bool) -> StreamWriter:
        """Return the writer for options and the columns of a stream."""
        return cls(WritePlan.begin(options, plain_schema(schema), overwrite=overwrite), options.checkpoint)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a partition."""
        with reporting():
            return _stage(self._plan, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish a micro-batch, unless the branch has it already."""
        with reporting():
            told = _told(messages)
            query_id = next((message.query_id for message in told if message.query_id), None)
            mark = stream_mark(self._plan, batchId, query_id, self._checkpoint)
            publish(self._plan, [message.staged for message in told], mark)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Take away what tasks have staged."""
        with reporting():
            take_away(self._plan, [message.staged for message in _told(messages)])


def _stage(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
    return StagedMessage(staged=stage_rows(plan, number, batches), query_id=query_id)


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[StagedMessage]:
    return [message for message in messages if isinstance(message, StagedMessage)]
