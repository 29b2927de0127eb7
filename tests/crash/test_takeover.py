"""Who may end an abandoned write, and what recovery refuses to touch."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import lance
import msgspec
import pytest

from omnigraph.errors import (
    Effect,
    FailpointError,
    RecoveryInvariantError,
    StorageFault,
    StorageUnavailableError,
    TableDriftError,
)
from omnigraph.runtime import ManualClock, Runtime, SystemRandomness
from omnigraph.runtime.failpoints import fail, on_nth
from omnigraph.store.control import ControlObjects
from omnigraph.txn.branches.incarnation import MAIN_INCARNATION
from omnigraph.txn.claims.store import ClaimStore
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.plan import PLAN
from omnigraph.values import MAIN, BranchName
from tests.crash.checks import assert_sound
from tests.crash.later import later_world
from tests.crash.torn import IMPATIENT, fill, sidecars, tear
from tests.marks import STORES
from tests.txn_graph import (
    PERSON,
    RELAXED,
    TEAM,
    authority_of,
    history,
    init_graph,
    insert,
    node_rows,
    open_graph,
    read_ids,
)


@pytest.fixture(params=STORES)
def storage(request, tmp_path):
    if request.param == "s3":
        endpoint = request.getfixturevalue("clean_s3_endpoint")
        made = init_graph(endpoint.fresh_prefix(), endpoint.storage_options)
    else:
        made = init_graph(tmp_path / "g")
    fill(made)
    return made


def _audit_kinds(graph):
    return [row["recovery_kind"] for row in authority_of(graph).services.audit.rows()]


def _pin(storage, table_key):
    with open_graph(storage, mode="read_only") as graph:
        return graph.snapshot(BranchName(MAIN)).entry(table_key).pin


def _append_raw(storage, table_key):
    """Do what a program does that knows Lance and nothing of us."""
    uri = storage.uri(_pin(storage, table_key).location)
    lance.write_dataset(node_rows(["raw"]), uri, mode="append", storage_options=dict(storage.options) or None)


@pytest.mark.parametrize(("point", "nth", "kind"), [
    ("txn.commit.after_tables", 1, "RolledForward"),
    ("txn.commit.before_table", 2, "RolledBack"),
])  # fmt: skip
def test_of_two_recoverers_at_the_same_moment_one_wins(storage, monkeypatch, point, nth, kind):
    tear(storage, point, nth)
    together = threading.Barrier(2, timeout=300)
    won = []
    real = ClaimStore.take_over

    def take_over(self, *args):
        together.wait()
        won.append(real(self, *args))
        return won[-1]

    with monkeypatch.context() as patched:
        patched.setattr(ClaimStore, "take_over", take_over)
        with ThreadPoolExecutor(2) as pool:
            graphs = list(pool.map(lambda _: open_graph(storage, runtime=later_world()), range(2)))
    assert sorted(won) == [False, True]
    for graph in graphs:
        graph.close()
    with open_graph(storage, runtime=later_world(hours=2)) as graph:
        assert _audit_kinds(graph) == [kind]
        assert ("torn" in read_ids(graph, PERSON)) == (kind == "RolledForward")
    assert_sound(storage)


def test_an_open_leaves_a_recovery_under_way_alone_and_reads_go_on(storage):
    tear(storage)
    gate, reached = threading.Event(), threading.Event()
    slow = later_world()
    slow.failpoints.enable("txn.recover.after_classify", lambda: (reached.set(), gate.wait(300)))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(open_graph, storage, runtime=slow)
        assert reached.wait(300)
        with open_graph(storage) as second:
            assert read_ids(second, PERSON) == ["a"]
            assert _audit_kinds(second) == []
        gate.set()
        first.result().close()
    with open_graph(storage) as graph:
        assert read_ids(graph, PERSON) == ["a", "torn"]
        assert _audit_kinds(graph) == ["RolledForward"]
    assert_sound(storage)


def test_a_writer_recovers_the_dead_claim_in_its_way_and_goes_on(storage):
    with open_graph(storage, settings=replace(IMPATIENT, grace_s=0.0)) as graph:
        tear(storage)
        insert(graph, PERSON, node_rows(["b"]))
        assert read_ids(graph, PERSON) == ["a", "b", "torn"]
        assert _audit_kinds(graph) == ["RolledForward"]
    assert_sound(storage)


@pytest.mark.parametrize("point", ["after_takeover", "after_classify", "after_publish", "after_audit"])
def test_a_recovery_that_failed_is_gone_on_with_by_the_process_that_holds_its_turn(storage, point):
    """Nobody else may while it lives, and nothing here waits for the grace period to end."""
    runtime = later_world()
    with open_graph(storage, runtime=runtime, settings=IMPATIENT) as graph:
        tear(storage)
        graph.refresh()
        runtime.clock.let_hours_pass()
        name = f"txn.recover.{point}"
        runtime.failpoints.enable(name, on_nth(1, fail(name)))
        with pytest.raises(FailpointError):
            graph.refresh()
        insert(graph, PERSON, node_rows(["b"]))
        graph.refresh()
        assert read_ids(graph, PERSON) == ["a", "b", "torn"]
        assert _audit_kinds(graph) == ["RolledForward"]
    assert_sound(storage)


@pytest.mark.parametrize("key", [PERSON, TEAM])
def test_a_claim_that_was_won_is_given_back_when_the_look_after_it_fails(storage, monkeypatch, key):
    with open_graph(storage, settings=IMPATIENT) as graph:
        manifest = authority_of(graph).services.manifest

        def fails():
            details = StorageFault(doing="look", location="__manifest", reason="gone")
            raise StorageUnavailableError("storage did not answer", details=details)

        txn = authority_of(graph).begin(WriteKind.INSERT)
        txn.insert(key, node_rows(["x"]))
        with monkeypatch.context() as patched:
            patched.setattr(manifest, "latest_version", fails)
            with pytest.raises(StorageUnavailableError) as caught:
                authority_of(graph).commit(txn)
        assert caught.value.effect is Effect.NONE
        assert sidecars(storage) == ()
        insert(graph, key, node_rows(["y"]))
        assert "x" not in read_ids(graph, key)
    assert_sound(storage)


def _move_elsewhere(storage, ahead_ms):
    """Make the claim one of another machine, whose clock is ahead."""
    (key,) = sidecars(storage)
    control = ControlObjects(storage)
    book = ClaimStore(control, MAIN_INCARNATION, Runtime.system({}), IMPATIENT)
    plan = book.read(int(key.rpartition("/")[2].partition(".")[0]))
    writer = msgspec.structs.replace(plan.writer, host="elsewhere", pid=1)
    moved = msgspec.structs.replace(plan, writer=writer, created_at_ms=plan.created_at_ms + ahead_ms)
    control.put(key, PLAN.encode(moved))


@pytest.mark.parametrize("ahead_h", [-1000, 0, 1000])
def test_a_dead_writer_whose_clock_was_wrong_blocks_the_branch_for_the_grace_period_and_no_longer(storage, ahead_h):
    """How long a claim was silent is seen, and not worked out from what its writer took for the time."""
    tear(storage)
    _move_elsewhere(storage, ahead_h * 3_600_000)
    clock = ManualClock(start_ms=Runtime.system({}).clock.now_ms())
    runtime = Runtime(clock=clock, randomness=SystemRandomness())
    with open_graph(storage, runtime=runtime) as graph:
        clock.sleep(RELAXED.grace_s - 1)
        graph.refresh()
        assert len(sidecars(storage)) == 1
        clock.sleep(1)
        graph.refresh()
        assert sidecars(storage) == ()
        assert read_ids(graph, PERSON) == ["a", "torn"]
    assert_sound(storage)


def test_a_write_outlasts_a_dead_writer_of_another_machine(storage):
    tear(storage)
    _move_elsewhere(storage, 1000 * 3_600_000)
    runtime = Runtime(clock=ManualClock(), randomness=SystemRandomness())
    with open_graph(storage, runtime=runtime) as graph:
        insert(graph, PERSON, node_rows(["b"]))
        assert read_ids(graph, PERSON) == ["a", "b", "torn"]
    assert_sound(storage)


def test_a_holder_that_gives_signs_of_life_is_left_alone_however_long_it_takes(storage):
    tear(storage)
    _move_elsewhere(storage, 0)
    (key,) = sidecars(storage)
    version = int(key.rpartition("/")[2].partition(".")[0])
    clock = ManualClock()
    with open_graph(storage, runtime=Runtime(clock=clock, randomness=SystemRandomness())) as graph:
        services = authority_of(graph).services
        for _ in range(5):
            clock.sleep(RELAXED.grace_s * 0.9)
            services.claims.renew(version, msgspec.structs.replace(services.writer, host="elsewhere"))
            graph.refresh()
        assert read_ids(graph, PERSON) == ["a"]
        assert services.claims.describe(services.claims.read(version)).state == "unknown"


def test_a_live_writer_of_this_host_is_not_taken_over(storage):
    tear(storage)
    with open_graph(storage) as graph:
        assert read_ids(graph, PERSON) == ["a"]
        assert len(sidecars(storage)) == 1


@pytest.mark.parametrize("name", ["takeover-1", "renewed"])
@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"null",
        b"\xff",
        b'{"writer": null, "at_ms": 1}',
        b'{"writer": {}, "at_ms": 1}',
        b'{"writer": {"host": "h", "pid": 1, "started": ""}, "at_ms": "x"}',
    ],
)
def test_a_damaged_sign_of_life_is_one_like_any_other(tmp_path, name, bad):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
    tear(storage)
    (key,) = sidecars(storage)
    damaged = key.replace(".json", f".{name}.json")
    ControlObjects(storage).put(damaged, bad)
    with open_graph(storage) as graph:
        # Whoever gave it may live.
        assert read_ids(graph, PERSON) == ["a"]
    assert set(sidecars(storage)) == {key, damaged}
    with open_graph(storage, runtime=later_world()) as graph:
        assert read_ids(graph, PERSON) == ["a", "torn"]
    assert sidecars(storage) == ()
    assert_sound(storage)


def test_a_raw_write_makes_its_table_read_only_and_names_the_repair(storage):
    _append_raw(storage, PERSON)
    with open_graph(storage) as graph:
        for _ in range(2):
            with pytest.raises(TableDriftError) as caught:
                insert(graph, PERSON, node_rows(["b"]))
            assert "omnigraph repair" in caught.value.hint
            assert caught.value.details.table_key == PERSON
            assert caught.value.effect is Effect.NONE
        both = authority_of(graph).begin(WriteKind.INSERT)
        both.insert(PERSON, node_rows(["b"]))
        both.insert(TEAM, node_rows(["b"]))
        with pytest.raises(TableDriftError):
            authority_of(graph).commit(both)
        insert(graph, TEAM, node_rows(["u"]))
        assert (read_ids(graph, PERSON), read_ids(graph, TEAM)) == (["a"], ["t", "u"])
    assert sidecars(storage) == ()
    with open_graph(storage, mode="read_only") as graph:
        assert read_ids(graph, PERSON) == ["a"]


def test_a_raw_write_beside_an_abandoned_one_keeps_nothing_of_the_abandoned_one(storage):
    """The stranger's commit lies upon ours, so it can neither be finished nor undone: the graph stays as published."""
    tear(storage)
    _append_raw(storage, PERSON)
    with open_graph(storage, runtime=later_world()) as graph:
        assert (read_ids(graph, PERSON), read_ids(graph, TEAM)) == (["a"], ["t"])
        assert _audit_kinds(graph) == ["RolledBack"]
        insert(graph, TEAM, node_rows(["u"]))
        with pytest.raises(TableDriftError):
            insert(graph, PERSON, node_rows(["b"]))
    assert sidecars(storage) == ()


