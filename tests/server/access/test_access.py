"""Who may do what over HTTP: no token, a wrong one, none allowed, and each state of a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraph
from tests.e2e.process import omnigraph as run_omnigraph
from tests.server.process import RunningServer, run_server

NAMES = "query names() { match { $p: Person } return { $p.name } }"
TOUCH = 'query touch() { update Person set { name: "x" } where name = "nobody has this name" }'
TOKENS = {"act-mira": "token-mira", "act-jon": "token-jon", "act-eve": "token-eve"}
BUNDLE = """\
version: 1
groups:
  readers: [act-jon, act-mira]
  editors: [act-mira]
protected_branches: [main]
rules:
  - id: readers-read
    allow: {actors: {group: readers}, actions: [read]}
  - id: editors-change
    allow: {actors: {group: editors}, actions: [change], branch_scope: any}
"""


@contextmanager
def serving(graph: Path, folder: Path, *options: str, **environment: str) -> Iterator[RunningServer]:
    command = ["omnigraph", "serve", str(graph), "--bind", "127.0.0.1:0", *options]
    with run_server(command, folder / "log", environment) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(served_people: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "policy.yaml").write_text(BUNDLE, encoding="utf-8")
    tokens = json.dumps(TOKENS)
    options = ("--policy", str(folder / "policy.yaml"))
    with serving(served_people, folder, *options, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=tokens) as running:
        yield running


def ask(server: RunningServer, route: str, text: str, token: str | None) -> tuple[int, dict[str, object]]:
    with server.client(token) as client:
        answer = client.post(f"/graphs/people/{route}", json={"query": text})
        return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("token", "read", "change"),
    [
        (None, 401, 401),
        ("wrong", 401, 401),
        ("token-eve", 403, 403),
        ("token-jon", 200, 403),
        ("token-mira", 200, 200),
    ],
)
def test_a_policy_decides_for_each_actor(guarded: RunningServer, token: str | None, read: int, change: int):
    assert ask(guarded, "query", NAMES, token)[0] == read
    assert ask(guarded, "mutate", TOUCH, token)[0] == change


def test_refusals_say_why_and_nothing_else(guarded: RunningServer):
    missing, wrong, denied = (ask(guarded, "mutate", TOUCH, token)[1] for token in (None, "wrong", "token-jon"))
    assert (missing["error"], missing["code"]) == ("missing bearer token", "unauthorized")
    assert (wrong["error"], wrong["code"]) == ("invalid bearer token", "unauthorized")
    assert denied["error"] == "policy denied action 'change' on branch 'main' for actor 'act-jon'"
    assert denied["code"] == "forbidden"


def test_the_actor_comes_from_the_token_alone(guarded: RunningServer):
    with guarded.client("token-mira") as client:
        headers = {"X-Actor-Id": "act-jon"}
        answer = client.post("/graphs/people/mutate", json={"query": TOUCH, "actor": "act-jon"}, headers=headers)
    assert answer.json()["actor_id"] == "act-mira"


def test_health_needs_no_token_and_unknown_paths_do(guarded: RunningServer):
    with guarded.client() as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/graphs/people/nothing").status_code == 401
        assert client.get("/graphs/none/snapshot").status_code == 401


def test_every_decision_is_in_the_log_and_no_token_is(guarded: RunningServer):
    ask(guarded, "mutate", TOUCH, "token-jon")
    log = guarded.log.read_text(encoding="utf-8")
    told = {"message": "policy decision", "actor": "act-jon", "action": "change", "branch": "main", "allowed": False}
    assert any(told.items() <= json.loads(line).items() for line in log.splitlines() if line.startswith("{"))
    assert "token-" not in log


def test_a_token_is_made_where_none_is_given(served_people: Path, tmp_path: Path):
    with serving(served_people, tmp_path) as server:
        token = server.token
        assert token is not None
        assert ask(server, "mutate", TOUCH, token)[0] == 200
        assert ask(server, "query", NAMES, None)[0] == 401
        with server.client(token) as client:
            assert client.get("/graphs").status_code == 200
        assert token not in server.log.read_text(encoding="utf-8")


def test_graphs_are_listed_for_no_one_without_a_bundle_of_the_server(http, guarded: RunningServer):
    assert http.get("/graphs").status_code == 403
    with guarded.client("token-mira") as client:
        assert client.get("/graphs").status_code == 403


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        (["--policy", "policy.yaml", "--unauthenticated"], {}, "no tokens"),
        (["--policy", "none.yaml"], {"OMNIGRAPH_SERVER_BEARER_TOKEN": "a"}, "none.yaml"),
        (["--policy", "broken.yaml"], {"OMNIGRAPH_SERVER_BEARER_TOKEN": "a"}, "unknown key"),
        ([], {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": "{"}, "is not valid JSON"),
    ],
)
def test_a_server_with_unclear_access_does_not_start(served_people, tmp_path, options, environment, message):
    (tmp_path / "policy.yaml").write_text(BUNDLE, encoding="utf-8")
    (tmp_path / "broken.yaml").write_text(BUNDLE + "deny: []\n", encoding="utf-8")
    command = ("serve", str(served_people), "--bind", "127.0.0.1:0", *options)
    done = run_omnigraph(*command, cwd=tmp_path, **environment)
    assert done.code != 0
    assert done.out == ""
    assert message in done.err


def test_a_stream_logs_a_decision_once_and_not_for_every_page(tmp_path: Path):
    omnigraph.init(tmp_path / "people", "node Person { name: String @key }").close()
    (tmp_path / "policy.yaml").write_text(BUNDLE, encoding="utf-8")
    options, tokens = ("--policy", str(tmp_path / "policy.yaml")), json.dumps(TOKENS)
    with serving(tmp_path / "people", tmp_path, *options, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=tokens) as running:
        with running.client("token-jon") as client, client.stream("GET", "/graphs/people/changes/stream") as answer:
            lines = answer.iter_lines()
            for number in range(5):
                add = f'query add() {{ insert Person {{ name: "p{number}" }} }}'
                assert ask(running, "mutate", add, "token-mira")[0] == 200
                # Each write is an event, so that the stream has asked for as many pages.
                while "changes" not in next(line for line in lines if line.startswith("event:")):
                    pass
        told = [json.loads(line) for line in running.log.read_text(encoding="utf-8").splitlines() if line[:1] == "{"]
    decided = [one for one in told if one["message"] == "policy decision" and one["actor"] == "act-jon"]
    assert [one["action"] for one in decided] == ["read", "read"]
