"""Our client against servers that fail: what is sent again, what is not, and what the caller is told."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import omnigraph
import omnigraph.aio
from omnigraph import ClientSettings
from omnigraph.errors import (
    Effect,
    GraphMissingError,
    QueryCancelledError,
    ReadOnlyError,
    RequestOutcomeError,
    ServerIncompatibleError,
    ServerTimeoutError,
    ServerUnreachableError,
    UsageError,
    ValueFormatError,
)

NAMES = "query q() { match { $p: Person } return { $p.name } }"
ADD = "query add($name: String) { insert Team { code: $name, name: $name } }"
PATIENT = ClientSettings(timeout_s=60, max_wait_s=1)


BUSY = {
    "code": "request.timeout",
    "kind": "busy",
    "message": "slow",
    "hint": None,
    "retry": "as_is",
    "effect": "none",
    "details": {"resource": "seconds", "limit": 1, "actual": 2, "place": None},
}


class Broken:
    """A proxy in front of a server that spoils chosen answers: it counts requests and remembers their heads."""

    def __init__(self, target, spoil):
        self.heads = []
        self._target = target
        self._spoil = spoil
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as incoming:
            while head := read_head(incoming):
                self.heads.append(head)
                body = incoming.read(int(header(head, "content-length") or 0))
                with socket.create_connection(self._target) as upstream:
                    upstream.sendall(head.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1) + body)
                    answer = b"".join(iter(lambda: upstream.recv(1 << 16), b""))
                answer = self._spoil(len(self.heads), head, answer)
                if not answer:
                    return
                connection.sendall(answer)
                # What the server sent says that the connection ends.
                return

    def close(self):
        self._listener.close()


def read_head(incoming):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = incoming.readline()
        if not line:
            return b""
        head += line
    return head


def header(head, name):
    for line in head.decode("latin-1").split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return None


def plain(status, document, *more):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(body)}", *more]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body


@contextmanager
def spoiled(server, spoil):
    host, port = server.url.removeprefix("http://").split(":")
    proxy = Broken((host, int(port)), spoil)
    try:
        yield proxy
    finally:
        proxy.close()


def posts(proxy):
    return [head for head in proxy.heads if head.startswith(b"POST")]


def count_teams(graph, code):
    found = graph.query("query q($c: String) { match { $t: Team { code: $c } } return { $t.code } }", {"c": code})
    return found.num_rows


def test_an_address_without_a_server_is_told_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ServerUnreachableError, match=f"cannot reach 'http://127.0.0.1:{port}'") as refused:
        omnigraph.open(f"http://127.0.0.1:{port}/graphs/people")
    assert refused.value.effect is Effect.NONE


def test_a_server_of_another_kind_or_version_is_told(server):
    with (
        spoiled(server, lambda *_: plain(200, b"<html>hello</html>")) as proxy,
        pytest.raises(ServerIncompatibleError, match="no omnigraph server"),
    ):
        omnigraph.open(f"{proxy.url}/graphs/people")
    with (
        spoiled(server, lambda *_: plain(200, {"wire": [7]})) as proxy,
        pytest.raises(ServerIncompatibleError, match="wire format 7"),
    ):
        omnigraph.open(f"{proxy.url}/graphs/people")
    with pytest.raises(GraphMissingError, match="graph 'nobody' not found"):
        omnigraph.open(f"{server.url}/graphs/nobody")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"uri": "https://host/crm"}, ValueFormatError),
        ({"uri": "https://me:secret@host/graphs/crm"}, ValueFormatError),
        ({"uri": "https://host/graphs/crm", "token": "two words"}, UsageError),
        ({"uri": "https://host/graphs/crm", "group_commit": False}, UsageError),
        ({"uri": "./graph", "token": "abc"}, UsageError),
        ({"uri": "https://host/graphs/crm", "client": 7}, UsageError),
    ],
)
def test_arguments_that_make_no_sense_for_a_served_graph_are_refused(arguments, error):
    with pytest.raises(error) as refused:
        omnigraph.open(**arguments)
    assert "secret" not in str(refused.value)


def test_a_write_whose_answer_was_lost_is_done_once_and_its_outcome_looked_up(server):
    def spoil(count, head, answer):
        is_first = b"/mutate" in head and not any(b"/mutate" in one for one in proxy.heads[: count - 1])
        return b"" if is_first else answer

    with spoiled(server, spoil) as proxy, omnigraph.open(f"{proxy.url}/graphs/people", client=PATIENT) as graph:
        done = graph.mutate(ADD, {"name": "lost"})
        assert (done.affected_nodes, count_teams(graph, "lost")) == (1, 1)
        assert done.commit == graph.log(limit=1)[0]
    first, second = (head for head in posts(proxy) if b"/mutate" in head)
    assert header(first, "idempotency-key") == header(second, "idempotency-key")
    assert len(header(first, "idempotency-key")) == 26


def test_an_outcome_that_cannot_be_looked_up_stays_unknown(server):
    def spoil(count, head, answer):
        if head.startswith(b"GET"):
            return plain(200, {"wire": [1], "idempotency": False})
        return b"" if b"/mutate" in head else answer

    with spoiled(server, spoil) as proxy, omnigraph.open(f"{proxy.url}/graphs/people", client=PATIENT) as graph:
        with pytest.raises(RequestOutcomeError) as unknown:
            graph.mutate(ADD, {"name": "unknown"})
        assert unknown.value.effect is Effect.UNKNOWN
        assert unknown.value.details.operation == "mutate"
        assert header(posts(proxy)[0], "x-request-id") == unknown.value.details.request_id
        assert len(posts(proxy)) == 1
        # It was done, which nothing but a look can tell.
        assert count_teams(graph, "unknown") == 1
        assert graph.log(limit=1)[0].request_id == unknown.value.details.request_id


@pytest.mark.parametrize("later", ["gone", "busy"])
def test_a_lost_answer_stays_lost_when_later_attempts_are_not_let_in(server, later):
    def spoil(count, head, answer):
        if b"/mutate" not in head:
            return answer
        if sum(b"/mutate" in one for one in proxy.heads) == 1:
            if later == "gone":
                proxy.close()
            return b""
        return plain(429, {"error": "too many", "problem": BUSY})

    with spoiled(server, spoil) as proxy, omnigraph.open(f"{proxy.url}/graphs/people", client=PATIENT) as graph:
        with pytest.raises(RequestOutcomeError) as unknown:
            graph.mutate(ADD, {"name": f"lost-{later}"})
        assert unknown.value.effect is Effect.UNKNOWN
    with omnigraph.open(f"{server.url}/graphs/people") as graph:
        assert count_teams(graph, f"lost-{later}") == 1


def test_a_read_whose_answer_was_cut_off_is_sent_again(server):
    def spoil(count, head, answer):
        return answer[: len(answer) - 20] if b"/query" in head and count == 2 else answer

    with spoiled(server, spoil) as proxy, omnigraph.open(f"{proxy.url}/graphs/people", client=PATIENT) as graph:
        assert graph.query(NAMES).num_rows > 0
        assert len(posts(proxy)) == 2


def test_errors_that_say_so_are_waited_for_and_others_are_not(server):
    problem = BUSY

    def spoil(count, head, answer):
        return plain(429, {"error": "slow", "problem": problem}, "retry-after: 0") if 1 < count < 4 else answer

    with spoiled(server, spoil) as proxy, omnigraph.open(f"{proxy.url}/graphs/people", client=PATIENT) as graph:
        assert graph.query(NAMES).num_rows > 0
        assert len(posts(proxy)) == 3
        with pytest.raises(omnigraph.OmnigraphError, match="syntax"):
            graph.query("query q(")
        assert len(posts(proxy)) == 4

    later = plain(429, {"error": "slow", "problem": problem}, "retry-after: 60")
    with spoiled(server, lambda count, head, answer: answer if count == 1 else later) as proxy:
        with omnigraph.open(f"{proxy.url}/graphs/people", client=PATIENT) as graph, pytest.raises(TimeoutError):
            graph.query(NAMES)
        assert len(posts(proxy)) == 1


def test_a_server_that_is_silent_is_given_up(server):
    silent = threading.Event()

    def spoil(count, head, answer):
        if count > 1:
            silent.wait(300)
        return answer

    hasty = ClientSettings(timeout_s=3, attempts=1)
    with spoiled(server, spoil) as proxy, omnigraph.open(f"{proxy.url}/graphs/people", client=hasty) as graph:
        with pytest.raises(ServerTimeoutError):
            graph.query(NAMES)
        with pytest.raises(RequestOutcomeError):
            graph.mutate(ADD, {"name": "silent"})
        silent.set()


def test_a_token_is_sent_and_never_shown(server):
    with spoiled(server, lambda count, head, answer: answer) as proxy:
        with omnigraph.open(f"{proxy.url}/graphs/people", token="t0ken") as graph:  # noqa: S106 - made up
            assert "t0ken" not in repr(graph) + repr(vars(graph.backend)["_settings"])
            graph.log(limit=1)
        assert {header(head, "authorization") for head in proxy.heads} == {"Bearer t0ken"}


def test_reading_only_is_decided_by_the_client(server):
    with omnigraph.open(f"{server.url}/graphs/people", mode="read_only") as graph:
        assert graph.query(NAMES).num_rows > 0
        with pytest.raises(ReadOnlyError):
            graph.mutate(ADD, {"name": "no"})


def test_rows_that_are_not_drawn_hold_no_connection(server):
    one = ClientSettings(connections=1, connect_timeout_s=300)
    with omnigraph.open(f"{server.url}/graphs/people", client=one) as graph:
        for _ in range(3):
            changes = iter(graph.diff("~1"))
            next(changes, None)
            del changes
        assert graph.query(NAMES).num_rows > 0


def test_a_read_is_cancelled_through_the_server(server):
    stop = threading.Event()
    stop.set()
    with omnigraph.open(f"{server.url}/graphs/people") as graph, pytest.raises(QueryCancelledError):
        graph.query(MANY, options=omnigraph.QueryOptions(cancel=stop))


# Enough rows that the event is seen while they are made.
MANY = "query q() { match { $a: Person $b: Person $c: Person $d: Person $e: Person $f: Person } return { $a.name } }"


def test_a_loop_asks_a_server_many_times_at_once(server):
    async def ask():
        async with await omnigraph.aio.open(f"{server.url}/graphs/people") as graph:
            counts = await asyncio.gather(*(graph.query(NAMES) for _ in range(20)))
            async with await graph.transaction(message="from a loop") as transaction:
                await transaction.mutate(ADD, {"name": "looped"})
            batches = [batch async for batch in await graph.feed("beginning")]
            changes = [change async for change in await graph.diff("~1")]
            return {one.num_rows for one in counts}, len(batches), [change.id for change in changes]

    rows, batches, changes = asyncio.run(ask())
    assert len(rows) == 1
    assert batches == 1
    assert changes == ["looped"]


def test_a_task_that_is_cancelled_stops_its_read(server):
    async def ask():
        async with await omnigraph.aio.open(f"{server.url}/graphs/people") as graph:
            reading = asyncio.create_task(graph.query(MANY))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            return (await graph.query(NAMES)).num_rows

    assert asyncio.run(ask()) > 0


def test_threads_share_a_served_graph(server):
    with omnigraph.open(f"{server.url}/graphs/people") as graph, ThreadPoolExecutor(8) as threads:
        counts = set(threads.map(lambda _: graph.query(NAMES).num_rows, range(40)))
    assert len(counts) == 1