def test_a_table_behind_its_pin_stops_recovery_and_keeps_the_sidecar(storage):
    tear(storage)
    pin = _pin(storage, PERSON)
    control = ControlObjects(storage)
    versions = control.list_keys(f"{pin.location}/_versions")
    # Newest first, by name: the one that the abandoned write made, then the published one.
    for key in versions[:2]:
        control.delete(key)
    for key in control.list_keys(f"{pin.location}/_versions"):
        if key.endswith("hint.json"):
            control.delete(key)
    for hours in (1, 2):
        with pytest.raises(RecoveryInvariantError) as caught:
            open_graph(storage, runtime=later_world(hours))
        assert caught.value.details.table_key == PERSON
        assert any(key.endswith("4.json") for key in sidecars(storage))
    with open_graph(storage, mode="read_only") as graph:
        assert read_ids(graph, TEAM) == ["t"]


def test_commits_of_a_fenced_writer_are_undone_by_the_next_writer_of_the_table(storage):
    """The writer wakes up after its claim was taken over and moves its tables all the same."""
    with open_graph(storage) as fenced:
        branch_writer = authority_of(fenced)
        txn = branch_writer.begin(WriteKind.INSERT, actor="late")
        txn.insert(PERSON, node_rows(["late"]))
        txn.insert(TEAM, node_rows(["late"]))
        reached = threading.Event()
        gate = threading.Event()
        fenced._stores.runtime.failpoints.enable("txn.commit.before_tables", lambda: (reached.set(), gate.wait(300)))
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(branch_writer.commit, txn)
            assert reached.wait(300)
            with open_graph(storage, runtime=later_world()) as graph:
                assert _audit_kinds(graph) == ["RolledBack"]
                insert(graph, PERSON, node_rows(["b"]))
            gate.set()
            # Fenced, it starts over on the newer state; it must neither publish its old plan nor write twice.
            assert late.result().commit is not None
        assert read_ids(fenced, PERSON) == ["a", "b", "late"]
        assert [commit.actor for commit in history(fenced)].count("late") == 1
    assert_sound(storage)
