"""Many at once: requests, connections, writers of one row, and a reader that falls behind.

``OMNIGRAPH_SERVER=full`` (``make server-load``) sends ten times as many.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier
from typing import Any

import httpx2
import pytest

import omnigraph
from tests.server.process import RunningServer, run_server
from tests.server.running.wire import dial, exchange, head, sockets, status, until, usage

IS_FULL = os.environ.get("OMNIGRAPH_SERVER") == "full"
REQUESTS = CONNECTIONS = 10_000 if IS_FULL else 1_000
AT_ONCE = 100 if IS_FULL else 20
WAVE = 2_000 if IS_FULL else 250
WRITERS = 12
GRAPH = "/graphs/busy"
SCHEMA = "node Item {\n    key: String @key\n    n: I64\n    text: String?\n}\n"
COUNT = "query c() { match { $i: Item } return { count($i) as n } }"
# How many sockets a server has before anybody connects.
SOCKETS: dict[str, int] = {}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    place = tmp_path_factory.mktemp("busy") / "busy.omni"
    with omnigraph.init(place, SCHEMA) as graph:
        graph.mutate('query w() { insert Item { key: "one", n: 0 } }')
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    environment = {"OMNIGRAPH_HEADER_SECONDS": "2", "OMNIGRAPH_STALLED_SECONDS": "1"}
    with run_server(command, place.with_suffix(".log"), environment) as running:
        SOCKETS[running.url] = sockets(running)
        yield running
        lines = [json.loads(line) for line in running.log.read_text(encoding="utf-8").splitlines()]
        assert [line for line in lines if line["level"] == "error"] == []


def mutate(http: httpx2.Client, query: str, **params: Any) -> httpx2.Response:
    return http.post(f"{GRAPH}/mutate", json={"query": query, "params": params})


def together(work: Any) -> list[Any]:
    """Have every writer do its part at the same moment."""
    gate = Barrier(WRITERS)

    def run(number: int) -> Any:
        gate.wait(60)
        return work(number)

    with ThreadPoolExecutor(WRITERS) as threads:
        return list(threads.map(run, range(WRITERS)))


def test_writers_of_one_row_succeed_or_are_told_what_moved(busy: RunningServer):
    text = 'query w($n: I64) { update Item set { n: $n } where key = "one" }'
    with busy.client() as http:
        answers = together(lambda number: mutate(http, text, n=number + 1))
        last = http.post(
            f"{GRAPH}/query", json={"query": 'query q() { match { $i: Item { key: "one" } } return { $i.n } }'}
        )
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) <= {200, 409}
    assert statuses[200] >= 1
    for answer in answers:
        if answer.status_code == 409:
            body = answer.json()
            assert body["code"] == "conflict"
            assert {"read_set_conflict", "published_dataset_version_conflict"} & set(body)
    winners = {number + 1 for number, answer in enumerate(answers) if answer.status_code == 200}
    assert last.json()["rows"][0]["i.n"] in winners


def test_inserts_at_once_all_succeed_also_of_the_same_key(busy: RunningServer):
    with busy.client() as http:
        before = http.post(f"{GRAPH}/query", json={"query": COUNT}).json()["rows"][0]["n"]
        text = "query w($key: String, $n: I64) { insert Item { key: $key, n: $n } }"
        others = together(lambda number: mutate(http, text, key=f"own-{number}", n=number))
        same = together(lambda number: mutate(http, text, key="shared", n=number))
        after = http.post(f"{GRAPH}/query", json={"query": COUNT}).json()["rows"][0]["n"]
    assert {answer.status_code for answer in (*others, *same)} == {200}
    assert len({answer.json()["commit"]["graph_commit_id"] for answer in others}) == WRITERS
    assert after == before + WRITERS + 1


def test_strict_inserts_of_one_key_succeed_once(busy: RunningServer):
    with busy.client() as http:
        text = 'query w($n: I64) { insert Item { key: "strict", n: $n } strict }'
        answers = together(lambda number: mutate(http, text, n=number))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: WRITERS - 1}
    refused = [answer.json() for answer in answers if answer.status_code == 409]
    assert all(body["key_conflict"]["type_name"] == "Item" for body in refused)


async def send_many(server: RunningServer, paths: list[bytes], each: int) -> Counter[int]:
    """Send requests over as many connections as there are paths, ``each`` over one, and count the statuses."""
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    found: Counter[int] = Counter()

    async def sender(path: bytes) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in range(each):
            writer.write(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            await reader.readexactly(length)
            found[int(answer[9:12])] += 1
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(sender(path) for path in paths))
    return found


def test_requests_leave_no_thread_and_no_descriptor_behind(busy: RunningServer):
    paths = [b"/graphs/busy/schema", b"/graphs/busy/branches", b"/graphs/none/schema", b"/healthz"]
    chosen = [paths[number % len(paths)] for number in range(AT_ONCE)]
    # Pools grow to what runs at the same time, and never with the number of requests.
    asyncio.run(send_many(busy, chosen, 2))
    until(lambda: not connections(busy), "connections stay")
    before = usage(busy)
    found = asyncio.run(send_many(busy, chosen, REQUESTS // AT_ONCE))
    assert found == {200: REQUESTS * 3 // 4, 404: REQUESTS // 4}
    until(lambda: back(busy, before), f"before {before}")


def test_connections_leave_no_thread_and_no_descriptor_behind(busy: RunningServer):
    """Some ask, some say nothing, some break off in the middle, some reset."""
    whole = head("GET", "/healthz", "Connection: keep-alive")
    assert status(exchange(busy, head("GET", f"{GRAPH}/schema"))) == 200
    until(lambda: not connections(busy), "connections stay")
    before = usage(busy)
    opened = 0
    while opened < CONNECTIONS:
        with ExitStack() as closing:
            wave = [closing.enter_context(dial(busy)) for _ in range(WAVE)]
            opened += WAVE
            for number, connection in enumerate(wave):
                match number % 5:
                    case 0:
                        connection.sendall(whole)
                    case 1:
                        connection.sendall(whole[:20])
                    case 2:
                        connection.sendall(
                            head("POST", f"{GRAPH}/query", "Content-Type: application/json", "Content-Length: 9")
                        )
                    case 3:
                        # Closing resets the connection.
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    case _:
                        pass
            assert all(connection.recv(12) == b"HTTP/1.1 200" for connection in wave[::5])
            if opened == WAVE:
                # Those that say nothing are let go though they stay.
                assert wave[4].recv(1) == b""
    until(lambda: back(busy, before), f"before {before}")
    assert status(exchange(busy, head("GET", f"{GRAPH}/schema"))) == 200


def connections(server: RunningServer) -> int:
    """How many connections the process has."""
    return sockets(server) - SOCKETS[server.url]


def back(server: RunningServer, before: tuple[int, int]) -> bool:
    """Whether as few threads and descriptors are open as before; threads that rest end when others are asked for."""
    exchange(server, head("GET", f"{GRAPH}/schema"))
    return all(now <= then for now, then in zip(usage(server), before, strict=True))


def events(text: str) -> list[dict[str, str]]:
    """The complete events of a stream."""
    whole = text.split("\n\n")[:-1]
    listed = [dict(line.split(": ", 1) for line in one.splitlines() if line[:1] != ":") for one in whole]
    return [one for one in listed if one]


def commits(found: list[dict[str, str]]) -> list[str]:
    bodies = [json.loads(one["data"]) for one in found if one["event"] == "changes"]
    return [block["cause"]["graph_commit_id"] for body in bodies for block in body["blocks"]]


def test_a_reader_that_falls_behind_is_told_where_to_go_on_and_misses_nothing(busy: RunningServer):
    stream = head("GET", f"{GRAPH}/changes/stream?limit=1", "Accept: text/event-stream")
    text = 'query w($text: String) { update Item set { text: $text } where key = "one" }'
    with dial(busy, receive_bytes=4096) as reader, busy.client() as http:
        reader.sendall(stream)
        received = reader.recv(1 << 10)
        while b"caught_up" not in received:
            received += reader.recv(1 << 10)
        # More than the buffers on the way and those of the server hold together.
        made = [
            mutate(http, text, text=str(number % 10) * 900_000).json()["commit"]["graph_commit_id"]
            for number in range(14)
        ]
        until(lambda: "takes events too slowly" in busy.log.read_text(encoding="utf-8"), "the stream goes on")
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        while piece := reader.recv(1 << 20):
            received += piece
    found = events(chunked(received.partition(b"\r\n\r\n")[2]))
    seen = commits(found)
    assert seen == made[: len(seen)]
    assert 0 < len(seen) < len(made)
    last = found[-1]
    assert (last["event"], json.loads(last["data"])["resumable"]) == ("error", True)
    assert "id" not in last
    ids = [one["id"] for one in found if "id" in one]
    headers = {"Last-Event-ID": ids[-1]}
    rest: list[str] = []
    with busy.client() as http, http.stream("GET", f"{GRAPH}/changes/stream", headers=headers) as answer:
        lines: list[str] = []
        for line in answer.iter_lines():
            lines.append(line)
            if not line:
                rest += commits(events("\n".join(lines) + "\n"))
                lines.clear()
            if len(seen) + len(rest) >= len(made):
                break
    assert seen + rest == made


def chunked(data: bytes) -> str:
    """The text of a body that comes in chunks, as far as it came."""
    found = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        found += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
    return found.decode()
