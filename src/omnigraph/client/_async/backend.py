"""``AsyncRemoteBackend``: a graph of a server, asked by requests."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, cast

import httpx2

from omnigraph.client.address import GraphAddress
from omnigraph.client.async_io import CAN_BE_LAZY, HttpClient, HttpResponse, answer_lazily, body_of, sleep, watching
from omnigraph.client.exchange import Exchange, Handshake, Incoming, common_headers, incompatible, refusal
from omnigraph.client.settings import ClientSettings
from omnigraph.errors import (
    ForkedProcessError,
    OmnigraphError,
    ServerFault,
    ServerIncompatibleError,
    ServerUnreachableError,
)
from omnigraph.operations.request import NOTHING, Attachments, Request, Response, not_pickled
from omnigraph.operations.wire import MEDIA_TYPE
from omnigraph.runtime import Runtime
from omnigraph.txn.services import graph_closed

_MOST_ERROR_BYTES = 16 << 20
_PAGE = "a page instead of an answer"
# What fails before anything was sent.
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


class AsyncRemoteBackend:
    """Sends requests to a server and returns what it answers. It may be shared.

    Args:
        address: where the graph is.
        token: who asks; it is sent with every request and never shown.
        mode: ``read_only`` refuses writes without sending them.
        settings: how to wait for the server.
    """

    def __init__(
        self,
        address: GraphAddress,
        *,
        token: str | None = None,
        mode: Literal["read_write", "read_only"] = "read_write",
        settings: ClientSettings | None = None,
    ) -> None:
        self.uri = str(address)
        self.mode = mode
        self._address = address
        self._settings = settings or ClientSettings()
        self._runtime = Runtime.system()
        self._handshake = Handshake(repeats_safely=False)
        self._is_closed = False
        self._process_id = os.getpid()
        waits = httpx2.Timeout(self._settings.timeout_s, connect=self._settings.connect_timeout_s)
        limits = httpx2.Limits(max_connections=self._settings.connections)
        self._http = HttpClient(headers=common_headers(token), timeout=waits, limits=limits, follow_redirects=False)

    async def connect(self) -> None:
        """See that the server speaks the wire format and serves the graph.

        Raises:
            ServerUnreachableError: it cannot be reached.
            ServerIncompatibleError: it is another server, or one of another version.
            OmnigraphError: it does not serve the graph, or not to the caller.
        """
        address = self._address
        try:
            async with self._http.stream("GET", address.url("operations")) as reply:
                data = await _read(reply)
        except httpx2.HTTPError as problem:
            fault = ServerFault(address=address.server, reason=_reason(problem))
            raise ServerUnreachableError(f"cannot reach '{address.server}': {fault.reason}", details=fault) from problem
        if data is None:
            raise incompatible(address, _PAGE)
        if reply.status_code != httpx2.codes.OK:
            raise refusal(address, reply.status_code, reply.headers, data)
        self._handshake = Handshake.of(address, data)

    async def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Send a request and return the response.

        It is sent again where the error of an attempt says that it may be. A write has a key, under which a server does
        it once however often it arrives.

        Raises:
            GraphClosedError: the graph is closed.
            ForkedProcessError: it was opened before this process was forked off.
            ServerUnreachableError, ServerTimeoutError: the server cannot be reached, or does not answer.
            RequestOutcomeError: the answer to a write was lost, and its outcome could not be looked up.
            OmnigraphError: whatever the operation raises.
        """
        # Two processes that read from one connection would get each other's answers.
        if os.getpid() != self._process_id:
            raise ForkedProcessError("this graph was opened before the process was forked")
        if self._is_closed:
            raise graph_closed()
        exchange = Exchange(
            self._address, request, attached, self._settings, self._runtime, is_read_only=self.mode == "read_only"
        )
        with exchange:
            while True:
                incoming = exchange.begin()
                try:
                    async with watching(attached.cancel, lambda: self._stop(exchange.request_id)):
                        return cast("Response", await self._send(exchange, incoming))
                except OmnigraphError as problem:
                    error = exchange.judge(problem)
                    wait_s = exchange.wait_before_retry(error, incoming, self._handshake)
                    if wait_s is None and error is not problem:
                        raise error from problem
                    if wait_s is None:
                        raise
                await sleep(wait_s)

    async def close(self) -> None:
        """Let go of the connections; harmless when closed already. Writes that the server has begun are finished."""
        self._is_closed = True
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> NoReturn:
        raise not_pickled(self.uri)

    async def _send(self, exchange: Exchange, incoming: Incoming) -> Any:
        """Make one attempt."""
        outgoing = self._http.build_request(
            "POST", exchange.url, headers=exchange.headers(), content=body_of(exchange.body())
        )
        is_kept = False
        reply: HttpResponse | None = None
        try:
            reply = await self._http.send(outgoing, stream=True)
            if not _is_frames(reply):
                raise await self._refusal(exchange, reply)
            try:
                chunks = reply.aiter_raw()
                while not incoming.is_complete:
                    chunk = await anext(chunks, None)
                    if chunk is None:
                        raise exchange.lost("the answer was cut off", is_timeout=False, was_sent=True)
                    incoming.feed(chunk)
                    if CAN_BE_LAZY and exchange.is_lazy and incoming.has_answer and not incoming.is_complete:
                        is_kept = True
                        return answer_lazily(exchange, incoming, reply, chunks)
                return exchange.finish(incoming.response())
            except ServerIncompatibleError as problem:
                raise exchange.garbled(problem) from problem
        except httpx2.HTTPError as problem:
            is_timeout = isinstance(problem, httpx2.TimeoutException)
            was_sent = not isinstance(problem, _UNSENT)
            raise exchange.lost(_reason(problem), is_timeout=is_timeout, was_sent=was_sent) from problem
        except RuntimeError as problem:
            # What the library says of a client that was closed meanwhile.
            if not self._is_closed:
                raise
            raise graph_closed() from problem
        finally:
            if reply is not None and not is_kept:
                await reply.aclose()

    async def _refusal(self, exchange: Exchange, reply: HttpResponse) -> OmnigraphError:
        """Return the error that an answer without frames stands for."""
        data = await _read(reply)
        if data is None:
            return exchange.garbled(incompatible(exchange.address, _PAGE))
        return exchange.refused(reply.status_code, reply.headers, data)

    async def _stop(self, request_id: str) -> None:
        """Ask the server to stop a read; it answers the read itself with what came of it."""
        try:
            async with self._http.stream("POST", self._address.url("operations", request_id, "cancel")) as reply:
                await _read(reply)
        except (httpx2.HTTPError, RuntimeError):
            # The read then ends by itself, or with the connection.
            return


async def _read(reply: HttpResponse) -> bytes | None:
    """Return an answer as it is sent; None if it is longer than any of a server."""
    data = bytearray()
    async for chunk in reply.aiter_raw():
        data += chunk
        if len(data) > _MOST_ERROR_BYTES:
            return None
    return bytes(data)


def _is_frames(reply: HttpResponse) -> bool:
    return reply.status_code == httpx2.codes.OK and reply.headers.get("content-type", "").startswith(MEDIA_TYPE)


def _reason(problem: Exception) -> str:
    return str(problem) or type(problem).__name__
