"""A server with agents: tokens, policies and limits as on every other route, and nothing is kept between messages."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

import omnigraph
from mcp import StdioServerParameters
from tests.e2e.process import clean_environment
from tests.mcp.agent import Agent, Person, connect
from tests.mcp.conftest import make_club
from tests.server.process import ROOT, WAIT_S, RunningServer, run_server

TOKENS = {name: f"token-of-{name}" for name in ("planner", "scout", "ada")}
POLICY = """\
version: 1
groups:
  agents: [planner, scout]
  people: [ada]
protected_branches: [main, release]
rules:
  - {id: agents-read, allow: {actors: {group: agents}, actions: [read, invoke_query]}}
  - {id: agents-write, allow: {actors: {group: agents}, actions: [change], branch_scope: own}}
  - id: agents-branch
    allow: {actors: {group: agents}, actions: [branch_create, branch_delete, branch_merge], target_branch_scope: own}
  - {id: people, allow: {actors: {group: people}, actions: [read, change, branch_create, branch_merge, invoke_query]}}
"""
QUERIES = """\
query boats_of($harbour: String) @mcp("expose") @description("The boats in a harbour") {
    match { $h: Harbour { code: $harbour } $b mooredIn $h }
    return { $b.name as boat }
    order { boat }
}

query rechristen($sail: String, $name: String) @mcp("expose") @instruction("Ask for the sail number") {
    update Boat set { name: $name } where sail = $sail
}

query merge($sail: String?) @mcp("expose") {
    match { $b: Boat $sail is null or $b.sail = $sail }
    return { count($b) as boats }
}

query private_harbours() {
    match { $h: Harbour }
    return { $h.name as name }
    order { name }
}
"""
OWN = "agents/planner/between"
RENAME = "query rename($name: String) { update Boat set { name: $name } where sail = 'NOR-1' }"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
BOTH = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with tokens, a policy and stored queries."""
    folder = tmp_path_factory.mktemp("served")
    place = make_club(folder / "club.omni")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "queries.gq").write_text(QUERIES, encoding="utf-8")
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0"]
    command += ["--policy", str(folder / "policy.yaml"), "--queries", str(folder / "queries.gq")]
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with run_server(command, folder / "server.log", environment) as running:
        yield running


@asynccontextmanager
async def _streams(url: str, token: str) -> AsyncIterator[Any]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=WAIT_S) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


@contextmanager
def visit(server: RunningServer, actor: str, path: str = "/mcp", **options: Any) -> Iterator[Agent]:
    """Connect to a server as an actor."""
    with connect(_streams(server.url + path, TOKENS[actor]), **options) as connected:
        yield connected


@pytest.fixture(scope="module")
def person() -> Person:
    return Person()


@pytest.fixture(scope="module")
def planner(server: RunningServer, person: Person) -> Iterator[Agent]:
    with visit(server, "planner", person=person) as connected:
        yield connected


@pytest.fixture(scope="module")
def ada(server: RunningServer, person: Person) -> Iterator[Agent]:
    with visit(server, "ada", "/graphs/club/mcp", person=person) as connected:
        yield connected


def test_an_agent_writes_below_its_own_branches_alone(planner: Agent, server: RunningServer, person: Person):
    person.asked.clear()
    written = planner.call("mutate", text=RENAME, params={"name": "Planned"})
    assert written["branch"].startswith("agents/planner/")
    more = planner.call("mutate", text=RENAME, params={"name": "Planned again"}, branch=written["branch"])
    assert more["commit"]
    for branch in ("main", "agents/planner", "agents/planner2/x"):
        error = planner.fail("mutate", text=RENAME, params={"name": "No"}, branch=branch)
        assert error["kind"] in {"denied", "not_found"}
    denied = planner.fail("mutate", text=RENAME, params={"name": "No"}, branch="main")
    assert (denied["code"], denied["next"][0]["tool"]) == ("policy.denied", "mutate")
    assert planner.fail("branch_create", name="agents/scout/mine")["code"] == "policy.denied"
    assert planner.fail("merge", source=written["branch"])["code"] == "policy.denied"
    # Nobody is asked about what would be denied anyway.
    assert person.asked == []
    with visit(server, "scout") as scout:
        assert (
            scout.fail("mutate", text=RENAME, params={"name": "x"}, branch=written["branch"])["code"] == "policy.denied"
        )
        found = scout.call("query", text="query q() { match { $b: Boat { sail: 'NOR-1' } } return { $b.name as n } }")
        assert found["rows"] == [{"n": "Albatross"}]


