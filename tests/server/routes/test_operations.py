"""The uniform route of our own clients: what it takes, and what it refuses from callers that are none."""

from __future__ import annotations

import json
import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import omnigraph
from omnigraph.operations.json_form import request_to_json
from omnigraph.operations.reads import ExportRequest, QueryRequest
from omnigraph.operations.wire import MEDIA_TYPE, FrameKind, encode_frame
from omnigraph.server.transport.frames import FramesResponse
from omnigraph.server.transport.running import RunningCalls
from tests.server.process import ROOT

WIRE = {"omnigraph-wire": "1"}
NAMES = "query q() { match { $p: Person } return { $p.name } }"


def post(http, request, **headers):
    document = request if isinstance(request, dict) else request_to_json(request)
    return http.post(f"/graphs/people/operations/{document['operation']}", json=document, headers={**WIRE, **headers})


def test_the_route_says_what_it_speaks(http):
    found = http.get("/graphs/people/operations", headers=WIRE).json()
    assert (found["wire"], found["idempotency"]) == ([1], True)
    assert {"query", "mutate", "merge"} <= set(found["operations"])


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"operation": "query", "text": NAMES}, {"omnigraph-wire": "99"}, 501),
        ({"operation": "query", "text": NAMES, "colour": 1}, WIRE, 400),
        ({"operation": "log"}, WIRE, 400),
        ({"operation": "query"}, WIRE, 400),
        ([], WIRE, 400),
        (None, {**WIRE, "content-type": "text/plain"}, 400),
        (b"{", {**WIRE, "content-type": "application/json"}, 400),
        (b"R\x00\x00", {**WIRE, "content-type": MEDIA_TYPE}, 400),
        (encode_frame(FrameKind.FILE, b'{"name": "x"}'), {**WIRE, "content-type": MEDIA_TYPE}, 400),
    ],
    ids=["version", "field", "another", "missing field", "no object", "type", "no json", "half a frame", "a file"],
)
def test_bodies_that_are_no_request_are_refused(http, body, headers, status):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", **headers}
    found = http.post("/graphs/people/operations/query", content=content, headers=headers)
    assert found.status_code == status, found.text
    assert "problem" in found.json()


def test_an_export_is_written_by_the_one_who_asks(http, tmp_path):
    found = post(http, ExportRequest(to=str(tmp_path / "out")))
    assert found.status_code == 200
    assert not (tmp_path / "out").exists()
    assert b'"name":"manifest.json"' in found.content.replace(b" ", b"")


def test_a_small_answer_is_one_piece_and_says_its_type(http):
    found = post(http, QueryRequest(text=NAMES))
    assert found.headers["content-type"] == MEDIA_TYPE
    assert found.headers["omnigraph-wire"] == "1"
    assert found.content[:1] == FrameKind.RECORD.value


def test_bad_rows_and_the_names_of_files_come_back_as_the_caller_calls_them(server, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"type": "Nobody", "data": {}}\n')
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.jsonl").write_text("{\n")
    refused = []
    with omnigraph.open(f"{server.url}/graphs/people") as graph:
        for number, source in enumerate(["bad.jsonl", "more", "more/*.jsonl"]):
            errors = tmp_path / f"errors-{number}.jsonl"
            with pytest.raises(omnigraph.OmnigraphError) as found:
                graph.load(tmp_path / source, errors_to=errors)
            refused.append((found.value, errors.read_text()))
    with omnigraph.init(tmp_path / "g", ROOT / "examples" / "people" / "schema.pg") as here:
        for number, source in enumerate(["bad.jsonl", "more", "more/*.jsonl"]):
            errors = tmp_path / f"errors-{number}.jsonl"
            with pytest.raises(omnigraph.OmnigraphError) as found:
                here.load(tmp_path / source, errors_to=errors)
            assert (found.value, errors.read_text()) == refused[number]


def test_only_the_one_who_sent_a_request_stops_it():
    running, stop = RunningCalls(), threading.Event()
    with running.entered("r1", "ann", stop):
        assert not running.stop("r1", "bo")
        assert not stop.is_set()
        assert running.stop("r1", "ann")
    assert stop.is_set()
    assert not running.stop("r1", "ann")


def test_a_reader_that_goes_away_ends_a_read_and_not_a_write():
    ended = []

    def answer(must_finish):
        stop = threading.Event()

        def produce(write):
            try:
                for _ in range(1000):
                    write(b"B" + bytes(100_000))
            finally:
                ended.append(stop.is_set())

        async def run(work):
            return await anyio.to_thread.run_sync(work)

        async def renew() -> None:
            """Let the reader have more."""

        response = FramesResponse(produce, run, lambda error: None, must_finish=must_finish, stop=stop, renew=renew)
        pieces = []

        async def receive():
            while len(pieces) < 3:
                await anyio.lowlevel.checkpoint()
            return {"type": "http.disconnect"}

        async def send(message):
            pieces.append(message)
            if len(pieces) >= 3:
                await anyio.sleep(0.01)

        anyio.run(response, {"type": "http"}, receive, send)
        return len(pieces)

    assert answer(must_finish=False) < 1000
    assert answer(must_finish=True) < 1000
    assert ended == [True, True]
