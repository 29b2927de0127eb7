"""Writes of the data source: one commit per write, one commit per micro-batch of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.publishing import publish, stream_mark, take_away
from omnigraph.spark.source.reporting import reporting
from omnigraph.spark.source.staging import StagedRows, stage_rows
from omnigraph.spark.source.types import plain_schema
from omnigraph.spark.source.write_plan import WritePlan

# What Spark calls the identity that a stream keeps in its checkpoint.
_QUERY_ID = "sql.streaming.queryId"


@dataclass
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
