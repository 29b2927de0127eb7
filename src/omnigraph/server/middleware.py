"""What happens around every request, as plain ASGI: a request id, segments of the path, who asks, and the last net."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any
from urllib.parse import unquote_to_bytes

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnigraph.errors import InternalError, OmnigraphError, ServerEndingError
from omnigraph.server.access.origins import check_origin
from omnigraph.server.config import is_graph_id
from omnigraph.server.errors import error_body, error_headers, is_internal, plain_body, status_of
from omnigraph.server.service import INNER_SLASH, Service, encode
from omnigraph.server.transport.connections import HEAD_BYTES, TARGET_BYTES

_log = logging.getLogger("omnigraph.server")
_REQUEST_ID = b"x-request-id"
_WIRE = b"omnigraph-wire"
_LONGEST_ID = 128
# What is answered without a token.
HEALTH = "/healthz"
PUBLIC = frozenset({HEALTH, "/openapi.json", "/readyz"})
_CLOSE = {"Connection": "close"}
_VERSIONS = frozenset({"1.0", "1.1"})
_FRAMINGS = frozenset({b"content-length", b"transfer-encoding"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Reply:
    """Sends an answer with the id of its request, and knows how far it has come."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id.encode()
        self.status = 0
        self.has_ended = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (_REQUEST_ID, self._request_id)]
        else:
            self.has_ended = not message.get("more_body", False)
        await self._send(message)


class Around:
    """The outermost layer. It names the request, finds out who sends it, and turns what is left over into answers."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope) or str(self._service.runtime.ids.ulid())
        scope["omnigraph.request_id"] = request_id
        control, began_s = self._service.control, self._service.control.clock.monotonic_s()
        control.under_way += 1
        reply = _Reply(send, request_id)
        try:
            await self._serve(scope, _measuring(scope, receive), reply)
        except OmnigraphError as error:
            if reply.status:
                # The answer has begun: breaking it off is all that is left.
                raise
            await send_error(error, request_id, reply, whole=is_our_client(scope))
        except asyncio.CancelledError:
            # The server ends and has waited long enough; what the request has begun may still be published.
            control.cut_off += 1
            if not reply.status:
                ending = ServerEndingError("the server stopped before the request ended")
                with anyio.CancelScope(shield=True):
                    await send_error(ending, request_id, reply, whole=is_our_client(scope))
            raise
        except Exception as bug:
            if not reply.status:
                problem = InternalError(f"unexpected {type(bug).__name__}")
                problem.__cause__ = bug
                await send_error(problem, request_id, reply)
            else:
                _log.exception("request failed", extra={"request_id": request_id})
                if not reply.has_ended:
                    raise
        finally:
            control.under_way -= 1
            self._service.bodies.leave(scope)
            seconds = control.clock.monotonic_s() - began_s
            told = _told(scope, reply.status, seconds)
            control.metrics.answered(told["method"], told["route"], reply.status, seconds)
            _log.info("request", extra=told)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = _refused_head(scope)
        if refused is not None:
            status, message = refused
            await _send(status, plain_body(status, message, scope["omnigraph.request_id"]), _CLOSE, send)
            return
        path = _decoded(scope)
        if path is None:
            body = plain_body(400, "the path is not valid UTF-8", scope["omnigraph.request_id"])
            await _send(400, body, {}, send)
            return
        scope["path"] = path
        if path not in PUBLIC:
            self._check_origin(scope)
            scope["omnigraph.actor"] = await self._service.authenticate(scope)
        await self._app(scope, receive, send)

    def _check_origin(self, scope: Scope) -> None:
        """Refuse what a page in a browser sends to an open server: there is no token that the page would lack."""
        service = self._service
        if service.access.is_open:
            headers = Headers(scope=scope)
            hosts = service.control.settings.agents.hosts
            bind = service.settings.host
            check_origin(headers.get("host"), headers.get("origin"), bind=bind, hosts=hosts, is_open=True)


def refusing(app: ASGIApp) -> ASGIApp:
    """Return what answers where there are too many connections: all but the sign of life are sent away."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] != HEALTH:
            body = plain_body(503, "too many connections; try again later")
            await _send(503, body, {**_CLOSE, "Retry-After": "1"}, send)
            return

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await app(scope, receive, last)

    return answer


