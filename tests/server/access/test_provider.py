"""A server that accepts tokens of an identity provider beside its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc.jwk import RSAKey

import omnigraph
from omnigraph.cli import main as command_line
from omnigraph.errors import IdentityConfigError
from omnigraph.runtime import SystemClock
from omnigraph.server import main as server_main
from omnigraph.server.access.decisions import Access
from omnigraph.server.config import ServerSettings
from tests.applied_cluster import apply_directory
from tests.server.access.provider import AUDIENCE, Provider
from tests.server.process import RunningServer, run_server
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
READ = {"query": "query q() { match { $p: Person } return { $p.name } }"}
CONFIG = """\
version: 1
graphs:
  g: {schema: people.pg}
policies:
  acl: {file: acl.yaml, applies_to: [g]}
"""
POLICY = """\
version: 1
groups: {editors: [bot], readers: [zoe@a.test]}
rules:
  - {id: edit, allow: {actors: {group: editors}, actions: [read, change]}}
  - {id: read, allow: {actors: {group: readers}, actions: [read]}}
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(SystemClock()).serving() as made:
        yield made


@pytest.fixture(scope="module")
def server(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    root = tmp_path_factory.mktemp("provider")
    (root / "cluster.yaml").write_text(CONFIG, encoding="utf-8")
    (root / "acl.yaml").write_text(POLICY, encoding="utf-8")
    (root / "people.pg").write_text(SCHEMA, encoding="utf-8")
    apply_directory(root)
    command = ["omnigraph.server.main", "--cluster", str(root), "--bind", "127.0.0.1:0"]
    command += ["--oidc-issuer", provider.url, "--oidc-audience", AUDIENCE]
    command += ["--oidc-actor-claim", "email", "--oidc-groups-claim", "roles"]
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"bot": "token-bot"})}
    with run_server(command, root / "log", tokens) as running:
        yield running


def add(server: RunningServer, token: bytes | str, name: str) -> tuple[int, str | None]:
    """Write with a token, and return the status and who wrote."""
    with server.client(token if isinstance(token, str) else token.decode()) as client:
        answer = client.post("/graphs/g/mutate", json={"query": ADD, "params": {"name": name}})
    return answer.status_code, answer.json().get("actor_id")


def test_own_tokens_and_those_of_the_provider_are_accepted_side_by_side(provider: Provider, server: RunningServer):
    assert add(server, "token-bot", "one") == (200, "bot")
    mira = provider.token(email="mira@a.test", roles=["editors"])
    assert add(server, mira, "two") == (200, "mira@a.test")
    zoe = provider.token(email="zoe@a.test", roles=["others"])
    assert add(server, zoe, "three") == (403, None)
    with server.client(zoe.decode()) as client:
        assert client.post("/graphs/g/query", json=READ).json()["row_count"] == 2
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    "claims", [{"aud": "another"}, {"exp": 1}, {"iss": "https://elsewhere.test"}, {"email": None}], ids=str
)
def test_a_token_that_does_not_hold_is_refused(provider: Provider, server: RunningServer, claims: dict[str, object]):
    told = {"email": "mira@a.test", "roles": ["editors"]} | claims
    assert add(server, provider.token(**told), "four") == (401, None)


def test_a_token_of_a_stranger_is_refused_and_no_token_is_in_the_log(provider: Provider, server: RunningServer):
    stranger = RSAKey.generate_key(2048, {"kid": "one"})
    forged = provider.token(stranger, email="mira@a.test", roles=["editors"])
    assert add(server, forged, "five") == (401, None)
    assert add(server, "token-other", "five") == (401, None)
    log = server.log.read_text(encoding="utf-8")
    assert "token-bot" not in log
    assert forged.decode() not in log


def test_the_command_serve_takes_the_same_options(monkeypatch, capsys, tmp_path: Path):
    omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=RELAXED).close()
    taken: list[ServerSettings] = []
    monkeypatch.setattr(server_main, "serve", lambda settings: taken.append(settings) or 0)
    options = ["--oidc-issuer", "https://id.test", "--oidc-audience", "a", "--oidc-jwks-url", "https://id.test/k"]
    options += ["--oidc-actor-claim", "email", "--oidc-groups-claim", "roles"]
    with pytest.raises(SystemExit) as ended:
        command_line.main(["serve", str(tmp_path / "g.omni"), *options])
    # With a provider no token is made.
    assert (ended.value.code, capsys.readouterr().out) == (0, "")
    access = Access.from_settings(taken[0], {}, {})
    assert access.token_sources == ("OIDC https://id.test",)
    assert sorted(taken[0].identity.values()) == ["a", "email", "https://id.test", "https://id.test/k", "roles"]
    only_issuer = ServerSettings(graphs=(), identity={"OMNIGRAPH_SERVER_OIDC_ISSUER": "https://id.test"})
    with pytest.raises(IdentityConfigError, match="OMNIGRAPH_SERVER_OIDC_AUDIENCE is missing"):
        Access.from_settings(only_issuer, {}, {})
