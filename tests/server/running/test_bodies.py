"""Bodies of all requests together take no more memory than the operator gives, however many senders there are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import omnigraph
from omnigraph.runtime import Runtime
from omnigraph.server.app import create_app
from omnigraph.server.config import ServedGraph, ServerLimits, ServerSettings
from omnigraph.server.main import open_service
from omnigraph.server.service import Service
from tests.server.inside import client_of
from tests.session_graph import RELAXED

pytestmark = pytest.mark.anyio
MOST = 4096
QUERY = b'{"query":"query q() { match { $p: Person } return { $p.name } }","params":{}}'


@pytest.fixture
def service(tmp_path) -> Service:
    omnigraph.init(str(tmp_path / "g"), "node Person { name: String @key }", settings=RELAXED).close()
    limits = ServerLimits(body_memory=MOST)
    graph = ServedGraph(graph_id="g", uri=str(tmp_path / "g"))
    return open_service(ServerSettings(graphs=(graph,), unauthenticated=True, limits=limits), Runtime.system())


class Sender:
    """Sends a body piece by piece, and takes the answer."""

    def __init__(self, app: Any) -> None:
        self.pieces: asyncio.Queue[tuple[bytes, bool]] = asyncio.Queue()
        self.status = 0
        self.task = asyncio.create_task(app(self._scope(), self._receive, self._send))

    def _scope(self) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/graphs/g/query",
            "raw_path": b"/graphs/g/query",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }

    async def _receive(self) -> dict[str, Any]:
        data, has_more = await self.pieces.get()
        return {"type": "http.request", "body": data, "more_body": has_more}

    async def _send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)


async def until_held(service: Service, size: int) -> None:
    for _ in range(10_000):
        if service.bodies.size == size:
            return
        await asyncio.sleep(0)
    assert service.bodies.size == size


async def test_many_large_bodies_are_refused_before_they_fill_the_memory(service):
    app = create_app(service)
    async with client_of(service) as http:
        first = Sender(app)
        first.pieces.put_nowait((QUERY + b" " * (MOST - len(QUERY) - 10), True))
        await until_held(service, MOST - 10)
        others = [Sender(app) for _ in range(4)]
        for other in others:
            other.pieces.put_nowait((b" " * 11, True))
        await asyncio.gather(*(other.task for other in others))
        assert [other.status for other in others] == [429] * 4
        # What was refused holds nothing.
        assert service.bodies.size == MOST - 10
        refused = await http.post("/graphs/g/query", content=QUERY, headers={"content-type": "application/json"})
        assert (refused.status_code, "bytes of request bodies" in refused.json()["error"]) == (429, True)
        first.pieces.put_nowait((b"", False))
        await first.task
        assert (first.status, service.bodies.size) == (200, 0)
        again = await http.post("/graphs/g/query", content=QUERY, headers={"content-type": "application/json"})
        assert (again.status_code, service.bodies.size) == (200, 0)


async def test_a_sender_that_goes_away_holds_nothing(service):
    app = create_app(service)
    gone = Sender(app)
    gone.pieces.put_nowait((b" " * 100, True))
    await until_held(service, 100)
    gone.task.cancel()
    await asyncio.gather(gone.task, return_exceptions=True)
    assert service.bodies.size == 0
    service.close()
