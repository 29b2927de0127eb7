"""What something else did to a table is shown, and settled as somebody decides."""

from __future__ import annotations

import os
import threading

import lance
import pytest
from tests.auditor import audit
from tests.crash.later import Torn, tear_at
from tests.session_graph import RELAXED, create_graph, open_session, read_graph

from omnigraph.errors import ClaimBusyError, TableDriftError, WriteOutcomeError
from omnigraph.runtime import ManualClock, Runtime, SystemRandomness, start_thread
from omnigraph.runtime.failpoints import fail
from omnigraph.txn.claims import identity as writers

SCHEMA = "node Person { name: String @key }\n"
ADD = "query a($n: String) { insert Person { name: $n } }"


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "g", SCHEMA)
    with open_session(tmp_path / "g") as opened:
        for name in ("a", "b", "c"):
            opened.mutate(ADD, {"n": name})
        yield opened
    assert audit(str(tmp_path / "g"), edges={}) == []


def people(session):
    return sorted(read_graph(session)["node:Person"])


def outside(session, root):
    return lance.dataset(str(root / "g" / session.snapshot().entry("node:Person").pin.location))


def found(result):
    (table,) = result.tables
    return table.classification, table.action


def test_a_compaction_is_adopted_and_changes_no_row(session, tmp_path):
    outside(session, tmp_path).optimize.compact_files()
    assert found(session.repair()) == ("verified_maintenance", "preview")
    done = session.repair(confirm=True)
    assert found(done) == ("verified_maintenance", "healed")
    assert session.log(limit=1).commits[0].actor == "omnigraph:repair"
    assert found(session.repair(confirm=True)) == ("no_drift", "no_op")
    session.mutate(ADD, {"n": "d"})
    assert people(session) == ["a", "b", "c", "d"]


def test_rows_that_something_else_removed_come_back_or_stay_away_as_decided(session, tmp_path):
    outside(session, tmp_path).delete("name = 'b'")
    with pytest.raises(TableDriftError):
        session.mutate(ADD, {"n": "d"})
    refused = session.repair(confirm=True)
    assert (found(refused), refused.is_refused) == (("suspicious", "refused"), True)
    assert found(session.repair(confirm=True, discard=True)) == ("suspicious", "discarded")
    assert people(session) == ["a", "b", "c"]
    outside(session, tmp_path).delete("name = 'b'")
    assert found(session.repair(confirm=True, force=True)) == ("suspicious", "forced")
    assert session.log(limit=1).commits[0].actor == "omnigraph:repair:force"
    assert people(session) == ["a", "c"]


def test_nothing_is_settled_while_a_write_waits_to_be_recovered(session, tmp_path):
    runtime = Runtime.system()
    runtime.failpoints.enable("txn.commit.before_tables", fail("txn.commit.before_tables"))
    runtime.failpoints.enable("txn.recover.after_classify", fail("txn.recover.after_classify"))
    with open_session(tmp_path / "g", runtime=runtime) as broken:
        with pytest.raises(WriteOutcomeError):
            broken.mutate(ADD, {"n": "d"})
        with pytest.raises(ClaimBusyError):
            session.repair(confirm=True)
        runtime.failpoints.disable("txn.commit.before_tables")
        runtime.failpoints.disable("txn.recover.after_classify")
        broken.mutate(ADD, {"n": "d"})
    assert found(session.repair()) == ("no_drift", "no_op")


def test_a_write_that_is_published_is_not_pending_while_its_claim_is_given_back(session, tmp_path):
    outside(session, tmp_path).optimize.compact_files()
    released = threading.Event()
    going = Runtime.system()
    going.failpoints.enable("txn.release.before_delete", lambda: released.wait(300))
    with open_session(tmp_path / "g", runtime=going) as slow:
        slow.create_branch("side")
        slow.mutate(ADD, {"n": "d"}, branch="side")
        # A process asks itself, and another one asks.
        for asking in (slow, session):
            assert list((tmp_path / "g" / "__recovery").rglob("*.json"))
            shown = asking.repair(branch="side")
            assert (shown.claims, found(shown)) == ((), ("no_drift", "no_op"))
            status = asking.status(branch="side")
            assert (status.pending, [line for line in status.advice if "progress" in line]) == ((), [])
            assert found(asking.repair(branch="side", confirm=True)) == ("no_drift", "no_op")
        released.set()
    assert found(session.repair(confirm=True)) == ("verified_maintenance", "healed")


def test_a_write_that_is_not_published_yet_is_pending(session, tmp_path):
    begun, may_go_on = threading.Event(), threading.Event()
    going = Runtime.system()

    def hold():
        begun.set()
        assert may_go_on.wait(300)

    going.failpoints.enable("txn.publish.before_cas", hold)
    with open_session(tmp_path / "g", runtime=going) as slow:
        writing = start_thread("writing", lambda: slow.mutate(ADD, {"n": "d"}))
        assert begun.wait(300)
        assert [claim.state for claim in session.repair().claims] == ["alive"]
        (key,) = session.status().pending
        assert key.startswith("__recovery/main~main/")
        with pytest.raises(ClaimBusyError):
            session.repair(confirm=True)
        may_go_on.set()
        writing.join(300)
    assert people(session) == ["a", "b", "c", "d"]


def test_a_repair_shows_a_silent_write_and_ends_it_when_it_was_watched_long_enough(tmp_path, monkeypatch):
    create_graph(tmp_path / "g", SCHEMA)
    with monkeypatch.context() as patched:
        patched.setattr(writers, "_host", lambda: "elsewhere")
        going = tear_at(Runtime.system({}), "txn.commit.after_tables")
        with open_session(tmp_path / "g", runtime=going) as torn, pytest.raises(Torn):
            torn.mutate(ADD, {"n": "d"}, actor="ann")
    clock = ManualClock()
    runtime = Runtime(clock=clock, randomness=SystemRandomness())
    with open_session(tmp_path / "g", runtime=runtime) as session:
        for _ in range(2):
            (claim,) = session.repair().claims
            assert (claim.kind, claim.actor, claim.state) == ("insert", "ann", "unknown")
            assert claim.holder == f"elsewhere pid {os.getpid()}"
        assert any("an insert of 'elsewhere pid" in line for line in session.status().advice)
        before_s = clock.monotonic_s()
        done = session.repair(confirm=True)
        assert clock.monotonic_s() - before_s >= RELAXED.grace_s - 1
        assert [one.version for one in done.claims] == [claim.version]
        assert session.repair().claims == ()
        assert people(session) == ["d"]
    assert audit(str(tmp_path / "g"), edges={}) == []