def is_our_client(scope: Scope) -> bool:
    """Whether a client of ours asks, which takes an error as a whole."""
    return any(name == _WIRE for name, _ in scope["headers"])


async def send_error(error: OmnigraphError, request_id: str, send: Send, *, whole: bool = False) -> None:
    """Answer with an error."""
    if is_internal(error):
        log_internal(error, request_id)
    await _send(status_of(error), error_body(error, request_id, whole=whole), error_headers(error), send)


def log_internal(error: OmnigraphError, request_id: str) -> None:
    """Write down what the answer does not tell."""
    cause = error.__cause__ or error
    _log.error("%s: %s", error.code, error.message, extra={"request_id": request_id}, exc_info=cause)


async def _send(status: int, body: dict[str, object], headers: dict[str, str], send: Send) -> None:
    content = encode(body)
    told = {"content-type": "application/json", "content-length": str(len(content)), **headers}
    listed = [(name.lower().encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": content})


def _measuring(scope: Scope, receive: Receive) -> Receive:
    """Note the size of the body while it arrives, and with an idempotency key what tells it from others."""
    has_key = any(name == b"idempotency-key" for name, _ in scope["headers"])
    digest = hashlib.blake2b(digest_size=16) if has_key else None
    if digest is not None:
        target = scope.get("raw_path") or scope["path"].encode()
        digest.update(b"%s %s?%s\n" % (scope["method"].encode(), target, scope["query_string"]))
        scope["omnigraph.digest"] = digest
    scope["omnigraph.body_bytes"] = 0

    async def measure() -> Message:
        message = await receive()
        if message["type"] == "http.request":
            body = message.get("body", b"")
            scope["omnigraph.body_bytes"] += len(body)
            if digest is not None:
                digest.update(body)
        return message

    return measure


def _told(scope: Scope, status: int, seconds: float) -> dict[str, Any]:
    """Return what the log says of a request that was answered: its route, not what callers wrote into the path."""
    actor = scope.get("omnigraph.actor")
    route = getattr(scope.get("route"), "path", None)
    graph_id = scope.get("path_params", {}).get("graph_id")
    return {
        "request_id": scope["omnigraph.request_id"],
        "method": scope["method"] if scope["method"] in _METHODS else "other",
        "route": route or "unknown",
        "status": status,
        "ms": round(seconds * 1000, 2),
        **({"graph": graph_id} if graph_id is not None and is_graph_id(graph_id) else {}),
        **({} if actor is None else {"actor": actor.name}),
    }


def _refused_head(scope: Scope) -> tuple[int, str] | None:
    """Return status and message if the head of a request is one that nobody sends in good faith."""
    target = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    if target > TARGET_BYTES:
        return 414, f"the address is longer than {TARGET_BYTES} bytes"
    size, framings = target, 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        framings += name in _FRAMINGS
    if size > HEAD_BYTES:
        return 431, f"the headers are longer than {HEAD_BYTES} bytes"
    if framings > 1:
        # Two ways to say where a body ends: whoever stands in between may have chosen the other one.
        return 400, "the body has a length and comes in chunks"
    if scope["http_version"] not in _VERSIONS:
        return 505, "only HTTP/1.0 and HTTP/1.1 are supported"
    return None


def _request_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _REQUEST_ID and 0 < len(value) <= _LONGEST_ID and all(0x20 <= byte < 0x7F for byte in value):
            return str(value.decode())
    return None


def _decoded(scope: Scope) -> str | None:
    """Return the path with every segment decoded by itself, so that an encoded slash stays inside its segment."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    segments = [unquote_to_bytes(segment) for segment in raw.partition(b"?")[0].split(b"/")]
    if any(INNER_SLASH.encode() in segment for segment in segments):
        return None
    try:
        return "/".join(segment.decode().replace("/", INNER_SLASH) for segment in segments)
    except UnicodeDecodeError:
        return None