def test_a_person_merges_what_an_agent_wrote(planner: Agent, ada: Agent, person: Person):
    written = planner.call("mutate", text=RENAME, params={"name": "Reviewed"}, message="rename")
    assert ada.call("diff", before="main", after=written["branch"])["summary"]["updates"] == 1
    person.asked.clear()
    merged = ada.call("merge", source=written["branch"])
    assert (merged["outcome"], len(person.asked)) == ("fast_forward", 1)
    history = ada.call("blame", type="Boat", id="NOR-1")["history"]
    (name,) = [one for one in history["properties"] if one["property"] == "name"]
    assert (name["author"]["actor_id"], name["merge"]["actor_id"]) == ("planner", "ada")
    protected = {one["name"] for one in ada.call("branch_list")["branches"] if one["is_protected"]}
    assert protected == {"main"}


def test_a_branch_that_the_policy_protects_asks_too(ada: Agent, person: Person):
    ada.call("branch_create", name="release")
    written = ada.call("mutate", text=RENAME, params={"name": "Released"})
    person.asked.clear()
    assert ada.call("merge", source=written["branch"], target="release")["commit"]
    assert len(person.asked) == 1


def test_the_old_version_cannot_ask_over_a_single_message(server: RunningServer, ada: Agent):
    written = ada.call("mutate", text=RENAME, params={"name": "Old"})
    with visit(server, "ada", mode="legacy", person=Person()) as old:
        assert old.version < ada.version
        assert set(old.tools()) == set(ada.tools())
        assert old.fail("merge", source=written["branch"])["code"] == "agent.consent"
        assert old.call("query", text="query q() { match { $h: Harbour } return { count($h) as n } }")["rows"]


def test_stored_queries_are_tools_with_their_parameters(planner: Agent):
    tools = planner.tools()
    assert {"boats_of", "rechristen", "stored_merge"} <= set(tools)
    assert "private_harbours" not in tools
    boats = tools["boats_of"]
    assert boats.description == "The boats in a harbour."
    assert boats.input_schema["properties"]["params"]["properties"] == {"harbour": {"type": "string"}}
    assert (boats.input_schema["required"], boats.annotations.read_only_hint) == (["params"], True)
    rows = planner.call("boats_of", params={"harbour": "vik"}, max_rows=1)
    assert (len(rows["rows"]), rows["has_more"]) == (1, True)
    rest = planner.call("boats_of", params={"harbour": "vik"}, continuation=rows["continuation"])
    assert len(rest["rows"]) == 1
    assert "Comet" in [row["boat"] for row in rows["rows"] + rest["rows"]]
    assert planner.call("stored_merge", params={})["rows"] == [{"boats": 4}]
    assert planner.call("stored_query_run", name="private_harbours")["rows"]
    error = planner.fail("boats_of", params={"harbor": "vik"})
    assert error["code"] == "query.parameter"


def test_stored_queries_are_listed_and_run_by_name(planner: Agent):
    listed = {one["name"]: one for one in planner.call("stored_query_list")["queries"]}
    assert set(listed) == {"boats_of", "rechristen", "merge", "private_harbours"}
    assert listed["merge"]["params"] == {"sail": "String?"}
    assert [one["name"] for one in planner.call("stored_query_list", text="harbour")["queries"]] == [
        "boats_of",
        "private_harbours",
    ]
    written = planner.call("stored_query_change", name="rechristen", params={"sail": "NOR-7", "name": "Stored"})
    assert written["branch"].startswith("agents/planner/rechristen-")
    assert planner.call("rechristen", params={"sail": "NOR-7", "name": "Tool"})["updated"] == 1
    hint = planner.fail("stored_query_run", name="rechristen")["hint"]
    assert "stored_query_change" in hint
    missing = planner.fail("stored_query_run", name="nothing")
    assert (missing["code"], missing["next"][0]["tool"]) == ("stored_query.not_found", "stored_query_list")


def test_a_write_sent_again_under_its_key_happens_once(planner: Agent):
    arguments = {"text": RENAME, "params": {"name": "Keyed"}, "idempotency_key": "a key"}
    first, second = (planner.call("mutate", **arguments) for _ in range(2))
    assert (first["branch"], first["commit"]) == (second["branch"], second["commit"])
    assert planner.fail("mutate", **{**arguments, "params": {"name": "Other"}})["code"] == "write.key_reused"


def test_without_a_token_nothing_is_answered(server: RunningServer):
    with server.client() as http:
        for path in ("/mcp", "/graphs/club/mcp"):
            refused = http.post(path, json=INITIALIZE, headers=BOTH)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


