"""What a server says about the graphs it serves and cannot serve, and about writers it does not know."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.client import GraphAddress
from omnigraph.client.exchange import common_headers, refusal
from omnigraph.errors import Effect, GraphBlockedError, InternalError, Retry, error_from_json
from omnigraph.runtime import Runtime
from omnigraph.server.access.decisions import Access
from omnigraph.server.cluster import cluster_settings
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.control.control import Control
from omnigraph.server.control.settings import ControlSettings
from omnigraph.server.graphs import Graphs
from omnigraph.server.main import open_service
from omnigraph.server.routes import operations
from omnigraph.server.service import Service
from tests.applied_cluster import apply_directory
from tests.server.inside import Watched, client_of
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
HIDDEN = "lost in a drawer"
AFTER = Retry.AFTER_RECOVERY
FULL = {"Omnigraph-Http-Api": "0.13"}
CONFIG = """\
version: 1
graphs:
  gone: {schema: people.pg}
  my_graph: {schema: people.pg}
  people: {schema: people.pg}
policies:
  people-acl: {file: people.yaml, applies_to: [people]}
  server-acl: {file: server.yaml, applies_to: [cluster]}
"""
SERVER_POLICY = """\
version: 1
kind: server
groups: {listers: [ann]}
rules:
  - {id: list, allow: {actors: {group: listers}, actions: [graph_list]}}
"""
GRAPH_POLICY = """\
version: 1
groups: {all: [ann]}
rules:
  - {id: read, allow: {actors: {group: all}, actions: [read]}}
