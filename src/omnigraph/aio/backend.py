"""``AsyncBackend`` executes requests for an event loop: in threads of this process, or by asking a server."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Literal, Protocol

from omnigraph.client import ClientSettings, GraphAddress
from omnigraph.engine.results.frames import library
from omnigraph.graph.opening import INSTALL
from omnigraph.operations.request import NOTHING, Attachments, Backend, Request, Response
from omnigraph.txn.graph_store import OpenMode


class AsyncBackend(Protocol):
    """What executes requests: the engine of this process in threads, or a server."""

    @property
    def uri(self) -> str:
        """Where the graph lives."""

    @property
    def mode(self) -> Literal["read_write", "read_only"]:
        """Whether the graph may be written to."""

    async def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request and return its response."""

    async def close(self) -> None:
        """Finish what is under way and let go of everything."""


class AsyncLocalBackend:
    """Executes requests on a graph of this process, each in a thread."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._inner.uri

    @property
    def mode(self) -> Literal["read_write", "read_only"]:
        """Whether the graph may be written to."""
        return self._inner.mode

    async def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request in a thread.

        A read whose task is cancelled is stopped; a write that has begun is finished.
        """
        stop = attached.cancel or threading.Event()
        beside = attached if request.operation.writes else replace(attached, cancel=stop)
        try:
            return await asyncio.to_thread(self._inner.execute, request, beside)
        except asyncio.CancelledError:
            if not request.operation.writes:
                stop.set()
            raise

    async def close(self) -> None:
        """Finish what is under way and let go of everything."""
        await asyncio.to_thread(self._inner.close)


async def connect(uri: str, *, token: str | None, mode: OpenMode, settings: ClientSettings | None) -> AsyncBackend:
    """Return a backend that asks a server; takes what :func:`omnigraph.graph.opening.connect` does."""
    library("httpx2", hint=INSTALL)
    from omnigraph.client._async.backend import AsyncRemoteBackend  # noqa: PLC0415 - needs a library that few have

    backend = AsyncRemoteBackend(GraphAddress.parse(uri), token=token, mode=mode, settings=settings)
    try:
        await backend.connect()
    except BaseException:
        await backend.close()
        raise
    return backend
