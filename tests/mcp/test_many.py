"""A server without its sockets: several graphs behind one path, and what happens where the SDK is missing."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from omnigraph.errors import OriginError
from omnigraph.ir.stored_queries import QueryEntry
from omnigraph.mcp.catalogue import BUILT_IN, offered
from omnigraph.mcp.tools.stored import query_tools
from omnigraph.runtime import Runtime
from omnigraph.server.access.decisions import Access
from omnigraph.server.access.origins import check_origin
from omnigraph.server.app import create_app
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.control.control import Control
from omnigraph.server.control.settings import AgentSettings, ControlSettings
from omnigraph.server.graphs import Graphs
from omnigraph.server.service import Service
from tests.mcp.agent import Agent, connect
from tests.mcp.conftest import make_club

BOATS = "query q() { match { $b: Boat } return { count($b) as n } }"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of two graphs that everybody may read and write."""
    folder = tmp_path_factory.mktemp("many")
    served = tuple(ServedGraph(graph_id=name, uri=str(make_club(folder / f"{name}.omni"))) for name in ("one", "two"))
    settings = ServerSettings(graphs=served, unauthenticated=True)
    service = Service(settings, Graphs.open(settings), Access(), Runtime.system())
    yield service
    service.close()


@asynccontextmanager
async def _streams(service: Service, path: str) -> AsyncIterator[Any]:
    transport = httpx2.ASGITransport(create_app(service))
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http,
        streamable_http_client(f"http://localhost{path}", http_client=http) as streams,
    ):
        yield streams