"""
TOKENS = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"ann": "token-ann"})}
ANN = {"Authorization": "Bearer token-ann"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("serving") / "g.omni"
    omnigraph.init(place, SCHEMA, settings=RELAXED).close()
    return place


def open_cluster(root: Path) -> Service:
    """Open a cluster of three graphs, of which two cannot be served."""
    for name, text in (("cluster", CONFIG), ("people", GRAPH_POLICY), ("server", SERVER_POLICY)):
        (root / f"{name}.yaml").write_text(text, encoding="utf-8")
    (root / "people.pg").write_text(SCHEMA, encoding="utf-8")
    apply_directory(root)
    shutil.rmtree(root / "graphs" / "gone.omni")
    settings = cluster_settings(str(root))
    graphs = Graphs.open(settings)
    runtime = Runtime.system()
    access = Access.from_settings(settings, graphs.policies, TOKENS)
    return Service(settings, graphs, access, runtime, Control(ControlSettings(), runtime.clock))


@pytest.mark.anyio
async def test_a_blocked_graph_is_shown_to_callers_that_know_of_them(tmp_path: Path):
    async with client_of(open_cluster(tmp_path), ANN) as http:
        base = await http.get("/graphs")
        people = {"graph_id": "people", "uri": "/graphs/people"}
        assert base.content == json.dumps({"graphs": [people]}, separators=(",", ":")).encode()
        for level in ("0.10", "0.12", "13", "new", "0.13.1"):
            assert (await http.get("/graphs", headers={"Omnigraph-Http-Api": level})).content == base.content
        listed = (await http.get("/graphs", headers=FULL)).json()["graphs"]
        assert [(graph["graph_id"], graph["state"]) for graph in listed] == [
            ("gone", "blocked"),
            ("my_graph", "blocked"),
            ("people", "ready"),
        ]
        assert listed[2] == {**people, "state": "ready"}
        assert "letters, digits and dashes" in listed[1]["reason"]
        assert listed[0]["reason"]


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "path"), [("GET", "schema"), ("POST", "query"), ("GET", "operations")])
async def test_routes_of_a_blocked_graph(tmp_path: Path, method: str, path: str):
    async with client_of(open_cluster(tmp_path), ANN) as http:
        base = await http.request(method, f"/graphs/gone/{path}")
        assert (base.status_code, base.json()["error"]) == (404, "graph 'gone' not found")
        full = await http.request(method, f"/graphs/gone/{path}", headers=FULL)
        assert (full.status_code, full.json()["error"]) == (503, "graph 'gone' is blocked")
        assert "code" not in full.json()
        assert (await http.request(method, f"/graphs/none/{path}", headers=FULL)).status_code == 404
        # Who is not known learns nothing.
        for headers in ({}, FULL):
            asked = await http.request(method, f"/graphs/gone/{path}", headers={**headers, "Authorization": "Bearer x"})
            assert asked.status_code == 401


@pytest.mark.anyio
async def test_an_open_server_has_no_actors(place: Path):
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), unauthenticated=True)
    service = open_service(settings)
    async with client_of(service) as http:
        headers = {"X-Actor-Id": "ann"}
        body = {"query": ADD, "params": {"name": "a"}, "actor": "ann"}
        done = (await http.post("/graphs/g/mutate", json=body, headers=headers)).json()
        assert (done["actor_id"], done["commit"]["actor_id"]) == (None, None)
        asked = {"operation": "mutate", "text": ADD, "params": {"name": "b"}, "actor": "ann"}
        wire = {"Omnigraph-Wire": "1"}
        refused = await http.post("/graphs/g/operations/mutate", json=asked, headers=wire)
        assert (refused.status_code, refused.json()["error"]) == (
            400,
            "a server without tokens has no actors, so 'ann' cannot write",
        )
        done = await http.post("/graphs/g/operations/mutate", json={**asked, "actor": None}, headers=wire)
        assert done.status_code == 200
        commits = (await http.get("/graphs/g/commits?limit=2")).json()["commits"]
        assert [commit["actor_id"] for commit in commits] == [None, None]


@pytest.mark.anyio
async def test_an_open_server_may_be_told_to_trust_the_names_that_writes_bring(place: Path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_TRUST_ACTORS", "1")
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), unauthenticated=True)
    async with client_of(open_service(settings)) as http:
        asked = {"operation": "mutate", "text": ADD, "params": {"name": "trusted"}, "actor": "ann"}
        wire = {"Omnigraph-Wire": "1"}
        assert (await http.post("/graphs/g/operations/mutate", json=asked, headers=wire)).status_code == 200
        # Headers and bodies of the base contract name nobody.
        body = {"query": ADD, "params": {"name": "base"}, "actor": "ann"}
        assert (await http.post("/graphs/g/mutate", json=body)).json()["actor_id"] is None
        commits = (await http.get("/graphs/g/commits?limit=2")).json()["commits"]
        assert [commit["actor_id"] for commit in commits] == [None, "ann"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "problem", "retry", "effect"),
    [
        ("operations/mutate", InternalError(HIDDEN, retry=AFTER, effect=Effect.PUBLISHED), AFTER, Effect.PUBLISHED),
        ("mutate", InternalError(HIDDEN, retry=AFTER, effect=Effect.PUBLISHED), AFTER, Effect.PUBLISHED),
        ("operations/mutate", RuntimeError(HIDDEN), Retry.NEVER, Effect.UNKNOWN),
        ("operations/query", RuntimeError(HIDDEN), Retry.NEVER, Effect.NONE),
    ],
)
async def test_a_client_of_ours_learns_what_a_bug_left_behind(place: Path, path, problem, retry, effect):
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), unauthenticated=True)
    service = open_service(settings)

    def fail(request: object) -> None:
        raise problem

    served = service.graphs.ready["g"]
    service.graphs = Graphs({"g": replace(served, backend=Watched(served.backend, fail))}, {})
    async with client_of(service) as http:
        body = {"operation": path.rpartition("/")[2], "text": ADD, "query": ADD, "params": {"name": "x"}}
        body.pop("query" if "/" in path else "text")
        answer = await http.post(f"/graphs/g/{path}", json=body, headers={"Omnigraph-Wire": "1"})
        assert answer.status_code == 500, answer.text
        assert HIDDEN not in answer.text
        told = error_from_json(answer.json()["problem"])
        assert (type(told), told.retry, told.effect) == (InternalError, retry, effect)


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "is_aside"), [("x", False), ("x" * 100_000, True)], ids=["short", "long"])
async def test_a_long_request_is_not_parsed_where_others_wait(place: Path, monkeypatch, name: str, is_aside: bool):
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), unauthenticated=True)
    threads: list[int] = []

    def parsed(data: bytes) -> object:
        threads.append(threading.get_ident())
        return json.loads(data)

    monkeypatch.setattr(operations, "from_bytes", parsed)
    async with client_of(open_service(settings)) as http:
        asked = {"operation": "mutate", "text": ADD, "params": {"name": name}}
        assert (await http.post("/graphs/g/operations/mutate", json=asked, headers={"Omnigraph-Wire": "1"})).is_success
    assert [one != threading.get_ident() for one in threads] == [is_aside]


@pytest.mark.anyio
async def test_a_client_of_ours_is_told_that_a_graph_is_blocked(tmp_path: Path):
    async with client_of(open_cluster(tmp_path)) as http:
        answer = await http.get("/graphs/gone/operations", headers=common_headers("token-ann"))
        address = GraphAddress(server="http://here", graph_id="gone")
        told = refusal(address, answer.status_code, answer.headers, answer.content)
        assert (type(told), told.message) == (GraphBlockedError, "graph 'gone' is blocked")
