"""A cleanup gives back what the retention lets go, and nothing that something needs."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest
from tests.auditor import audit
from tests.crash.later import Torn, later_world, tear_at, watch_for_hours
from tests.session_graph import create_graph, open_session, read_graph
from tests.txn_graph import (
    PERSON,
    RELAXED,
    TEAM,
    authority_of,
    init_graph,
    insert,
    node_rows,
    open_graph,
    read_ids,
)

from omnigraph.engine.maintenance import cleanup as cleaning
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import HistoryGoneError, UsageError, WriteSweptError
from omnigraph.history.merge import merge_branch
from omnigraph.runtime import Runtime
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import TableTicket, write_fragments_for
from omnigraph.txn.changes import WrittenRows
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

SCHEMA = "node Person { name: String @key  age: I32? }\nnode Team { code: String @key }\n"
ADD = "query a($n: String) { insert Person { name: $n, age: 1 } }"
COUNT = "query c() { match { $p: Person } return { count($p) as n } }"
AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "g", SCHEMA)
    # Closing waits for the sidecar of the last write, which goes after the answer: only a test moves files from here.
    with open_session(tmp_path / "g", maintenance=AT_ONCE) as writer:
        for number in range(5):
            writer.mutate(ADD, {"n": f"p{number}"})
    with open_session(tmp_path / "g", maintenance=AT_ONCE) as opened:
        yield opened
    assert audit(str(tmp_path / "g"), edges={}) == []


def count(session, at, branch=MAIN):
    return session.query(COUNT, at=at, branch=branch).rows()[0]["n"]


def files(root):
    return {path for path in root.rglob("*") if path.is_file()}


def test_a_preview_says_what_a_cleanup_does_and_writes_nothing(session, tmp_path):
    before = files(tmp_path)
    said = session.cleanup(keep=2)
    assert files(tmp_path) == before
    done = session.cleanup(keep=2, confirm=True)
    assert (said.is_done, done.is_done) == (False, True)
    assert said.datasets == done.datasets
    assert done.bytes > 0
    assert len(before - files(tmp_path)) == sum(item.files + item.old_versions for item in done.datasets)


def test_what_is_kept_reads_as_before_and_what_went_says_so_though_it_stays_listed(session):
    session.cleanup(keep=2, confirm=True)
    assert (count(session, "main"), count(session, "main~1")) == (5, 4)
    for ref in ("main~2", str(session.log().commits[-1].id)):
        with pytest.raises(HistoryGoneError):
            session.query(COUNT, at=ref)
    assert len(session.log().commits) == 6
    assert session.cleanup(keep=2, confirm=True).datasets == ()
    session.mutate(ADD, {"n": "next"})
    assert count(session, "main") == 6


def test_a_state_goes_only_when_neither_number_nor_age_keeps_it(session):
    assert session.cleanup(keep=0, older_than_s=3600).datasets == ()
    assert session.cleanup(keep=9).datasets == ()
    assert session.cleanup(older_than_s=0).datasets != ()
    for bad in ({}, {"keep": -1}, {"older_than_s": -1.0}):
        with pytest.raises(UsageError):
            session.cleanup(**bad)


def test_tags_forks_and_what_branches_can_be_merged_from_are_kept(session):
    session.create_tag("one", "main~4")
    session.create_branch("draft", at="main~2")
    session.mutate(ADD, {"n": "drafted"}, branch="draft")
    session.mutate(ADD, {"n": "later"})
    merge_branch(session, "main", "draft")
    for number in range(3):
        session.mutate(ADD, {"n": f"m{number}"})
        session.mutate(ADD, {"n": f"d{number}"}, branch="draft")
    kept = session.cleanup(keep=0, confirm=True)
    assert {(name, why) for name, _, why in kept.protected} == {
        ("main", "tag"),
        ("main", "fork"),
        ("main", "merge base"),
    }
    assert (count(session, "tag:one"), count(session, "draft")) == (1, 10)
    with pytest.raises(HistoryGoneError):
        session.create_branch("gone", at="main~3")
    with pytest.raises(HistoryGoneError):
        session.create_tag("gone", "main~3")
    assert [name.name for name in session.list_branches()] == ["main", "draft"]
    session.create_branch("again", at="tag:one")
    merge_branch(session, "draft", "main")
    assert count(session, "main") == 13


def test_the_table_of_a_dropped_type_goes_with_the_last_state_that_has_it(session, tmp_path):
    place = tmp_path / "g" / session.snapshot().entry("node:Team").pin.location
    session.apply_schema("node Person { name: String @key  age: I32? }\n")
    session.cleanup(keep=2, confirm=True)
    assert place.exists()
    assert len(session.snapshot().state.tombstones) == 1
    session.mutate(ADD, {"n": "next"})
    session.mutate(ADD, {"n": "after"})
    done = session.cleanup(keep=1, confirm=True)
    assert "node:Team" in {item.table_key for item in done.datasets}
    assert not place.exists()
    session.mutate(ADD, {"n": "more"})
    session.cleanup(keep=1, confirm=True)
    assert session.snapshot().state.tombstones == ()


def test_left_overs_go_when_they_are_old_and_not_before(session, tmp_path):
    week = 7 * 86400
    session.engine.maintenance = replace(AT_ONCE, unnamed_age_s=week)
    session.cleanup(keep=1, confirm=True)
    place = tmp_path / "g" / session.snapshot().entry("node:Person").pin.location
    ScratchPlace(storage=session.store.storage, operation_id="killed").put("part", b"x")
    strays = [
        place / "data" / "0101stray.lance",
        place / "_deletions" / "0-1-99.arrow",
        place / "tree" / "draft.01abc.op" / "_versions" / f"{(1 << 64) - 2:020d}.manifest",
        tmp_path / "g" / "__manifest" / "tree" / "draft.01abc" / "data" / "0101stray.lance",
        tmp_path / "g" / "nodes" / "never-registered" / "data" / "0101stray.lance",
        tmp_path / "g" / "__scratch" / "killed" / "part",
    ]
    for stray in strays:
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_bytes(b"x")
    foreign = tmp_path / "g" / "notes.txt"
    foreign.write_text("not ours")
    assert session.cleanup(keep=1, confirm=True).datasets == ()
    assert all(stray.exists() for stray in strays)
    for stray in (*strays, foreign):
        old = stray.stat().st_mtime - 2 * week
        os.utime(stray, (old, old))
    session.cleanup(keep=1, confirm=True)
    assert not any(stray.exists() for stray in strays)
    assert foreign.exists()
    assert read_graph(session)["node:Person"].keys() == {f"p{number}" for number in range(5)}


def test_branches_that_go_and_cleanups_of_others_do_not_stop_one(session, tmp_path):
    runtime, others = Runtime.system(), []

    def meddle():
        if len(others) < 2:
            others.append(session.mutate(ADD, {"n": f"beside{len(others)}"}))
            session.delete_branch(f"draft{len(others)}")
            session.cleanup(keep=1, confirm=True)

    for number in (1, 2):
        session.create_branch(f"draft{number}")
        session.mutate(ADD, {"n": "drafted"}, branch=f"draft{number}")
    runtime.failpoints.enable("engine.cleanup.after_histories", meddle)
    with open_session(tmp_path / "g", maintenance=AT_ONCE, runtime=runtime) as disturbed:
        assert disturbed.cleanup(keep=3).is_done is False
        assert disturbed.cleanup(keep=2, confirm=True).is_done
        assert count(disturbed, None) == 7
    assert len(others) == 2


def test_a_branch_whose_files_go_while_a_cleanup_records_is_left_out(session, tmp_path):
    runtime, dying, gone = Runtime.system(), Runtime.system(), []

    def delete_partly():
        if not gone:
            gone.append(session.store.branch_incarnation(BranchName("draft")).lance_branch)
            with (
                open_session(tmp_path / "g", maintenance=AT_ONCE, runtime=dying) as other,
                pytest.raises(Torn),
            ):
                other.delete_branch("draft")
            shutil.rmtree(tmp_path / "g" / "__manifest" / "tree" / gone[0] / "data")

    tear_at(dying, "txn.branch_delete.after_end")
    session.create_branch("draft")
    session.mutate(ADD, {"n": "drafted"}, branch="draft")
    # What goes is recorded on main first.
    runtime.failpoints.enable("txn.publish.after_cas", delete_partly)
    with open_session(tmp_path / "g", maintenance=AT_ONCE, runtime=runtime) as disturbed:
        assert disturbed.cleanup(keep=2, confirm=True).floors.keys() == {MAIN}
    assert gone
    runtime = later_world()
    with open_session(tmp_path / "g", runtime=runtime) as survivor:
        watch_for_hours(survivor.store, runtime)
        assert count(survivor, None) == 5


def test_a_branch_that_is_deleted_before_what_a_cleanup_recorded_is_synced_is_left_out(session, tmp_path):
    runtime, passed = Runtime.system(), []

    def delete():
        passed.append("cas")
        # Main comes first.
        if len(passed) == 2:
            session.delete_branch("draft")

    session.create_branch("draft")
    session.mutate(ADD, {"n": "drafted"}, branch="draft")
    runtime.failpoints.enable("txn.publish.after_cas", delete)
    with open_session(
        tmp_path / "g", maintenance=AT_ONCE, runtime=runtime, settings=replace(RELAXED, durability="full")
    ) as disturbed:
        assert disturbed.cleanup(keep=1, confirm=True).is_done
        assert count(disturbed, None) == 5
    assert len(passed) == 2


def test_what_came_since_a_cleanup_looked_goes_before_the_files_that_it_names(session, tmp_path):
    """Another cleanup is stopped after it has let states go, and before it has removed one."""
    runtime, quick, slow = Runtime.system(), Runtime.system(), []

    def stop():
        raise KeyboardInterrupt

    def meddle():
        session.mutate(ADD, {"n": "since"})
        slow.append(session.snapshot())
        session.mutate("query d() { delete Person where age = 1 }")
        quick.failpoints.enable("engine.cleanup.after_floor", stop)
        with (
            open_session(tmp_path / "g", maintenance=AT_ONCE, runtime=quick) as other,
            pytest.raises(KeyboardInterrupt),
        ):
            other.cleanup(keep=1, confirm=True)

    runtime.failpoints.enable("engine.cleanup.after_floor", meddle)
    with open_session(tmp_path / "g", maintenance=AT_ONCE, runtime=runtime) as opened:
        opened.cleanup(keep=1, confirm=True)
    with open_session(tmp_path / "g", mode="read_only") as reader:
        table = reader.store.tables.open(slow[0].entry("node:Person").pin)
        assert table.read().num_rows == 6
        assert count(reader, None) == 0


def test_files_that_others_uploaded_before_a_sweep_are_never_published(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.LOAD_APPEND)
        pin = branch_writer.prepare(txn, PERSON)
        made = write_fragments_for(TableTicket(storage=storage, pin=pin), node_rows(["b"]))
        txn.change(WrittenRows(table_key=PERSON, base=pin, fragments=tuple(made)))
        insert(graph, PERSON, node_rows(["c"]))
        Cleanup(graph, Retention(keep=1), AT_ONCE, Runtime.system()).run()
        with pytest.raises(WriteSweptError):
            branch_writer.commit(txn)
        assert read_ids(graph, PERSON) == ["a", "c"]
    assert audit(str(tmp_path / "g")) == []


def test_a_writer_that_slept_is_not_fooled_by_a_number_that_is_free_again(tmp_path, monkeypatch):
    """Even when the version after its base was removed for good, so that the compare-and-swap alone would succeed."""
    monkeypatch.setattr(cleaning, "_FENCE_S", -1.0)
    storage, asleep = init_graph(tmp_path / "g"), Runtime.seeded(3)
    with (
        open_graph(storage, runtime=asleep) as late,
        open_graph(storage, settings=replace(RELAXED, grace_s=0.0)) as graph,
    ):
        insert(late, PERSON, node_rows(["a"]))
        branch_writer = authority_of(late)
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows(["late"]))
        # Nothing else is in its way: its own table stays as it was.
        for name in ("b", "c", "d"):
            insert(graph, TEAM, node_rows([name]))
        Cleanup(graph, Retention(keep=1), AT_ONCE, Runtime.system()).run()
        following = txn.snapshot.state.version + 1
        numbers = {
            (1 << 64) - 1 - int(path.name.split(".")[0]) for path in tmp_path.rglob("__manifest/_versions/*.manifest")
        }
        assert following not in numbers
        asleep.clock.sleep(60)
        done = branch_writer.commit(txn)
        assert done.commit.manifest_version > following
        assert read_ids(graph, PERSON) == ["a", "late"]
        assert graph.snapshot(BranchName(MAIN)).state.head.commit == done.commit.id
    assert audit(str(tmp_path / "g")) == []


def test_a_cleanup_works_on_an_object_store(s3_endpoint):
    storage = init_graph(s3_endpoint.fresh_prefix(), s3_endpoint.storage_options)
    with open_graph(storage) as graph:
        for name in ("a", "b", "c"):
            insert(graph, PERSON, node_rows([name]))
        done = Cleanup(graph, Retention(keep=1), AT_ONCE, Runtime.system()).run()
        assert {item.table_key for item in done.datasets} == {"__manifest", PERSON}
        assert [item.error for item in done.datasets] == [None, None]
        assert read_ids(graph, PERSON) == ["a", "b", "c"]
        assert Cleanup(graph, Retention(keep=1), AT_ONCE, Runtime.system()).run().datasets == ()
        insert(graph, PERSON, node_rows(["d"]))
    assert audit(storage.root, s3_endpoint.storage_options) == []


# How old a line has to be until cleanup takes it for one that nobody will use: at once, or never.
LINE_AGES = {"its line is overlooked": 0.0, "its line is seen": 3600.0}


@pytest.mark.parametrize("age_s", LINE_AGES.values(), ids=LINE_AGES)
@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
def test_a_branch_is_refused_whose_start_goes_before_its_creator_looks(session, tmp_path, age_s, dies):
    """A creator that chose its start before a cleanup recorded the floor, and is slow."""
    sweeping = replace(AT_ONCE, unnamed_age_s=age_s)
    runtime = Runtime.system()

    def sweep():
        runtime.failpoints.disable("txn.branch.after_line")
        with open_session(tmp_path / "g", maintenance=sweeping) as other:
            assert other.cleanup(keep=1, confirm=True).bytes > 0
        if dies:
            raise KeyboardInterrupt

    with open_session(tmp_path / "g", runtime=runtime) as creator:
        runtime.failpoints.enable("txn.branch.after_line", sweep)
        with pytest.raises(KeyboardInterrupt if dies else HistoryGoneError):
            creator.create_branch("late", at="main~3")
    assert [branch.name for branch in session.list_branches()] == ["main"]
    session.cleanup(keep=1, confirm=True)
    session.create_branch("late")
    assert count(session, "late") == 5


@pytest.mark.parametrize("name", ["late", "agents/mira/late"])
def test_a_cleanup_keeps_the_start_of_a_branch_that_is_about_to_exist(session, tmp_path, name):
    """A creator that has looked at the floor is as slow as it likes: its line is there for everybody to see."""
    runtime = Runtime.system()

    def sweep():
        sweeping = replace(AT_ONCE, unnamed_age_s=3600.0)
        with open_session(tmp_path / "g", maintenance=sweeping) as other:
            done = other.cleanup(keep=1, confirm=True)
            assert done.bytes > 0
            assert [why for _, _, why in done.protected] == ["new branch"]

    with open_session(tmp_path / "g", runtime=runtime) as creator:
        runtime.failpoints.enable("txn.branch.before_ref", sweep)
        creator.create_branch(name, at="main~3")
        assert count(creator, name) == 2
    with pytest.raises(HistoryGoneError):
        count(session, "main~2")
    session.cleanup(keep=1, confirm=True)
    assert count(session, name) == 2
