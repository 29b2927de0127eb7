"""Claims that came too late, or were taken away: nobody fails because of them and nothing of them stays."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.auditor import Auditor, audit
from tests.txn_graph import PERSON, TEAM, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import ExpectedVersionMismatchError
from omnigraph.runtime import ManualClock, Runtime, SystemRandomness
from omnigraph.runtime.failpoints import on_nth
from omnigraph.store import control as control_module
from omnigraph.store.control import ControlObjects
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings

IMPATIENT = TxnSettings(durability="relaxed", grace_s=0.0)


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


def test_an_undo_that_lost_its_version_leaves_no_claim(storage):
    """A writer is fenced while it holds its claim, lands its table all the same, and is overtaken as it undoes that."""
    runtime = Runtime.system({})

    def fence():
        with open_graph(storage, settings=IMPATIENT) as other:
            insert(other, TEAM, node_rows(["fences"]))

    def overtake():
        with open_graph(storage) as other:
            insert(other, TEAM, node_rows(["overtakes"]))

    with open_graph(storage, runtime=runtime) as graph:
        insert(graph, PERSON, node_rows(["first"]))
        runtime.failpoints.enable("txn.claim.after_put", on_nth(1, fence))
        runtime.failpoints.enable("txn.recover.after_classify", on_nth(1, overtake))
        insert(graph, PERSON, node_rows(["late"]))
        assert read_ids(graph, PERSON) == ["first", "late"]
    assert audit(storage.root, present={PERSON: ["first", "late"], TEAM: ["fences", "overtakes"]}) == []


def test_an_undo_never_touches_a_table_upon_a_state_that_is_not_the_newest(storage):
    """What looks like drift may be the window of a writer that publishes before the undo has its claim."""
    runtime = Runtime.system({})

    def fence():
        with open_graph(storage, settings=IMPATIENT) as other:
            insert(other, TEAM, node_rows(["fences"]))

    def overtake():
        with open_graph(storage) as other:
            insert(other, PERSON, node_rows(["overtakes"]))

    with open_graph(storage, runtime=runtime) as graph:
        # After an undisturbed commit a writer does not look again before it touches tables.
        insert(graph, PERSON, node_rows(["first"]))
        runtime.failpoints.enable("txn.claim.after_put", on_nth(1, fence))
        runtime.failpoints.enable("txn.recover.after_classify", on_nth(1, overtake))
        insert(graph, PERSON, node_rows(["late"]))
        undone = [commit for commit in history(graph) if commit.operation == "recovery"]
    # One used up the fenced version, the other took back what was landed after that.
    assert len(undone) == 2
    assert audit(storage.root, present={PERSON: ["late", "overtakes"], TEAM: ["fences"]}) == []
    # Of the undo that came too late there is nothing to tell.
    assert {row["writer_kind"] for row in Auditor(storage.root).audit_rows()} == {"insert"}


def test_time_spent_in_a_window_of_its_own_does_not_count_as_waiting_for_others(storage):
    """A writer that was fenced in a long window still has all of its patience when it meets the next claim."""
    inside, goes_on = threading.Event(), threading.Event()
    holder_world = Runtime.system({})

    def hold():
        inside.set()
        assert goes_on.wait(300)

    holder_world.failpoints.enable("txn.claim.after_put", hold)

    class Clock(ManualClock):
        def sleep(self, seconds):
            if holding:
                goes_on.set()
                holding.pop().result(300)
            super().sleep(seconds)

    clock = Clock()
    runtime = Runtime(clock=clock, randomness=SystemRandomness())
    holding = []

    def fence():
        with open_graph(storage, settings=IMPATIENT) as other:
            insert(other, TEAM, node_rows(["fences"]))
        ManualClock.sleep(clock, 100)

    def meet_a_claim():
        holding.append(pool.submit(insert, holder, TEAM, node_rows(["holds"])))
        assert inside.wait(300)

    with (
        ThreadPoolExecutor(max_workers=1) as pool,
        open_graph(storage, runtime=runtime) as graph,
        open_graph(storage, runtime=holder_world) as holder,
    ):
        runtime.failpoints.enable("txn.claim.after_put", on_nth(1, fence))
        runtime.failpoints.enable("txn.claim.before_put", on_nth(2, meet_a_claim))
        insert(graph, PERSON, node_rows(["patient"]))
    assert audit(storage.root, present={PERSON: ["patient"], TEAM: ["fences", "holds"]}) == []


def test_an_object_that_is_removed_before_it_is_durable_was_not_created(storage, monkeypatch):
    """A release that comes late may take away a claim that was made under the same name in the meantime."""
    control = ControlObjects(storage)

    def remove_first(path):
        storage.path("__recovery/main~main/9.json").unlink(missing_ok=True)
        sync_directory(path)

    sync_directory = control_module.sync_directory
    monkeypatch.setattr(control_module, "sync_directory", remove_first)
    assert control.put_if_absent("__recovery/main~main/9.json", b"{}", sync=True) is False
    monkeypatch.undo()
    assert control.put_if_absent("__recovery/main~main/9.json", b"{}", sync=True) is True


@pytest.mark.parametrize(
    ("point", "records"),
    [
        ("txn.publish.after_cas", "__manifest/_transactions/1-*"),
        ("txn.commit.after_table", "nodes/*/_transactions/1-*"),
    ],
)
def test_a_commit_is_durable_without_the_record_that_a_slower_twin_removed(storage, point, records):
    """A writer and its recoverer send the same commit; the one that loses the race removes the file both wrote."""
    runtime = Runtime.system({})

    def remove():
        (record,) = Path(storage.root).glob(records)
        record.unlink()

    runtime.failpoints.enable(point, remove)
    with open_graph(storage, runtime=runtime, settings=TxnSettings(durability="full")) as graph:
        insert(graph, PERSON, node_rows(["there"]))
    assert audit(storage.root, present={PERSON: ["there"]}) == []
    assert Auditor(storage.root).audit_rows() == []


def test_a_write_that_was_decided_before_an_undo_is_not_refused_for_it(storage):
    """The undo brings back the rows that were published, so that nothing which was decided on them has changed."""
    runtime = Runtime.system({})

    def fence():
        with open_graph(storage, settings=IMPATIENT) as other:
            insert(other, TEAM, node_rows(["fences"]))

    with open_graph(storage) as graph, open_graph(storage, runtime=runtime) as late:
        # After an undisturbed commit a writer does not look again before it touches tables.
        insert(late, PERSON, node_rows(["first"]))
        decided, fenced = (authority_of(one).begin(WriteKind.MUTATE) for one in (graph, late))
        for txn in (decided, fenced):
            txn.upsert(PERSON, node_rows(["first"], value=9))
        fenced.upsert(TEAM, node_rows(["late"]))
        runtime.failpoints.enable("txn.claim.after_put", on_nth(1, fence))
        with pytest.raises(ExpectedVersionMismatchError):
            authority_of(late).commit(fenced)
        assert (history(graph)[0].operation, history(graph)[0].touched) == ("recovery", (PERSON,))
        assert authority_of(graph).commit(decided).commit is not None
    assert audit(storage.root, present={PERSON: ["first"], TEAM: ["fences"]}) == []
