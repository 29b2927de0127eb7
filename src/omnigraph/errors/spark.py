"""Errors of the Spark engine: what it needs and does not find, and jobs that fail for reasons of their own.

Nothing is published before every job of a run has succeeded, so what they leave behind are unreferenced files at most.
"""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, Details, FormatMismatch, MissingThing
from omnigraph.errors.kinds import Effect, Kind, Retry
from omnigraph.records import record


@record
class WorkerFault(Details):
    """What a worker of Spark lacks: the Python it runs, and the packages that it cannot import or has otherwise."""

    python: str
    expected_python: str
    missing: tuple[str, ...] = ()


@record
class JobFault(Details):
    """A job of Spark that ended without a result: what it was for, and the reason in one line."""

    doing: str
    reason: str


class SparkMissingError(OmnigraphError, ImportError):
    """PySpark, or a library that it needs, is not installed."""

    row = Row(
        code="spark.library_missing",
        kind=Kind.UNSUPPORTED,
        details=MissingThing,
        hint="install it with `pip install 'omnigraph[spark]'`, or use the local engine",
    )


class JavaMissingError(OmnigraphError):
    """Spark runs on Java, and there is none that could be started."""

    row = Row(
        code="spark.java_missing",
        kind=Kind.UNSUPPORTED,
        details=MissingThing,
        hint="install Java 17 or newer and set JAVA_HOME, or `pip install 'omnigraph[spark-jre]'`, "
        "or use the local engine",
    )


class JavaTooOldError(OmnigraphError):
    """There is a Java, and it is older than the one that Spark needs."""

    row = Row(
        code="spark.java_too_old",
        kind=Kind.UNSUPPORTED,
        details=FormatMismatch,
        hint="point JAVA_HOME at Java 17 or newer, or `pip install 'omnigraph[spark-jre]'`, or use the local engine",
    )


class SparkStartError(OmnigraphError):
    """A session of Spark could not be started or reached."""

    row = Row(code="spark.start_failed", kind=Kind.DEPENDENCY, details=JobFault, retry=Retry.AS_IS)


class SparkWorkerError(OmnigraphError):
    """The workers of a session cannot run our code: another Python, or packages that they do not have."""

    row = Row(
        code="spark.worker_unfit",
        kind=Kind.UNSUPPORTED,
        details=WorkerFault,
        hint="give the workers the driver's Python and packages; PYSPARK_PYTHON names their interpreter",
    )


class SparkUnsupportedError(OmnigraphError):
    """What is asked for cannot be done on Spark."""

    row = Row(code="spark.unsupported", kind=Kind.UNSUPPORTED, details=BadValue, hint="use the local engine")


class SparkJobError(OmnigraphError):
    """A job of Spark failed, and its error is none of ours."""

    row = Row(code="spark.job_failed", kind=Kind.DEPENDENCY, details=JobFault, retry=Retry.AS_IS, effect=Effect.STAGED)
