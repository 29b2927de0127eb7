"""Writes that wait for another process are published by it, together with its own, and each keeps what is its own."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, suppress

import msgspec
import pytest
from tests.session_graph import create_graph, open_session, read_graph
from tests.txn_graph import PERSON, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import (
    ClaimBusyError,
    ConstraintViolationError,
    Effect,
    KeyExistsError,
    OmnigraphError,
    PreconditionFailedError,
    StorageFault,
    StorageUnavailableError,
    WriteOutcomeError,
)
from omnigraph.runtime import Runtime, start_thread
from omnigraph.runtime.failpoints import on_nth
from omnigraph.txn.offers.owner import OwnOffer
from omnigraph.txn.publish.batch import Batch, Member
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN as MAIN_TEXT
from omnigraph.values import BranchName

MAIN = BranchName(MAIN_TEXT)

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node Team { code: String @key }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "Ann", "age": 34}}
{"type": "Person", "data": {"name": "Bo", "age": 28}}
"""
IN_LINE = pytest.mark.parametrize("line_up", [True, False], ids=["in line", "by claims"])


class Crowd:
    """Several graphs open on one place, each as a process of its own would have it; the first one holds the branch."""

    def __init__(self, root, stack, count, line_up):
        self.root = root
        self.go, self.reached = threading.Event(), threading.Event()
        self.runtimes = [Runtime.system({}) for _ in range(count)]
        settings = TxnSettings(durability="relaxed", line_up=line_up)
        self.sessions = [
            stack.enter_context(open_session(root, runtime=runtime, settings=settings)) for runtime in self.runtimes
        ]
        self.outcomes = {}
        self.threads = {}
        stack.callback(self.go.set)

    def hold(self, failpoint="txn.publish.before_cas", body="insert Person { name: 'Holder' }"):
        """Let the first one begin a write and stop it in the middle."""

        def stop():
            if not self.reached.is_set():
                self.reached.set()
                assert self.go.wait(300)

        self.runtimes[0].failpoints.enable(failpoint, stop)
        self.write(0, body)
        assert self.reached.wait(300)

    def write(self, number, body, **options):
        """Let one of them write, in a thread."""

        def run():
            try:
                self.outcomes[number] = self.sessions[number].mutate(f"query q() {{ {body} }}", **options)
            except OmnigraphError as error:
                self.outcomes[number] = error

        self.threads[number] = start_thread(f"writer-{number}", run)

    def wait_for_offers(self, count):
        """Wait until so many offers lie beside the graph."""
        while len(self.offers()) < count:
            assert any(thread.is_alive() for number, thread in self.threads.items() if number)

    def offers(self):
        return sorted((self.root / "__recovery").glob("*/offers/*.offer"))

    def end(self):
        """Let everything go on, and wait until all have ended."""
        self.go.set()
        for thread in self.threads.values():
            thread.join(300)
            assert not thread.is_alive()
        return self.outcomes

    def tally(self, event):
        return sum(runtime.tally.counts().get(event, 0) for runtime in self.runtimes)


