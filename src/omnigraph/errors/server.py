"""Errors of serving graphs: requests that cannot be read, streams that find no room, graphs that cannot be served."""

from __future__ import annotations

from omnigraph.errors.base import Effect, ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, Details, LimitExceeded, MissingThing
from omnigraph.records import record


class RequestFormatError(OmnigraphError):
    """A request cannot be read: its path, its parameters, a header or its body."""

    row = ErrorRow(code="request.format", kind=Kind.INVALID, details=BadValue)


class MediaTypeError(OmnigraphError):
    """The body of a request is not of a type that the route takes."""

    row = ErrorRow(code="request.media_type", kind=Kind.INVALID, details=BadValue)


class BodyTooLargeError(OmnigraphError):
    """The body of a request is longer than the route takes; it was not read."""

    row = ErrorRow(
        code="request.too_large", kind=Kind.TOO_LARGE, details=LimitExceeded, hint="send it in smaller parts"
    )


class BodyTimeoutError(OmnigraphError, TimeoutError):
    """The body of a request did not arrive in time."""

    row = ErrorRow(code="request.timeout", kind=Kind.BUSY, details=LimitExceeded, retry=Retry.AS_IS)


class AdmissionError(OmnigraphError):
    """The server runs as many writes as it allows, of one actor or in total; nothing was written."""

    row = ErrorRow(
        code="server.admission",
        kind=Kind.BUSY,
        details=LimitExceeded,
        retry=Retry.AS_IS,
        hint="wait for some of them to end, then try again",
    )


class ServerEndingError(OmnigraphError):
    """The server stopped before the request ended; a write may have been published or not."""

    row = ErrorRow(
        code="server.ending",
        kind=Kind.UNAVAILABLE,
        retry=Retry.AS_IS,
        effect=Effect.UNKNOWN,
        hint="send the request again, a write under the same idempotency key",
    )


class OutcomeMissingError(OmnigraphError, KeyError):
    """No write of that name is recorded: this caller did not send it, or sent it too long ago."""

    row = ErrorRow(code="operation.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class StreamCapacityError(OmnigraphError):
    """The server runs as many exports and baselines as it allows."""

    row = ErrorRow(
        code="stream.capacity",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        retry=Retry.AS_IS,
        hint="try again when one of them has ended",
    )


class StoredQueryMissingError(OmnigraphError, KeyError, AttributeError):
    """The graph has no stored query of that name, or the caller may not invoke it."""

    row = ErrorRow(code="stored_query.not_found", kind=Kind.NOT_FOUND, details=MissingThing)

    @classmethod
    def of(cls, name: str, near: tuple[str, ...] = ()) -> StoredQueryMissingError:
        """Return the error for a name that no stored query has, with those that are like it."""
        hint = f"did you mean '{near[0]}'?" if near else None
        details = MissingThing(what="stored query", name=name, near=near)
        return cls(f"stored query '{name}' was not found", details=details, hint=hint)

    @classmethod
    def hidden(cls, name: str) -> StoredQueryMissingError:
        """Return the error for a query that the caller may not know of, which is the same whether there is one."""
        return cls("stored query not found", details=MissingThing(what="stored query", name=name))


class SchemaManagedError(OmnigraphError):
    """The schema of a graph that a cluster describes changes through the cluster alone."""

    row = ErrorRow(
        code="schema.managed",
        kind=Kind.CONFLICT,
        details=BadValue,
        hint="change the schema in the cluster's directory and apply it",
    )


@record
class ByteRange(Details):
    """A range of bytes that was asked for, its end excluded, and how many bytes there are."""

    start: int
    end: int
    length: int


class BlobRangeError(OmnigraphError):
    """The requested range of a Blob begins after its end."""

    row = ErrorRow(code="blob.range", kind=Kind.INVALID, details=ByteRange)


class BlobMissingError(OmnigraphError, KeyError):
    """There is no such entity, or its blob property is null."""

    row = ErrorRow(code="blob.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class GraphBlockedError(OmnigraphError):
    """A graph cannot be served until a problem with it is solved."""

    row = ErrorRow(code="server.blocked", kind=Kind.UNAVAILABLE, details=BadValue, retry=Retry.AFTER_RECOVERY)
