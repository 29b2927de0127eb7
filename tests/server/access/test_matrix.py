"""Every route, in every state of a server, for every kind of caller: a route that is not decided here fails.

The routes come from the application itself. Each has one row that says which action its caller must be allowed, and
what is answered then; everything else follows from the state of the server.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import httpx2
import pytest

import omnigraph
from omnigraph.operations import all_operations
from omnigraph.operations.json_form import request_to_json
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.wire import MEDIA_TYPE, FrameKind, encode_frame
from omnigraph.operations.writes import SentSource
from omnigraph.server.app import GROUPS
from tests.applied_cluster import apply_directory
from tests.server.conftest import PEOPLE
from tests.server.process import RunningServer, run_server

TOKENS = {name: f"token-of-{name}" for name in ("act-all", "act-read", "act-branch", "act-none")}
WRONG = "token-of-nobody"
GRAPH = "/graphs/people"
WIRE = {"omnigraph-wire": "1"}
READ = "query q() { match { $p: Person } return { $p.slug } }"
WRITE = 'query w() { update Person set { name: "x" } where slug = "nobody-here" }'
NOWHERE = "0" * 26
STORED = """
query stored_read() { match { $p: Person } return { $p.slug } }
query stored_write() { update Person set { name: "x" } where slug = "nobody-here" }
"""
SERVER_POLICY = """\
version: 1
kind: server
groups: {all: [act-all]}
rules:
  - {id: list, allow: {actors: {group: all}, actions: [graph_list]}}
"""
GRAPH_POLICY = """\
version: 1
groups: {all: [act-all], readers: [act-read], branchers: [act-branch]}
protected_branches: [main]
rules:
  - {id: all-any, allow: {actors: {group: all}, actions: [read, export, change, invoke_query, maintain, admin]}}
  - id: all-branches
    allow: {actors: {group: all}, actions: [schema_apply, branch_create, branch_merge, branch_delete]}
  - {id: read, allow: {actors: {group: readers}, actions: [read]}}
  - {id: branch, allow: {actors: {group: branchers}, actions: [branch_create]}}
"""
CONFIG = """\
version: 1
metadata: {name: atlas}
graphs:
  people: {schema: people.pg, queries: gq/}
