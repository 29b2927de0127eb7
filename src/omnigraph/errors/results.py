"""Errors of using a result: its rows were given away, or a library that a conversion needs is not installed."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, MissingThing
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
