"""Clients of many processes see a strictly serializable graph, though they and their servers are killed.

This is a short run; ``make soak`` and ``make many`` play it longer.
"""

import json

import pytest

from tests.marks import STORES
from tests.multiprocess.ground import Ground
from tests.multiprocess.history import History, judge_history, run_history
from tests.multiprocess.journal import read_journal

QUICK = {"durability": "relaxed", "grace_s": 1.0}


@pytest.fixture(params=STORES)
def place(request, tmp_path):
    """A root and its storage options."""
    if request.param == "local":
        return str(tmp_path / "g"), {}
    endpoint = request.getfixturevalue("clean_s3_endpoint")
    return endpoint.fresh_prefix(), endpoint.storage_options


def test_killed_clients_see_no_anomaly_and_a_journal_that_says_another_thing_is_found(place, tmp_path):
    history = History(clients=3, count=30, kill_every=15, stop_every=25, stop_for=4, settings=QUICK)
    verdict = run_history(history, *place, tmp_path / "run")
    assert verdict.findings == ()
    assert verdict.figures["transactions"] >= 90
    assert verdict.figures["kills"] >= 3
    assert verdict.figures["by_kind"].keys() >= {"transaction", "mutation", "query", "register"}
    ground = Ground.load(str(tmp_path / "run" / "ground.json"))
    for change in (_forget_the_last_value, _read_another_value):
        journals = {number: ground.journal(f"worker-{number}").read_text(encoding="utf-8") for number in range(3)}
        assert change(ground)
        assert judge_history(history, ground).findings != ()
        for number, text in journals.items():
            ground.journal(f"worker-{number}").write_text(text, encoding="utf-8")


@pytest.mark.more
@pytest.mark.long
def test_clients_of_servers_see_no_anomaly_though_the_servers_are_killed(place, tmp_path):
    history = History(clients=2, servers=2, count=60, kill_every=20, kill_server_every_s=4.0, settings=QUICK)
    verdict = run_history(history, *place, tmp_path / "run")
    assert verdict.findings == ()
    assert verdict.figures["transactions"] >= 240
    assert verdict.figures["server_kills"] >= 1


def _forget_the_last_value(ground):
    """Let one read have missed what it saw last."""

    def forget(event):
        for kind, _, values in event.get("calls", ()):
            if kind == "read" and len(values) > 1:
                values.pop()
                return True
        return False

    return _change_one(ground, forget)


def _read_another_value(ground):
    """Let a register have been read that has another value."""

    def read_another(event):
        for kind, _, what in event.get("calls", ()):
            if kind == "register" and what["kind"] == "read":
                what["value"] = "nobody.wrote.this"
                return True
        return False

    return _change_one(ground, read_another)


def _change_one(ground, change):
    """Change one event of the journals and write it back; return whether there was one."""
    for number in range(3):
        path = ground.journal(f"worker-{number}")
        events = read_journal(path)
        for event in events:
            if event["event"] == "ack" and change(event):
                path.write_text("".join(json.dumps(one) + "\n" for one in events), encoding="utf-8")
                return True
    return False
