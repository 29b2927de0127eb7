"""``Idempotency-Key`` on every route that writes: sent again it is told what became of the first, and nothing is done.

Every route that is no plain read stands in one of the two tables below. A route that is added later stands in neither,
and fails here until somebody has decided about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

import omnigraph
from omnigraph.ir.stored_queries import QuerySource
from omnigraph.server.app import GROUPS
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.main import open_service
from omnigraph.server.service import Service
from tests.server.inside import client_of
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key  age: I32? }"
QUERIES = "query put($name: String) { insert Person { name: $name } }"
NDJSON = {"Content-Type": "application/x-ndjson"}
WIRE = {"Omnigraph-Wire": "1"}
GRAPH = "/graphs/{graph_id}"


def put(name: str) -> dict[str, Any]:
    return {"query": QUERIES, "params": {"name": name}}


def line(name: str) -> str:
    return json.dumps({"type": "Person", "data": {"name": name}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A write, and another one that the same route takes; ``<head>`` in a header or path is the newest commit."""

    write: Mapping[str, Any]
    other: Mapping[str, Any]
    path: str = ""
    other_path: str | None = None


def body(write: Any, other: Any, **options: Any) -> Case:
    return Case(write={"json": write}, other={"json": other}, **options)


CONDITION = {"Omnigraph-If-Graph-Commit": "<head>"}
WRITES: dict[tuple[str, str], Case] = {
    ("POST", "mutate"): body(put("a"), put("b")),
    ("POST", "change"): body(put("a"), put("b")),
    ("POST", "mutate/if-graph-commit"): Case(
        write={"json": put("a"), "headers": CONDITION}, other={"json": put("b"), "headers": CONDITION}
    ),
    ("POST", "queries/{name}"): body({"params": {"name": "a"}}, {"params": {"name": "b"}}, path="queries/put"),
    ("POST", "queries/{name}/if-graph-commit"): Case(
        path="queries/put/if-graph-commit",
        write={"json": {"params": {"name": "a"}}, "headers": CONDITION},
        other={"json": {"params": {"name": "b"}}, "headers": CONDITION},
    ),
    ("POST", "load"): body({"data": line("a"), "branch": "new", "from": "main"}, {"data": line("b")}),
    ("POST", "ingest"): body({"data": line("a")}, {"data": line("b")}),
    ("POST", "load/ndjson"): Case(
        path="load/ndjson?branch=new&from=main",
        write={"content": line("a"), "headers": NDJSON},
        other={"content": line("b"), "headers": NDJSON},
    ),
    ("POST", "branches"): body({"name": "new"}, {"name": "newer"}),
    ("DELETE", "branches/{branch}"): Case(path="branches/side", other_path="branches/else", write={}, other={}),
    ("POST", "branches/merge"): body({"source": "side", "delete_branch": True}, {"source": "else"}),
    ("POST", "tags"): body({"name": "v1"}, {"name": "v2"}),
    ("DELETE", "tags/{name}"): Case(path="tags/old", other_path="tags/older", write={}, other={}),
    ("POST", "commits/{commit_id}/revert"): body({}, {"message": "no"}, path="commits/<head>/revert"),
    ("POST", "schema/apply"): body(
        {"schema_source": SCHEMA.replace("age: I32?", "age: I64?")}, {"schema_source": SCHEMA}
    ),
    ("POST", "maintenance/optimize"): body({}, {"types": ["Person"]}),
    ("POST", "maintenance/cleanup"): body({"keep": 1, "confirm": True}, {"keep": 2, "confirm": True}),
    ("POST", "maintenance/migrate"): body({}, {"message": "m"}),
    ("POST", "operations/{operation}"): Case(
        path="operations/create_tag",
        write={"json": {"operation": "create_tag", "name": "v1", "at": "main"}, "headers": WIRE},
        other={"json": {"operation": "create_tag", "name": "v2", "at": "main"}, "headers": WIRE},
    ),
}
# Why a route that is not GET has no key.
READS = {
    ("POST", "query"): "reads",
    ("POST", "read"): "reads",
    ("POST", "explain"): "reads",
    ("POST", "export"): "reads",
    ("POST", "changes/baseline"): "reads",
    ("POST", "mcp"): "tools that write take the key as an argument; tests/mcp sends it twice",
    ("POST", "/mcp"): "the same",
    ("POST", "operations/{request_id}/cancel"): "stops a read; again it stops nothing",
}


def routes() -> set[tuple[str, str]]:
    return {
        (method, route.path.removeprefix(f"{GRAPH}/"))
        for group in GROUPS
        for route in group.router.routes
        for method in route.methods - {"GET", "HEAD"}
    }


