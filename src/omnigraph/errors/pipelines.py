"""Errors of declared pipelines. A run that ends with one of them has published nothing."""

from __future__ import annotations

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import Details, MissingThing
from omnigraph.records import record


@record
class Mistake(Details):
    """One thing that is wrong with a declaration, and where: a file, a line, and the step that is declared there."""

    message: str
    file: str
    line: int
    step: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        hint = "" if self.hint is None else f" ({self.hint})"
        return f"{self.file}:{self.line}: {self.message}{hint}"


@record
class Mistakes(Details):
    """Everything that is wrong with a declaration, in the order of its lines."""

    pipeline: str
    items: tuple[Mistake, ...]


@record
class BrokenExpectation(Details):
    """An expectation that ended a run: how many rows of the step it was asked about, and for how many it fails."""

    pipeline: str
    run: str
    step: str
    expectation: str
    rows: int
    failed: int
    sample: str | None = None


@record
class RefusedRun(Details):
    """A check that ended a run: how many rows it returned, the first of them, and the branch that was left."""

    pipeline: str
    run: str
    check: str
    rows: int
    sample: str | None = None
    branch: str | None = None


@record
class RunConflict(Details):
    """Two runs of a pipeline on one branch: that which another run has published since this one began to read."""

    pipeline: str
    run: str
    branch: str
    other: str | None = None


class PipelineInvalidError(OmnigraphError):
    """The declaration of a pipeline is not valid."""

    row = ErrorRow(
        code="pipeline.invalid",
        kind=Kind.INVALID,
        details=Mistakes,
        hint="correct the declaration; `omnigraph pipeline validate` lists all of its mistakes",
    )
    details: Mistakes

    def __str__(self) -> str:
        items = self.details.items
        return self.message if len(items) < 2 else "\n".join([self.message, *(f"  {item}" for item in items)])


class ExpectationFailedError(OmnigraphError):
    """Rows of a step do not meet an expectation of the pipeline."""

    row = ErrorRow(
        code="pipeline.expectation_failed",
        kind=Kind.INVALID,
        details=BrokenExpectation,
        hint="look at the rows with `omnigraph pipeline report`, and repair the source or the expectation",
    )


class CheckFailedError(OmnigraphError):
    """A check of a pipeline does not hold on the state that its run would publish."""

    row = ErrorRow(
        code="pipeline.check_failed",
        kind=Kind.PRECONDITION,
        details=RefusedRun,
        hint="inspect the remaining branch, or the rows in `omnigraph pipeline report`",
    )


class RunConflictError(OmnigraphError):
    """Another run of the same pipeline has published on the branch, so this one has read from an outdated position."""

    row = ErrorRow(
        code="pipeline.run_conflict",
        kind=Kind.CONFLICT,
        details=RunConflict,
        retry=Retry.AFTER_REFRESH,
        hint="run the pipeline again; it continues after the other run",
    )


class RunMissingError(OmnigraphError):
    """The history has no such run of a pipeline, or the requested data of the run does not exist."""

    row = ErrorRow(
        code="pipeline.run_missing",
        kind=Kind.NOT_FOUND,
        details=MissingThing,
        hint="list the runs with `omnigraph pipeline status`",
    )