def post(service: Service, path: str = "/mcp", **headers: str) -> httpx2.Response:
    async def send() -> httpx2.Response:
        transport = httpx2.ASGITransport(create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            accepted = {"Accept": "application/json, text/event-stream"}
            return await http.post(path, json=message, headers={**accepted, **headers})

    return anyio.run(send)


@pytest.fixture
def agent(service: Service) -> Iterator[Agent]:
    with connect(_streams(service, "/mcp")) as connected:
        yield connected


def test_one_of_several_graphs_is_named_by_an_argument(agent: Agent, service: Service):
    schema = agent.tools()["query"].input_schema
    assert "graph" in schema["properties"]
    assert "graph" in schema["required"]
    before = agent.call("query", graph="one", text=BOATS)["rows"]
    agent.call("load", graph="two", records=[{"type": "Boat", "data": {"sail": "X", "name": "X"}}])
    assert agent.call("branch_list", graph="one", text="agents/")["found"] == 0
    assert agent.call("branch_list", graph="two", text="agents/agent/")["found"] == 1
    assert agent.call("query", graph="two", text=BOATS)["rows"] == before
    error = agent.fail("query", text=BOATS)
    assert (error["code"], error["hint"]) == ("usage", "name it with the argument graph")
    assert agent.fail("query", graph="three", text=BOATS)["code"] == "graph.not_found"
    assert agent.fail("query", graph=3, text=BOATS)["code"] == "agent.arguments"
    assert agent.fail("query", graph="../one", text=BOATS)["code"] == "usage"


def test_resources_of_several_graphs_have_addresses_of_their_own(agent: Agent):
    assert "node Boat" in agent.read("omnigraph://graphs/one/schema")
    assert agent.unread("omnigraph://schema").error.data["code"] == "agent.not_found"
    assert agent.unread("omnigraph://graphs/three/schema").error.data["code"] == "graph.not_found"


def test_a_path_may_name_the_graph(service: Service):
    with connect(_streams(service, "/graphs/two/mcp")) as connected:
        assert "graph" not in connected.tools()["query"].input_schema["properties"]
        assert connected.call("query", text=BOATS)["rows"]
        # The argument belongs to the other path.
        assert connected.fail("query", graph="one", text=BOATS)["code"] == "agent.arguments"
        assert "omnigraph://schema" in connected.resources()


def test_a_read_only_server_offers_no_tool_that_writes(service: Service):
    settings = ControlSettings(agents=AgentSettings(is_read_only=True))
    guarded = Service(
        service.settings, service.graphs, Access(), Runtime.system(), Control(settings, Runtime.system().clock)
    )
    with connect(_streams(guarded, "/graphs/one/mcp")) as connected:
        assert "mutate" not in connected.tools()
        assert connected.fail("mutate", text="query q() { delete Boat where sail != '' }")["code"] == "agent.not_found"


def test_without_the_sdk_the_routes_say_what_to_install(service: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    for path in ("/mcp", "/graphs/one/mcp"):
        answer = post(service, path)
        assert (answer.status_code, answer.json()["error"]) == (501, "this route needs mcp, which is not installed")


def test_storage_that_fails_is_not_described_to_agents(agent: Agent, service: Service, tmp_path: Path):
    """What an internal error says of places stays in the log."""
    backend = service.graphs.ready["one"].backend

    def broken(request: Any, attached: Any = None) -> Any:
        raise RuntimeError(f"lost {tmp_path}")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(backend), "execute", broken)
        error = agent.fail("query", graph="one", text=BOATS)
    assert (error["code"], str(tmp_path) in str(error)) == ("internal", False)


def test_settings_of_the_environment_are_read():
    found = AgentSettings.from_environment(
        {
            "OMNIGRAPH_MCP_READ_ONLY": "1",
            "OMNIGRAPH_MCP_QUERY_TOOLS": "3",
            "OMNIGRAPH_MCP_HOSTS": "graphs.example.com, Other.example ,",
        }
    )
    assert found == AgentSettings(
        is_read_only=True, query_tools=3, hosts=frozenset({"graphs.example.com", "other.example"})
    )
    assert AgentSettings.from_environment({}) == AgentSettings()
    assert not AgentSettings.from_environment({"OMNIGRAPH_MCP": "false"}).is_on


@pytest.mark.parametrize(
    ("host", "origin", "bind", "hosts", "is_allowed"),
    [
        ("localhost:8080", None, "127.0.0.1", (), True),
        ("[::1]:8080", "http://[::1]:8080", "::1", (), True),
        ("evil.example:8080", None, "127.0.0.1", (), False),
        ("evil.example:8080", "http://evil.example:8080", "127.0.0.1", (), False),
        (None, None, "127.0.0.1", (), False),
        ("graphs.example.com", None, "127.0.0.1", ("graphs.example.com",), True),
        ("graphs.example.com", "https://graphs.example.com", "192.0.2.1", ("graphs.example.com",), True),
        ("other.example.com", None, "192.0.2.1", ("graphs.example.com",), False),
        ("192.0.2.1:8080", None, "192.0.2.1", ("graphs.example.com",), True),
        ("127.0.0.2:8080", "http://localhost:3000", "127.0.0.2", (), True),
        ("evil.example", None, "127.0.0.2", (), False),
        ("anything", None, "192.0.2.1", (), True),
        ("anything", "https://anything", "192.0.2.1", (), True),
        ("anything", "https://evil.example", "192.0.2.1", (), False),
        ("anything", "null", "192.0.2.1", (), False),
        ("localhost", "http://[", "127.0.0.1", (), False),
    ],
)
def test_hosts_and_origins_follow_the_table(host, origin, bind, hosts, is_allowed):
    try:
        check_origin(host, origin, bind=bind, hosts=hosts)
    except OriginError:
        assert not is_allowed
    else:
        assert is_allowed


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("192.0.2.1:8080", True),
        ("[2001:db8::1]:8080", True),
        ("graphs:8080", True),
        ("evil.example:8080", False),
        ("192.0.2.1.evil.example", False),
        (None, False),
    ],
)
def test_an_open_server_is_not_reached_by_a_name_that_anybody_could_have_made(host, is_allowed):
    # A server with tokens is, because a page has none.
    check_origin(host, None, bind="192.0.2.1", hosts=())
    try:
        check_origin(host, None, bind="192.0.2.1", hosts=(), is_open=True)
    except OriginError:
        assert not is_allowed
    else:
        assert is_allowed
    check_origin("graphs.example", None, bind="192.0.2.1", hosts=("graphs.example",), is_open=True)


def test_stored_queries_become_tools_up_to_a_limit_and_never_take_a_name():
    entries = [QueryEntry(name=f"q{number:02}", is_mutation=False, mcp_expose=True) for number in range(30)]
    entries += [QueryEntry(name=name, is_mutation=True, mcp_expose=True) for name in ("diff", "merge", "stored_merge")]
    entries.append(QueryEntry(name="aaa_hidden", is_mutation=False))
    assert list(query_tools(entries, BUILT_IN, 0)) == []
    all_of_them = query_tools(entries, BUILT_IN, 100)
    assert list(all_of_them)[:3] == ["stored_diff", "q00", "q01"]
    # The one whose other name is taken as well is run by its name alone.
    assert [name for name in all_of_them if "merge" in name] == ["stored_merge"]
    assert all_of_them["stored_merge"].title == "Stored merge"
    assert len(query_tools(entries, BUILT_IN, 20)) == 20
    assert not BUILT_IN.keys() & all_of_them.keys()
    readers = offered(is_read_only=True, queries=entries, most=100)
    assert "q00" in readers
    assert "stored_diff" not in readers