@pytest.fixture
def crowd(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    with ExitStack() as stack:
        yield lambda count, line_up=True: Crowd(tmp_path / "graph", stack, count, line_up)


def names(root):
    with open_session(root) as session:
        return sorted(row["name"] for row in read_graph(session)["node:Person"].values())


@IN_LINE
def test_those_who_wait_are_published_as_one_version_and_keep_their_commits(crowd, line_up):
    crowd = crowd(5, line_up)
    crowd.hold()
    for number in range(1, 5):
        crowd.write(number, f"insert Person {{ name: 'W{number}' }}", actor=f"a{number}", message=f"m{number}")
    crowd.wait_for_offers(4)
    outcomes = crowd.end()
    assert names(crowd.root) == ["Ann", "Bo", "Holder", "W1", "W2", "W3", "W4"]
    versions = {outcomes[number].manifest_version for number in range(1, 5)}
    assert len(versions) == 1
    assert versions == {outcomes[0].manifest_version + 1}
    for number in range(1, 5):
        commit = outcomes[number].commit
        assert (commit.actor, commit.message, outcomes[number].inserted) == (f"a{number}", f"m{number}", 1)
    assert crowd.tally("offers_taken") == 3
    assert crowd.tally("groups") == 1


def test_offers_are_gone_when_their_owners_have_closed(crowd, tmp_path):
    crowd = crowd(4)
    crowd.hold()
    for number in range(1, 4):
        crowd.write(number, f"insert Person {{ name: 'W{number}' }}")
    crowd.wait_for_offers(3)
    crowd.end()
    for session in crowd.sessions:
        session.close()
    assert crowd.offers() == []
    assert [path for path in (crowd.root / "__recovery").rglob("*") if path.is_file()] == []


@IN_LINE
def test_a_write_that_does_not_hold_is_refused_alone(crowd, line_up):
    crowd = crowd(4, line_up)
    crowd.hold()
    crowd.write(1, "insert Person { name: 'W1', mail: 'x' }")
    crowd.write(2, "insert Person { name: 'W2', mail: 'x' }")
    crowd.write(3, "insert Person { name: 'W3', mail: 'z' }")
    crowd.wait_for_offers(3)
    outcomes = crowd.end()
    failed = [number for number in (1, 2, 3) if isinstance(outcomes[number], Exception)]
    assert len(failed) == 1
    assert isinstance(outcomes[failed[0]], ConstraintViolationError)
    assert outcomes[failed[0]].effect is Effect.NONE
    assert failed[0] in {1, 2}
    assert len(names(crowd.root)) == 5


@IN_LINE
def test_updates_of_different_rows_share_a_version_and_run_once(crowd, line_up):
    crowd = crowd(3, line_up)
    crowd.hold()
    crowd.write(1, "update Person set { age: 1 } where name = 'Ann'")
    crowd.write(2, "update Person set { age: 2 } where name = 'Bo'")
    crowd.wait_for_offers(2)
    outcomes = crowd.end()
    assert outcomes[1].manifest_version == outcomes[2].manifest_version
    with open_session(crowd.root) as session:
        rows = read_graph(session)["node:Person"]
    assert {row["name"]: row["age"] for row in rows.values()} == {"Ann": 1, "Bo": 2, "Holder": None}


@IN_LINE
def test_updates_of_one_row_come_one_after_the_other_and_none_is_lost(crowd, line_up):
    crowd = crowd(4, line_up)
    crowd.hold()
    for number in range(1, 4):
        crowd.write(number, "update Person set { age: age + 1 } where name = 'Ann'")
    crowd.wait_for_offers(3)
    outcomes = crowd.end()
    assert len({outcomes[number].manifest_version for number in range(1, 4)}) == 3
    with open_session(crowd.root) as session:
        ages = {row["name"]: row["age"] for row in read_graph(session)["node:Person"].values()}
    assert ages["Ann"] == 37


@IN_LINE
def test_a_conditional_write_is_published_or_told_that_the_head_moved(crowd, line_up):
    crowd = crowd(3, line_up)
    head = crowd.sessions[1].snapshot().state.head.commit
    crowd.hold()
    crowd.write(1, "insert Person { name: 'W1' }", expected_head=head)
    crowd.write(2, "insert Person { name: 'W2' }")
    crowd.wait_for_offers(2)
    outcomes = crowd.end()
    assert isinstance(outcomes[1], PreconditionFailedError)
    assert outcomes[1].effect is Effect.NONE
    assert names(crowd.root) == ["Ann", "Bo", "Holder", "W2"]


def test_a_node_deleted_beside_an_edge_to_it_leaves_no_orphan(crowd):
    for order in ([1, 2], [2, 1]):
        bodies = {1: "delete Person where name = 'Ann'", 2: "insert Knows { from: 'Ann', to: 'Bo' }"}
        people = crowd(3)
        people.hold(body=f"insert Team {{ code: 't{order[0]}' }}")
        for count, number in enumerate(order, start=1):
            people.write(number, bodies[number])
            people.wait_for_offers(count)
        people.end()
        with open_session(people.root) as session:
            graph = read_graph(session)
            assert {end for row in graph["edge:Knows"].values() for end in (row["src"], row["dst"])} <= {
                *graph["node:Person"]
            }
            session.mutate("query q() { insert Person { name: 'Ann' } }")


def test_a_writer_that_gives_up_takes_its_offer_back_with_proof(crowd):
    crowd = crowd(2, line_up=False)
    crowd.sessions[1].close()
    crowd.hold()
    hasty = TxnSettings(durability="relaxed", line_up=False, claim_wait_s=0.3)
    with open_session(crowd.root, settings=hasty) as session:
        with pytest.raises(ClaimBusyError) as raised:
            session.mutate("query q() { insert Person { name: 'Hasty' } }")
        assert raised.value.effect is Effect.NONE
        assert crowd.offers() == []
    crowd.end()
    assert names(crowd.root) == ["Ann", "Bo", "Holder"]


def test_an_offer_that_a_stopped_holder_has_taken_is_not_said_to_be_without_effect(crowd):
    """The holder has claimed it with its own write: it may be published at any moment, and is."""
    crowd = crowd(3, line_up=False)
    again, reached = threading.Event(), threading.Event()
    crowd.hold()
    crowd.write(1, "insert Person { name: 'W1' }")
    crowd.wait_for_offers(1)

    def stop():
        reached.set()
        assert again.wait(300)

    crowd.runtimes[1].failpoints.enable("txn.commit.before_tables", stop)
    runtime = Runtime.system({})
    # It lost its first claim to the holder and is about to make its second, which the other one is to be faster with.
    runtime.failpoints.enable("txn.claim.before_put", on_nth(2, lambda: reached.wait(300)))
    hasty = TxnSettings(durability="relaxed", line_up=False, claim_wait_s=1.0)
    outcome = []
    with open_session(crowd.root, settings=hasty, runtime=runtime) as session:

        def run():
            try:
                outcome.append(session.mutate("query q() { insert Person { name: 'Hasty' } }"))
            except OmnigraphError as error:
                outcome.append(error)

        thread = start_thread("hasty", run)
        while len(crowd.offers()) < 2:
            assert thread.is_alive()
        crowd.go.set()
        assert reached.wait(300)
        thread.join(300)
        again.set()
        crowd.end()
    assert isinstance(outcome[0], WriteOutcomeError)
    assert outcome[0].effect is Effect.UNKNOWN
    assert "Hasty" in names(crowd.root)


def test_an_offer_under_another_schema_is_left_to_its_owner(crowd):
    crowd = crowd(3)
    crowd.hold()
    crowd.write(1, "insert Person { name: 'W1' }")
    crowd.wait_for_offers(1)
    text = crowd.offers()[0].read_text(encoding="utf-8")
    assert '"schema_hash"' in text
    outcomes = crowd.end()
    assert outcomes[1].inserted == 1


def test_what_cannot_be_read_is_ignored_and_said(crowd, caplog):
    crowd = crowd(3)
    crowd.hold()
    crowd.write(1, "insert Person { name: 'W1' }")
    crowd.wait_for_offers(1)
    fresh = crowd.offers()[0].with_name(f"{Runtime.system({}).ids.ulid()}.offer")
    old = fresh.with_name("00000000000000000000000000.offer")
    for broken in (fresh, old):
        broken.write_text("{}", encoding="utf-8")
    crowd.write(2, "insert Person { name: 'W2' }")
    crowd.wait_for_offers(4)
    outcomes = crowd.end()
    for session in crowd.sessions:
        session.close()
    assert {outcomes[1].inserted, outcomes[2].inserted} == {1}
    assert "cannot be read" in caplog.text
    # It could still be the fence of an offer that is on its way.
    assert crowd.offers() == [fresh]


def test_a_strict_insert_that_meets_its_key_in_the_group_fails_alone(crowd):
    crowd = crowd(3)
    crowd.hold()
    for number in (1, 2):
        crowd.write(number, "insert Person { name: 'Same' } strict")
    crowd.wait_for_offers(2)
    outcomes = crowd.end()
    failed = [outcome for outcome in outcomes.values() if isinstance(outcome, Exception)]
    assert len(failed) == 1
    assert isinstance(failed[0], (KeyExistsError, ConstraintViolationError))
    assert names(crowd.root).count("Same") == 1


def test_a_writer_that_meets_nobody_lists_no_offers(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    runtime = Runtime.system({})
    with open_session(tmp_path / "graph", runtime=runtime) as session:
        for number in range(3):
            session.mutate(f"query q() {{ insert Person {{ name: 'N{number}' }} }}")
    counts = runtime.tally.counts()
    assert not {"offers_made", "turns_waited", "claims_waited"} & set(counts)
    assert not list((tmp_path / "graph").glob("__recovery/*/offers"))


def test_a_guest_that_would_leave_nothing_of_ones_own_to_publish_is_left_to_its_owner(tmp_path):
    """It demands the head as it is, so it would come first; and what is to lead depends on the row that it changes."""
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph, open_graph(storage) as other:
        insert(graph, PERSON, node_rows(["a"]))
        head = graph.snapshot(MAIN).state.head.commit
        guest = _update(authority_of(other), value=1, expected_head=head)
        OwnOffer(authority_of(other).services, Batch([Member(guest)])).make(guest.snapshot.manifest)
        writer = authority_of(graph)
        own = _update(writer, value=2)
        writer._publisher._saw_others()
        done = writer.commit(own)
        assert graph.snapshot(MAIN).table(PERSON).read()["value"].to_pylist() == [2]
        assert [commit.id for commit in history(graph)][:2] == [done.commit.id, head]


def test_a_new_column_is_not_lost_to_an_offer_of_rows(offering):
    session, _ = offering("insert Person { name: 'Guest' }")
    session.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  stars: I32?"))
    rows = session.snapshot().table(PERSON).read()
    assert "stars" in rows.column_names
    assert sorted(rows["name"].to_pylist()) == ["Ann", "Bo"]


def test_an_overwritten_table_is_not_lost_to_an_offer_of_rows(offering):
    session, _ = offering("insert Person { name: 'Guest' }")
    writer = authority_of(session.store)
    txn = writer.begin(WriteKind.LOAD_OVERWRITE)
    txn.replace_all(PERSON, session.snapshot().table(PERSON).read().slice(0, 1))
    writer.commit(txn)
    assert session.snapshot().table(PERSON).read()["name"].to_pylist() == ["Ann"]


@pytest.fixture
def offering(tmp_path):
    """Open a graph with a write of another process that waits for somebody to publish it."""
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    with ExitStack() as stack:

        def offer(body):
            session, other = (stack.enter_context(open_session(tmp_path / "graph")) for _ in range(2))
            writer = authority_of(other.store)
            kept = []
            stack.enter_context(pytest.MonkeyPatch.context()).setattr(
                writer, "commit", lambda txn: kept.append(txn) or (_ for _ in ()).throw(InterruptedError)
            )
            with suppress(InterruptedError):
                other.mutate(f"query q() {{ {body} }}")
            own = OwnOffer(writer.services, Batch([Member(kept[0])]))
            own.make(kept[0].snapshot.manifest)
            assert own.name is not None
            stack.callback(lambda: own.withdraw(kept[0].snapshot.manifest))
            authority_of(session.store)._publisher._saw_others()
            return session, own

        yield offer


def _update(writer, *, value, **begin):
    txn = writer.begin(WriteKind.MUTATE, **begin)
    txn.read_rows(PERSON, ["a"])
    txn.upsert(PERSON, node_rows(["a"], value=value))
    return txn


def test_an_offer_of_a_process_that_is_gone_is_removed_and_not_published(tmp_path):
    """Whoever asked for it may have asked again since."""
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph, open_graph(storage) as other:
        writer = authority_of(other)
        txn = writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows(["late"]))
        gone = msgspec.structs.replace(writer.services.writer, started="0")
        writer.services.writer = gone
        OwnOffer(writer.services, Batch([Member(txn)])).make(txn.snapshot.manifest)
        authority_of(graph)._publisher._saw_others()
        insert(graph, PERSON, node_rows(["b"]))
    assert not list((tmp_path / "g").glob("__recovery/*/offers/*.offer"))
    with open_graph(storage) as graph:
        assert read_ids(graph, PERSON) == ["b"]


def test_a_write_that_cannot_be_offered_is_published_by_itself(crowd, caplog):
    caplog.set_level(logging.INFO)
    crowd = crowd(2)
    crowd.hold()

    def fail():
        raise StorageUnavailableError("no room", details=StorageFault(doing="put", location="offers", reason="no room"))

    crowd.runtimes[1].failpoints.enable("txn.offer.before_put", fail)
    crowd.write(1, "insert Person { name: 'W1' }")
    while "could not offer" not in caplog.text:
        assert crowd.threads[1].is_alive()
    outcomes = crowd.end()
    assert outcomes[1].inserted == 1
    assert names(crowd.root) == ["Ann", "Bo", "Holder", "W1"]


def test_a_write_that_fails_here_and_was_published_there_has_not_failed(crowd):
    crowd = crowd(3, line_up=False)
    fault = StorageFault(doing="put", location="the claim", reason="no answer")

    def fail():
        raise StorageUnavailableError("no answer", details=fault)

    def wait_for_the_other():
        crowd.threads[1].join(300)

    crowd.hold()
    failing = crowd.runtimes[2].failpoints
    # It lost its first claim to the holder; the second one cannot be put.
    failing.enable("txn.claim.before_put", on_nth(2, fail))
    failing.enable("txn.offer.before_withdraw", wait_for_the_other)
    crowd.write(2, "insert Person { name: 'W2' }")
    crowd.wait_for_offers(1)
    crowd.write(1, "insert Person { name: 'W1' }")
    crowd.wait_for_offers(2)
    outcomes = crowd.end()
    assert outcomes[2].commit.id in {commit.id for commit in crowd.sessions[0].log(limit=9).commits}
    assert outcomes[2].inserted == 1
    assert names(crowd.root) == ["Ann", "Bo", "Holder", "W1", "W2"]
