"""A server inside the process of a test: its parts can be watched, and its clock is that of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2

from omnigraph.operations.request import NOTHING, Attachments, Backend, Request
from omnigraph.server.app import create_app
from omnigraph.server.graphs import Graphs
from omnigraph.server.service import Service


class Watched:
    """A backend that tells of every request before another one executes it."""

    def __init__(self, inner: Backend, seen: Callable[[Request[Any]], None]) -> None:
        self._inner = inner
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, request: Request[Any], attached: Attachments = NOTHING) -> Any:
        self._seen(request)
        return self._inner.execute(request, attached)


def watch(service: Service, graph_id: str) -> list[Request[Any]]:
    """Return a list that all requests to a graph are added to from now on."""
    seen: list[Request[Any]] = []
    served = service.graphs.ready[graph_id]
    watched = replace(served, backend=Watched(served.backend, seen.append))
    service.graphs = Graphs({**service.graphs.ready, graph_id: watched}, service.graphs.blocked)
    return seen


@asynccontextmanager
async def client_of(service: Service, headers: Mapping[str, str] | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    """Return a client of a server that has no socket; the server is closed behind it."""
    transport = httpx2.ASGITransport(create_app(service))
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
            yield http
    finally:
        service.close()
