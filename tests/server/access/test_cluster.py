"""A cluster over HTTP: what it serves, which actor may use which route, and what a denied one learns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph
from tests.applied_cluster import apply_directory
from tests.server.conftest import PEOPLE
from tests.server.process import RunningServer, run_server

TOKENS = {"act-all": "token-all", "act-read": "token-read", "act-draft": "token-draft", "act-list": "token-list"}
SERVER_POLICY = """\
version: 1
kind: server
groups: {listers: [act-list]}
rules:
  - {id: list, allow: {actors: {group: listers}, actions: [graph_list]}}
"""
GRAPH_POLICY = """\
version: 1
groups: {all: [act-all], readers: [act-read], drafters: [act-draft]}
protected_branches: [main]
rules:
  - {id: all-any, allow: {actors: {group: all}, actions: [read, export, change, invoke_query, maintain]}}
  - id: all-branches
    allow: {actors: {group: all}, actions: [schema_apply, branch_create, branch_merge], target_branch_scope: any}
  - {id: read, allow: {actors: {group: readers}, actions: [read]}}
  - {id: draft, allow: {actors: {group: drafters}, actions: [read, change], branch_scope: unprotected}}
"""
CONFIG = """\
version: 1
metadata: {name: atlas}
graphs:
  people: {schema: people.pg, queries: gq/}
  broken: {schema: people.pg}
  my_graph: {schema: people.pg}
policies:
  people-acl: {file: people.yaml, applies_to: [people]}
  server-acl: {file: server.yaml, applies_to: [cluster]}
"""
GRAPH = "/graphs/people"
READ = {"query": "query q() { match { $p: Person } return { $p.slug } }"}
WRITE = {"query": 'query w() { update Person set { name: "x" } where slug = "nobody-here" }'}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    root = tmp_path_factory.mktemp("cluster")
    (root / "gq").mkdir()
    shutil.copy(PEOPLE / "queries.gq", root / "gq" / "people.gq")
    for name, text in (("cluster", CONFIG), ("people", GRAPH_POLICY), ("server", SERVER_POLICY)):
        (root / f"{name}.yaml").write_text(text, encoding="utf-8")
    with omnigraph.init(root / "graphs" / "people.omni", PEOPLE / "schema.pg") as graph:
        graph.load(PEOPLE / "staff.jsonl", mode="append")
        graph.create_branch("draft")
    shutil.copy(PEOPLE / "schema.pg", root / "people.pg")
    apply_directory(root)
    shutil.rmtree(root / "graphs" / "broken.omni")
    command = ["omnigraph.server.main", "--cluster", str(root), "--bind", "127.0.0.1:0"]
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with run_server(command, root / "log", environment) as running:
        yield running


def ask(server: RunningServer, actor: str | None, method: str, path: str, **options: Any) -> Any:
    with server.client(None if actor is None else TOKENS.get(actor, actor)) as client:
        return client.request(method, path if path.startswith("/graphs") else f"{GRAPH}{path}", **options)


def test_scope_of_a_rule_holds_for_the_branch_as_it_is_read(cluster: RunningServer):
    for branch, status in (("draft", 200), (" draft ", 200), ("main", 403), (" main ", 403), (" ", 400)):
        answer = ask(cluster, "act-draft", "POST", "/mutate", json=WRITE | {"branch": branch})
        assert answer.status_code == status, branch
    # A rule with a scope never matches a request without a branch.
    assert ask(cluster, "act-draft", "GET", "/schema").status_code == 403


def test_denied_writer_is_told_before_the_body_is_read(cluster: RunningServer):
    answer = ask(cluster, "act-read", "POST", "/load/ndjson", content=b"nonsense", headers={"Content-Type": "x"})
    assert answer.status_code == 403


def test_denied_and_unknown_look_the_same(cluster: RunningServer):
    answers = [
        ask(cluster, "act-read", "POST", "/queries/team_sizes"),
        ask(cluster, "act-read", "POST", "/queries/nope"),
        ask(cluster, "act-all", "POST", "/queries/nope"),
    ]
    bodies = [{name: value for name, value in answer.json().items() if name != "request_id"} for answer in answers]
    assert {answer.status_code for answer in answers} == {404}
    assert bodies[0] == bodies[1] == bodies[2]
    head = ask(cluster, "act-read", "GET", "/commits").json()["commits"][0]["graph_commit_id"]
    hidden = ask(cluster, "act-draft", "GET", f"/commits/{head}/changes")
    assert (hidden.status_code, hidden.json()["error"]) == (404, f"commit '{head}' not found")


def test_refused_deletion_does_not_undo_the_merge(cluster: RunningServer):
    made = ask(cluster, "act-all", "POST", "/branches", json={"name": "short"})
    assert made.json()["actor_id"] == "act-all"
    done = ask(cluster, "act-all", "POST", "/branches/merge", json={"source": "short", "delete_branch": True})
    assert done.status_code == 200
    assert done.json()["branch_deleted"] is False
    assert "policy denied action 'branch_delete'" in done.json()["branch_delete_error"]


def test_actor_is_the_one_of_the_token_whatever_a_header_says(cluster: RunningServer):
    text = {"query": 'query w() { upsert Team { code: "acted", name: "A" } }', "branch": "draft"}
    done = ask(cluster, "act-draft", "POST", "/mutate", json=text, headers={"X-Actor-Id": "act-all"})
    assert (done.json()["actor_id"], done.json()["commit"]["actor_id"]) == ("act-draft", "act-draft")


def test_graphs_that_cannot_be_served_are_set_aside(cluster: RunningServer):
    listed = ask(cluster, "act-list", "GET", "/graphs").json()["graphs"]
    assert [graph["graph_id"] for graph in listed] == ["people"]
    assert ask(cluster, "act-all", "GET", "/graphs/broken/schema").status_code == 404
    assert ask(cluster, "act-all", "GET", "/graphs/my_graph/schema").status_code == 400
    assert "graph 'my_graph' is not served" in cluster.log.read_text(encoding="utf-8")


def test_document_demands_the_token(cluster: RunningServer):
    with cluster.client() as client:
        found = client.get("/openapi.json").json()
    assert found["components"]["securitySchemes"] == {"bearer_token": {"type": "http", "scheme": "bearer"}}
    assert found["paths"]["/graphs"]["get"]["security"] == [{"bearer_token": []}]


def test_nothing_secret_is_in_the_log(cluster: RunningServer):
    log = cluster.log.read_text(encoding="utf-8")
    assert not [token for token in TOKENS.values() if token in log]
    assert "Traceback" not in log
