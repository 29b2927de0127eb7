"""Errors of running reads: limits that protect the process, and requests that only the data shows to be meaningless."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, LimitExceeded
from omnigraph.errors.kinds import Kind, Retry


class QueryRuntimeError(OmnigraphError):
    """A value that only the request brings has no meaning where it stands, such as a ranking by NULL."""

    row = Row(code="query.runtime", kind=Kind.INVALID, details=BadValue)


class QueryMemoryError(OmnigraphError):
    """A read needs more memory than it is allowed to use."""

    row = Row(
        code="query.memory",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="make the match more selective, or allow more memory",
    )


class QueryRowLimitError(OmnigraphError):
    """A read has more rows than it is allowed to return."""

    row = Row(
        code="query.row_limit",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="add a limit to the query, or allow more rows",
    )


class QueryTimeoutError(OmnigraphError, TimeoutError):
    """A read took longer than it is allowed to."""

    row = Row(
        code="query.timeout",
        kind=Kind.BUSY,
        details=LimitExceeded,
        hint="make the match more selective, or allow more time",
        retry=Retry.AS_IS,
    )


class QueryCancelledError(OmnigraphError):
    """A read was told to stop."""

    row = Row(code="query.cancelled", kind=Kind.BUSY, details=BadValue, retry=Retry.AS_IS)
