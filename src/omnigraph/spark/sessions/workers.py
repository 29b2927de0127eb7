"""Workers: whether those of a session can run our code, found out before any work is given to them, and their heap."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.distribution import VERSION
from omnigraph.errors import SparkWorkerError, WorkerFault
from omnigraph.spark.jobs import step_jobs
from omnigraph.spark.sessions.reach import cause_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("omnigraph", "lance", "pyarrow")
# A session is marked with it, because asking again would cost a job.
PASSED = "_omnigraph_workers_passed"

# Enough to meet every worker of a small cluster; on one machine all workers are alike.
_PROBES_ELSEWHERE = 16
_COLUMNS = "python string, version string, missing string"
_INTERPRETER = "PYSPARK_PYTHON"
# Spark sets it for workers that take task after task.
_REUSED = "SPARK_REUSE_WORKER"


def check_workers(spark: SparkSession) -> None:
    """Make sure that workers run our Python with our packages; a session that passed is not asked again.

    Raises:
        SparkWorkerError: they do not.
    """
    if getattr(spark, PASSED, False):
        return
    from py4j.protocol import Py4JError  # noqa: PLC0415 - Spark is loaded when it is used
    from pyspark.errors import PySparkException  # noqa: PLC0415 - see above

    is_local = (spark.conf.get("spark.master", "") or "").startswith("local")
    count = 1 if is_local else _PROBES_ELSEWHERE
    try:
        with step_jobs(spark, "look at the workers"):
            answers = spark.range(0, count, 1, count).mapInArrow(_probe(PACKAGES), _COLUMNS).distinct().collect()
    except (Py4JError, PySparkException, OSError) as problem:
        raise _unfit_by_failure(problem) from problem
    for answer in answers:
        _check_answer(answer.python, answer.version, tuple(name for name in answer.missing.split(",") if name))
    setattr(spark, PASSED, True)


@functools.cache
def freeze_gc_once() -> None:
    """Let no collection of garbage in this worker look at what it has loaded for its first task; nothing elsewhere.

    A worker collects after every task. What our libraries consist of takes 30 ms to look through, each time, and is
    never garbage.
    """
    if _REUSED in os.environ:
        gc.freeze()


def _probe(packages: tuple[str, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that travels by value, because a worker without our package could not import it."""

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        import sys  # noqa: PLC0415 - it runs elsewhere
        from importlib.util import find_spec  # noqa: PLC0415 - it runs elsewhere

        import pyarrow  # noqa: PLC0415, ICN001 - it runs elsewhere

        for _ in batches:
            pass
        missing = [name for name in packages if find_spec(name) is None]
        version = "" if "omnigraph" in missing else __import__("omnigraph").__version__
        yield pyarrow.record_batch(
            {
                "python": [f"{sys.version_info.major}.{sys.version_info.minor}"],
                "version": [version],
                "missing": [",".join(missing)],
            }
        )

    return look


def _check_answer(python: str, version: str, missing: tuple[str, ...]) -> None:
    expected = f"{sys.version_info.major}.{sys.version_info.minor}"
    fault = WorkerFault(python=python, expected_python=expected, missing=missing)
    if python != expected:
        raise SparkWorkerError(f"Spark workers run Python {python}, the driver runs {expected}", details=fault)
    if missing:
        raise SparkWorkerError(f"Spark workers lack packages: {','.join(missing)}", details=fault)
    if version != VERSION:
        raise SparkWorkerError(f"Spark workers have omnigraph {version}, the driver has {VERSION}", details=fault)


def _unfit_by_failure(problem: Exception) -> SparkWorkerError:
    reason, program = cause_of(problem), os.environ.get(_INTERPRETER)
    return SparkWorkerError(
        f"Spark workers cannot run omnigraph's Python code: {reason}",
        details=WorkerFault(python="", expected_python=f"{sys.version_info.major}.{sys.version_info.minor}"),
        hint=None if program is None else f"{_INTERPRETER} names their interpreter, now {program}",
    )
