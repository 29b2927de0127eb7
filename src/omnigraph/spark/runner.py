"""Running the same function over many small tasks: in this process, or one Spark task for each.

Tasks and answers are small descriptions (places of files, counts), never rows. A function may run more than once for
one task: an attempt may be repeated, and only one of its answers is seen.
"""

from __future__ import annotations

import base64
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import pyarrow as pa

from omnigraph.errors import JobFault, OmnigraphError, Retry, SparkJobError, error_from_json
from omnigraph.records import record
from omnigraph.runtime import Runtime, in_context, start_thread
from omnigraph.spark.jobs import is_connect, step_jobs
from omnigraph.spark.sessions.reach import cause_of
from omnigraph.spark.sessions.workers import freeze_gc_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.spark.loads.options import SparkLoadResult


_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
# Each holds as much as a worker of Spark does.
_MOST_THREADS = 4
# Spark gives a worker two seconds to end by itself before it is killed.
_LONGEST_END_S = 10.0
_LOOK_FOR_END_S = 0.05
_ANSWERS = "task long, answer binary"
_SCHEMA = pa.schema([("task", pa.int64()), ("answer", pa.binary())])
# Brackets the error of a task inside the traceback text, which is all that Spark hands on of it.
_MARK = re.compile(r"omnigraph-error<([A-Za-z0-9+/=]*)>")


class Runner(Protocol):
    """Runs functions of this package wherever the work is to be done."""

    @property
    def cores(self) -> int | None:
        """How many tasks run at once; None where nobody tells."""

    def run(self, function: Callable[[_Task], _Answer], tasks: Sequence[_Task], doing: str) -> list[_Answer]:
        """Return the answer to every task, in their order.

        Args:
            function: importable by its name, or a ``partial`` of such a function; its arguments can be pickled.
            tasks: what to call it with.
            doing: what an error says the work was for.

        Raises:
            OmnigraphError: that of the first task that raised one.
            SparkJobError: the work failed for another reason.
        """


class InProcessRunner:
    """Runs task after task right here."""

    cores: int | None = 1

    def run(self, function: Callable[[_Task], _Answer], tasks: Sequence[_Task], doing: str) -> list[_Answer]:  # noqa: ARG002 - as the protocol has it
        """Return the answer to every task, in their order."""
        return [function(task) for task in tasks]


@record
class ThreadRunner:
    """Runs several tasks at a time in threads of this process, where no job can be started.

    Args:
        threads: how many tasks at a time; they bound the memory, because each task bounds its own.
    """

    threads: int = field(default_factory=lambda: min(os.cpu_count() or 1, _MOST_THREADS))

    @property
    def cores(self) -> int | None:
        """How many tasks run at once."""
        return self.threads

    def run(self, function: Callable[[_Task], _Answer], tasks: Sequence[_Task], doing: str) -> list[_Answer]:  # noqa: ARG002 - as the protocol has it
        """Return the answer to every task, in their order."""
        if len(tasks) < 2:
            return [function(task) for task in tasks]
        with ThreadPoolExecutor(self.threads, thread_name_prefix="omnigraph-task") as pool:
            running = [pool.submit(in_context(function), task) for task in tasks]
            try:
                return [one.result() for one in running]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


@record
class SparkRunner:
    """Runs one Spark task for each task, with the public DataFrame interface alone, so that Connect will do.

    ``command`` is what its jobs are named after, unless a pipeline names them.
    """

    spark: SparkSession
    command: str = "job"

    @property
    def cores(self) -> int | None:
        """How many tasks the session runs at once, its default parallelism; Connect tells it only where it is set."""
        if not is_connect(self.spark):
            return int(self.spark.sparkContext.defaultParallelism)
        told = self.spark.conf.get("spark.default.parallelism", "") or ""
        return int(told) if told.isdecimal() else None

    def run(self, function: Callable[[_Task], _Answer], tasks: Sequence[_Task], doing: str) -> list[_Answer]:
        """Return the answer to every task, in their order."""
        if not tasks:
            return []
        packed = [pickle.dumps(task) for task in tasks]
        count = len(packed)
        try:
            numbers = self.spark.range(0, count, 1, count)
        except Exception as error:
            raise job_error(doing, error) from error
        answers = self.collect(numbers, partial(_work, function, packed), doing)
        return [answer for _, answer in sorted(answers, key=lambda item: item[0])]

    def collect(
        self, frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], doing: str
    ) -> list[tuple[int, Any]]:
        """Run ``work``, which yields what :func:`answer_batch` makes, over a frame; return numbers and answers.

        Raises:
            OmnigraphError: that of a task that raised one.
            SparkJobError: the work failed for another reason.
        """
        try:
            with step_jobs(self.spark, doing, self.command):
                rows = _interruptible(self.spark, lambda: frame.mapInArrow(work, _ANSWERS).collect())
        except Exception as error:
            raise job_error(doing, error) from error
        answers = [(row["task"], pickle.loads(row["answer"])) for row in rows]  # noqa: S301 - made by our own workers
        failed = min((item for item in answers if isinstance(item[1], OmnigraphError)), default=None, key=_number)
        if failed is not None:
            raise failed[1]
        return answers


