"""What a request may do that waits while the configuration changes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx2
import pytest

from omnigraph.server.config import PolicyText, ServedGraph, ServerSettings
from omnigraph.server.main import open_service, reload_service
from omnigraph.server.service import Service
from tests.server.inside import client_of

BUNDLE = b"""\
version: 1
groups: {bosses: [boss]}
rules:
  - {id: read, allow: {actors: {group: bosses}, actions: [read]}}
"""
READ = json.dumps({"query": "query q() { match { $p: Person } return { $p.name } }"}).encode()
JSON = {"content-type": "application/json"}


async def ask_across(service: Service, after: ServerSettings) -> tuple[int, int]:
    """Read as somebody who may not, and again by a request whose body ends when the configuration has changed."""
    has_begun, is_reloaded = asyncio.Event(), asyncio.Event()

    async def body():
        yield READ[:10]
        has_begun.set()
        await is_reloaded.wait()
        yield READ[10:]

    async with client_of(service, {"authorization": "Bearer token-eve"}) as http:

        async def ask(content: object) -> int:
            answer: httpx2.Response = await http.post("/graphs/one/query", content=content, headers=JSON)
            return answer.status_code

        before = await ask(READ)
        waiting = asyncio.create_task(ask(body()))
        await has_begun.wait()
        await asyncio.to_thread(reload_service, service, lambda: after)
        is_reloaded.set()
        return before, await waiting


@pytest.mark.parametrize("change", ["the graph has another id", "the bundle is broken"])
def test_a_request_that_waits_is_never_decided_without_the_policy_of_its_graph(served_people, monkeypatch, change):
    monkeypatch.setenv("OMNIGRAPH_SERVER_BEARER_TOKENS_JSON", json.dumps({"boss": "token-boss", "eve": "token-eve"}))
    one = ServedGraph(graph_id="one", uri=str(served_people), policy=PolicyText(name="acl.yaml", data=BUNDLE))
    if change == "the graph has another id":
        after = ServerSettings(graphs=(replace(one, graph_id="two"),))
    else:
        broken = replace(one, policy=PolicyText(name="acl.yaml", data=b"version: 2"))
        after = ServerSettings(graphs=(broken, replace(one, graph_id="two", uri=f"{served_people}/.")))
    service = open_service(ServerSettings(graphs=(one,)))
    assert asyncio.run(ask_across(service, after)) == (403, 404)
