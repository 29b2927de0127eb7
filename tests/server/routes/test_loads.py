"""Loading rows over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx2
import pytest

from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.main import open_service
from omnigraph.server.routes import loads
from tests.server.inside import client_of

GRAPH = "/graphs/people"
NDJSON = {"Content-Type": "application/x-ndjson"}


def person(slug: str, **more: object) -> dict[str, object]:
    return {"type": "Person", "data": {"slug": slug, "name": slug.title(), "level": "junior", "created_at": 0, **more}}


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\r\n\n" for record in records)


def send(http: httpx2.Client, content: bytes, query: str = "") -> httpx2.Response:
    return http.post(f"{GRAPH}/load/ndjson{query}", content=content, headers=NDJSON)


def heads(http: httpx2.Client) -> int:
    return len(http.get(f"{GRAPH}/commits").json()["commits"])


def test_mixed_batch_is_one_commit(http):
    before = heads(http)
    knows = {"edge": "Knows", "from": "load-a", "to": "load-b", "data": {"since": 20_000}}
    answer = send(http, lines(person("load-a"), person("load-b"), knows), "?mode=append")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["nodes"] == [{"name": "Person", "entities_loaded": 2}]
    assert body["edges"] == [{"name": "Knows", "entities_loaded": 1}]
    assert (body["branch"], body["base_branch"], body["branch_created"]) == ("main", None, False)
    assert (body["mode"], body["total_entities"]) == ("append", 3)
    assert heads(http) == before + 1
    assert http.get(f"{GRAPH}/commits").json()["commits"][0]["graph_commit_id"] == body["commit"]["graph_commit_id"]


def test_bad_last_line_leaves_nothing_behind(http):
    before = heads(http)
    answer = send(http, lines(person("load-x"), person("load-y", surplus=1)))
    assert answer.status_code == 400
    assert "line 3" in answer.json()["error"]
    assert heads(http) == before


def test_append_of_a_key_that_exists_is_a_conflict(http):
    answer = send(http, lines(person("mira")), "?mode=append")
    assert answer.status_code == 409
    assert answer.json()["key_conflict"] == {"entity_kind": "node", "type_name": "Person", "entity_id": "mira"}


@pytest.mark.parametrize(
    ("content", "query", "headers", "status"),
    [
        (b"{}", "", {"Content-Type": "application/json"}, 415),
        (b"\xff\n", "", NDJSON, 400),
        (b"{}", "?mode=replace", NDJSON, 400),
        (b"{\n", "", NDJSON, 400),
        (b'{"type":"Person","type":"Person"}', "", NDJSON, 400),
        (b"{}", "?branch=%20", NDJSON, 400),
        (b"{}", "?branch=nope", NDJSON, 404),
    ],
)
def test_wrong_load_is_refused(http, content: bytes, query: str, headers: dict, status: int):
    answer = http.post(f"{GRAPH}/load/ndjson{query}", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"] == ("not_found" if status == 404 else "bad_request")


def test_body_that_is_too_long_is_told_by_its_header(server):
    with server.client() as http:
        answer = http.post(f"{GRAPH}/load/ndjson", content=b"\n" * ((32 << 20) + 1), headers=NDJSON)
    assert answer.status_code == 413
    limit = {"resource": "graph_batch_request_bytes", "limit": 32 << 20, "actual": (32 << 20) + 1}
    assert answer.json()["resource_limit"] == limit
    assert answer.json()["error"] == (
        f"resource limit exceeded for graph_batch_request_bytes: actual {(32 << 20) + 1}, limit {32 << 20}"
    )


def test_plain_body_that_is_too_long_has_no_detail(server):
    with server.client() as http:
        answer = http.post(
            f"{GRAPH}/query", content=b" " * ((1 << 20) + 1), headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 413
    assert "resource_limit" not in answer.json()


def test_line_with_too_many_values_is_refused(http):
    answer = send(http, json.dumps(person("many", skills=["a"] * 140_000)).encode())
    assert answer.status_code == 413
    assert answer.json()["resource_limit"]["resource"] == "graph_batch_json_structural_slots"


@pytest.mark.parametrize(
    ("line", "slots"),
    [
        (b"", 0),
        (b'{"a": [1, 2]}', 6),
        (rb'{"{}[],:": "\"{", "\\": {}}', 7),
        (rb'{"a": "\\\", {"}', 3),
        (b'{"a": "' + b'\\"{' * 20, 2),
    ],
)
def test_signs_count_outside_of_texts(line, slots):
    assert loads._structural_slots(line) == slots


def test_endless_text_of_quotes_is_a_bad_line(http):
    answer = send(http, b'"' + b'\\"' * 150_000)
    assert answer.status_code == 400
    assert http.get("/healthz").status_code == 200


def test_lines_are_looked_at_beside_the_event_loop(served_people, monkeypatch):
    threads = []
    refuse = loads.malformed
    monkeypatch.setattr(loads, "malformed", lambda *given: threads.append(threading.current_thread()) or refuse(*given))

    async def send_lines() -> httpx2.Response:
        graph = ServedGraph(graph_id="people", uri=str(served_people))
        service = open_service(ServerSettings(graphs=(graph,), unauthenticated=True))
        async with client_of(service) as client:
            return await client.post(f"{GRAPH}/load/ndjson", content=b"\xff", headers=NDJSON)

    assert asyncio.run(send_lines()).status_code == 400
    assert [thread is threading.main_thread() for thread in threads] == [False]


def test_lenient_load_takes_any_sequence_of_objects(http):
    data = json.dumps(person("lenient-a", surplus=1), indent=2) + json.dumps(person("lenient-b") | {"more": 2})
    answer = http.post(f"{GRAPH}/load", json={"data": data})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert next(iter(body)) == "uri"
    assert (body["mode"], body["total_entities"]) == ("merge", 2)
    assert "deprecation" not in answer.headers
    broken = http.post(f"{GRAPH}/load", json={"data": '{"type":"Person","data":{}} {'})
    assert broken.status_code == 400
    assert "record 2" in broken.json()["error"]


def test_branch_is_made_only_where_it_is_missing_and_may_be(http):
    data = json.dumps(person("on-branch"))
    missing = http.post(f"{GRAPH}/load", json={"data": data, "branch": "import"})
    assert missing.status_code == 404
    assert missing.json()["error"] == "branch 'import' not found; pass `from` to create it"
    assert "import" not in http.get(f"{GRAPH}/branches").json()["branches"]
    made = http.post(f"{GRAPH}/ingest", json={"data": data, "branch": "import", "from": "main"})
    assert made.headers["link"] == '<load>; rel="successor-version"'
    assert (made.json()["branch_created"], made.json()["base_branch"]) == (True, "main")
    again = http.post(f"{GRAPH}/load", json={"data": data, "branch": "import", "from": "main"})
    assert (again.json()["branch_created"], again.json()["base_branch"]) == (False, "main")
    http.delete(f"{GRAPH}/branches/import")


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_without_a_record_makes_no_commit(http, mode: str):
    before = http.get(f"{GRAPH}/commits?limit=1").json()
    lenient = http.post(f"{GRAPH}/load", json={"data": " \n ", "mode": mode})
    ndjson = {"Content-Type": "application/x-ndjson"}
    strict = http.post(f"{GRAPH}/load/ndjson?mode={mode}", content=b"\n\r\n", headers=ndjson)
    for done in (lenient, strict):
        assert (done.status_code, done.json()["commit"], done.json()["total_entities"]) == (200, None, 0)
    assert http.get(f"{GRAPH}/commits?limit=1").json() == before