def _interruptible(spark: SparkSession, run: Callable[[], _Answer]) -> _Answer:
    """Run a job; an interrupt of this thread ends the job, and goes on when its tasks have ended.

    The job runs in a thread of its own: where an interrupt cuts off a call to Spark, the connection is lost and Spark
    logs a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread is interrupted.
        return run()
    from pyspark import inheritable_thread_target  # noqa: PLC0415 - Spark is loaded where it is used

    tag = f"omnigraph-{Runtime.system().ids.ulid()}"
    found: Future[_Answer] = Future()

    def tagged() -> None:
        try:
            spark.addTag(tag)
            found.set_result(run())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is wanted
            found.set_exception(error)

    running = start_thread("spark-job", in_context(inheritable_thread_target(spark)(tagged)))
    try:
        running.join()
    except KeyboardInterrupt:
        # The session may have ended, which ends jobs as well.
        with suppress(Exception):
            spark.interruptTag(tag)
            running.join(_LONGEST_END_S)
            _wait_for_tasks(spark)
        raise
    return found.result()


def _wait_for_tasks(spark: Any) -> None:
    """Wait until executors run nothing: what tasks write until then has to be there when it is removed."""
    if is_connect(spark):
        return
    clock = Runtime.system().clock
    until = clock.monotonic_s() + _LONGEST_END_S
    while clock.monotonic_s() < until:
        found = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001 - Python's tracker lacks it
        if not any(executor.numRunningTasks() for executor in found):
            return
        clock.sleep(_LOOK_FOR_END_S)


def answer_batch(number: int, make: Callable[[], Any]) -> pa.RecordBatch:
    """Return what a task answers; an error that no repetition can cure is an answer too.

    Raises:
        RuntimeError: with an error inside that another attempt may not meet.
    """
    try:
        answer = make()
    except OmnigraphError as error:
        if error.retry is not Retry.NEVER:
            raise task_error(error) from error
        answer = error
    return pa.record_batch([pa.array([number], pa.int64()), pa.array([pickle.dumps(answer)])], schema=_SCHEMA)


@contextmanager
def working() -> Iterator[None]:
    """Around what a task does with rows: an error of ours leaves as text that the driver reads back.

    Raises:
        RuntimeError: with the error inside.
    """
    freeze_gc_once()
    try:
        yield
    except OmnigraphError as error:
        raise task_error(error) from error


def task_error(error: OmnigraphError) -> RuntimeError:
    """Return what a task has to raise so that :func:`job_error` finds the error in what Spark says."""
    # Ids and names are texts of a class of their own, which the encoder does not take for texts.
    packed = base64.b64encode(msgspec.json.encode(error.to_json(), enc_hook=str)).decode()
    return RuntimeError(f"{error.message} omnigraph-error<{packed}>")


def job_error(doing: str, error: Exception) -> OmnigraphError:
    """Return what made a job fail: the error of ours that a task raised, else one that says what Spark says."""
    text = str(error)
    inside = _MARK.search(text)
    if inside is not None:
        return error_from_json(msgspec.json.decode(base64.b64decode(inside[1])))
    reason = cause_of(error)
    return SparkJobError(f"Spark job failed to {doing}: {reason}", details=JobFault(doing=doing, reason=reason))


def _work(
    function: Callable[[Any], Any], packed: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    freeze_gc_once()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            task = pickle.loads(packed[number])  # noqa: S301 - made by our own driver
            yield answer_batch(number, partial(function, task))


def _number(item: tuple[int, Any]) -> int:
    return item[0]


_LOOK_EVERY_S = 0.5
# A stage whose time rounds to nothing is of no interest to anybody.
_WORTH_TELLING_S = 0.05


@record
class TaskCount:
    """The tasks of the jobs that run at the moment: how many, and how many have ended."""

    done: int
    total: int

    @property
    def share(self) -> float:
        """Which part has ended, from 0 to 1."""
        return self.done / self.total if self.total else 0.0


@contextmanager
def watch_tasks(spark: SparkSession, told: Callable[[TaskCount], None]) -> Iterator[None]:
    """Tell how many tasks have ended while a block runs; with Spark Connect nothing is told."""
    tracker = _tracker(spark)
    if tracker is None:
        yield
        return
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(_LOOK_EVERY_S):
            count = _count(tracker)
            if count.total:
                told(count)

    watching = start_thread("spark-progress", in_context(look))
    try:
        yield
    finally:
        is_over.set()
        watching.join()


def summary_lines(result: SparkLoadResult) -> Iterator[str]:
    """Return what a load did, type by type: rows in, rows written, bytes, and the time of each step."""
    counts = {} if result.changes is not None else {**result.nodes_loaded, **result.edges_loaded}
    for name, count in counts.items():
        unchanged = result.unchanged.get(name, 0)
        same = f", {unchanged:,} unchanged" if unchanged else ""
        rows = "1 row" if count == 1 else f"{count:,} rows"
        yield f"  {name}: {rows} in, {count - unchanged:,} written, 0 rejected{same}"
    if result.commit is not None:
        yield f"commit {result.commit.id} from {format_bytes(result.bytes_read)} in {_times(result.seconds)}"


def format_bytes(count: int) -> str:
    """Return a number of bytes as people read it.

    >>> format_bytes(512), format_bytes(1536), format_bytes(3 << 30)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{count} B" if units[0] == "B" else f"{size:,.1f} {units[0]}"


def _times(seconds: Mapping[str, float]) -> str:
    steps = [f"{step} {taken:.1f} s" for step, taken in seconds.items() if taken >= _WORTH_TELLING_S]
    total = f"{sum(seconds.values()):.1f} s"
    return f"{total} ({', '.join(steps)})" if steps else total


def _tracker(spark: Any) -> Any:
    if is_connect(spark):
        return None
    return spark.sparkContext.statusTracker()


def _count(tracker: Any) -> TaskCount:
    done = total = 0
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None:
            done, total = done + info.numCompletedTasks, total + info.numTasks
    return TaskCount(done=done, total=total)
