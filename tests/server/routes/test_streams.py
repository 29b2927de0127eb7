"""Streams over HTTP: exports that share slots, clients that go away, events that resume."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import omnigraph
from omnigraph.server.access.decisions import Access
from omnigraph.server.access.identity import Identities
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.main import open_service
from tests.server.inside import client_of
from tests.server.process import RunningServer, run_server

GRAPH = "/graphs/wide"
SCHEMA = "node Item {\n    key: String @key\n    text: String\n}\n"
# More than the buffers of two sockets and the queue of a stream hold together.
ROWS, WIDTH = 3000, 8000


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of a graph whose export does not fit into the buffers on its way."""
    place = tmp_path_factory.mktemp("wide") / "wide.omni"
    rows = place.with_name("rows.jsonl")
    with rows.open("w", encoding="utf-8") as file:
        for number in range(ROWS):
            file.write(json.dumps({"type": "Item", "data": {"key": f"k{number:06}", "text": "x" * WIDTH}}) + "\n")
    with omnigraph.init(place, SCHEMA) as graph:
        graph.load(rows, mode="append")
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with run_server(command, place.with_name("log")) as server:
        yield server


def test_export_gives_every_entity_by_id(http):
    answer = http.post("/graphs/people/export", json={})
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    records = [json.loads(line) for line in answer.text.splitlines()]
    kinds = ["edge" if "edge" in record else "type" for record in records]
    assert kinds == sorted(kinds)
    people = [record["data"]["id"] for record in records if record.get("type") == "Person"]
    assert people == sorted(people)
    only = http.post("/graphs/people/export", json={"type_names": ["Person"]})
    assert {json.loads(line).get("type") for line in only.text.splitlines()} == {"Person"}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"type_names": ["Nope"]}, 400, "unknown export type 'Nope'"),
        ({"table_keys": []}, 400, "invalid body"),
        ({"branch": "nope"}, 404, "branch 'nope' not found"),
    ],
)
def test_export_that_cannot_begin_is_a_plain_error(http, body: dict, status: int, message: str):
    answer = http.post("/graphs/people/export", json=body)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def begun_export(server: RunningServer) -> socket.socket:
    """Begin an export by hand and read no further than its headers, so that it stays under way."""
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    body = b"{}"
    connection.sendall(
        f"POST {GRAPH}/export HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def test_second_export_waits_until_the_first_is_gone(wide: RunningServer):
    first = begun_export(wide)
    with wide.client() as http:
        refused = http.post(f"{GRAPH}/export", json={})
        assert refused.status_code == 413
        assert refused.json()["resource_limit"] == {"resource": "stream_export_slots", "limit": 1, "actual": 2}
        blocked = http.post(f"{GRAPH}/branches", json={"name": "meanwhile"})
        assert blocked.json()["resource_limit"]["resource"] == "stream_export_slots"
        text = "query q() { match { $i: Item } return { count($i) as n } }"
        assert http.post(f"{GRAPH}/query", json={"query": text}).json()["rows"] == [{"n": ROWS}]
        first.close()
        # The slot comes back when the producer has noticed; it is asked for until then, no time is measured.
        for _ in range(1000):
            again = http.post(f"{GRAPH}/export", json={"type_names": ["Item"]})
            if again.status_code == 200:
                break
        assert len(again.text.splitlines()) == ROWS


def events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if not line:
            if found:
                yield found
            found = {}
            continue
        name, _, value = line.partition(": ")
        found[name] = value


def write(http: httpx2.Client, key: str) -> str:
    text = f'query w() {{ upsert Item {{ key: "{key}", text: "t" }} }}'
    answer = http.post(f"{GRAPH}/mutate", json={"query": text})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["commit"]["graph_commit_id"])


def commits(event: dict[str, str]) -> list[str]:
    return [block["cause"]["graph_commit_id"] for block in json.loads(event["data"])["blocks"]]


def test_events_go_on_where_the_client_left_off(wide: RunningServer):
    with wide.client() as http:
        with wide.client() as reader, reader.stream("GET", f"{GRAPH}/changes/stream") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            coming = events(answer.iter_lines())
            assert commits(next(coming)) == []
            seen = write(http, "event-a")
            event = next(coming)
            assert (event["event"], commits(event)) == ("changes", [seen])
        missed = write(http, "event-b")
        headers = {"Last-Event-ID": event["id"]}
        with wide.client() as reader, reader.stream("GET", f"{GRAPH}/changes/stream", headers=headers) as answer:
            assert commits(next(events(answer.iter_lines()))) == [missed]
        wrong = http.get(f"{GRAPH}/changes/stream", headers={"Last-Event-ID": "x" * 80})
        assert wrong.status_code == 400


def test_stream_ends_with_a_way_to_resume_when_the_server_stops(tmp_path: Path):
    place = tmp_path / "small.omni"
    omnigraph.init(place, SCHEMA).close()
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with run_server(command, tmp_path / "log") as server, server.client() as http:
        with http.stream("GET", "/graphs/small/changes/stream") as answer:
            coming = events(answer.iter_lines())
            next(coming)
            server.process.send_signal(signal.SIGTERM)
            last = next(coming)
            assert last["event"] == "error"
            assert json.loads(last["data"])["resumable"] is True
            assert list(coming) == []
        assert server.process.wait(300) == 0


@pytest.mark.anyio
async def test_who_may_not_maintain_does_not_learn_of_an_export(tmp_path: Path):
    place = tmp_path / "g.omni"
    with omnigraph.init(place, "node Item { key: String @key }"):
        pass
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), owner_token="secret")  # noqa: S106
    service = open_service(settings)
    leave = service.exports.take("g")
    denied = Access(Identities.of({"guest": "guest"}, source="here"), {}, is_unauthenticated=False)
    moves = [
        ("POST", "branches", {"name": "draft"}),
        ("DELETE", "branches/draft", None),
        ("POST", "maintenance/optimize", {}),
        ("POST", "maintenance/cleanup", {"keep": 1}),
        ("POST", "maintenance/migrate", {}),
    ]
    async with client_of(service) as http:
        for access, token, status in ((service.access, "secret", 413), (denied, "guest", 403)):
            service.access = access
            for method, path, body in moves:
                answer = await http.request(
                    method, f"/graphs/g/{path}", json=body, headers={"Authorization": f"Bearer {token}"}
                )
                assert (path, answer.status_code) == (path, status)
        leave()
