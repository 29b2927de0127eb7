"""A deployment as there are many: a directory as it stands is imported, applied, loaded and served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.process import omnigraph
from tests.server.process import run_server

FILES, READS = 9, 6
SCHEMA = """\
node Note {
    slug: String @key
    kind: enum(signal, task)
    title: String @index
    body: String?
    at: DateTime?
    vector: Vector(4)? @embed(title)
}

edge Follows: Note -> Note {
    since: DateTime?
}
"""
CONFIG = """\
version: 1
metadata:
  name: field
state:
  backend: cluster
  lock: true
graphs:
  intel:
    schema: intel.pg
    queries: queries/
policies:
  intel:
    file: policies/intel.yaml
    applies_to: [intel]
  server:
    file: policies/server.yaml
    applies_to: [cluster]
"""
GRAPH_POLICY = """\
version: 1
groups:
  agents: [act-scout, act-admin]
  admins: [act-admin]
protected_branches: [main]
rules:
  - id: agents-invoke
    allow: { actors: { group: agents }, actions: [invoke_query] }
  - id: agents-read
    allow: { actors: { group: agents }, actions: [read, export], branch_scope: any }
  - id: agents-change
    allow: { actors: { group: agents }, actions: [change], branch_scope: any }
  - id: admins-schema
    allow: { actors: { group: admins }, actions: [schema_apply, branch_merge], target_branch_scope: any }
  - id: agents-branches
    allow: { actors: { group: agents }, actions: [branch_create, branch_delete], target_branch_scope: unprotected }
"""
SERVER_POLICY = """\
version: 1
kind: server
groups:
  agents: [act-scout]
rules:
  - id: agents-list
    allow: { actors: { group: agents }, actions: [graph_list] }
"""
TOKENS = {"act-scout": "token-scout", "act-admin": "token-admin"}


def query_file(number: int) -> str:
    """One file of reads, a search and a mutation; no two files declare the same name."""
    reads = [
        f"query recent_{number}_{one}($since: DateTime)\n"
        f'    @description("Notes since a moment, form {one}.") {{\n'
        "    match {\n        $n: Note\n        $n.at >= $since\n    }\n"
        "    return { $n.slug, $n.title }\n    order { $n.slug }\n"
        f"    limit {one + 1}\n}}\n"
        for one in range(READS)
    ]
    search = (
        f"query search_{number}($q: String) {{\n    match {{ $n: Note }}\n    return {{ $n.slug }}\n"
        "    order { rrf(nearest($n.vector, $q), bm25($n.title, $q)) desc }\n    limit 5\n}\n"
    )
    change = (
        f"query note_{number}($slug: String, $title: String) {{\n"
        '    insert Note { slug: $slug, kind: "task", title: $title }\n}\n'
    )
    return "\n".join([*reads, search, change])


def seed() -> str:
    """Lines in the strict grammar; each node carries its key as its id, too."""
    notes = [
        {
            "type": "Note",
            "data": {
                "id": f"n-{one:03}",
                "slug": f"n-{one:03}",
                "kind": "signal",
                "title": f"Note {one}",
                "at": f"2026-01-{one % 28 + 1:02}T00:00:00Z",
            },
        }
        for one in range(200)
    ]
    follows = [{"edge": "Follows", "from": f"n-{one:03}", "to": f"n-{one + 1:03}", "data": {}} for one in range(60)]
    return "".join(json.dumps(line) + "\n" for line in [*notes, *follows])


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "field"
    for name, text in {
        "cluster.yaml": CONFIG,
        "intel.pg": SCHEMA,
        "seed.jsonl": seed(),
        "policies/intel.yaml": GRAPH_POLICY,
        "policies/server.yaml": SERVER_POLICY,
        **{f"queries/part-{number}.gq": query_file(number) for number in range(FILES)},
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(root)
    return root


def test_deployment_runs_unmodified(deployment: Path):
    for command in (
        ["cluster", "validate"],
        ["cluster", "import"],
        ["cluster", "plan"],
        ["cluster", "apply", "--as", "act-admin"],
        ["load", "graphs/intel.omni", "--data", "seed.jsonl", "--mode", "overwrite"],
    ):
        done = omnigraph(*command, cwd=deployment)
        assert done.code == 0, (command, done.out, done.err)
    command = ["omnigraph.server.main", "--cluster", ".", "--bind", "127.0.0.1:0"]
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with run_server(command, deployment / "log", environment) as server, server.client("token-scout") as client:
        listed = [query["name"] for query in client.get("/graphs/intel/queries").json()["queries"]]
        assert len(listed) == FILES * (READS + 2) == 72
        since = {"params": {"since": "2026-01-20T00:00:00Z"}}
        for name in (one for one in listed if one.startswith("recent_")):
            answer = client.post(f"/graphs/intel/queries/{name}", json=since)
            assert answer.status_code == 200, (name, answer.text)
            assert len(answer.json()["rows"]) == int(name.rpartition("_")[2]) + 1
        for number in range(FILES):
            params = {"slug": f"new-{number}", "title": "New"}
            answer = client.post(f"/graphs/intel/queries/note_{number}", json={"params": params})
            assert (answer.status_code, answer.json()["actor_id"]) == (200, "act-scout")
        # Without a key for embeddings a search is refused in words, and everything else works.
        refused = client.post("/graphs/intel/queries/search_0", json={"params": {"q": "note"}})
        assert refused.status_code != 500
        assert "embedding" in refused.json()["error"]
        assert [graph["graph_id"] for graph in client.get("/graphs").json()["graphs"]] == ["intel"]
        merged = client.post("/graphs/intel/schema/apply", json={"schema_source": SCHEMA})
        assert merged.status_code == 403
        assert client.post("/graphs/intel/branches", json={"name": "review"}).status_code in {200, 201}
    with run_server(command, deployment / "log", environment) as server, server.client("token-admin") as client:
        assert client.get("/graphs").status_code == 403
        managed = client.post("/graphs/intel/schema/apply", json={"schema_source": SCHEMA})
        assert managed.status_code == 409
