"""What Spark's pages call our jobs: ``omnigraph: <pipeline or command>/<step>``.

Spark Connect has no descriptions of jobs; there nothing is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

_DESCRIPTION = "spark.job.description"
_name: ContextVar[str | None] = ContextVar("omnigraph_job_name", default=None)
_is_settled: ContextVar[bool] = ContextVar("omnigraph_job_settled", default=False)


@contextmanager
def job_name(name: str) -> Iterator[None]:
    """Name the jobs that a block starts after a pipeline, whatever commands it consists of."""
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


@contextmanager
def command_jobs(spark: Any, command: str, step: str) -> Iterator[None]:
    """Name the jobs of a command, unless a pipeline names them; those without a step of their own after ``step``."""
    with job_name(_name.get() or command), step_jobs(spark, step):
        yield


@contextmanager
def step_jobs(spark: Any, step: str, command: str = "session") -> Iterator[None]:
    """Name the jobs that this thread starts within a block after a step; afterwards they are called as before.

    ``command`` is what they are named after outside of pipelines and commands.
    """
    if _is_settled.get():
        yield
        return
    with _described(spark, f"{_name.get() or command}/{step}"):
        yield


@contextmanager
def describing(spark: Any, text: str) -> Iterator[None]:
    """Let jobs of a block be called ``omnigraph: text``, whatever steps it consists of."""
    token = _is_settled.set(True)
    try:
        with _described(spark, text):
            yield
    finally:
        _is_settled.reset(token)


@contextmanager
def _described(spark: Any, text: str) -> Iterator[None]:
    if is_connect(spark):
        yield
        return
    from py4j.protocol import Py4JError  # noqa: PLC0415 - Spark is loaded where it is used

    context, before = spark.sparkContext, None
    # A driver that is lost is told by what is done with it: a name that cannot be given must not hide that.
    with suppress(Py4JError, OSError):
        before = context.getLocalProperty(_DESCRIPTION)
        context.setLocalProperty(_DESCRIPTION, f"omnigraph: {text}")
    try:
        yield
    finally:
        with suppress(Py4JError, OSError):
            context.setLocalProperty(_DESCRIPTION, before)


def is_connect(spark: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no context of Spark in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
