"""``Exchange``: one request and its response without the network: what is sent, and what an answer means."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Self

from omnigraph.client.address import GraphAddress
from omnigraph.client.settings import ClientSettings
from omnigraph.errors import (
    BadValue,
    Effect,
    FormatMismatch,
    InternalError,
    OmnigraphError,
    QueryTimeoutError,
    ReadOnlyError,
    RequestOutcome,
    RequestOutcomeError,
    Retry,
    ServerFault,
    ServerIncompatibleError,
    ServerTimeoutError,
    ServerUnreachableError,
)
from omnigraph.operations.json_form import request_to_json
from omnigraph.operations.reads import ExportRequest
from omnigraph.operations.request import Attachments, Request, check_request
from omnigraph.operations.wire import (
    MEDIA_TYPE,
    WIRE_VERSION,
    FrameBuffer,
    FrameKind,
    ResponseReader,
    check_attached,
    encode_frame,
    files_of,
    is_lazy,
    received_error,
    receiving,
)
from omnigraph.records import record
from omnigraph.runtime import Runtime, current_call

# What it knows of the API beyond the base, such as graphs that are blocked.
_HTTP_LEVEL = "0.13"
_PIECE_BYTES = 1 << 20
_FIRST_WAIT_S = 0.1
# A server that refuses a request has not begun with it.
_REFUSES, _FAILS = 300, 500
_SHOWN = 200
_PROXY_STATUSES = frozenset({502, 503, 504})
# What a transaction does before it is committed publishes nothing.
_UNPUBLISHED = frozenset({"begin_transaction", "call_in_transaction", "rollback_transaction"})


@record
class Handshake:
    """What a server says of itself: whether a write that is sent again under its key is done once."""

    repeats_safely: bool

    @classmethod
    def of(cls, address: GraphAddress, data: bytes) -> Handshake:
        """Return what an answer says.

        Raises:
            ServerIncompatibleError: it is no server of ours, or one of another version.
        """
        try:
            document = json.loads(data)
            versions = document["wire"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise incompatible(address, "no omnigraph server") from None
        if not isinstance(versions, list):
            raise incompatible(address, "no omnigraph server")
        if WIRE_VERSION not in versions:
            raise incompatible(address, f"wire format {', '.join(map(str, versions))[:_SHOWN]}")
        return cls(repeats_safely=bool(document.get("idempotency")))


def incompatible(address: GraphAddress, found: str) -> ServerIncompatibleError:
    """Return the error for an answer that no server of this version gives."""
    details = FormatMismatch(what="server", expected=f"wire format {WIRE_VERSION}", found=found)
    return ServerIncompatibleError(f"'{address.server}' does not speak the wire format: {found}", details=details)


def common_headers(token: str | None) -> dict[str, str]:
    """Return what every request carries."""
    credentials = {} if token is None else {"authorization": f"Bearer {token}"}
    return {
        "omnigraph-wire": str(WIRE_VERSION),
        "omnigraph-http-api": _HTTP_LEVEL,
        "accept": f"{MEDIA_TYPE}, application/json",
        # A packed answer would have to be unpacked before anyone knows how long it is.
        "accept-encoding": "identity",
        **credentials,
    }


def refusal(address: GraphAddress, status: int, headers: Mapping[str, str], data: bytes) -> OmnigraphError:
    """Return the error that an answer other than the expected one stands for."""
    try:
        document = json.loads(data)
        message = str(document["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        document, message = {}, f"status {status}"
        if status not in _PROXY_STATUSES:
            return incompatible(address, f"status {status}, {headers.get('content-type', 'no content')[:_SHOWN]}")
    if isinstance(document.get("problem"), dict):
        return received_error(document["problem"])
    if status in _PROXY_STATUSES:
        fault = ServerFault(address=address.server, reason=message)
        return ServerUnreachableError(f"cannot reach '{address.server}': {message}", details=fault)
    return InternalError(message, hint="the server's log has details")


class Exchange:
    """One request, sent once or several times, and what came back.

    Raises:
        OmnigraphError: it cannot be sent: a value is of another type or has no JSON form, a file cannot be read, a
            folder is not empty.
    """

    def __init__(
        self,
        address: GraphAddress,
        request: Request[Any],
        attached: Attachments,
        settings: ClientSettings,
        runtime: Runtime,
        *,
        is_read_only: bool = False,
    ) -> None:
        self.operation = request.operation
        if is_read_only and self.operation.writes:
            details = BadValue(what="open mode", value="read_only", expected="read_write")
            raise ReadOnlyError("the graph is open read-only", details=details)
        check_request(request)
        check_attached(request, attached)
        self.address = address
        self.attached = attached
        self.is_lazy = is_lazy(request)
        self.request_id = str(runtime.ids.ulid())
        # A caller with a key of its own may send the same write again in another call.
        self.key = current_call().idempotency_key or str(runtime.ids.ulid())
        self._request = request
        self._settings = settings
        self._runtime = runtime
        self._attempt = 0
        # Whether an attempt was sent whose answer never came.
        self._may_be_done = False
        self._retry_after_s: float | None = None
        self._held = ExitStack()
        sent, self._files = files_of(request)
        self._document = json.dumps(request_to_json(sent)).encode()

    def __enter__(self) -> Self:
        self._received = self._held.enter_context(receiving(self._request))
        return self

    def __exit__(self, *problem: Any) -> None:  # noqa: PYI036 - handed on as it is
        self._held.__exit__(*problem)

    @property
    def url(self) -> str:
        """Where it is sent to."""
        return self.address.url("operations", self.operation.name)

    def headers(self) -> dict[str, str]:
        """Return the headers of an attempt. The key of a write is the same in all of them."""
        key = {"idempotency-key": self.key} if self.operation.writes else {}
        progress = {} if self.attached.progress is None else {"omnigraph-progress": "true"}
        is_stopped = self.attached.cancel is not None and self.attached.cancel.is_set()
        cancelled = {"omnigraph-cancelled": "true"} if is_stopped else {}
        kind = MEDIA_TYPE if self._files else "application/json"
        return {"content-type": kind, "x-request-id": self.request_id, **key, **progress, **cancelled}

    def body(self) -> bytes | Iterator[bytes]:
        """Return what is sent: a document, or a document and files."""
        return self._frames() if self._files else self._document

    def begin(self) -> Incoming:
        """Begin an attempt, and return what takes its response."""
        self._attempt += 1
        self._retry_after_s = None
        return Incoming(ResponseReader(self.attached, self._received))

    def finish(self, response: Any) -> Any:
        """Return a response as the caller sees it."""
        if isinstance(self._request, ExportRequest):
            return replace(response, target=self._received.target)
        return response

    def refused(self, status: int, headers: Mapping[str, str], data: bytes) -> OmnigraphError:
        """Return the error that an answer other than frames stands for."""
        found = refusal(self.address, status, headers, data)
        if isinstance(found, ServerUnreachableError) and status in _PROXY_STATUSES:
            return self.lost(found.details.reason, is_timeout=False, was_sent=True)  # type: ignore[attr-defined]  # its details
        if isinstance(found, ServerIncompatibleError) and not _REFUSES <= status < _FAILS:
            # Whatever stands in between has answered, and may have done so after the server was at work.
            return self.garbled(found)
        self._retry_after_s = _seconds(headers.get("retry-after"))
        return found

    def garbled(self, problem: ServerIncompatibleError) -> OmnigraphError:
        """Return the error for an answer that cannot be read: of a write, it may have been the answer to a success."""
        return self.lost(problem.message, is_timeout=False, was_sent=True) if self.operation.writes else problem

    def lost(self, reason: str, *, is_timeout: bool, was_sent: bool) -> OmnigraphError:
        """Return the error for a connection that failed.

        Args:
            reason: what went wrong.
            is_timeout: whether the server was silent for too long.
            was_sent: whether the server may have got the request.
        """
        self._may_be_done = self._may_be_done or was_sent
        if self._may_be_done and self.operation.writes:
            return self._open_outcome(reason)
        fault = ServerFault(address=self.address.server, reason=reason)
        if is_timeout and was_sent:
            return ServerTimeoutError(f"'{self.address.server}' did not answer in time", details=fault)
        return ServerUnreachableError(f"cannot reach '{self.address.server}': {reason}", details=fault)

    def judge(self, error: OmnigraphError) -> OmnigraphError:
        """Return what an error says of the request as a whole.

        An attempt that was not let in says nothing about an earlier one whose answer was lost.
        """
        if isinstance(error, InternalError) and error.effect is Effect.NONE and self.operation.writes:
            # A server that meets a bug cannot tell how far it has come.
            error.effect = Effect.NONE if self.operation.name in _UNPUBLISHED else Effect.UNKNOWN
        is_untried = error.retry is Retry.AS_IS and error.effect is Effect.NONE
        if self._may_be_done and self.operation.writes and is_untried:
            return self._open_outcome(error.message)
        return error

    def wait_before_retry(self, error: OmnigraphError, incoming: Incoming, handshake: Handshake) -> float | None:
        """Return how long to wait before the request is sent again; None when it must not be.

        A write whose answer was lost is sent again under its key if the server does a repeated one once: that is how
        its outcome is looked up.
        """
        asked = self._is_looked_up(handshake) if isinstance(error, RequestOutcomeError) else self._is_repeatable(error)
        if not asked or incoming.has_delivered or self._attempt >= self._settings.attempts:
            return None
        wait_s = _FIRST_WAIT_S * (1 << (self._attempt - 1)) * (0.5 + self._runtime.randomness.fraction())
        wait_s = max(wait_s, self._retry_after_s or 0.0)
        return wait_s if wait_s <= self._settings.max_wait_s else None

    def _open_outcome(self, reason: str) -> RequestOutcomeError:
        details = RequestOutcome(
            address=str(self.address),
            operation=self.operation.name,
            request_id=self.request_id,
            idempotency_key=self.key,
            reason=reason,
        )
        effect = Effect.NONE if self.operation.name in _UNPUBLISHED else None
        message = f"the answer to '{self.operation.name}' was lost: {reason}"
        return RequestOutcomeError(message, details=details, effect=effect)

    def _is_repeatable(self, error: OmnigraphError) -> bool:
        # What has used up its time would use it up again.
        is_stopped = isinstance(error, QueryTimeoutError) or (
            self.attached.cancel is not None and self.attached.cancel.is_set()
        )
        return error.retry is Retry.AS_IS and error.effect is Effect.NONE and not is_stopped and self._can_resend()

    def _is_looked_up(self, handshake: Handshake) -> bool:
        return handshake.repeats_safely and self._can_resend()

    def _can_resend(self) -> bool:
        return all(file.source.path != "-" for file in self._files)

    def _frames(self) -> Iterator[bytes]:
        yield encode_frame(FrameKind.RECORD, self._document)
        for file in self._files:
            yield encode_frame(FrameKind.FILE, json.dumps({"name": file.name}).encode())
            with file.source.open() as stream:
                while data := stream.read(_PIECE_BYTES):
                    yield encode_frame(FrameKind.BYTES, data)
            yield encode_frame(FrameKind.END, b"{}")


class Incoming:
    """What arrives of the response of one attempt."""

    def __init__(self, reader: ResponseReader) -> None:
        self._reader = reader
        self._buffer = FrameBuffer()

    @property
    def has_delivered(self) -> bool:
        """Whether the caller has got a part of it that cannot be taken back."""
        return self._reader.has_delivered

    @property
    def has_answer(self) -> bool:
        """Whether the response itself is here, or the error in its place; rows of it may still follow."""
        return self._reader.has_answer or self._reader.failure is not None

    @property
    def is_complete(self) -> bool:
        """Whether nothing follows."""
        return self._reader.is_complete

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        for frame in self._buffer.feed(data):
            self._reader.take(frame)

    def fail(self, error: OmnigraphError) -> None:
        """End it with an error."""
        self._reader.fail(error)

    def response(self, pull: Callable[[], None] | None = None) -> Any:
        """Return the response; raises what the operation failed with."""
        return self._reader.response(pull)


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
