"""What a server answers to requests that make no sense, and what it keeps to itself."""

from __future__ import annotations

import httpx2
import pytest

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
