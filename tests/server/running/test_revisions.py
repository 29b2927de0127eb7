"""A server of a cluster takes over what is applied while it runs, and nothing that is broken."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.applied_cluster import apply_directory
from tests.server.process import RunningServer, run_server
from tests.server.running.wire import until
from tests.unit.cluster.directory import CONFIG, GRAPH_POLICY, SCHEMA, write_directory

TOKENS = {"act-mira": "token-mira", "act-jon": "token-jon"}
POLICY = GRAPH_POLICY.replace("[read], branch_scope: any", "[read, change, invoke_query]")
MOCK = CONFIG.replace('kind: openai, model: small, api_key: "${VEC_KEY}"', "kind: mock")
FULL = {"Omnigraph-Http-Api": "0.13"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, RunningServer]]:
    """A directory that was applied, and a server of its cluster that looks every few milliseconds."""
    root = write_directory(tmp_path / "atlas", {"cluster.yaml": MOCK, "acl.yaml": POLICY})
    apply_directory(root)
    environment = {
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS),
        "OMNIGRAPH_CLUSTER_POLL_MS": "20",
    }
    command = ["omnigraph.server.main", "--cluster", str(root), "--bind", "127.0.0.1:0"]
    with run_server(command, tmp_path / "log", environment) as running:
        yield root, running


def invoke(server: RunningServer, name: str, params: dict[str, Any] | None = None, actor: str = "act-mira") -> Any:
    with server.client(TOKENS[actor]) as client:
        return client.post(f"/graphs/crm/queries/{name}", json={"params": params or {}})


def listed(server: RunningServer) -> dict[str, str]:
    with server.client(TOKENS["act-mira"]) as client:
        graphs = client.get("/graphs", headers=FULL).json()["graphs"]
    return {graph["graph_id"]: graph["state"] for graph in graphs}


def test_applied_changes_are_served_without_a_restart(served: tuple[Path, RunningServer]):
    root, server = served
    assert invoke(server, "add", {"slug": "a", "name": "Ada"}).status_code == 200
    assert invoke(server, "all").status_code == 404
    # A query, a property that it uses, an actor and a graph.
    (root / "crm.pg").write_text(SCHEMA.replace("name: String", "name: String\n    age: I32?"), encoding="utf-8")
    (root / "gq" / "all.gq").write_text("query all() { match { $p: Person } return { $p.slug, $p.age } }\n")
    (root / "acl.yaml").write_text(POLICY.replace("[act-mira]", "[act-mira, act-jon]"), encoding="utf-8")
    two = MOCK.replace("policies:", "  sales:\n    schema: crm.pg\npolicies:")
    (root / "cluster.yaml").write_text(two, encoding="utf-8")
    assert invoke(server, "one", {"slug": "a"}, "act-jon").status_code == 404
    assert invoke(server, "all").status_code == 404
    apply_directory(root)
    until(lambda: invoke(server, "all", actor="act-jon").status_code == 200, "the revision is not taken over")
    assert invoke(server, "all").json()["rows"] == [{"p.slug": "a", "p.age": None}]
    assert listed(server) == {"crm": "ready", "sales": "ready"}


def test_broken_revision_is_refused_and_the_old_one_stays(served: tuple[Path, RunningServer]):
    root, server = served
    state = root / "__cluster" / "state.json"
    whole = state.read_text(encoding="utf-8")
    state.write_text("{", encoding="utf-8")
    until(lambda: "the new configuration was refused" in server.log.read_text(), "nothing was refused")
    assert invoke(server, "one", {"slug": "a"}).status_code == 200
    state.write_text(whole, encoding="utf-8")
    until(lambda: "the new configuration is in force" in server.log.read_text(), "it is not taken over again")
    server.process.send_signal(signal.SIGHUP)
    assert invoke(server, "one", {"slug": "a"}).status_code == 200
    assert "Traceback" not in server.log.read_text()


def test_graph_whose_query_does_not_fit_is_set_aside_with_the_reason(tmp_path: Path):
    """Somebody has changed the schema past the cluster; the other graph is served."""
    import omnigraph  # noqa: PLC0415 - of this test alone

    two = MOCK.replace("policies:", "  sales:\n    schema: crm.pg\npolicies:")
    root = write_directory(tmp_path / "atlas", {"cluster.yaml": two, "acl.yaml": POLICY})
    apply_directory(root)
    with omnigraph.open(root / "graphs" / "crm.omni") as graph:
        graph.apply_schema("node Person { slug: String @key }")
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    command = ["omnigraph.server.main", "--cluster", str(root), "--bind", "127.0.0.1:0"]
    with run_server(command, tmp_path / "log", environment) as server:
        assert listed(server) == {"crm": "blocked", "sales": "ready"}
        with server.client(TOKENS["act-mira"]) as client:
            found = client.get("/graphs", headers=FULL).json()["graphs"][0]
        assert "type 'Person' has no property 'name'" in found["reason"]
