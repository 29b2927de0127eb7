"""Errors of talking to a server: it cannot be reached, is another version, or left the outcome of a write open."""

from __future__ import annotations

from omnigraph.errors.base import Effect, ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, Details, FormatMismatch
from omnigraph.records import record


@record
class ServerFault(Details):
    """The address of a server without its credentials, and what went wrong."""

    address: str
    reason: str


@record
class RequestOutcome(Details):
    """A write whose answer was lost: where it was sent, what it was, and the key under which it can be sent again."""

    address: str
    operation: str
    request_id: str
    idempotency_key: str
    reason: str


class ServerUnreachableError(OmnigraphError, ConnectionError):
    """The server cannot be reached, or the connection broke; a write that was lost on the way raises another error."""

    row = ErrorRow(
        code="server.unreachable",
        kind=Kind.UNAVAILABLE,
        details=ServerFault,
        retry=Retry.AS_IS,
        hint="check the address, and that the server is running",
    )


class ServerTimeoutError(OmnigraphError, TimeoutError):
    """The server did not answer a read in time."""

    row = ErrorRow(
        code="server.timeout",
        kind=Kind.UNAVAILABLE,
        details=ServerFault,
        retry=Retry.AS_IS,
        hint="allow more time with timeout_s, or request less",
    )


class ServerIncompatibleError(OmnigraphError):
    """The address is not that of an omnigraph server, or this version does not support its wire format."""

    row = ErrorRow(
        code="server.incompatible",
        kind=Kind.UNSUPPORTED,
        details=FormatMismatch,
        hint="check the address, and use the same version of omnigraph on both sides",
    )


class RequestOutcomeError(OmnigraphError):
    """The answer to a write was lost; it may or may not have been published."""

    row = ErrorRow(
        code="server.outcome_unknown",
        kind=Kind.INDETERMINATE,
        details=RequestOutcome,
        retry=Retry.AFTER_RECOVERY,
        effect=Effect.UNKNOWN,
        hint="look at the log of the branch before writing again; the commit, if there is one, has the request id",
    )


class RemoteUnsupportedError(OmnigraphError):
    """The call works on a graph that this process opens itself, and not through a server."""

    row = ErrorRow(code="server.unsupported", kind=Kind.UNSUPPORTED, details=BadValue)