def test_every_route_is_decided_about():
    assert routes() == WRITES.keys() | READS.keys()
    assert not WRITES.keys() & READS.keys()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=RELAXED) as graph:
        graph.mutate(QUERIES, {"name": "first"})
        for branch in ("side", "else"):
            graph.create_branch(branch).mutate(QUERIES, {"name": branch})
        graph.create_tag("old")
        graph.create_tag("older")
    served = ServedGraph(graph_id="g", uri=str(tmp_path / "g.omni"), queries=(QuerySource(name="q.gq", text=QUERIES),))
    return open_service(ServerSettings(graphs=(served,), unauthenticated=True))


class Sender:
    """Sends a write under one key."""

    def __init__(self, http: httpx2.AsyncClient, head: str) -> None:
        self._http = http
        self._head = head

    async def send(self, method: str, path: str, write: Mapping[str, Any]) -> httpx2.Response:
        given = {name: value.replace("<head>", self._head) for name, value in write.get("headers", {}).items()}
        options = {**write, "headers": {**given, "Idempotency-Key": "once"}}
        return await self._http.request(method, f"/graphs/g/{path.replace('<head>', self._head)}", **options)


async def state_of(http: httpx2.AsyncClient) -> tuple[Any, ...]:
    """Return what writes can change: the newest commits of all branches, and the tags."""
    branches = (await http.get("/graphs/g/branches?verbose=true")).json()["details"]
    tags = (await http.get("/graphs/g/tags")).json()["tags"]
    return [(one["name"], one["head"]["graph_commit_id"]) for one in branches], [tag["name"] for tag in tags]


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "route"), sorted(WRITES))
async def test_a_write_that_is_sent_again_is_answered_as_the_first(service: Service, method: str, route: str):
    case = WRITES[method, route]
    path, other_path = case.path or route, case.other_path or case.path or route
    async with client_of(service) as http:
        head = (await http.get("/graphs/g/commits?limit=1")).json()["commits"][0]["graph_commit_id"]
        sender = Sender(http, head)
        first = await sender.send(method, path, case.write)
        assert first.status_code == 200, first.text
        done = await state_of(http)
        again = await sender.send(method, path, case.write)
        assert (again.status_code, again.content) == (200, first.content)
        assert await state_of(http) == done
        other = await sender.send(method, other_path, case.other)
        assert other.status_code == 422, other.text
        assert "idempotency key was used before" in other.json()["error"]
        assert await state_of(http) == done


# Their commits carry the key, so that another server answers too. The others answer for an hour, in one process.
IN_HISTORY = sorted(
    key
    for key in WRITES
    if key[1] not in {"branches", "branches/{branch}", "tags", "tags/{name}", "operations/{operation}"}
    and not key[1].startswith("maintenance/")
)


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "route"), IN_HISTORY)
async def test_another_server_answers_a_commit_that_was_made_before(service: Service, method: str, route: str):
    case, settings = WRITES[method, route], service.settings
    path = case.path or route
    async with client_of(service) as http:
        head = (await http.get("/graphs/g/commits?limit=1")).json()["commits"][0]["graph_commit_id"]
        first = await Sender(http, head).send(method, path, case.write)
        assert first.status_code == 200, first.text
        done = await state_of(http)
    async with client_of(open_service(settings)) as http:
        again = await Sender(http, head).send(method, path, case.write)
        assert again.status_code == 200, again.text
        assert again.json()["commit"] == first.json()["commit"]
        assert await state_of(http) == done


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "route"), sorted(WRITES))
async def test_a_condition_is_never_overlooked(service: Service, method: str, route: str):
    """It is refused where it does not belong, and demanded once where it does."""
    case = WRITES[method, route]
    async with client_of(service) as http:
        head = (await http.get("/graphs/g/commits?limit=1")).json()["commits"][0]["graph_commit_id"]
        before = await state_of(http)
        path = (case.path or route).replace("<head>", head)
        given = [pair for pair in case.write.get("headers", {}).items() if pair[0] not in CONDITION]
        for conditions in ([], [head, head]) if route.endswith("/if-graph-commit") else ([head],):
            headers = [*given, *(("Omnigraph-If-Graph-Commit", one) for one in conditions)]
            answer = await http.request(method, f"/graphs/g/{path}", **{**case.write, "headers": headers})
            assert (answer.status_code, "Omnigraph-If-Graph-Commit" in answer.text) == (400, True)
        assert await state_of(http) == before