policies:
  people-acl: {file: people.yaml, applies_to: [people]}
  server-acl: {file: server.yaml, applies_to: [cluster]}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One route: what it demands, and what it answers to who may use it.

    ``action`` is ``public`` where no token is needed, ``token`` where any known one is enough. ``hidden`` says that a
    denial looks as if the thing were not there. ``opened`` is the answer without identities, if it is another one.
    """

    path: str
    action: str
    allowed: int = 200
    opened: int | None = None
    hidden: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def sent(**members: Any) -> dict[str, Any]:
    return {"json": members}


def row(path: str, action: str, allowed: int = 200, **more: Any) -> Row:
    return Row(path=GRAPH + path, action=action, allowed=allowed, **more)


# What every caller may ask of the protocol for agents; the tools ask the policy themselves.
PING = {
    "json": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    "headers": {"Accept": "application/json, text/event-stream"},
}
LINES = {"content": b"", "headers": {"Content-Type": "application/x-ndjson"}}
STALE = {"headers": {"Omnigraph-If-Graph-Commit": NOWHERE}}
UNIFORM = {"json": request_to_json(QueryRequest(text=READ)), "headers": WIRE}
G = "/graphs/{graph_id}"
ROWS: dict[tuple[str, str], Row] = {
    ("GET", "/healthz"): Row(path="/healthz", action="public"),
    ("GET", "/openapi.json"): Row(path="/openapi.json", action="public"),
    ("GET", "/readyz"): Row(path="/readyz", action="public"),
    # The operator did not ask for figures here.
    ("GET", "/metrics"): Row(path="/metrics", action="token", allowed=404),
    # Nobody lists graphs without a bundle of the server, not even where everybody may do everything else.
    ("GET", "/graphs"): Row(path="/graphs", action="graph_list", opened=403),
    ("POST", "/mcp"): Row(path="/mcp", action="token", options=PING),
    ("POST", f"{G}/mcp"): row("/mcp", "token", options=PING),
    ("GET", f"{G}/snapshot"): row("/snapshot", "read"),
    ("POST", f"{G}/query"): row("/query", "read", options=sent(query=READ)),
    ("POST", f"{G}/read"): row("/read", "read", options=sent(query_source=READ)),
    ("POST", f"{G}/explain"): row("/explain", "read", options=sent(query=READ)),
    ("GET", f"{G}/queries"): row("/queries", "read"),
    ("POST", f"{G}/queries/{{name}}"): row("/queries/stored_read", "invoke_query", hidden=True),
    ("POST", f"{G}/queries/{{name}}/if-graph-commit"): row(
        "/queries/stored_write/if-graph-commit", "invoke_query", 412, hidden=True, options=STALE
    ),
    ("GET", f"{G}/schema"): row("/schema", "read"),
    ("GET", f"{G}/catalog"): row("/catalog", "read"),
    ("POST", f"{G}/schema/apply"): row(
        "/schema/apply", "schema_apply", 409, opened=400, options=sent(schema_source="node")
    ),
    ("POST", f"{G}/mutate"): row("/mutate", "change", options=sent(query=WRITE)),
    ("POST", f"{G}/mutate/if-graph-commit"): row(
        "/mutate/if-graph-commit", "change", 412, options={**sent(query=WRITE), **STALE}
    ),
    ("POST", f"{G}/change"): row("/change", "change", options=sent(query=WRITE)),
    ("POST", f"{G}/load"): row("/load", "change", options=sent(data="")),
    ("POST", f"{G}/ingest"): row("/ingest", "change", options=sent(data="")),
    ("POST", f"{G}/load/ndjson"): row("/load/ndjson", "change", options=LINES),
    ("POST", f"{G}/export"): row("/export", "export", options=sent()),
    ("POST", f"{G}/changes/baseline"): row("/changes/baseline", "export", options=sent()),
    ("GET", f"{G}/branches"): row("/branches", "read"),
    # Names that are taken or missing, so that every caller finds what the one before found.
    ("POST", f"{G}/branches"): row("/branches", "branch_create", 409, options=sent(name="draft")),
    ("DELETE", f"{G}/branches/{{branch}}"): row("/branches/nope", "branch_delete", 404),
    ("POST", f"{G}/branches/merge"): row("/branches/merge", "branch_merge", options=sent(source="draft")),
    ("GET", f"{G}/tags"): row("/tags", "read"),
    ("POST", f"{G}/tags"): row("/tags", "branch_create", 409, options=sent(name="first")),
    ("DELETE", f"{G}/tags/{{name}}"): row("/tags/nope", "branch_delete", 404),
    ("GET", f"{G}/commits"): row("/commits", "read"),
    ("GET", f"{G}/commits/{{commit_id}}"): row(f"/commits/{NOWHERE}", "read", 404),
    ("GET", f"{G}/commits/{{commit_id}}/changes"): row("/commits/{head}/changes", "read", hidden=True),
    ("POST", f"{G}/commits/{{commit_id}}/revert"): row(f"/commits/{NOWHERE}/revert", "change", 404, options=sent()),
    ("GET", f"{G}/blame"): row("/blame?type=Person&id=nobody", "read"),
    ("GET", f"{G}/diff"): row("/diff?from=main&to=main", "read"),
    ("GET", f"{G}/changes"): row("/changes", "read"),
    ("GET", f"{G}/changes/stream"): row("/changes/stream", "read"),
    ("GET", f"{G}/blob"): row("/blob?entity=node&type=Person&id=nobody&property=photo", "read", 404),
    ("HEAD", f"{G}/blob"): row("/blob?entity=node&type=Person&id=nobody&property=photo", "read", 404),
    ("GET", f"{G}/status"): row("/status", "maintain"),
    ("POST", f"{G}/maintenance/optimize"): row("/maintenance/optimize", "maintain", options=sent()),
    ("POST", f"{G}/maintenance/cleanup"): row("/maintenance/cleanup", "maintain", options=sent(keep=1000)),
    ("POST", f"{G}/maintenance/migrate"): row("/maintenance/migrate", "maintain", options=sent(preview=True)),
    # What our own clients ask: which operations there are, any of them, and stopping their own.
    ("GET", f"{G}/operations"): row("/operations", "token"),
    ("POST", f"{G}/operations/{{operation}}"): row("/operations/query", "read", options=UNIFORM),
    ("GET", f"{G}/operations/{{request_id}}"): row("/operations/nope", "read", 404),
    ("POST", f"{G}/operations/{{request_id}}/cancel"): row("/operations/nope/cancel", "token"),
}
CASES = [pytest.param(*one, id=" ".join(one)) for one in ROWS]
GUARDED = [pytest.param(*one, id=" ".join(one)) for one, found in ROWS.items() if found.action != "public"]


@dataclass(frozen=True, slots=True)
class Servers:
    """A server in each state, of the same rows; ``head`` is the newest commit of all of them."""

    policy: RunningServer
    deny: RunningServer
    opened: RunningServer
    head: str
    folder: Path


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    root = tmp_path_factory.mktemp("matrix")
    (root / "gq").mkdir()
    (root / "gq" / "stored.gq").write_text(STORED, encoding="utf-8")
    for name, text in (("cluster", CONFIG), ("people", GRAPH_POLICY), ("server", SERVER_POLICY)):
        (root / f"{name}.yaml").write_text(text, encoding="utf-8")
    first = root / "graphs" / "people.omni"
    with omnigraph.init(first, PEOPLE / "schema.pg") as graph:
        graph.load(PEOPLE / "staff.jsonl", mode="append")
        graph.create_branch("draft")
        graph.create_tag("first")
        head = str(next(iter(graph.log())).id)
    shutil.copy(PEOPLE / "schema.pg", root / "people.pg")
    apply_directory(root)
    single = {}
    for name in ("deny", "opened"):
        single[name] = root / name / "people.omni"
        shutil.copytree(first, single[name])
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    cluster = ["omnigraph.server.main", "--cluster", str(root), "--bind", "127.0.0.1:0"]

    def alone(name: str, *options: str) -> list[str]:
        command = ["omnigraph", "serve", str(single[name]), "--bind", "127.0.0.1:0", "--queries", str(root / "gq")]
        return [*command, *options]

    with ExitStack() as running:
        found = Servers(
            running.enter_context(run_server(cluster, root / "policy.log", tokens)),
            running.enter_context(run_server(alone("deny"), root / "deny.log", tokens)),
            running.enter_context(run_server(alone("opened", "--unauthenticated"), root / "opened.log")),
            head,
            root,
        )
        yield found


@pytest.fixture(scope="module")
def clients(servers: Servers) -> Iterator[dict[str, httpx2.Client]]:
    with ExitStack() as closing:
        yield {name: closing.enter_context(getattr(servers, name).client()) for name in ("policy", "deny", "opened")}


class Caller:
    """Sends rows of the table."""

    def __init__(self, servers: Servers, clients: dict[str, httpx2.Client]) -> None:
        self.servers = servers
        self._clients = clients

    def ask(self, state: str, who: str | None, method: str, one: Row) -> tuple[int, dict[str, Any]]:
        """Return status and body without the id of the request; streams are left at their first bytes."""
        options = {**one.options, "headers": dict(one.options.get("headers", {}))}
        if who is not None:
            options["headers"]["Authorization"] = f"Bearer {TOKENS.get(who, who)}"
        path = one.path.replace("{head}", self.servers.head)
        with self._clients[state].stream(method, path, **options) as answer:
            if answer.headers["content-type"].startswith("text/event-stream"):
                return answer.status_code, {}
            text = answer.read().decode(errors="replace")
        self.reveals_nothing(text, str(answer.headers))
        is_json = answer.headers["content-type"] == "application/json" and bool(text)
        body = json.loads(text) if is_json else {}
        assert answer.status_code < 400 or method == "HEAD" or body["error"], text
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == "Bearer"
        return answer.status_code, {name: value for name, value in body.items() if name != "request_id"}

    def reveals_nothing(self, *texts: str) -> None:
        """No token, no folder of the machine outside the address of a graph, no traceback."""
        for text in texts:
            assert not [token for token in (*TOKENS.values(), WRONG) if token in text]
            assert "Traceback" not in text
            bare = text.replace(f"{self.servers.folder}/graphs/people.omni", "")
            for name in ("deny", "opened"):
                bare = bare.replace(f"{self.servers.folder}/{name}/people.omni", "")
            assert str(self.servers.folder) not in bare


@pytest.fixture(scope="module")
def caller(servers: Servers, clients: dict[str, httpx2.Client]) -> Caller:
    return Caller(servers, clients)


def test_every_route_of_the_application_is_decided():
    routed = {
        (method, route.path)
        for group in GROUPS
        for route in group.router.routes
        for method in getattr(route, "methods", ())
    }
    assert routed == set(ROWS)


@pytest.mark.parametrize(("method", "path"), CASES)
def test_a_caller_must_say_who_it_is(caller: Caller, method: str, path: str):
    one = ROWS[method, path]
    for state in ("policy", "deny"):
        for who, message in ((None, "missing bearer token"), (WRONG, "invalid bearer token")):
            status, body = caller.ask(state, who, method, one)
            if one.action == "public":
                assert status == one.allowed
                continue
            assert status == 401
            if method != "HEAD":
                assert (body["error"], body["code"]) == (message, "unauthorized")
                assert set(body) - {"problem"} == {"error", "code"}


@pytest.mark.parametrize(("method", "path"), CASES)
def test_an_open_server_serves_everybody(caller: Caller, method: str, path: str):
    one = ROWS[method, path]
    expected = one.allowed if one.opened is None else one.opened
    assert caller.ask("opened", None, method, one)[0] == expected
    assert caller.ask("opened", WRONG, method, one)[0] == expected


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_tokens_without_a_policy_allow_reading(caller: Caller, method: str, path: str):
    one = ROWS[method, path]
    refused = 404 if one.hidden and one.action != "read" else 403
    expected = one.allowed if one.action in {"read", "token"} else refused
    assert caller.ask("deny", "act-all", method, one)[0] == expected


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_policy_allows_what_it_says_and_nothing_else(caller: Caller, method: str, path: str):
    one = ROWS[method, path]
    refused = one.allowed if one.action == "token" else 404 if one.hidden else 403
    assert caller.ask("policy", "act-all", method, one)[0] == one.allowed
    expected = one.allowed if one.action == "read" else refused
    assert caller.ask("policy", "act-read", method, one)[0] == expected
    status, body = caller.ask("policy", "act-none", method, one)
    assert status == refused
    if refused == 403 and method != "HEAD":
        assert body["code"] == "forbidden"
        assert body["error"].startswith("policy denied action '")
        assert set(body) <= {"error", "code", "problem"}


@pytest.mark.parametrize(
    ("method", "there", "missing"),
    [
        ("POST", row("/queries/stored_read", ""), row("/queries/nope", "")),
        ("POST", row("/queries/stored_write", ""), row("/queries/nope", "")),
        (
            "POST",
            row("/queries/stored_write/if-graph-commit", "", options=STALE),
            row("/queries/nope/if-graph-commit", "", options=STALE),
        ),
        ("GET", row("/commits/{head}", ""), row(f"/commits/{NOWHERE}", "")),
        ("GET", row("/commits/{head}/changes", ""), row(f"/commits/{NOWHERE}/changes", "")),
        (
            "POST",
            row("/commits/{head}/revert", "", options=sent()),
            row(f"/commits/{NOWHERE}/revert", "", options=sent()),
        ),
        ("GET", row("/snapshot?branch=draft", ""), row("/snapshot?branch=nope", "")),
        ("GET", row("/commits?branch=draft", ""), row("/commits?branch=nope", "")),
        ("GET", row("/changes?branch=draft", ""), row("/changes?branch=nope", "")),
        ("GET", row("/changes/stream?branch=draft", ""), row("/changes/stream?branch=nope", "")),
        ("GET", row("/diff?from=main&to=draft", ""), row("/diff?from=main&to=nope", "")),
        ("DELETE", row("/branches/draft", ""), row("/branches/nope", "")),
        ("DELETE", row("/tags/first", ""), row("/tags/nope", "")),
        ("POST", row("/branches", "", options=sent(name="draft")), row("/branches", "", options=sent(name="nope"))),
        ("POST", row("/tags", "", options=sent(name="first")), row("/tags", "", options=sent(name="nope"))),
        (
            "POST",
            row("/query", "", options=sent(query=READ, branch="draft")),
            row("/query", "", options=sent(query=READ, branch="nope")),
        ),
        (
            "POST",
            row("/query", "", options=sent(query=READ, snapshot="tag:first")),
            row("/query", "", options=sent(query=READ, snapshot="tag:nope")),
        ),
        (
            "POST",
            row("/mutate", "", options=sent(query=WRITE, branch="draft")),
            row("/mutate", "", options=sent(query=WRITE, branch="nope")),
        ),
        (
            "POST",
            row("/load", "", options=sent(data="", branch="draft")),
            row("/load", "", options=sent(data="", branch="nope")),
        ),
        (
            "POST",
            row("/ingest", "", options=sent(data="", branch="draft")),
            row("/ingest", "", options=sent(data="", branch="nope")),
        ),
        (
            "POST",
            row("/load/ndjson?branch=draft", "", options=LINES),
            row("/load/ndjson?branch=nope", "", options=LINES),
        ),
        (
            "POST",
            row("/export", "", options=sent(branch="draft")),
            row("/export", "", options=sent(branch="nope")),
        ),
        (
            "POST",
            row("/branches/merge", "", options=sent(source="draft")),
            row("/branches/merge", "", options=sent(source="nope")),
        ),
        (
            "GET",
            row("/blob?entity=node&type=Person&id=nobody&property=photo&branch=draft", ""),
            row("/blob?entity=node&type=Person&id=nobody&property=photo&branch=nope", ""),
        ),
    ],
)
def test_who_is_denied_does_not_learn_what_there_is(caller: Caller, method: str, there: Row, missing: Row):
    names = {"draft": "_", "nope": "_", "first": "_", caller.servers.head: "_", NOWHERE: "_"}
    answers = []
    for one in (there, missing):
        status, body = caller.ask("policy", "act-none", method, one)
        text = json.dumps(body)
        for name, blank in names.items():
            text = text.replace(f"'{name}'", f"'{blank}'")
        answers.append((status, text))
    assert answers[0] == answers[1]
    assert answers[0][0] in {403, 404}


@pytest.mark.parametrize("name", sorted(all_operations()))
def test_no_operation_is_executed_for_who_may_do_nothing(caller: Caller, name: str):
    declared = all_operations()[name]
    given = {"number": 1, "ref": "main", "before": "main", "after": "draft", "source": "draft"}
    given |= {"commit_id": caller.servers.head, "sources": [SentSource(file="0", format="jsonl")]}
    # Of the right types: what is malformed is refused before anybody is asked.
    given |= {"batches": [{}], "call": QueryRequest(text=READ), "limit": 5, "rows": [{}]}
    required = {one.name: given.get(one.name, "x") for one in fields(declared) if one.default is MISSING}
    document = encode_frame(FrameKind.RECORD, json.dumps(request_to_json(declared(**required))).encode())
    files = encode_frame(FrameKind.FILE, b'{"name": "0"}') + encode_frame(FrameKind.END, b"{}")
    content = document + (files if name == "load" else b"")
    options = {"content": content, "headers": {**WIRE, "Content-Type": MEDIA_TYPE}}
    one = row(f"/operations/{name}", "", options=options)
    status, body = caller.ask("policy", "act-none", "POST", one)
    code = body["problem"]["code"]
    if "transaction" in required:
        # Nobody has begun one, and who may not begin one finds none.
        assert (status, code) == (400, "transaction.ended")
    else:
        assert (status, code) in {(403, "policy.denied"), (404, "commit.not_found"), (404, "stored_query.not_found")}
    assert caller.ask("policy", None, "POST", one)[0] == 401


def test_a_load_that_is_denied_leaves_no_branch_behind(caller: Caller):
    """Who may create branches and not write."""
    wanted = row("/load", "", options=sent(data="", branch="half-way", **{"from": "main"}))
    assert caller.ask("policy", "act-branch", "POST", wanted)[0] == 403
    assert "half-way" not in caller.ask("policy", "act-all", "GET", ROWS["GET", f"{G}/branches"])[1]["branches"]


def test_the_logs_tell_what_was_decided_and_nothing_secret(caller: Caller):
    caller.ask("policy", "act-read", "POST", ROWS["POST", f"{G}/mutate"])
    for name in ("policy", "deny", "opened"):
        server = getattr(caller.servers, name)
        log = server.log.read_text(encoding="utf-8")
        assert not [token for token in (*TOKENS.values(), WRONG) if token in log]
        assert str(caller.servers.folder) not in log
        lines = [json.loads(line) for line in log.splitlines()]
        assert [line for line in lines if line["level"] == "error"] == []
    log = caller.servers.policy.log.read_text(encoding="utf-8")
    decided = [json.loads(line) for line in log.splitlines()]
    assert {"actor": "act-read", "action": "change", "branch": "main"} in [
        {name: line.get(name) for name in ("actor", "action", "branch")} for line in decided
    ]
