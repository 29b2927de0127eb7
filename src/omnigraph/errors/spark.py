"""Errors of the Spark engine: missing requirements and failed jobs.

Nothing is published before every job of a run has succeeded, so a failure leaves at most unreferenced files.
"""

from __future__ import annotations

from omnigraph.distribution import pip_install
from omnigraph.errors.base import Effect, ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, Details, FormatMismatch, MissingThing
from omnigraph.records import record


@record
class WorkerFault(Details):
    """What is wrong with a Spark worker: its Python, and the packages that it lacks or has in another version."""

    python: str
    expected_python: str
    missing: tuple[str, ...] = ()


@record
class JobFault(Details):
    """A Spark job that ended without a result: its purpose, and the reason in one line."""

    doing: str
    reason: str


class SparkMissingError(OmnigraphError, ImportError):
    """PySpark, or a library it needs, is not installed."""

    row = ErrorRow(
        code="spark.library_missing",
        kind=Kind.UNSUPPORTED,
        details=MissingThing,
        hint=f"install it with `{pip_install('spark')}`, or use the local engine",
    )


class JavaMissingError(OmnigraphError):
    """Spark needs Java, and no usable Java was found."""

    row = ErrorRow(
        code="spark.java_missing",
        kind=Kind.UNSUPPORTED,
        details=MissingThing,
        hint=f"install Java 17 or newer and set JAVA_HOME, or `{pip_install('spark-jre')}`, or use the local engine",
    )


class JavaTooOldError(OmnigraphError):
    """The installed Java is older than Spark requires."""

    row = ErrorRow(
        code="spark.java_too_old",
        kind=Kind.UNSUPPORTED,
        details=FormatMismatch,
        hint=f"point JAVA_HOME at Java 17 or newer, or `{pip_install('spark-jre')}`, or use the local engine",
    )


class SparkStartError(OmnigraphError):
    """A Spark session could not be started or reached."""

    row = ErrorRow(code="spark.start_failed", kind=Kind.DEPENDENCY, details=JobFault, retry=Retry.AS_IS)


class SparkWorkerError(OmnigraphError):
    """The Spark workers cannot run omnigraph: they have another Python, or lack packages."""

    row = ErrorRow(
        code="spark.worker_unfit",
        kind=Kind.UNSUPPORTED,
        details=WorkerFault,
        hint="give the workers the driver's Python and packages; PYSPARK_PYTHON names their interpreter",
    )


class SparkUnsupportedError(OmnigraphError):
    """The operation is not supported on Spark."""

    row = ErrorRow(code="spark.unsupported", kind=Kind.UNSUPPORTED, details=BadValue, hint="use the local engine")


class SparkJobError(OmnigraphError):
    """A Spark job failed with an error that did not come from omnigraph."""

    row = ErrorRow(
        code="spark.job_failed", kind=Kind.DEPENDENCY, details=JobFault, retry=Retry.AS_IS, effect=Effect.STAGED
    )


@record
class DecidedPairs(Details):
    """Decisions about pairs of records that cannot all hold: the pairs, each with its decision."""

    pairs: tuple[tuple[str, str, str], ...]


class ResolveInputError(OmnigraphError):
    """Records, earlier results or decisions do not fit the entity resolution."""

    row = ErrorRow(code="resolve.input", kind=Kind.INVALID, details=BadValue)


class ContradictingDecisionsError(OmnigraphError):
    """Decisions about pairs of records contradict each other: two records would be the same and different."""

    row = ErrorRow(
        code="resolve.decisions_contradict",
        kind=Kind.INVALID,
        details=DecidedPairs,
        hint="change or remove one of these decisions",
    )
