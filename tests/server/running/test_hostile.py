"""What a server does with senders that mean it harm: over sockets, byte by byte, and each of them beside others."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import logging
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

import omnigraph
from omnigraph.operations.json_form import request_to_json
from omnigraph.operations.wire import MEDIA_TYPE, FrameKind, encode_frame
from omnigraph.operations.writes import LoadRequest, SentSource
from omnigraph.server.control.logs import LogFormatter, Redaction
from omnigraph.server.control.settings import ConnectionLimits
from omnigraph.server.transport.connections import room_for
from tests.server.conftest import PEOPLE
from tests.server.process import RunningServer, run_server
from tests.server.running.wire import dial, drip, exchange, head, read_all, sockets, status, until

pytestmark = pytest.mark.more

GRAPH = "/graphs/people"
JSON = "Content-Type: application/json"
READ = b'{"query": "query q() { match { $p: Person } return { $p.slug } }"}'
CONNECTIONS = 8
CHUNKED = "Transfer-Encoding: chunked"
# How many sockets a server has before anybody connects.
SOCKETS: dict[str, int] = {}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that waits for nobody longer than a second, with room for few connections."""
    place = tmp_path_factory.mktemp("hostile") / "people.omni"
    omnigraph.init(place, PEOPLE / "schema.pg").close()
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    environment = {
        "OMNIGRAPH_MAX_CONNECTIONS": str(CONNECTIONS),
        "OMNIGRAPH_HEADER_SECONDS": "1",
        "OMNIGRAPH_BODY_SECONDS": "1",
        "OMNIGRAPH_READER_SECONDS": "1",
    }
    with run_server(command, place.with_suffix(".log"), environment) as running:
        SOCKETS[running.url] = sockets(running)
        yield running
        # Whatever was sent, each event is one line of JSON, and nothing of it was a surprise.
        lines = [json.loads(line) for line in running.log.read_text(encoding="utf-8").splitlines()]
        assert [line for line in lines if line["level"] == "error"] == []


def alive(server: RunningServer) -> bool:
    return status(exchange(server, head("GET", f"{GRAPH}/schema"))) == 200


