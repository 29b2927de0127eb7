"""A stream goes on only as long as its reader may read: identity and policy are asked again while it lasts."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import omnigraph
from omnigraph.policy.bundle import parse_bundle
from omnigraph.policy.policy import BundlePolicy
from omnigraph.runtime import ManualClock, Runtime
from omnigraph.server.access.decisions import Access
from omnigraph.server.access.identity import Identities
from omnigraph.server.app import create_app
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.control.admission import Admission
from omnigraph.server.control.control import Control
from omnigraph.server.control.settings import AdmissionLimits, ControlSettings, RequestLimits
from omnigraph.server.main import open_service
from omnigraph.server.routes import changes
from omnigraph.server.service import Service, Standing
from tests.server.process import WAIT_S
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key }"
POLICY = """\
version: 1
groups: {g: [eve]}
rules:
  - {id: r, allow: {actors: {group: g}, actions: [ACTION]}}
"""


def access(sent: str = "t", action: str = "read") -> Access:
    policy = BundlePolicy(parse_bundle(POLICY.replace("ACTION", action).encode(), "p"))
    return Access(Identities.of({"eve": sent}, source="a test"), {"g": policy}, is_unauthenticated=False)


REVOKED: dict[str, tuple[Callable[[], Access], str]] = {
    "token": (lambda: access("another"), "unauthorized"),
    "policy": (lambda: access(action="export"), "forbidden"),
    "actor": (
        lambda: Access(Identities.of({"jon": "t"}, source="a test"), {}, is_unauthenticated=False),
        "unauthorized",
    ),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def service(tmp_path: Path, clock: ManualClock):
    omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED).close()
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(tmp_path / "g")),), unauthenticated=True)
    opened = open_service(settings, Runtime.system(), Control(ControlSettings(limits=RequestLimits()), clock))
    opened.access = access()
    yield opened
    opened.close()


@asynccontextmanager
async def streaming(service: Service) -> AsyncIterator[Callable[[], Any]]:
    """Follow the changes of main; what is yielded returns the next event, and None at the end."""
    give, take = anyio.create_memory_object_stream[bytes | None](100)

    async def receive() -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await give.send(message.get("body") or None)

    async def event() -> dict[str, Any] | None:
        data = await take.receive()
        return None if data is None else json.loads(data.split(b"data: ")[-1])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": "/graphs/g/changes/stream",
        "raw_path": b"/graphs/g/changes/stream",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer t"), (b"host", b"here")],
        "scheme": "http",
        "server": ("here", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    async with give, take, anyio.create_task_group() as tasks:
        tasks.start_soon(create_app(service), scope, receive, send)
        yield event
        tasks.cancel_scope.cancel()


def write(service: Service, name: str) -> None:
    graph = omnigraph.open(service.graphs.ready["g"].uri, settings=RELAXED)
    with graph:
        graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}')


@pytest.mark.anyio
@pytest.mark.parametrize("what", REVOKED)
async def test_no_page_is_delivered_to_a_reader_who_may_not_read_any_more(service: Service, what):
    make, code = REVOKED[what]
    async with streaming(service) as event:
        assert (await event())["blocks"] == []
        write(service, "before")
        assert "before" in json.dumps(await event())
        service.access = make()
        write(service, "secret")
        last = await event()
        assert (last["code"], "secret" in json.dumps(last)) == (code, False)
        assert await event() is None


@pytest.mark.anyio
@pytest.mark.parametrize("what", REVOKED)
async def test_a_silent_stream_ends_when_it_is_asked_again(service: Service, clock: ManualClock, what):
    make, code = REVOKED[what]
    async with streaming(service) as event:
        assert (await event())["blocks"] == []
        service.access = make()
        clock.sleep(Standing.EVERY_S)
        assert (await event())["code"] == code
        assert await event() is None


@pytest.mark.anyio
async def test_a_stream_that_meets_a_bug_ends_with_an_error(service: Service, monkeypatch):
    async with streaming(service) as event:
        assert (await event())["blocks"] == []
        monkeypatch.setattr(changes, "_batch_document", None)
        write(service, "one")
        last = await event()
        assert (last["code"], last["status"], last["resumable"]) == ("internal", 500, True)
        assert await event() is None


@pytest.mark.anyio
async def test_change_streams_are_limited_for_one_actor_and_in_all(service: Service):
    service.control.admission = Admission(AdmissionLimits(actor_feeds=2, all_feeds=3))
    other = service.control.admission.follow("other")
    async with streaming(service) as one:
        assert (await one())["blocks"] == []
        async with streaming(service) as two:
            assert (await two())["blocks"] == []
            async with streaming(service) as three:
                assert (await three())["resource_limit"]["resource"] == "change streams of one actor"
        # The second has ended, and its place is free.
        another = service.control.admission.follow("another")
        async with streaming(service) as four:
            assert (await four())["resource_limit"] == {"resource": "change streams", "limit": 3, "actual": 4}
        another()
        other()
    service.control.admission.follow("mine")


@pytest.mark.anyio
async def test_slow_reads_of_one_actor_leave_threads_to_others(service: Service):
    service.settings = replace(service.settings, limits=replace(service.settings.limits, threads=4))
    go_on, began = threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        began.release()
        assert go_on.wait(WAIT_S)

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(partial(service.run, hold, actor="slow"))
        for _ in range(3):
            await anyio.to_thread.run_sync(began.acquire)
        assert await service.run(lambda: "read", actor="other") == "read"
        assert not began.acquire(blocking=False)
        go_on.set()
