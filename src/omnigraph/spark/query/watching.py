"""Stopping the jobs of a read that is late or was cancelled: Spark itself knows neither."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import OmnigraphError
from omnigraph.runtime import World, start_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    tag = f"omnigraph-{World.system().ids.ulid()}"
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
    watcher = start_thread("query-watch", watch)
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
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return _SessionJobs(spark) if is_remote else _ContextJobs(spark)