REFUSED = {
    "no request": b"nonsense\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "version 9": b"GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n",
    "greeting of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50) + b"\r\n\r\n",
    "greeting of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n",
    "line break in the path": b"GET /health\nz HTTP/1.1\r\nHost: a\r\n\r\n",
    "control character in the path": b"GET /health\x1bz HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in a header": head("GET", "/healthz", "X-Request-Id: a\0b"),
    "carriage return in a header": head("GET", "/healthz", "X-Request-Id: a\rInjected: b"),
    "blank before the colon": head("GET", "/healthz", "X-Request-Id : a"),
    "header without a name": head("GET", "/healthz", ": a"),
    "header without a colon": head("GET", "/healthz", "a"),
    "header of 40 KiB": head("GET", "/healthz", "X-Long: " + "a" * 40_000),
    "headers of 40 KiB": head("GET", "/healthz", *(f"X-{number}: {'a' * 90}" for number in range(400))),
    "header without an end": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 300_000,
    "path of 20 KiB": head("GET", "/" + "a" * 20_000),
    "query string of 20 KiB": head("GET", f"{GRAPH}/schema?" + "a" * 20_000),
    "path of 300 KiB": head("GET", "/" + "a" * 300_000),
    "length below zero": head("POST", f"{GRAPH}/query", JSON, "Content-Length: -1"),
    "length that is no number": head("POST", f"{GRAPH}/query", JSON, "Content-Length: 1_0"),
    "length of 5000 digits": head("POST", f"{GRAPH}/query", JSON, "Content-Length: " + "9" * 5000),
    "length of 19 digits": head("POST", f"{GRAPH}/query", JSON, "Content-Length: " + "9" * 19),
    "two lengths": head("POST", f"{GRAPH}/query", JSON, "Content-Length: 5", body=READ),
    "two lengths in one": head("POST", f"{GRAPH}/query", JSON, "Content-Length: 5, 6"),
    "length and chunks": head("POST", f"{GRAPH}/query", JSON, CHUNKED, "Content-Length: 5") + b"0\r\n\r\n",
    "chunks, packed": head("POST", f"{GRAPH}/query", JSON, "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "chunk without a size": head("POST", f"{GRAPH}/query", JSON, CHUNKED) + b"zz\r\n{}\r\n0\r\n\r\n",
    "chunk below zero": head("POST", f"{GRAPH}/query", JSON, CHUNKED) + b"-2\r\n{}\r\n0\r\n\r\n",
    "chunk beyond all sizes": head("POST", f"{GRAPH}/query", JSON, CHUNKED) + b"f" * 30 + b"\r\n{}\r\n0\r\n\r\n",
    "chunk without its end": head("POST", f"{GRAPH}/query", JSON, CHUNKED) + b"2\r\n{}XX0\r\n\r\n",
    "endless extension of a chunk": head("POST", f"{GRAPH}/query", JSON, CHUNKED) + b"2;" + b"a" * 200_000,
    "trailer that is none": head("POST", f"{GRAPH}/query", JSON, CHUNKED) + b"2\r\n{}\r\n0\r\n\0\r\n\r\n",
    "broken chunk after the answer": head("POST", f"{GRAPH}/query", CHUNKED, "Connection: keep-alive") + b"zz\r\n",
    "method nobody has": head("BREW", f"{GRAPH}/schema"),
    "method in small letters": head("get", f"{GRAPH}/schema"),
    "trace": head("TRACE", f"{GRAPH}/schema"),
    "proxy": head("CONNECT", "example.org:443"),
    "everything": head("OPTIONS", "*"),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_no_request_is_refused_and_the_server_goes_on(strict: RunningServer, data: bytes):
    answer = exchange(strict, data)
    assert status(answer) in {0, 400, 404, 405, 408, 413, 414, 415, 431, 501, 505}
    assert b"Injected" not in answer
    assert b"Traceback" not in answer
    assert alive(strict)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(["X-Long: " + "a" * 33_000], 431), ([], 414)],
    ids=["headers", "path"],
)
def test_what_is_too_long_is_told(strict: RunningServer, lines: list[str], expected: int):
    path = "/" + "a" * 17_000 if expected == 414 else "/healthz"
    assert status(exchange(strict, head("GET", path, *lines))) == expected


def test_length_and_chunks_together_are_refused_before_anything_is_executed(strict: RunningServer):
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(READ), READ)
    assert status(exchange(strict, head("POST", f"{GRAPH}/query", JSON, CHUNKED) + body)) == 200
    both = head("POST", f"{GRAPH}/query", JSON, CHUNKED, f"Content-Length: {len(READ)}") + body
    assert status(exchange(strict, both)) == 400


@pytest.mark.parametrize("path", [f"{GRAPH}/query", f"{GRAPH}/load/ndjson", f"{GRAPH}/operations/load"])
def test_packed_bodies_are_not_unpacked(strict: RunningServer, path: str):
    bomb = gzip.compress(bytes(1 << 20))
    kind = {"query": "application/json", "ndjson": "application/x-ndjson", "load": MEDIA_TYPE}[path.rpartition("/")[2]]
    with strict.client() as http:
        headers = {"Content-Type": kind, "Content-Encoding": "gzip", "Omnigraph-Wire": "1"}
        answer = http.post(path, content=bomb, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "bad_request")
    plain = head("POST", f"{GRAPH}/query", JSON, "Content-Encoding: identity", body=READ)
    assert status(exchange(strict, plain)) == 200


def test_what_is_no_request_id_does_not_reach_the_answer(strict: RunningServer):
    for value in ("a\u0085b", "a\x1b[31m", "a\tb", "\u00e9"):
        answer = exchange(strict, head("GET", "/healthz", f"X-Request-Id: {value}"))
        assert status(answer) in {200, 400}
        assert value.encode() not in answer


