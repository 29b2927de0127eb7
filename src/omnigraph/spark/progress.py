"""How far a run on Spark is, and what it did: tasks as they end, and a summary when all have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omnigraph.records import record
from omnigraph.runtime import start_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.spark.load.options import SparkLoadResult

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

    watching = start_thread("spark-progress", look)
    try:
        yield
    finally:
        is_over.set()
        watching.join()


def summary_lines(result: SparkLoadResult) -> Iterator[str]:
    """Return what a load did, type by type: rows in, rows written, bytes, and the time of each step."""
    for name, count in {**result.nodes_loaded, **result.edges_loaded}.items():
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
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    return spark.sparkContext.statusTracker()


def _count(tracker: Any) -> TaskCount:
    done = total = 0
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None:
            done, total = done + info.numCompletedTasks, total + info.numTasks
    return TaskCount(done=done, total=total)
