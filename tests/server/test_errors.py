"""What a server answers to requests that make no sense, and what it keeps to itself."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.server.process import RunningServer

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


def raw(server: RunningServer, data: bytes) -> bytes:
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(data)
        found = b""
        while piece := connection.recv(4096):
            found += piece
    return found


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"POST /graphs/people/query HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_the_server_lives(server: RunningServer, data: bytes):
    assert b" 400 " in raw(server, data).splitlines()[0]
    with server.client() as http:
        assert http.get("/healthz").status_code == 200


def test_line_break_in_a_header_does_not_reach_the_answer(server: RunningServer):
    request = b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Request-Id: a\xc2\x85b\r\nConnection: close\r\n\r\n"
    answer = raw(server, request)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"a\xc2\x85b" not in answer


def test_many_requests_leave_no_thread_and_no_descriptor_behind(server: RunningServer):
    def ask(_: int) -> int:
        return http.get("/graphs/people/schema").status_code

    with server.client() as http, ThreadPoolExecutor(8) as threads:
        assert set(threads.map(ask, range(200))) == {200}
        before = usage(server)
        assert set(threads.map(ask, range(800))) == {200}
        after = usage(server)
    # A pool may grow by what ran at the same time, never with the number of requests.
    assert after[0] <= before[0] + 16
    assert after[1] <= before[1] + 16


def usage(server: RunningServer) -> tuple[int, int]:
    """How many threads and open files the process has."""
    import os  # noqa: PLC0415 - of this alone

    process = f"/proc/{server.process.pid}"
    return len(os.listdir(f"{process}/task")), len(os.listdir(f"{process}/fd"))  # noqa: PTH208 - entries vanish meanwhile
