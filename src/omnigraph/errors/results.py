"""Errors of using a result: its rows were given away, hold no graph or too much of one, or a library is missing."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, LimitExceeded, MissingThing
from omnigraph.errors.kinds import Kind


class ResultSpentError(OmnigraphError):
    """The rows of a result were streamed without keeping them, and are asked for again."""

    row = Row(
        code="result.spent",
        kind=Kind.INVALID,
        details=BadValue,
        hint="read it with batches(), which keeps the rows, or run the query again",
    )


class LibraryMissingError(OmnigraphError, ImportError):
    """A conversion needs a library that is not installed."""

    row = Row(code="result.library_missing", kind=Kind.UNSUPPORTED, details=MissingThing)


class ResultWithoutNodesError(OmnigraphError):
    """A network or a drawing is asked of rows in which no column is a node."""

    row = Row(
        code="result.no_nodes",
        kind=Kind.INVALID,
        details=BadValue,
        hint="return the variables themselves, such as return { $a, $b }",
    )


class ViewTooLargeError(OmnigraphError):
    """A network or a drawing is asked of more than can be held or seen at once."""

    row = Row(
        code="result.too_large",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="ask a query for the part that matters, or allow more where there is a limit to raise",
    )
