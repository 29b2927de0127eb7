"""The parts that keep a server in order: admission, outcomes, logs, settings, a new configuration."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
import threading
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import (
    AdmissionError,
    BadValue,
    GraphBlockedError,
    IdempotencyKeyError,
    MissingThing,
    OutcomeMissingError,
    UsageError,
)
from omnigraph.operations.reads import ReadStateRequest
from omnigraph.runtime import CallContext, ManualClock, Runtime, calling, start_thread
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.control import outcomes as outcomes_module
from omnigraph.server.control.admission import Admission
from omnigraph.server.control.control import Control
from omnigraph.server.control.lifecycle import CUT_OFF, ENDED, Ending, Reloading, finish
from omnigraph.server.control.logs import Redaction, configure_logs
from omnigraph.server.control.outcomes import KEPT_S, Outcomes
from omnigraph.server.control.settings import AdmissionLimits, ControlSettings, RequestLimits
from omnigraph.server.main import listen, open_service, reload_service
from omnigraph.server.middleware import Around


def test_exactly_as_many_writes_are_let_in_at_once_as_fit():
    admission = Admission(AdmissionLimits(actor_writes=7))
    outcomes, gate, leave = [], threading.Barrier(20), threading.Event()
    counted = threading.Semaphore(0)

    def write():
        gate.wait(300)
        try:
            with admission.admit("ann", 1):
                outcomes.append("in")
                counted.release()
                leave.wait(300)
        except AdmissionError:
            outcomes.append("out")
            counted.release()

    threads = [start_thread("write", write) for _ in range(20)]
    for _ in range(20):
        assert counted.acquire(timeout=300)
    assert (outcomes.count("in"), admission.under_way, admission.refused) == (7, 7, 13)
    with admission.admit("bob", 1):
        assert admission.under_way == 8
    leave.set()
    for thread in threads:
        thread.join(300)
    assert admission.under_way == 0


@pytest.mark.parametrize(
    ("limits", "size", "resource"),
    [
        (AdmissionLimits(actor_bytes=10), 11, "bytes in concurrent writes of one actor"),
        (AdmissionLimits(all_writes=1), 1, "concurrent writes"),
        (AdmissionLimits(all_bytes=10), 10, "bytes in concurrent writes"),
    ],
)
def test_size_and_number_of_all_are_limited_too(limits, size, resource):
    admission = Admission(limits)
    with admission.admit("ann", 1), pytest.raises(AdmissionError) as refused, admission.admit("bob", size):
        pass
    assert refused.value.details.resource == resource
    with admission.admit("bob", 1):
        pass


def test_limits_come_from_the_environment_and_nonsense_is_ignored(caplog):
    found = ControlSettings.from_environment(
        {
            "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "3",
            "OMNIGRAPH_PER_ACTOR_BYTES_MAX": "1G",
            "OMNIGRAPH_INFLIGHT_MAX": "many",
            "OMNIGRAPH_MAX_ROWS": "-1",
            "OMNIGRAPH_METRICS_BIND": "127.0.0.1:0",
        }
    )
    assert found.admission == AdmissionLimits(actor_writes=3, actor_bytes=1 << 30)
    assert (found.limits, found.metrics_bind) == (RequestLimits(query_ms=300_000), ("127.0.0.1", 0))
    with pytest.raises(UsageError):
        ControlSettings.from_environment({"OMNIGRAPH_METRICS_BIND": "here"})


def test_a_request_may_ask_for_less_than_it_is_allowed_and_not_for_more():
    most = RequestLimits(query_ms=1000, rows=5)
    assert RequestLimits(rows=9, affected=2).within(most) == RequestLimits(query_ms=1000, rows=5, affected=2)


CALL = CallContext(request_id="r", idempotency_key="k", payload_digest="p")


def test_an_outcome_is_kept_for_an_hour_and_shown_to_its_sender_alone():
    clock = ManualClock()
    outcomes = Outcomes(clock)
    outcomes.run("g", "ann", CALL, "create_tag", lambda: "made", is_remembered=True)
    assert outcomes.find("g", "ann", "r").to_json()["state"] == "succeeded"
    assert (outcomes.find("g", "bob", "r"), outcomes.find("h", "ann", "r")) == (None, None)
    clock.sleep(KEPT_S + 1)
    assert outcomes.find("g", "ann", "r") is None


def test_a_write_without_a_commit_is_done_once_under_its_key():
    outcomes, made = Outcomes(ManualClock()), []

    def make():
        made.append(1)
        return len(made)

    for _ in range(2):
        assert outcomes.run("g", "ann", CALL, "create_branch", make, is_remembered=True) == 1
    other = CallContext(request_id="s", idempotency_key="k", payload_digest="q")
    with pytest.raises(IdempotencyKeyError):
        outcomes.run("g", "ann", other, "create_branch", make, is_remembered=True)
    assert outcomes.run("g", "bob", other, "create_branch", make, is_remembered=True) == 2


def test_of_two_at_once_one_is_done_and_a_failure_leaves_the_key_free():
    outcomes, began, go_on = Outcomes(ManualClock()), threading.Event(), threading.Event()
    answers = []

    def fail():
        began.set()
        assert go_on.wait(300)
        raise OutcomeMissingError("gone", details=MissingThing(what="operation", name="x"))

    def first():
        with pytest.raises(OutcomeMissingError):
            outcomes.run("g", None, CALL, "create_branch", fail, is_remembered=True)

    def second():
        answers.append(outcomes.run("g", None, CALL, "create_branch", lambda: "made", is_remembered=True))

    threads = [start_thread("first", first)]
    assert began.wait(300)
    threads.append(start_thread("second", second))
    go_on.set()
    for thread in threads:
        thread.join(300)
    assert answers == ["made"]


def test_old_outcomes_make_room(monkeypatch):
    monkeypatch.setattr(outcomes_module, "MAX_KEPT", 3)
    outcomes = Outcomes(ManualClock())
    for number in range(6):
        call = CallContext(request_id=f"r{number}")
        outcomes.run("g", None, call, "mutate", lambda: None, is_remembered=False)
    assert outcomes.find("g", None, "r0") is None
    assert outcomes.find("g", None, "r5") is not None


@pytest.fixture
def log_lines():
    stream, redaction = io.StringIO(), Redaction()
    logs = [logging.getLogger(name) for name in ("omnigraph", "asyncio")]
    before = [(log.handlers[:], log.level, log.propagate) for log in logs]
    configure_logs(redaction, {"OMNIGRAPH_LOG_FORMAT": "json"}, stream)
    yield redaction, lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for log, (handlers, level, propagate) in zip(logs, before, strict=True):
        log.handlers[:], log.level, log.propagate = handlers, level, propagate


def test_a_line_has_the_request_it_belongs_to_and_no_place_of_storage(log_lines):
    redaction, lines = log_lines
    redaction.hide({"crm": "/data/secret/crm.omni", "crm2": "/data/secret/crm.omni2/"})
    log = logging.getLogger("omnigraph.server")
    with calling(CallContext(request_id="req-1")):
        log.warning("cannot read /data/secret/crm.omni2/x\nforged line")
    try:
        Path("/data/secret/crm.omni/nodes").read_bytes()
    except OSError:
        log.exception("failed", extra={"request_id": "req-2", "status": 500})
    first, second = lines()
    assert (first["request_id"], first["message"]) == ("req-1", "cannot read <graph crm2>/x\nforged line")
    assert (second["request_id"], second["status"]) == ("req-2", 500)
    assert second["error"].startswith("FileNotFoundError: ")
    assert "'<graph crm>/nodes' (pathlib." in second["error"]
    assert "/data" not in json.dumps(lines())


def test_the_event_loop_tells_of_its_troubles_on_one_line(log_lines):
    logging.getLogger("asyncio").error("out of\nresources", exc_info=OSError(24, "too many open files"))
    (line,) = log_lines[1]()
    assert (line["logger"], line["level"], line["message"]) == ("asyncio", "error", "out of\nresources")
    assert line["error"].startswith("OSError: [Errno 24] too many open files")


@pytest.fixture
def places(tmp_path):
    for name in ("one", "two"):
        omnigraph.init(tmp_path / f"{name}.omni", "node A { name: String @key }").close()
    return {name: ServedGraph(graph_id=name, uri=str(tmp_path / f"{name}.omni")) for name in ("one", "two")}


def test_a_new_configuration_is_taken_over_and_requests_under_way_keep_the_old_one(places, tmp_path):
    service = open_service(ServerSettings(graphs=(places["one"],), unauthenticated=True))
    kept = service.graphs.get("one").backend
    both = ServerSettings(graphs=(places["one"], places["two"]), unauthenticated=True)
    reload_service(service, lambda: both)
    assert service.graphs.get("one").backend is kept
    second = service.graphs.get("two").backend
    assert second.execute(ReadStateRequest()) is not None
    missing = ServedGraph(graph_id="three", uri=str(tmp_path / "missing.omni"))
    for broken in (
        ServerSettings(graphs=(missing,), unauthenticated=True),
        ServerSettings(graphs=(places["two"], missing), requires_all_graphs=True, unauthenticated=True),
        ServerSettings(graphs=(places["one"], places["one"]), unauthenticated=True),
    ):
        with pytest.raises((GraphBlockedError, UsageError)):
            reload_service(service, lambda broken=broken: broken)
        assert second.execute(ReadStateRequest()) is not None
        assert set(service.graphs.ready) == {"one", "two"}
    reload_service(service, lambda: ServerSettings(graphs=(places["two"],), unauthenticated=True))
    with pytest.raises(omnigraph.errors.GraphClosedError):
        kept.execute(ReadStateRequest())
    assert service.graphs.get("two").backend is second
    service.close()


def test_a_broken_configuration_is_told_and_changes_nothing(log_lines):
    def fail():
        raise GraphBlockedError("cannot serve", details=BadValue(what="graphs", value="", expected="some"))

    Reloading(fail).run()
    Reloading(lambda: "1 graph").run()
    messages = [line["message"] for line in log_lines[1]()]
    assert messages[0].startswith("the new configuration was refused, the old one stays in use: cannot serve")
    assert messages[1] == "the new configuration is in force: 1 graph"


def test_answers_do_not_wait_for_acknowledgements():
    """The event loop asks the protocol of a socket before it turns off the delay."""
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_the_end_is_announced_then_waited_for_then_forced():
    control = Control(ControlSettings(notice_s=5, drain_s=10), Runtime.seeded(1).clock)
    done, timers = [], []
    stop, force = (lambda word=word: done.append(word) for word in ("stop", "force"))
    ending = Ending(control, lambda seconds, run: timers.append((seconds, run)), stop, force)
    ending.begin()
    assert (control.is_draining, done, [seconds for seconds, _ in timers]) == (True, [], [5, 15])
    for _, run in timers:
        run()
    assert (done, control.stopping.is_set()) == (["stop"], True)
    ending.begin()
    assert done == ["stop", "force"]


def test_one_long_write_does_not_keep_what_became_of_later_ones(monkeypatch):
    monkeypatch.setattr(outcomes_module, "MAX_KEPT", 3)
    outcomes = Outcomes(Runtime.seeded(1).clock)

    def send(number, work):
        call = CallContext(request_id=f"r{number}", idempotency_key=f"k{number}", payload_digest=f"d{number}")
        return outcomes.run("g", "ann", call, "create_branch", work, is_remembered=True)

    def slow():
        for number in range(1, 20):
            send(number, lambda: None)
        return [outcomes.find("g", "ann", f"r{number}") is not None for number in range(20)]

    kept = send(0, slow)
    assert kept == [number in {0, 18, 19} for number in range(20)]
    assert {len(one) for one in (outcomes._by_request, outcomes._by_key, outcomes._users)} == {3}


def test_a_request_that_is_cancelled_is_answered_and_stays_cancelled(places):
    """Whoever cancels it, be it a timeout or a server that ends, has to see that it is."""
    begun, sent = asyncio.Event(), []

    async def never(scope, receive, send):
        begun.set()
        await asyncio.Event().wait()

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    async def run(service):
        scope = {"type": "http", "http_version": "1.1", "method": "GET", "path": "/healthz", "raw_path": b"/healthz"}
        task = asyncio.create_task(Around(never, service)({**scope, "query_string": b"", "headers": []}, receive, send))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    service = open_service(ServerSettings(graphs=(places["one"],), unauthenticated=True))
    assert asyncio.run(run(service))
    assert (sent[0]["status"], service.control.cut_off, service.control.under_way) == (503, 1, 0)
    service.close()


def test_the_exit_code_tells_whether_requests_were_cut_off():
    control = Control(ControlSettings(), Runtime.seeded(1).clock)
    assert finish(control, lambda: None) == ENDED
    control.under_way = 1
    assert finish(control, lambda: None) == CUT_OFF
