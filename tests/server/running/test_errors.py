"""What a server answers to requests that make no sense, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

import omnigraph
from omnigraph.server.app import create_app
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.main import open_service

QUERY = "/graphs/people/query"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/query", 404),
        ("GET", "/snapshot", 404),
        ("GET", "/graphs/people", 404),
        ("GET", "/graphs/people/", 404),
        ("GET", "/graphs/nope/schema", 404),
        ("GET", "/graphs/my_graph/schema", 400),
        ("GET", "/graphs/healthz/schema", 400),
        ("GET", f"/graphs/{'a' * 65}/schema", 400),
        ("GET", "/graphs/people/query", 405),
        ("POST", "/graphs", 405),
        ("DELETE", "/graphs/people", 404),
        ("GET", "/graphs/people%2F..%2Fsecret/schema", 400),
        ("GET", "/graphs/people/commits/%ff", 400),
        ("GET", "/graphs/people/commits/%00", 400),
        ("GET", "/graphs/people/branches/..%2f..%2fetc", 405),
    ],
)
def test_wrong_address_has_a_plain_answer(http: httpx2.Client, method: str, path: str, status: int):
    answer = http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_unknown_graph_is_named(http):
    body = http.get("/graphs/nope/schema").json()
    assert (body["error"], body["code"]) == ("graph 'nope' not found", "not_found")


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b'{"query": "q"}', "application/json; charset=utf-8", 400),
    ],
)
def test_body_that_cannot_be_read(http: httpx2.Client, content: bytes, kind: str, status: int):
    headers = {"Content-Type": kind} if kind else {}
    answer = http.post(QUERY, content=content, headers=headers)
    assert answer.status_code == status
    assert answer.json()["code"] == "bad_request"


def test_request_id_is_echoed_or_made_and_stands_in_errors(http):
    answer = http.get("/graphs/nope/schema", headers={"X-Request-Id": "mine-1"})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "mine-1"
    made = http.get("/graphs/nope/schema", headers={"X-Request-Id": "x" * 129})
    assert len(made.headers["x-request-id"]) == 26


@pytest.mark.parametrize("where", ["route", "middleware"])
def test_what_should_not_happen_is_an_error_like_every_other(tmp_path, monkeypatch, caplog, where):
    omnigraph.init(tmp_path / "g.omni", "node A { name: String @key }").close()
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(tmp_path / "g.omni")),), unauthenticated=True)
    service = open_service(settings)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(*((service.graphs, "get") if where == "route" else (service.access, "authenticate")), fail)
    sent: list[dict[str, Any]] = []

    async def run() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        path = "/graphs/g/schema"
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": [(b"host", b"localhost"), (b"x-request-id", b"mine-2")], "http_version": "1.1"}
        await create_app(service)(scope, receive, send)

    asyncio.run(run())
    service.close()
    start, *pieces = sent
    body = json.loads(b"".join(piece["body"] for piece in pieces))
    assert (start["status"], body["code"], body["request_id"]) == (500, "internal", "mine-2")
    assert "secret" not in str(sent)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [RuntimeError]
