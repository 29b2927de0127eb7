"""Errors of running reads and of using their results."""

from __future__ import annotations

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, LimitExceeded, MissingThing


class QueryRuntimeError(OmnigraphError):
    """A value known only at run time is not allowed where it is used, such as ranking by NULL."""

    row = ErrorRow(code="query.runtime", kind=Kind.INVALID, details=BadValue)


class QueryMemoryError(OmnigraphError):
    """The read needs more memory than allowed."""

    row = ErrorRow(
        code="query.memory",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="make the match more selective, or allow more memory",
    )


class QueryRowLimitError(OmnigraphError):
    """The read returns more rows than allowed."""

    row = ErrorRow(
        code="query.row_limit",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="add a limit to the query, or allow more rows",
    )


class AffectedLimitError(OmnigraphError):
    """The mutation would insert, update and delete more entities than allowed; nothing was changed."""

    row = ErrorRow(
        code="query.affected_limit",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="make its conditions more selective, or allow more entities",
    )


class QueryTimeoutError(OmnigraphError, TimeoutError):
    """The read took longer than allowed."""

    row = ErrorRow(
        code="query.timeout",
        kind=Kind.BUSY,
        details=LimitExceeded,
        hint="make the match more selective, or allow more time",
        retry=Retry.AS_IS,
    )


class QueryCancelledError(OmnigraphError):
    """The read was cancelled."""

    row = ErrorRow(code="query.cancelled", kind=Kind.BUSY, details=BadValue, retry=Retry.AS_IS)


class AlgorithmInputError(OmnigraphError):
    """An algorithm cannot run with these arguments: weights, nodes or the property to write do not fit the graph."""

    row = ErrorRow(code="algorithm.input", kind=Kind.INVALID, details=BadValue)


class ResultSpentError(OmnigraphError):
    """The rows of a result were streamed without being kept, and are requested again."""

    row = ErrorRow(
        code="result.spent",
        kind=Kind.INVALID,
        details=BadValue,
        hint="read it with batches(), which keeps the rows, or run the query again",
    )


class LibraryMissingError(OmnigraphError, ImportError):
    """A conversion or an algorithm needs a library that is not installed."""

    row = ErrorRow(code="result.library_missing", kind=Kind.UNSUPPORTED, details=MissingThing)


class ResultWithoutNodesError(OmnigraphError):
    """A network or drawing was requested of rows that hold no nodes."""

    row = ErrorRow(
        code="result.no_nodes",
        kind=Kind.INVALID,
        details=BadValue,
        hint="return the variables themselves, such as return { $a, $b }",
    )


class ViewTooLargeError(OmnigraphError):
    """The requested network or drawing is too large to hold or display."""

    row = ErrorRow(
        code="result.too_large",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="query only the part that matters, or raise the limit if there is one",
    )
