"""The OpenAPI documents: what they promise, that routes and documents agree, and that hostile requests find no bug."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error

import omnigraph
from omnigraph.server.app import GROUPS
from omnigraph.server.middleware import PUBLIC
from omnigraph.server.openapi import BASE_LEVEL, FULL_LEVEL, document_file
from tests.server.conftest import PEOPLE
from tests.server.process import run_server

METHODS = {"get", "post", "delete", "head", "put", "patch"}
# Routes that the operations of a server, the client and the protocol of agents describe elsewhere.
UNDESCRIBED = {"/openapi.json", "/readyz", "/metrics", "/mcp", "/graphs/{graph_id}/mcp"}


def document(level: str) -> dict[str, Any]:
    return json.loads(document_file(level).read_text(encoding="utf-8"))


def operations(found: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method, path): operation
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    }


def test_served_document_is_the_checked_in_one_without_security_where_no_token_is_needed(http):
    served = http.get("/openapi.json").json()
    frozen = document(BASE_LEVEL)
    assert served["paths"].keys() == frozen["paths"].keys()
    assert served["components"]["schemas"] == frozen["components"]["schemas"]
    assert "securitySchemes" not in served["components"]
    assert not any("security" in operation for operation in operations(served).values())
    full = http.get("/openapi.json", params={"level": FULL_LEVEL}).json()
    assert full["paths"].keys() == document(FULL_LEVEL)["paths"].keys()


def test_base_is_part_of_the_full_document():
    base, full = document(BASE_LEVEL), document(FULL_LEVEL)
    assert operations(base).keys() < operations(full).keys()
    for name, component in base["components"]["schemas"].items():
        extended = full["components"]["schemas"][name]
        assert extended.get("required") == component.get("required"), name
        assert component.get("properties", {}).items() <= extended.get("properties", {}).items(), name


@pytest.mark.parametrize("level", [BASE_LEVEL, FULL_LEVEL])
def test_document_keeps_the_rules_of_the_contract(level: str):
    found = document(level)
    assert found["openapi"] == "3.1.0"
    assert found["info"]["title"] == "Omnigraph API"
    assert "servers" not in found
    assert "security" not in found
    listed = operations(found)
    names = [operation["operationId"] for operation in listed.values()]
    assert len(names) == len(set(names))
    for (_, path), operation in listed.items():
        if path.startswith("/graphs/{graph_id}"):
            first = operation["parameters"][0]
            assert (first["name"], first["in"], first["required"]) == ("graph_id", "path", True)
        assert ("security" in operation) is (path not in PUBLIC)
    deprecated = {path for (_, path), operation in listed.items() if operation.get("deprecated")}
    assert deprecated == {f"/graphs/{{graph_id}}/{name}" for name in ("read", "change", "ingest")}
    assert references(found) <= set(found["components"]["schemas"])


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if "$ref" in value else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_every_route_is_described_and_every_description_has_a_route():
    routed = {
        (method.lower(), route.path)
        for group in GROUPS
        for route in group.router.routes
        for method in getattr(route, "methods", ())
    }
    described = set(operations(document(FULL_LEVEL)))
    assert {row for row in described if row not in routed} == set()
    ours = {row for row in routed if row[1] not in UNDESCRIBED and "/operations" not in row[1]}
    assert ours - described == set()


@schemathesis.serializer("application/x-ndjson")
def lines_of_json(_: Any, value: Any) -> bytes:
    """What the generator sends to the route that takes lines."""
    return value.encode(errors="replace") if isinstance(value, str) else json.dumps(value).encode()


def described_schema() -> schemathesis.BaseSchema:
    schema = schemathesis.openapi.from_dict(document(FULL_LEVEL))
    # The stream of events never ends by itself; it has tests of its own.
    return schema.exclude(path="/graphs/{graph_id}/changes/stream")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of its own: what is sent to it changes schemas and reclaims history."""
    place = tmp_path_factory.mktemp("fuzzed") / "people.omni"
    with omnigraph.init(place, PEOPLE / "schema.pg") as graph:
        graph.load(PEOPLE / "staff.jsonl", mode="append")
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with run_server(command, place.with_suffix(".log")) as running:
        yield running.url


def test_few_requests_of_every_operation_make_no_server_fail(target: str):
    asked = set()
    for found in described_schema().get_all_operations():
        operation = found.ok()

        @given(operation.as_strategy())
        @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
        def ask(case: schemathesis.Case) -> None:
            answer_is_no_failure(case, target)

        ask()
        asked.add((operation.method, operation.path))
    assert len(asked) == len(operations(document(FULL_LEVEL))) - 1


def answer_is_no_failure(case: schemathesis.Case, target: str) -> None:
    if "graph_id" in (case.path_parameters or {}):
        # Most requests should come as far as the graph.
        case.path_parameters["graph_id"] = "people"
    response = case.call(base_url=target)
    case.validate_response(response, checks=[not_a_server_error])
    assert b"Traceback" not in response.content


def test_answers_have_the_shape_that_the_document_declares(http: httpx2.Client):
    schema_of = {operation["operationId"]: operation for operation in operations(document(FULL_LEVEL)).values()}
    asked = {
        "cluster_getSnapshot": http.get("/graphs/people/snapshot"),
        "cluster_listBranches": http.get("/graphs/people/branches"),
        "cluster_listCommits": http.get("/graphs/people/commits?limit=3"),
        "cluster_list_queries": http.get("/graphs/people/queries"),
        "cluster_pollChanges": http.get("/graphs/people/changes?start=beginning&limit=5"),
        "health": http.get("/healthz"),
    }
    components = document(FULL_LEVEL)["components"]["schemas"]
    for name, answer in asked.items():
        assert answer.status_code == 200, answer.text
        declared = schema_of[name]["responses"]["200"]["content"]["application/json"]["schema"]
        assert misfits(answer.json(), declared, components) == [], name


def misfits(value: Any, declared: dict[str, Any], components: dict[str, Any], place: str = "$") -> list[str]:
    """Where a document lacks what its description demands; members beyond it are fine."""
    if "$ref" in declared:
        return misfits(value, components[declared["$ref"].rpartition("/")[2]], components, place)
    if "oneOf" in declared:
        tried = [misfits(value, one, components, place) for one in declared["oneOf"]]
        return [] if any(not found for found in tried) else tried[-1]
    if "enum" in declared:
        return [] if value in declared["enum"] else [place]
    kinds = declared.get("type")
    if kinds is None:
        return []
    kinds = kinds if isinstance(kinds, list) else [kinds]
    fitting = {"null": type(None), "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    if value is None or not isinstance(value, dict | list):
        return [] if any(kind in fitting and isinstance(value, fitting[kind]) for kind in kinds) else [place]
    if isinstance(value, list):
        items = declared.get("items", {})
        return [
            one for number, item in enumerate(value) for one in misfits(item, items, components, f"{place}[{number}]")
        ]
    missing = [f"{place}.{name}" for name in declared.get("required", ()) if name not in value]
    return missing + [
        one
        for name, item in value.items()
        if name in declared.get("properties", {})
        for one in misfits(item, declared["properties"][name], components, f"{place}.{name}")
    ]
