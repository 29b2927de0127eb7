"""Running a server: requests by name and key, admission, group commit, figures, logs, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

import omnigraph
from tests.auditor import audit
from tests.server.process import WAIT_S, RunningServer, run_server

SCHEMA = "node Person { slug: String @key  age: I64? }"
ADD = "query add($slug: String) { insert Person { slug: $slug } }"
LIST = "query list() { match { $p: Person } return { $p.slug } }"
ACTOR_WRITES = 64


@dataclass(frozen=True, kw_only=True)
class Held:
    """A server whose first publish waits until it is let go."""

    server: RunningServer
    place: Path
    gate: Path
    figures: str

    def wait_for_arrival(self):
        wait_until(lambda: self.gate.with_name(self.gate.name + ".reached").exists())

    def let_go(self):
        self.gate.touch()

    @contextmanager
    def let_go_at_last(self):
        """Let the publish go also when the test fails, so that nothing waits for it."""
        try:
            yield
        finally:
            self.let_go()

    def figure(self, name):
        return figure(self.figures, name)


def wait_until(is_so):
    """Look until something is so; the time only bounds a hanging test."""
    deadline = os.times().elapsed + WAIT_S
    while not is_so():
        assert os.times().elapsed < deadline


def figure(address, name):
    text = httpx2.get(f"http://{address}/metrics", timeout=WAIT_S).text
    found = re.search(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.MULTILINE)
    return 0.0 if found is None else float(found[1])


def start(place, log, **environment):
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    return run_server(command, log, {"OMNIGRAPH_LOG_FORMAT": "json", **environment})


def hold(folder, **environment):
    """Return what runs a server of a new graph whose first publish waits."""
    place, gate = folder / "g.omni", folder / "gate"
    omnigraph.init(place, SCHEMA).close()
    return start(
        place,
        folder / "log",
        OMNIGRAPH_FAILPOINTS=f"txn.publish.before_cas=pause:{gate}@1",
        OMNIGRAPH_METRICS_BIND="127.0.0.1:0",
        OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX=str(ACTOR_WRITES),
        **environment,
    )


def held_by(server, folder):
    found = re.search(r"metrics on ([0-9.:]+)", server.log.read_text())
    return Held(server=server, place=folder / "g.omni", gate=folder / "gate", figures=found[1])


@pytest.fixture
def held(tmp_path):
    with hold(tmp_path) as server:
        yield held_by(server, tmp_path)


def add(client, slug, **headers):
    return client.post("/graphs/g/mutate", json={"query": ADD, "params": {"slug": slug}}, headers=headers)


def outcome_of(client, request_id):
    return client.get(f"/graphs/g/operations/{request_id}")


def test_many_clients_become_few_publishes_and_more_than_fit_are_refused(held):
    """One insert publishes, 63 wait behind it as one group, and what comes then is too much for one actor."""
    with (
        held.server.client(limits=httpx2.Limits(max_connections=100)) as client,
        ThreadPoolExecutor(80) as threads,
        held.let_go_at_last(),
    ):
        first = threads.submit(add, client, "first", **{"X-Request-Id": "the first"})
        held.wait_for_arrival()
        assert outcome_of(client, "the%20first").json()["state"] == "running"
        rest = [threads.submit(add, client, f"p{number}") for number in range(ACTOR_WRITES - 1)]
        wait_until(lambda: held.figure("omnigraph_writes_waiting") == ACTOR_WRITES - 1)
        refused = [add(client, f"late{number}") for number in range(6)]
        assert client.post("/graphs/g/query", json={"query": LIST}).json()["row_count"] == 0
        held.let_go()
        answers = [one.result(WAIT_S) for one in (first, *rest)]
    assert [one.status_code for one in answers] == [200] * ACTOR_WRITES
    assert {(one.status_code, one.headers["retry-after"], one.json()["code"]) for one in refused} == {
        (429, "60", "too_many_requests")
    }
    assert len({one.json()["commit"]["graph_commit_id"] for one in answers}) == ACTOR_WRITES
    assert len({one.json()["commit"]["graph_manifest_version"] for one in answers}) == 2
    assert held.figure("omnigraph_publishes_total") == 2
    assert held.figure("omnigraph_commits_total") == ACTOR_WRITES
    assert held.figure("omnigraph_writes_refused_total") == 6
    assert held.figure("omnigraph_writes_under_way") == 0


def test_a_write_whose_client_goes_away_is_finished_and_the_server_drains_before_it_ends(held):
    host, _, port = held.server.url.removeprefix("http://").partition(":")
    body = json.dumps({"query": ADD, "params": {"slug": "alone"}}).encode()
    head = (
        "POST /graphs/g/mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"X-Request-Id: left\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), WAIT_S) as connection:
        connection.sendall(head.encode() + body)
        held.wait_for_arrival()
    with held.server.client() as client, ThreadPoolExecutor(1) as threads, held.let_go_at_last():
        assert outcome_of(client, "left").json()["state"] == "running"
        waiting = threads.submit(add, client, "waiting")
        wait_until(lambda: held.figure("omnigraph_writes_waiting") == 1)
        held.server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "draining" in held.server.log.read_text())
        held.let_go()
        assert waiting.result(WAIT_S).status_code == 200
    assert held.server.process.wait(WAIT_S) == 0
    with omnigraph.open(held.place) as graph:
        assert {commit.request_id for commit in graph.log()} >= {"left"}
        assert graph.query(LIST).to_arrow().num_rows == 2
    assert audit(str(held.place)) == []


def test_a_server_that_cannot_drain_in_time_says_so_and_loses_nothing(tmp_path):
    with hold(tmp_path, OMNIGRAPH_DRAIN_SECONDS="1") as server, ThreadPoolExecutor(1) as threads:
        held = held_by(server, tmp_path)
        with held.server.client() as client:
            cut = threads.submit(add, client, "cut", **{"Idempotency-Key": "once"})
            held.wait_for_arrival()
            assert server.stop() == 1
            told = cut.result(WAIT_S)
            assert (told.status_code, told.json()["error"]) == (503, "the server stopped before the request ended")
    # Its claim is of a process that is gone: the next writer finishes or undoes it, and the client asks again.
    with start(held.place, tmp_path / "log2") as server, server.client() as client:
        again = add(client, "cut", **{"Idempotency-Key": "once"})
        assert again.status_code == 200
        assert client.post("/graphs/g/query", json={"query": LIST}).json()["row_count"] == 1
    assert audit(str(held.place)) == []


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("operation")
    omnigraph.init(folder / "g.omni", SCHEMA).close()
    with start(folder / "g.omni", folder / "log", OMNIGRAPH_METRICS="1", OMNIGRAPH_MAX_ROWS="100") as server:
        yield server


@pytest.fixture(scope="module")
def client(running):
    with running.client() as client:
        yield client


def test_a_request_has_the_name_that_its_sender_gave_it_or_a_new_one(client, running):
    named = add(client, "named", **{"X-Request-Id": "my-request.1"})
    assert named.headers["x-request-id"] == "my-request.1"
    for odd in ("", "x" * 129, "caf\u00e9"):
        given = client.get("/healthz", headers={"X-Request-Id": odd.encode()}).headers["x-request-id"]
        assert re.fullmatch("[0-9A-Z]{26}", given)
    failed = client.post("/graphs/g/query", json={"query": "nonsense"}, headers={"X-Request-Id": "broken-1"})
    assert (failed.status_code, failed.json()["request_id"]) == (400, "broken-1")
    # It is written when the answer has gone out.
    wait_until(lambda: '"broken-1"' in running.log.read_text())
    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    assert all("request_id" in line for line in lines if line["message"] == "request")
    (line,) = [line for line in lines if line.get("request_id") == "broken-1"]
    assert (line["route"], line["status"], line["graph"]) == ("/graphs/{graph_id}/query", 400, "g")


def test_an_outcome_can_be_looked_up(client):
    done = add(client, "looked-up", **{"X-Request-Id": "look-1"}).json()
    found = outcome_of(client, "look-1").json()
    assert (found["state"], found["operation"], found["error"]) == ("succeeded", "mutate", None)
    assert found["graph_commit_id"] == done["commit"]["graph_commit_id"]
    strict = "query add($slug: String) { insert Person { slug: $slug } strict }"
    body = {"query": strict, "params": {"slug": "looked-up"}}
    refused = client.post("/graphs/g/mutate", json=body, headers={"X-Request-Id": "look-2"})
    found = outcome_of(client, "look-2").json()
    assert (found["state"], found["error"]["status"]) == ("failed", refused.status_code)
    missing = outcome_of(client, "never")
    assert (missing.status_code, missing.json()["error"]) == (404, "operation 'never' not found")


def test_a_repeated_write_has_the_first_receipt_and_another_payload_is_refused(client):
    first, again = (add(client, "keyed", **{"Idempotency-Key": "key-1"}) for _ in range(2))
    assert (first.status_code, again.json()) == (200, first.json())
    other = add(client, "other", **{"Idempotency-Key": "key-1"})
    assert (other.status_code, other.json()["code"]) == (422, "bad_request")
    assert "idempotency key was used before" in other.json()["error"]
    for key in ("", "x" * 256, "caf\u00e9"):
        odd = add(client, "odd", **{"Idempotency-Key": key.encode()})
        assert odd.status_code == 400


def test_limits_of_a_request_reach_the_engine_and_are_capped(client):
    add(client, "one")
    add(client, "two")

    def ask(**headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.post("/graphs/g/query", json={"query": LIST}, headers=named)

    rows = ask(Omnigraph_Max_Rows="1")
    assert (rows.status_code, rows.json()["resource_limit"]["limit"]) == (413, 1)
    late = ask(Omnigraph_Timeout_Ms="0")
    assert (late.status_code, late.json()["resource_limit"]["limit"]) == (408, 0)
    small = ask(Omnigraph_Memory_Bytes="1")
    assert (small.status_code, small.json()["resource_limit"]["limit"]) == (413, 1)
    few = add(client, "three", **{"Omnigraph-Max-Affected": "0"})
    assert (few.status_code, few.json()["resource_limit"]["actual"]) == (413, 1)
    assert add(client, "late", **{"Omnigraph-Timeout-Ms": "0"}).status_code == 408
    assert ask(Omnigraph_Max_Rows="many").status_code == 400


def test_readiness_shows_numbers_and_no_names(client):
    found = client.get("/readyz")
    assert (found.status_code, found.json()) == (
        200,
        {"status": "ready", "graphs": {"ready": 1, "loading": 0, "blocked": 0}},
    )


def test_figures_are_shown_where_they_are_wanted(client, running):
    add(client, "counted")
    text = client.get("/metrics").text
    assert re.search(
        r'omnigraph_requests_total\{method="POST",route="/graphs/\{graph_id\}/mutate",status="200"\} \d', text
    )
    assert re.search(r'omnigraph_operations_total\{operation="mutate",outcome="succeeded"\} \d', text)
    for name in ("commits_total", "rebases_total", "recoveries_total", "claims_waited_total", "cache_bytes"):
        assert f'omnigraph_{name}{{graph="g"}}' in text


def test_no_place_of_storage_is_in_the_logs(client, running):
    client.get("/graphs/g/nothing/../../etc/passwd")
    client.post("/graphs/g/query", content=b"{")
    log = running.log.read_text()
    assert str(running.log.parent) not in log
    assert "Traceback" not in log


def test_a_hangup_reloads_and_ends_nothing(client, running):
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the new configuration is in force" in running.log.read_text())
    assert client.get("/readyz").status_code == 200