def test_requests_are_named_and_told_of_as_on_other_routes(server: RunningServer):
    with server.client(TOKENS["ada"]) as http:
        found = http.post("/graphs/club/mcp", json=INITIALIZE, headers={**BOTH, "X-Request-Id": "agent-1"})
        assert (found.status_code, found.headers["x-request-id"]) == (200, "agent-1")
        assert found.json()["result"]["serverInfo"]["name"] == "omnigraph"
        assert http.get("/mcp").status_code == 405
        assert http.post("/graphs/nope/mcp", json=INITIALIZE, headers=BOTH).status_code == 404
        assert http.post("/mcp", content=b"{", headers={**BOTH, "Content-Type": "application/json"}).status_code == 400
    told = [json.loads(line) for line in server.log.read_text(encoding="utf-8").splitlines() if "agent-1" in line]
    assert {one.get("route") for one in told if "route" in one} == {"/graphs/{graph_id}/mcp"}


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_every_earlier_version_of_the_protocol_is_spoken(server: RunningServer, version: str):
    params = {**INITIALIZE["params"], "protocolVersion": version}
    call = {"name": "query", "arguments": {"text": "query q() { match { $h: Harbour } return { count($h) as n } }"}}
    with server.client(TOKENS["ada"]) as http:
        greeted = http.post("/mcp", json={**INITIALIZE, "params": params}, headers=BOTH).json()["result"]
        assert greeted["protocolVersion"] == version
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        found = http.post("/mcp", json=message, headers={**BOTH, "MCP-Protocol-Version": version}).json()["result"]
        (content,) = found["content"]
        assert json.loads(content["text"])["rows"] == [{"n": 4}]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost:1"}, 200),
    ],
)
def test_pages_of_others_cannot_reach_a_local_server(server: RunningServer, headers: dict, status: int):
    with server.client(TOKENS["ada"]) as http:
        found = http.post("/mcp", json=INITIALIZE, headers={**BOTH, **headers})
        assert found.status_code == status, found.text
        if status == 403:
            assert "not allowed" in found.json()["error"]


def test_what_one_actor_asked_is_not_seen_by_another(server: RunningServer, planner: Agent):
    """Between messages nothing is kept: whoever brings the state of another's question is decided about anew."""
    written = planner.call("mutate", text=RENAME, params={"name": "Mine"})
    with omnigraph.open(f"{server.url}/graphs/club", token=TOKENS["ada"]) as graph:
        assert graph.branch(written["branch"]).name == written["branch"]
    with visit(server, "scout", person=Person()) as scout:
        assert scout.fail("merge", source=written["branch"])["code"] == "policy.denied"


@pytest.mark.parametrize("option", ["--no-mcp", pytest.param("OMNIGRAPH_MCP", marks=pytest.mark.more)])
def test_an_operator_can_say_no(server: RunningServer, tmp_path: Path, option: str):
    place = make_club(tmp_path / "club.omni")
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    environment = {"OMNIGRAPH_MCP": "0"} if option == "OMNIGRAPH_MCP" else {}
    command += [] if environment else [option]
    with run_server(command, tmp_path / "log", environment) as closed, closed.client() as http:
        found = http.post("/mcp", json=INITIALIZE, headers=BOTH)
        assert (found.status_code, found.json()["error"]) == (404, "no such path")


@pytest.mark.more
def test_a_process_may_stand_between_an_agent_and_a_server(server: RunningServer, person: Person):
    """The command asks a server as other commands do: its token says who writes, and its policy decides."""
    environment = clean_environment(
        PYTHONPATH=str(ROOT / "src"), OMNIGRAPH_BEARER_TOKEN=TOKENS["planner"], OMNIGRAPH_AUTO_MAINTENANCE="0"
    )
    arguments = ["-m", "omnigraph", "mcp", "--server", server.url, "--graph", "club"]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    with connect(command, person=person) as agent:
        assert {"boats_of", "stored_query_list"} <= set(agent.tools())
        assert agent.call("boats_of", params={"harbour": "vik"}, max_rows=1)["has_more"]
        error = agent.fail("mutate", text=RENAME, params={"name": "x"}, branch="main")
        assert error["code"] == "policy.denied"
        written = {"text": RENAME, "params": {"name": "Between"}, "idempotency_key": "between", "branch": OWN}
        agent.call("branch_create", name=OWN)
        first, second = (agent.call("mutate", **written) for _ in range(2))
        assert first["commit"] == second["commit"]
        assert len(agent.call("log", branch=OWN, actor="planner")["commits"]) == 1