def test_requests_in_one_go_are_answered_in_turn_and_what_follows_is_refused(strict: RunningServer):
    one = head("GET", "/healthz", "Connection: keep-alive")
    answer = exchange(strict, one * 30 + b"junk\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 30
    assert answer.count(b"HTTP/1.1 400 ") == 1


def test_a_connection_stays_what_it_is(strict: RunningServer):
    upgrade = (
        "Connection: Upgrade, close",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: YQ==",
    )
    assert status(exchange(strict, head("GET", f"{GRAPH}/schema", *upgrade))) == 200
    assert status(exchange(strict, head("GET", "/healthz", "Connection: Upgrade, close", "Upgrade: h2c"))) == 200


def test_a_sender_that_asks_first_is_told_to_go_on_or_is_refused(strict: RunningServer):
    ask = ("Expect: 100-continue", JSON)
    with dial(strict) as connection:
        connection.sendall(head("POST", f"{GRAPH}/query", *ask, f"Content-Length: {len(READ)}"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        connection.sendall(READ)
        assert status(read_all(connection)) == 200
    assert status(exchange(strict, head("POST", f"{GRAPH}/query", *ask, f"Content-Length: {1 << 30}"))) == 413
    assert status(exchange(strict, head("POST", f"{GRAPH}/nothing", *ask, "Content-Length: 5"))) == 404


@pytest.mark.parametrize("path", [f"{GRAPH}/schema", f"{GRAPH}/operations", "/graphs", f"{GRAPH}/none"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_a_page_reaches_no_open_server_through_a_name_of_its_own(
    strict: RunningServer, path: str, headers: dict[str, str]
):
    with strict.client() as http:
        for method in ("GET", "POST", "OPTIONS"):
            answer = http.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert "OMNIGRAPH_MCP_HOSTS" in answer.json()["error"], answer.text
        assert http.get("/healthz", headers=headers).status_code == 200


def test_names_of_this_machine_reach_an_open_server(strict: RunningServer):
    with strict.client() as http:
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80"):
            assert http.get(f"{GRAPH}/schema", headers={"Host": host}).status_code == 200
        page = {"Origin": "http://localhost:3000"}
        assert http.get(f"{GRAPH}/schema", headers=page).status_code == 200


def named(name: object) -> bytes:
    return encode_frame(FrameKind.FILE, json.dumps(name).encode()) + encode_frame(FrameKind.END, b"{}")


@pytest.mark.parametrize(
    "files",
    [
        named([]),
        named({}),
        named({"name": 5}),
        named({"name": "a\0b"}),
        named({"name": "a\nb"}),
        named({"name": "a" * 5000}),
        named({"name": "a"}) + named({"name": "a"}),
        encode_frame(FrameKind.FILE, b"{"),
        b"?\x00\x00\x00\x00",
        b"B\xff\xff\xff\xff",
        encode_frame(FrameKind.END, b"{}"),
        encode_frame(FrameKind.BYTES, b"x"),
    ],
    ids=["list", "empty", "number", "nul", "break", "long", "twice", "json", "kind", "length", "end", "bytes"],
)
def test_files_that_are_none_are_refused(strict: RunningServer, files: bytes):
    content = encode_frame(FrameKind.RECORD, DOCUMENT) + files
    with strict.client() as http:
        headers = {"Content-Type": MEDIA_TYPE, "Omnigraph-Wire": "1"}
        answer = http.post(f"{GRAPH}/operations/load", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


DOCUMENT = json.dumps(request_to_json(LoadRequest(sources=[SentSource(file="0")]))).encode()
FILE = encode_frame(FrameKind.RECORD, DOCUMENT) + encode_frame(FrameKind.FILE, b'{"name": "0"}')
WIRE = (f"Content-Type: {MEDIA_TYPE}", "Omnigraph-Wire: 1")
SLOW = {
    "body": (head("POST", f"{GRAPH}/query", JSON, "Content-Length: 9000"), b" "),
    "chunks": (head("POST", f"{GRAPH}/query", JSON, CHUNKED), b"1\r\n \r\n"),
    "lines": (
        head("POST", f"{GRAPH}/load/ndjson", "Content-Type: application/x-ndjson", "Content-Length: 9000"),
        b"\n",
    ),
    "files": (head("POST", f"{GRAPH}/operations/load", *WIRE, "Content-Length: 900000") + FILE, b"x"),
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("goes_on", [True, False], ids=["drips", "stops"])
def test_a_body_that_does_not_arrive_is_given_up_and_others_are_served(strict: RunningServer, name: str, goes_on: bool):
    start, piece = SLOW[name]
    with dial(strict) as waiting:
        waiting.sendall(start)
        assert alive(strict)
    answer = drip(strict, start, itertools.repeat(piece if goes_on else b"", 2000))
    assert status(answer) == 408
    assert b"in time" in answer


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"", b""),
        (b"G", b""),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ", b"a"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n", b"X-Slow: a\r\n"),
        (head("GET", "/healthz", "Connection: keep-alive") + b"GET / HT", b"T"),
        (head("POST", f"{GRAPH}/query", "Connection: keep-alive", "Content-Length: 90000"), b"a"),
        (head("POST", f"{GRAPH}/query", "Connection: keep-alive", CHUNKED), b"1\r\na\r\n"),
    ],
    ids=["nothing", "a letter", "a header", "headers", "a second request", "a refused body", "refused chunks"],
)
def test_a_request_that_does_not_arrive_ends_the_connection(strict: RunningServer, start: bytes, piece: bytes):
    answer = drip(strict, start, itertools.repeat(piece, 2000))
    assert status(answer) in {0, 200, 408, 415}
    assert alive(strict)


def test_a_reader_that_does_not_read_is_let_go(strict: RunningServer):
    quiet = SOCKETS[strict.url]
    until(lambda: sockets(strict) == quiet, "connections of before are still open")
    with dial(strict, receive_bytes=4096) as connection:
        # Answers of several megabytes: more than the system keeps on the way.
        connection.sendall(head("GET", "/openapi.json", "Connection: keep-alive") * 200)
        until(lambda: sockets(strict) == quiet + 1, "the connection was not taken")
        until(lambda: sockets(strict) == quiet, "the connection is still open")
        assert alive(strict)


def test_more_connections_than_there_is_room_for_are_told_and_the_others_go_on(strict: RunningServer):
    stream = head("GET", f"{GRAPH}/changes/stream")
    held: list[socket.socket] = []
    with ExitStack() as closing:

        def hold() -> bool:
            """Add a connection that stays; whether all that fit are there."""
            connection = closing.enter_context(dial(strict))
            connection.sendall(stream)
            if b" 200 " in connection.recv(12) + b" ":
                held.append(connection)
            return len(held) == CONNECTIONS

        until(hold, "connections of before are still counted")
        answer = exchange(strict, head("GET", f"{GRAPH}/schema", "Connection: keep-alive"))
        assert status(answer) == 503
        assert b"\r\nretry-after: 1\r\n" in answer.lower()
        body = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert "too many connections" in body["error"]
        assert status(exchange(strict, head("GET", "/healthz", "Connection: keep-alive"))) == 200
        assert all(connection.recv(1 << 16) for connection in held)
        # Far beyond the limit connections are closed unheard.
        crowd = [closing.enter_context(dial(strict)) for _ in range(CONNECTIONS * 2)]
        assert read_all(crowd[-1]) == b""
    until(lambda: alive(strict), "there is no room again")
    told = re.compile(rf"refused \d+ above the limit of {CONNECTIONS} connections, [1-9]\d* of them without an answer")
    until(lambda: told.search(strict.log.read_text(encoding="utf-8")) is not None, "the log does not tell of it")


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "most", "raised"),
    [
        (1024, 1 << 20, 4096, 4096, 65_536),
        (1024, 4000, 4096, 1000, 4000),
        (256, 256, 4096, 64, None),
        (1 << 17, 1 << 17, 10_000, 10_000, None),
        (2, 2, 10, 1, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 4096, 4096, None),
    ],
)
def test_the_limit_leaves_descriptors_for_files(monkeypatch, soft, hard, wanted, most, raised):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert room_for(ConnectionLimits(most=wanted, head_s=7)) == ConnectionLimits(most=most, head_s=7)
    assert asked == ([] if raised is None else [(raised, hard)])


FORGED = '%0A{"level":"error","message":"forged"}%0D%1B[31m%C2%85'


@pytest.mark.parametrize(
    "path",
    [f"/graphs/{FORGED}/schema", f"{GRAPH}/commits/{FORGED}", f"{GRAPH}/{FORGED}", f"{GRAPH}/snapshot?branch={FORGED}"],
)
def test_no_line_of_the_log_is_made_by_a_caller(strict: RunningServer, path: str):
    before = len(strict.log.read_text(encoding="utf-8").splitlines())
    with strict.client() as http:
        answer = http.get(path, headers={"X-Request-Id": "hostile-1", "User-Agent": "\x1b[31m"})
    assert answer.status_code in {400, 404}

    def written() -> list[dict[str, object]]:
        lines = strict.log.read_text(encoding="utf-8").splitlines()[before:]
        return [json.loads(line) for line in lines]

    until(lambda: any(line.get("request_id") == "hostile-1" for line in written()), "the request is not in the log")
    assert "\x1b" not in strict.log.read_text(encoding="utf-8")
    assert not [line for line in written() if "forged" in str(line)]


def test_lines_for_a_person_are_escaped_too():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter(Redaction(), is_json=False))
    log = logging.Logger("omnigraph.server")  # noqa: LOG001 - one that no other test sees
    log.addHandler(handler)
    nasty = "a\nforged\r\x1b[31m\x85\u2028"
    log.error(nasty, exc_info=ValueError(nasty), extra={"actor": nasty, "graph": nasty})
    found = stream.getvalue()
    assert len(found.splitlines()) == 1
    assert found.isascii()
    assert found.rstrip("\n").isprintable()


