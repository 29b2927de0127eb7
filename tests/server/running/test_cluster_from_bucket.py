"""From an empty bucket to serving in one apply, and a change of a schema while requests run."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from omnigraph.testing.s3 import S3Endpoint
from tests.e2e.process import omnigraph
from tests.embedding_server import KEY, counting, serve
from tests.server.process import RunningServer, run_server
from tests.server.running.wire import until

GRAPHS = ("crm", "sales", "wiki")
TOKENS = {"act-mira": "token-mira", "act-jon": "token-jon"}
VARIABLES = {
    "aws_endpoint": "AWS_ENDPOINT_URL",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_region": "AWS_REGION",
    "allow_http": "AWS_ALLOW_HTTP",
}
SCHEMA = """\
node Note {
    slug: String @key
    title: String
    vector: Vector(4)? @embed(title)
}
"""
CONFIG = """\
version: 1
metadata: {{ name: three }}
storage: {storage}
providers:
  embedding:
    vec: {{ kind: openai-compatible, base_url: {provider}/v1, model: m, api_key: "${{VEC_KEY}}" }}
graphs:
  crm: {{ schema: note.pg, queries: [gq/find.gq, gq/more.gq], embedding_provider: vec }}
  sales: {{ schema: note.pg, queries: gq/find.gq }}
  wiki: {{ schema: note.pg, queries: gq/find.gq }}
policies:
  everyone: {{ file: everyone.yaml, applies_to: [crm, sales, wiki] }}
  listing: {{ file: listing.yaml, applies_to: [cluster] }}
"""
FIND = """\
query find($slug: String) { match { $n: Note { slug: $slug } } return { $n.title } }
query count_all() { match { $n: Note } return { count($n) as total } }
query put($slug: String, $title: String) { upsert Note { slug: $slug, title: $title } }
"""
MORE = """\
query near($q: String) { match { $n: Note } return { $n.slug } order { nearest($n.vector, $q) } limit 3 }
"""
EVERYONE = """\
version: 1
groups: { all: [act-mira, act-jon] }
rules:
  - id: use
    allow: { actors: { group: all }, actions: [read, change, invoke_query] }
"""
LISTING = """\
version: 1
kind: server
groups: { all: [act-mira] }
rules:
  - id: list
    allow: { actors: { group: all }, actions: [graph_list] }
"""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A directory whose cluster lives in a bucket, and the environment of everything that works on it."""

    path: Path
    storage: str
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        done = omnigraph(*command, cwd=self.path, **self.environment)
        assert done.code == 0, f"{command}: {done.out}{done.err}"
        return done.out


@pytest.fixture
def ground(tmp_path: Path, clean_s3_endpoint: S3Endpoint) -> Iterator[Ground]:
    storage = clean_s3_endpoint.fresh_prefix()
    options = clean_s3_endpoint.storage_options
    with serve(counting) as provider:
        path = tmp_path / "three"
        for name, text in {
            "cluster.yaml": CONFIG.format(storage=storage, provider=provider.url),
            "note.pg": SCHEMA,
            "gq/find.gq": FIND,
            "gq/more.gq": MORE,
            "everyone.yaml": EVERYONE,
            "listing.yaml": LISTING,
        }.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text, encoding="utf-8")
        yield Ground(
            path=path,
            storage=storage,
            environment={
                **{variable: options[name] for name, variable in VARIABLES.items()},
                "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS),
                "OMNIGRAPH_CLUSTER_POLL_MS": "50",
                "VEC_KEY": KEY,
            },
        )


@dataclass
class Callers:
    """Actors that read and write until they are told to stop, and what they were answered."""

    server: RunningServer
    stopping: threading.Event = field(default_factory=threading.Event)
    answers: list[httpx2.Response] = field(default_factory=list)

    def call(self, graph: str, actor: str) -> None:
        with self.server.client(TOKENS[actor]) as client:
            number = 0
            while not self.stopping.is_set():
                number += 1
                params = {"slug": f"{actor}-{number % 5}", "title": f"Title {number}"}
                queries = f"/graphs/{graph}/queries"
                self.answers.append(client.post(f"{queries}/put", json={"params": params}))
                self.answers.append(client.post(f"{queries}/find", json={"params": {"slug": params["slug"]}}))
                self.answers.append(client.post(f"{queries}/count_all", json={}))


@pytest.mark.more
def test_from_an_empty_bucket_to_serving_and_through_a_change_of_schema(ground: Ground):
    ground.run("cluster", "import")
    applied = json.loads(ground.run("cluster", "apply", "--as", "act-mira", "--json"))
    assert (applied["ok"], applied["converged"], applied["state_written"]) == (True, True, True)
    command = ["omnigraph.server.main", "--cluster", ground.storage, "--bind", "127.0.0.1:0", "--require-all-graphs"]
    with run_server(command, ground.path / "log", ground.environment) as server:
        with server.client(TOKENS["act-mira"]) as client:
            assert [one["graph_id"] for one in client.get("/graphs").json()["graphs"]] == [*GRAPHS]
            names = [len(client.get(f"/graphs/{graph}/queries").json()["queries"]) for graph in GRAPHS]
            assert (names, sum(names)) == ([4, 3, 3], 10)
            # The vector of the question comes from the provider of the cluster, with the key of the environment.
            line = {"type": "Note", "data": {"slug": "a", "title": "First", "vector": [6.0, 1.0, 1.0, 1.0]}}
            loaded = client.post("/graphs/crm/load", json={"data": json.dumps(line), "mode": "merge"})
            assert loaded.status_code == 200
            near = client.post("/graphs/crm/queries/near", json={"params": {"q": "First"}})
            assert [row["n.slug"] for row in near.json()["rows"]] == ["a"]
        callers = Callers(server)
        threads = [
            threading.Thread(target=callers.call, args=(graph, actor))
            for graph, actor in (("crm", "act-mira"), ("crm", "act-jon"), ("wiki", "act-mira"))
        ]
        for thread in threads:
            thread.start()
        try:
            (ground.path / "note.pg").write_text(SCHEMA.replace("title: String\n", "title: String\n    stars: I32?\n"))
            stars = "query stars() { match { $n: Note } return { $n.slug, $n.stars } order { $n.slug } limit 1 }\n"
            (ground.path / "gq" / "more.gq").write_text(MORE + stars)
            changed = json.loads(ground.run("cluster", "apply", "--as", "act-mira", "--json"))
            assert (changed["ok"], changed["converged"]) == (True, True)

            def serves_stars() -> bool:
                with server.client(TOKENS["act-jon"]) as client:
                    return client.post("/graphs/crm/queries/stars", json={}).status_code == 200

            until(serves_stars, server.log.read_text())
            seen = len(callers.answers)
            until(lambda: len(callers.answers) > seen + 30, "nobody is answered any more")
        finally:
            callers.stopping.set()
            for thread in threads:
                thread.join()
        statuses = Counter(answer.status_code for answer in callers.answers)
        assert statuses[200] > 30, statuses
        for answer in callers.answers:
            if answer.status_code != 200:
                # A writer may lose against the change; it is told so, and nothing is an error of ours.
                assert answer.status_code in {409, 429, 503}, answer.text
                assert answer.json()["error"]
        assert "Traceback" not in server.log.read_text()
        assert KEY not in server.log.read_text()
    again = json.loads(ground.run("cluster", "apply", "--as", "act-mira", "--json"))
    assert (again["converged"], again["state_written"]) == (True, False)
