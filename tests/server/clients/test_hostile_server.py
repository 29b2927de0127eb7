"""Our client against what is no server of ours, or one that means it harm: every answer ends in an error of ours."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import omnigraph
import omnigraph.aio
from omnigraph import ClientSettings
from omnigraph.errors import (
    AdmissionError,
    Effect,
    InternalError,
    LimitExceeded,
    OmnigraphError,
    QueryTimeoutError,
    RequestOutcomeError,
    ServerIncompatibleError,
    error_from_json,
)
from omnigraph.operations.wire import MEDIA_TYPE, FrameKind, encode_frame

HANDSHAKE = json.dumps({"wire": [1], "idempotency": False, "operations": []}).encode()
READ = "query q() { match { $p: Person } return { $p.name } }"
ADD = 'query a() { insert Person { name: "x" } }'
PROBLEM = {"code": "usage", "message": "m", "hint": None, "retry": "never", "effect": "none", "details": {}}


@contextmanager
def answering(
    handshake: bytes = HANDSHAKE,
    answer: bytes = b"",
    kind: str = MEDIA_TYPE,
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (),
    asked: list[str] | None = None,
) -> Iterator[str]:
    """Answer every request in the same way, and return the address of a graph; ``asked`` gets the posted paths."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _send(self, number: int, body: bytes, media_type: str) -> None:
            self.send_response(number)
            for name, value in (("content-type", media_type), ("content-length", str(len(body))), *headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._send(200, handshake, "application/json")

        def do_POST(self) -> None:
            if asked is not None:
                asked.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            self._send(status, answer, kind)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/graphs/g"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def document(response: object = None, streams: object = 0) -> bytes:
    return encode_frame(FrameKind.RECORD, json.dumps({"response": response, "streams": streams}).encode())


@pytest.mark.parametrize(
    "handshake",
    [b"", b"null", b"[]", b'{"wire": 1}', b'{"wire": "1"}', b'{"wire": {"1": 1}}', b'{"wire": [2]}', b"[" * 100_000],
)
def test_what_is_no_handshake_is_no_server(handshake):
    with answering(handshake) as url, pytest.raises(ServerIncompatibleError, match="does not speak the wire format"):
        omnigraph.open(url)


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_endless_handshake_is_not_kept(is_packed):
    # 20 MB of blanks, or what unpacks to them.
    blanks = b" " * (20 << 20)
    headers = (("content-encoding", "gzip"),) if is_packed else ()
    with (
        answering(gzip.compress(blanks) if is_packed else blanks, headers=headers) as url,
        pytest.raises(ServerIncompatibleError),
    ):
        omnigraph.open(url)


ANSWERS = {
    "no response": encode_frame(FrameKind.RECORD, b"{}"),
    "no envelope": encode_frame(FrameKind.RECORD, b"[]"),
    "less than no streams": document(streams=-1),
    "more streams than any response has": document(streams=2000),
    "streams that are no number": document(streams="1"),
    "two documents": document(streams=1) * 2,
    "tag that is no text": document({"$": []}),
    "class that is not known": document({"$": "Popen", "args": "id"}),
    "nested deeply": encode_frame(FrameKind.RECORD, b'{"response":' + b"[" * 800 + b"]" * 800 + b',"streams":0}'),
    "result of no stream": document({"$": "Result", "stream": 5}),
    "result without a schema": document({"$": "Result", "stream": 0, "schema": None, "info": None}, 1)
    + encode_frame(FrameKind.END, b"{}"),
    "error that is a list": encode_frame(FrameKind.FAILURE, b"[]"),
    "error without a message": encode_frame(FrameKind.FAILURE, b'{"code": "usage"}'),
    "error of no kind": encode_frame(FrameKind.FAILURE, json.dumps(PROBLEM | {"retry": "often"}).encode()),
    "error whose code is no text": encode_frame(FrameKind.FAILURE, b'{"code": [], "message": ""}'),
    "rows of no stream": encode_frame(FrameKind.ROWS, b"abc"),
    "end of no stream": encode_frame(FrameKind.END, b"[]"),
    "items that are none": document({"$": "Iterator", "stream": 0}, 1) + encode_frame(FrameKind.ITEMS, b"1"),
    "file without a name": encode_frame(FrameKind.FILE, b"{}"),
    "file that nobody wants": encode_frame(FrameKind.FILE, b'{"name": "../.ssh/authorized_keys"}'),
    "no frames": b"<html></html>",
    "frame without end": FrameKind.RECORD.value + b"\xff\xff\xff\xff",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_cannot_be_read_is_an_error_of_ours(answer):
    with answering(answer=ANSWERS[answer]) as url, omnigraph.open(url) as graph:
        with pytest.raises(ServerIncompatibleError) as read:
            graph.query(READ)
        with pytest.raises(RequestOutcomeError) as write:
            graph.mutate(ADD)
    assert read.value.effect is Effect.NONE
    # It may have been the answer to a success.
    assert write.value.effect is Effect.UNKNOWN


@pytest.mark.parametrize(
    ("status", "body", "kind", "error", "effect"),
    [
        (200, b"<html>", "text/html", RequestOutcomeError, Effect.UNKNOWN),
        (500, b"<html>", "text/html", RequestOutcomeError, Effect.UNKNOWN),
        (524, b"", "", RequestOutcomeError, Effect.UNKNOWN),
        (500, b'{"error": "failed"}', "application/json", InternalError, Effect.UNKNOWN),
        (413, b"<html>", "text/html", ServerIncompatibleError, Effect.NONE),
        (307, b"", "", ServerIncompatibleError, Effect.NONE),
        (
            400,
            b'{"error": "x", "problem": {"code": "usage"}}',
            "application/json",
            ServerIncompatibleError,
            Effect.NONE,
        ),
        (400, b"[" * 100_000, "application/json", ServerIncompatibleError, Effect.NONE),
    ],
)
def test_what_stands_in_between_never_says_that_a_write_left_nothing(status, body, kind, error, effect):
    async def add(url: str) -> OmnigraphError:
        async with await omnigraph.aio.open(url) as graph:
            with pytest.raises(error) as failed:
                await graph.mutate(ADD)
        return failed.value

    with answering(answer=body, kind=kind, status=status) as url:
        with omnigraph.open(url) as graph, pytest.raises(error) as failed:
            graph.mutate(ADD)
        assert failed.value.effect is effect
        assert asyncio.run(add(url)).effect is effect


def test_an_error_of_a_newer_version_keeps_what_it_left_behind():
    found = error_from_json(PROBLEM | {"code": "quantum.lost", "retry": "after_recovery", "effect": "published"})
    assert (found.code, found.retry.value, found.effect) == ("internal", "after_recovery", Effect.PUBLISHED)


@pytest.mark.parametrize(("error", "requests"), [(QueryTimeoutError, 1), (AdmissionError, 3)])
def test_a_query_that_has_used_up_its_time_is_not_sent_again(error, requests):
    limit = LimitExceeded(resource="time in ms", limit=2000, actual=2001)
    answer = json.dumps({"error": "m", "problem": error("m", details=limit).to_json()}).encode()
    asked: list[str] = []
    settings = ClientSettings(attempts=3, max_wait_s=1)
    with (
        answering(answer=answer, kind="application/json", status=503, asked=asked) as url,
        omnigraph.open(url, client=settings) as graph,
        pytest.raises(error),
    ):
        graph.query(READ)
    assert len(asked) == requests
