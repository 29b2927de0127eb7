"""Reading requests: bodies within their limits, JSON into records, parameters of the query string."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from omnigraph.errors import (
    AdmissionError,
    BadValue,
    BodyTimeoutError,
    BodyTooLargeError,
    LimitExceeded,
    MediaTypeError,
    RequestFormatError,
)
from omnigraph.ir import decode_parameter_text
from omnigraph.values import MAIN

Shape = TypeVar("Shape")
JSON_TYPE = "application/json"
NDJSON_TYPE = "application/x-ndjson"
ARROW_TYPE = "application/vnd.apache.arrow.stream"
# What the plain limit of bodies is called; answers show no detail object for it.
BODY_BYTES = "request_body_bytes"
# Deeper documents than any request, and far from what the decoder can take.
_SHOWN = 100


def media_type(request: Request) -> str:
    """Return the type of the body without its parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class BodyMemory:
    """The bytes of bodies in memory, of all requests that have not been answered. The event loop counts them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self._size

    def take(self, scope: Scope, size: int) -> None:
        """Count more bytes of a request.

        Raises:
            AdmissionError: they are too many together.
        """
        if self._size + size > self._most:
            details = LimitExceeded(resource="bytes of request bodies", limit=self._most, actual=self._size + size)
            raise AdmissionError("too many bytes of request bodies under way; nothing was done", details=details)
        self._size += size
        scope["omnigraph.held_bytes"] = scope.get("omnigraph.held_bytes", 0) + size

    def leave(self, scope: Scope) -> None:
        """Take off the bytes of a request that was answered."""
        self._size -= scope.pop("omnigraph.held_bytes", 0)


def refuse_packed(request: Request) -> None:
    """Refuse a body that is packed: it would have to be unpacked before anyone knows how long it is.

    Raises:
        MediaTypeError: it is.
    """
    found = request.headers.get("content-encoding", "").strip().lower()
    if found not in {"", "identity"}:
        details = BadValue(what="content-encoding", value=found[:_SHOWN], expected="no encoding")
        raise MediaTypeError("expected a body without a content encoding", details=details)


async def read_body(request: Request, limit: int, *, seconds: float, resource: str = BODY_BYTES) -> bytes:
    """Return the body of a request.

    Raises:
        BodyTooLargeError: it is longer than ``limit`` bytes, by its header or in fact.
        BodyTimeoutError: it did not arrive in time.
        MediaTypeError: it is packed.
        RequestFormatError: the client went away, or says a length that is none.
        AdmissionError: the bodies of all requests together are too large.
    """
    refuse_packed(request)
    memory: BodyMemory = request.app.state.service.bodies
    told = request.headers.get("content-length")
    if told is not None and told.isascii() and told.isdigit() and int(told) > limit:
        raise _too_large(resource, limit, int(told))
    found = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                memory.take(request.scope, len(chunk))
                found += chunk
                if len(found) > limit:
                    raise _too_large(resource, limit, len(found))
    except TimeoutError:
        details = LimitExceeded(resource="request_body_seconds", limit=int(seconds), actual=int(seconds))
        raise BodyTimeoutError("the body of the request did not arrive in time", details=details) from None
    except ClientDisconnect:
        raise malformed("body", "", "the whole body", "the client went away") from None
    return bytes(found)


def _too_large(resource: str, limit: int, actual: int) -> BodyTooLargeError:
    details = LimitExceeded(resource=resource, limit=limit, actual=actual)
    return BodyTooLargeError(f"the body is longer than {limit} bytes", details=details)


async def read_json(
    request: Request, shape: type[Shape], limit: int, *, seconds: float, needs_type: bool = True
) -> Shape:
    """Return the JSON body of a request as a record.

    Raises:
        MediaTypeError: the body is not called JSON.
        RequestFormatError: it is not JSON, or of another shape.
        BodyTooLargeError, BodyTimeoutError: see :func:`read_body`.
    """
    found = media_type(request)
    if needs_type and found != JSON_TYPE:
        details = BadValue(what="content-type", value=found[:_SHOWN], expected=JSON_TYPE)
        raise MediaTypeError(f"expected a body of type {JSON_TYPE}", details=details)
    return decode_json(await read_body(request, limit, seconds=seconds), shape)


def decode_json(data: bytes, shape: type[Shape]) -> Shape:
    """Return JSON as a record.

    Raises:
        RequestFormatError: it is not JSON, or of another shape.
    """
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeError) as problem:
        message = str(problem)
    except RecursionError:
        message = "it is nested too deeply"
    raise malformed("body", "", "a JSON document of this route", f"invalid body: {message}")


def decode_params(raw: msgspec.Raw) -> Any:
    """Return the parameters of a query; None where there are none.

    Raises:
        RequestFormatError: they are no object.
    """
    text = bytes(raw)
    found = decode_parameter_text(text) if text else None
    if found is not None and not isinstance(found, dict):
        details = BadValue(what="params", value=type(found).__name__, expected="an object or null")
        raise RequestFormatError("params must be an object or null", details=details)
    return found


def branch_of(given: str | None, what: str = "branch") -> str:
    """Return the branch that a request names, main if none. Blanks around it do not count.

    Raises:
        RequestFormatError: there is nothing but blanks.
    """
    if given is None:
        return MAIN
    name = given.strip()
    if not name:
        raise malformed(what, given, "the name of a branch", f"{what} must not be blank")
    return name


def single(request: Request, name: str) -> str | None:
    """Return a parameter of the query string that may stand there once.

    Raises:
        RequestFormatError: it stands there more than once.
    """
    found = request.query_params.getlist(name)
    if len(found) > 1:
        raise malformed(name, found[1], "one value", f"parameter '{name}' occurs {len(found)} times")
    return found[0] if found else None


def whole(request: Request, name: str) -> int | None:
    """Return a whole number of the query string, at least 1.

    Raises:
        RequestFormatError: it is none.
    """
    text = single(request, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19 and int(text) > 0):
        raise malformed(name, text, "a whole number above 0")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """Return whether a parameter of the query string says ``true``.

    Raises:
        RequestFormatError: it says something else than ``true`` or ``false``.
    """
    text = single(request, name)
    if text not in {None, "true", "false"}:
        raise malformed(name, text or "", "true or false")
    return text == "true"


def refuse_others(request: Request, known: Collection[str]) -> None:
    """Refuse parameters of the query string that a route does not know.

    Raises:
        RequestFormatError: there is one.
    """
    for name in request.query_params:
        if name not in known:
            raise malformed("parameter", name, ", ".join(sorted(known)), f"unknown parameter '{name[:_SHOWN]}'")


def malformed(what: str, value: str, expected: str, message: str | None = None) -> RequestFormatError:
    """Return the error of a part of a request that is not as it should be."""
    details = BadValue(what=what, value=value[:_SHOWN], expected=expected)
    return RequestFormatError(message or f"invalid {what} '{value[:_SHOWN]}': expected {expected}", details=details)
