"""Streams of several sources as one: each row in the column of its source, so that one function gets all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.spark.runner import job_error
from omnigraph.spark.steps.buckets import FORMATS
from omnigraph.spark.steps.sources import read_files, stream_files
from omnigraph.store.files import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MS = 1000
_START_S = 300.0


@record
class StreamQuery:
    """A stream that was started."""

    query: Any

    @property
    def is_active(self) -> bool:
        """Whether it goes on."""
        return bool(self.query.isActive)

    def wait(self, timeout_s: float | None, problems: Sequence[BaseException]) -> bool:
        """Wait until it ends, and return whether it has.

        Raises:
            OmnigraphError: the last of ``problems``, if the stream ended because of it.
            SparkJobError: it ended for another reason.
        """
        try:
            is_over = self.query.awaitTermination(timeout_s)
        except Exception as error:
            if problems:
                raise problems[-1] from None
            raise job_error("run the stream", error) from error
        return True if timeout_s is None else bool(is_over)

    def stop(self) -> None:
        """End it."""
        self.query.stop()


def flow_of(
    spark: SparkSession,
    name: str,
    *,
    frame: DataFrame | None,
    format: str | None,  # noqa: A002 - the word of Spark
    paths: Sequence[str],
    options: Mapping[str, str],
    files_per_batch: int | None,
) -> DataFrame:
    """Return a source as a stream whose rows stand in one column, that is called as the source is.

    Raises:
        UsageError: it cannot be read as a stream.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    if frame is None:
        if format is None or len(paths) != 1:
            details = BadValue(what="source", value=name, expected="one path, or a function that returns a stream")
            raise UsageError(f"source '{name}' cannot be read as a stream", details=details)
        if is_remote(paths[0]) and format in FORMATS:
            details = BadValue(what="path", value=paths[0], expected="a folder of a file system")
            hint = "run the pipeline again and again, with incremental: files"
            raise UsageError(
                f"source '{name}' has files of a bucket, which cannot be streamed", details=details, hint=hint
            )
        schema = read_files(spark, format, paths, options).schema
        frame = stream_files(spark, format, paths[0], options, schema, files_per_batch)
    elif not frame.isStreaming:
        details = BadValue(what="source", value=name, expected="a function that returns a stream")
        raise UsageError(f"the function of source '{name}' returns rows, not a stream of them", details=details)
    return frame.select(fn.struct(*(fn.col(f"`{column}`") for column in frame.columns)).alias(name))


def rows_of_flow(frame: DataFrame, name: str) -> DataFrame:
    """Return the rows of one source of a micro-batch."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    return frame.filter(fn.col(f"`{name}`").isNotNull()).select(f"`{name}`.*")


def start_stream(
    flows: Sequence[DataFrame],
    take: Callable[[DataFrame, int, str], None],
    *,
    name: str,
    checkpoint: str,
    every_s: float | None,
) -> StreamQuery:
    """Start a stream of all flows; ``take`` gets each micro-batch, its number and what names the stream for good."""
    is_started, names = threading.Event(), list[str]()
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), flows)

    def each(frame: DataFrame, number: int) -> None:
        # Rows of a micro-batch are asked for once by each step.
        kept = frame.persist()
        try:
            # The first micro-batch may come before anybody knows what the stream is called.
            is_started.wait(_START_S)
            take(kept, number, names[0])
        finally:
            kept.unpersist()

    writer = union.writeStream.queryName(f"omnigraph: {name}").option("checkpointLocation", checkpoint)
    writer = writer.foreachBatch(each)
    trigger = (
        writer.trigger(availableNow=True)
        if every_s is None
        else writer.trigger(processingTime=f"{int(every_s * _MS)} milliseconds")
    )
    try:
        query = trigger.start()
    except Exception as error:
        raise job_error("start the stream", error) from error
    # As long as its checkpoint is there, it is called so.
    names.append(str(query.id))
    is_started.set()
    return StreamQuery(query=query)