@pytest.mark.parametrize("name", ["über", "日本", "Ω/Ω"])
@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/vnd.apache.arrow.stream"])
def test_names_of_all_languages_fit_into_headers(strict: RunningServer, name: str, kind: str):
    with strict.client() as http:
        assert http.post(f"{GRAPH}/branches", json={"name": name}).status_code == 200
        body = {**json.loads(READ), "branch": name}
        answer = http.post(f"{GRAPH}/query", json=body, headers={"Accept": kind})
        assert http.delete(f"{GRAPH}/branches/{quote(name, safe='')}").status_code == 200
    assert answer.status_code == 200
    assert unquote(answer.headers["omnigraph-branch"]) == name
    assert answer.headers["omnigraph-branch"].isascii()


UP = "..%2F..%2F..%2Fescaped"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"/graphs/{UP}/schema", None),
        ("GET", "/graphs/../../etc/passwd", None),
        ("GET", f"{GRAPH}/../people/schema", None),
        ("GET", f"{GRAPH}/snapshot?branch={UP}", None),
        ("DELETE", f"{GRAPH}/branches/{UP}", None),
        ("DELETE", f"{GRAPH}/tags/{UP}", None),
        ("GET", f"{GRAPH}/commits/{UP}", None),
        ("GET", f"{GRAPH}/operations/{UP}", None),
        ("POST", f"{GRAPH}/queries/{UP}", None),
        ("POST", f"{GRAPH}/branches", {"name": "../../escaped"}),
        ("POST", f"{GRAPH}/branches", {"name": "/escaped"}),
        ("POST", f"{GRAPH}/branches", {"name": "a/../../../escaped"}),
        ("POST", f"{GRAPH}/tags", {"name": "../../escaped"}),
        ("POST", f"{GRAPH}/load", {"data": "", "branch": "../../escaped", "from": "main"}),
        ("POST", f"{GRAPH}/load", {"data": "", "branch": "x", "from": "../../escaped"}),
        (
            "POST",
            f"{GRAPH}/mutate",
            {"query": 'query w() { delete Person where slug = "x" }', "branch": "../../escaped"},
        ),
        ("GET", f"{GRAPH}/blob?entity=node&type={UP}&id={UP}&property={UP}", None),
        ("GET", f"{GRAPH}/diff?from={UP}&to=main", None),
        ("GET", f"{GRAPH}/changes?cursor={UP}", None),
    ],
)
def test_no_name_leads_out_of_the_graph(strict: RunningServer, method: str, path: str, body: dict[str, str] | None):
    folder = Path(strict.log).parent
    before = sorted(folder.iterdir())
    content = None if body is None else json.dumps(body).encode()
    answer = exchange(strict, head(method, path, *([JSON] if body else []), body=content))
    assert 400 <= status(answer) < 500
    assert str(folder).encode() not in answer
    assert sorted(folder.iterdir()) == before
    assert not list(folder.parent.rglob("*escaped*"))
