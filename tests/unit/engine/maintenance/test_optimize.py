"""Optimizing makes tables flat and indexed, beside writers, and changes no answer."""

from __future__ import annotations

import os
import threading

import lance
import pytest
from tests.auditor import audit
from tests.crash.later import Torn, later_world, tear_at, watch_for_hours
from tests.session import Session
from tests.session_graph import RELAXED, create_graph, open_session, read_graph

from omnigraph.catalog import arrow
from omnigraph.engine.maintenance import optimize
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.planning import LocalRunner, plan_table_indexes, wanted_indexes
from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import ExpectedVersionMismatchError, TypeMissingError, ValueFormatError
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from omnigraph.store.projections import keys
from omnigraph.store.staging import IndexBuild, indexes
from omnigraph.store.staging.indexes import segments_of
from omnigraph.txn.changes import IndexBuilds, TableSteps
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  bio: String? @index  age: I32? @index  face: Vector(2)? @index }
node Team { code: String @key }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query a($n: String, $b: String) { insert Person { name: $n, bio: $b, age: 1 } }"
AGE = "query u($n: String) { update Person set { age: 2 } where name = $n }"
FIND = "query f($b: String) { match { $p: Person { bio: $b } } return { $p.name } }"


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "g", SCHEMA)
    with open_session(tmp_path / "g") as opened:
        for number in range(6):
            opened.mutate(ADD, {"n": f"p{number}", "b": f"likes tea {number}"})
        yield opened
    assert audit(str(tmp_path / "g"), edges={"edge:Knows": "node:Person"}) == []


def person(result):
    return next(table for table in result.tables if table.table_key == "node:Person")


def coverage(session, branch="main"):
    table = session.snapshot(branch).table("node:Person")
    present = {item.metadata.id for item in table.fragments}
    return len(present), {index.name: index.fragment_ids >= present for index in table.indexes()}


def test_a_run_compacts_and_indexes_and_the_next_one_finds_nothing_to_do(session):
    before = read_graph(session)
    done = person(session.optimize())
    assert (done.fragments_before, done.fragments_after, done.fragments_removed) == (6, 1, 6)
    assert {index.column for index in done.indexes if index.action == "built"} == {"name", "bio", "age"}
    assert {index.kind for index in done.indexes} == {"btree"}
    assert done.to_json()["pending_indexes"] == []
    fragments, covered = coverage(session)
    assert fragments == 1
    assert all(covered.values())
    assert session.optimize().commits == ()
    assert read_graph(session) == before
    assert session.query(FIND, {"b": "likes tea 3"}).rows() == [{"p.name": "p3"}]


def test_compacting_indexing_and_compacting_again_are_one_commit_and_leave_no_trial_behind(
    session, tmp_path, monkeypatch
):
    session.optimize()
    # Every index is built anew, so that it covers fragments alike that it kept apart before.
    monkeypatch.setattr(indexes, "_MAX_SEGMENTS", 1)
    for number in range(4):
        session.mutate(ADD, {"n": f"q{number}", "b": f"likes milk {number}"})
    session.mutate('query t() { insert Team { code: "x" } }')
    pins = {key: entry.pin.version for key, entry in session.snapshot().state.tables.items()}
    done = session.optimize()
    moved = {key: entry.pin.version - pins[key] for key, entry in session.snapshot().state.tables.items()}
    assert moved == {"node:Person": 4, "node:Team": 1, "edge:Knows": 0}
    assert [(commit.operation, commit.touched) for commit in done.commits] == [
        ("optimize", ("node:Person", "node:Team"))
    ]
    assert coverage(session)[0] == 1
    assert all(coverage(session)[1].values())
    assert session.query(FIND, {"b": "likes milk 2"}).rows() == [{"p.name": "q2"}]
    assert session.optimize().commits == ()
    assert list((tmp_path / "g").rglob("_versions/d*")) == []


def test_trials_that_a_killed_run_left_behind_go_with_the_next_cleanup(session, tmp_path, monkeypatch):
    monkeypatch.setattr(optimize, "discard", lambda *_: None)
    session.mutate(ADD, {"n": "late", "b": "x"})
    session.optimize()
    (trial,) = (tmp_path / "g").rglob("_versions/d*")
    left = tmp_path / "g" / session.snapshot().entry("node:Person").pin.location / "_transactions"
    named = set(left.iterdir())
    step = left / f"{1 << 63 | 5}-{'0' * 8}-0000-4000-8000-{'0' * 12}.txn"
    step.write_bytes(b"of a step upon a step")
    for file in (trial, step):
        os.utime(file, (1, 1))
    session.engine.maintenance = MaintenanceSettings(unnamed_age_s=0, settle_s=0)
    session.cleanup(keep=100, confirm=True)
    assert not trial.exists()
    assert set(left.iterdir()) <= named


def _build(session, *builds):
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.ENSURE_INDICES)
    txn.change(IndexBuilds(table_key="node:Person", builds=builds))
    branch_writer.commit(txn)


def test_indexes_that_no_query_asks_are_removed_in_the_commit_that_does_the_rest(session):
    numbers = {prop.name: prop.id for prop in session.catalog().nodes["Person"].properties}
    words = IndexBuild(column="bio", kind="fulltext", name=f"og_p{numbers['bio']}_fulltext")
    named_by_others = IndexBuild(column="bio", kind="fulltext", name="bio_words")
    session.mutate('query v() { insert Person { name: "v", face: [1, 2] } }')
    vectors = IndexBuild(column="face", kind="vector", name=f"og_p{numbers['face']}_vector")
    ids = IndexBuild(column="id", kind="btree", name="og_id_btree")
    _build(session, words, vectors, named_by_others, ids)
    before = read_graph(session)
    done = session.optimize()
    assert len(done.commits) == 1
    removed = [(index.name, index.column, index.kind) for index in person(done).indexes if index.action == "removed"]
    assert sorted(removed) == sorted(
        [(words.name, "bio", "fulltext"), (vectors.name, "face", "vector"), (ids.name, "id", "btree")]
    )
    assert "removed 3 unused indexes on " in str(person(done))
    assert {"name": words.name, "property": "bio", "kind": "fulltext", "action": "removed"} in person(done).to_json()[
        "indexes"
    ]
    assert {index.name for index in session.snapshot().table("node:Person").indexes()} == {
        *(f"og_p{numbers[name]}_btree" for name in ("name", "bio", "age")),
        named_by_others.name,
    }
    assert coverage(session)[0] == 1
    assert read_graph(session) == before
    assert session.optimize().commits == ()


def test_ids_have_an_index_where_keys_do_not_find_them_at_all_times(session, monkeypatch):
    catalog, table = session.catalog(), session.snapshot().table("node:Person")
    assert "id" not in {build.column for build in wanted_indexes(catalog, "node:Person", table)}
    with monkeypatch.context() as patched:
        patched.setattr(keys, "_MOST_ROWS", 5)
        assert "id" in {build.column for build in wanted_indexes(catalog, "node:Person", table)}
        assert "id" in {index.column for index in person(session.optimize()).indexes if index.action == "built"}
        assert session.optimize().commits == ()
    assert [index.column for index in person(session.optimize()).indexes if index.action == "removed"] == ["id"]


def test_ids_have_an_index_on_an_object_store(clean_s3_endpoint):
    storage = Storage.open(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options)
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED) as opened:
        opened.mutate(ADD, {"n": "p", "b": "x"})
        table = opened.snapshot().table("node:Person")
        assert "id" in {build.column for build in wanted_indexes(opened.catalog(), "node:Person", table)}


def test_tables_of_edges_whose_ids_are_not_compressed_go_on(tmp_path, monkeypatch):
    add = "query k($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
    with monkeypatch.context() as earlier:
        earlier.setattr(arrow, "_MADE_UP", {})
        create_graph(tmp_path / "old", SCHEMA)
        with open_session(tmp_path / "old") as session:
            for number in range(3):
                session.mutate(ADD, {"n": f"p{number}", "b": "x"})
            session.mutate(add, {"a": "p0", "b": "p1"})
    with open_session(tmp_path / "old") as session:
        session.mutate(add, {"a": "p1", "b": "p2"})
        assert session.optimize().commits
        session.mutate(add, {"a": "p2", "b": "p0"})
        rows = session.snapshot().table("edge:Knows").read(["src", "dst"])
        assert sorted(zip(*rows.to_pydict().values(), strict=True)) == [("p0", "p1"), ("p1", "p2"), ("p2", "p0")]
    assert audit(str(tmp_path / "old"), edges={"edge:Knows": "node:Person"}) == []


def test_unused_indexes_go_even_when_there_is_nothing_else_to_do(session):
    session.optimize()
    number = next(prop.id for prop in session.catalog().nodes["Person"].properties if prop.name == "bio")
    _build(session, IndexBuild(column="bio", kind="fulltext", name=f"og_p{number}_fulltext"))
    (commit,) = session.optimize().commits
    assert (commit.operation, commit.touched) == ("ensure_indices", ("node:Person",))
    assert session.optimize().commits == ()


@pytest.mark.parametrize("point", ["txn.claim.after_put", "txn.commit.after_tables", "txn.publish.after_cas"])
def test_a_removal_that_is_torn_apart_is_finished_or_undone(session, tmp_path, point):
    number = next(prop.id for prop in session.catalog().nodes["Person"].properties if prop.name == "bio")
    unused = IndexBuild(column="bio", kind="fulltext", name=f"og_p{number}_fulltext")
    session.optimize()
    _build(session, unused)
    before = read_graph(session)
    with open_session(tmp_path / "g", runtime=tear_at(Runtime.system(), point)) as dying, pytest.raises(Torn):
        dying.optimize()
    world = later_world()
    with open_session(tmp_path / "g", runtime=world) as later:
        watch_for_hours(later.store, world)
        assert read_graph(later) == before
        later.optimize()
        assert unused.name not in {index.name for index in later.snapshot().table("node:Person").indexes()}
        assert later.optimize().commits == ()
        assert later.query(FIND, {"b": "likes tea 3"}).rows() == [{"p.name": "p3"}]


def test_rows_written_since_are_folded_into_the_indexes(session):
    session.optimize()
    session.mutate(ADD, {"n": "late", "b": "likes milk"})
    done = person(session.optimize())
    assert {index.action for index in done.indexes} == {"extended"}
    assert all(coverage(session)[1].values())


def test_a_branch_leaves_what_it_inherits_to_its_owner_and_optimizes_what_is_its_own(session):
    session.create_branch("draft")
    assert session.optimize("draft").commits == ()
    assert person(session.optimize("draft")).skipped == "inherited"
    for number in range(5):
        session.mutate(ADD, {"n": f"d{number}", "b": "drafted"}, branch="draft")
    done = session.optimize("draft", ["Person"])
    assert [table.table_key for table in done.tables] == ["node:Person", "__manifest"]
    assert all(coverage(session, "draft")[1].values())
    assert coverage(session) == (6, {})
    with pytest.raises(TypeMissingError):
        session.optimize("draft", ["Persn"])


class Meddling(LocalRunner):
    """Lets somebody write while the work is under way, the first times that it is done."""

    def __init__(self, session, writes):
        super().__init__(session.store.storage, 1)
        self._session, self._writes = session, list(writes)

    def compact(self, jobs):
        done = super().compact(jobs)
        if self._writes:
            query, params = self._writes.pop(0)
            self._session.mutate(query, params)
        return done


def test_rows_that_are_added_meanwhile_do_not_cost_the_work_that_was_done(session):
    done = session.optimize(runner=Meddling(session, [(ADD, {"n": "mid", "b": "came in between"})]))
    assert done.commits[0].operation == "optimize"
    assert person(done).skipped is None
    assert "mid" in read_graph(session)["node:Person"]
    assert all(coverage(session)[1].values())


def test_a_table_that_is_changed_meanwhile_is_planned_again_and_given_up_when_that_does_not_end(session):
    twice = [(AGE, {"n": "p1"}), (AGE, {"n": "p2"})]
    assert person(session.optimize(runner=Meddling(session, twice))).skipped is None
    assert read_graph(session)["node:Person"]["p2"]["age"] == 2
    for number in range(6):
        session.mutate(ADD, {"n": f"q{number}", "b": "x"})
    ever = [(AGE, {"n": f"q{number}"}) for number in range(9)]
    assert person(session.optimize(runner=Meddling(session, ever))).skipped == "busy"


def test_an_update_that_was_decided_before_a_compaction_is_not_refused_for_it(session):
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    rows = session.snapshot().table("node:Person").read()
    txn, late = branch_writer.begin(WriteKind.MUTATE), branch_writer.begin(WriteKind.MUTATE)
    for one in (txn, late):
        one.upsert("node:Person", rows.slice(0, 1).set_column(3, "age", [[7]]).cast(rows.schema))
    assert len(session.optimize().commits) == 1
    assert branch_writer.commit(txn).commit is not None
    with pytest.raises(ExpectedVersionMismatchError):
        branch_writer.commit(late)
    assert [row["age"] for row in read_graph(session)["node:Person"].values()].count(7) == 1
    assert coverage(session)[0] == 2


def test_what_a_cleanup_may_have_removed_meanwhile_is_made_again_and_never_published(session, tmp_path):
    class Sweeping(LocalRunner):
        sweeps = 2

        def build(self, jobs):
            done = super().build(jobs)
            if self.sweeps:
                self.sweeps -= 1
                session.mutate(ADD, {"n": f"beside{self.sweeps}", "b": "x"})
                session.cleanup(keep=1, confirm=True)
            return done

    session.engine.maintenance = MaintenanceSettings(unnamed_age_s=0, settle_s=0)
    assert person(session.optimize(runner=Sweeping(session.store.storage, 1))).skipped is None
    assert all(coverage(session)[1].values())
    # Another process has nothing in memory of what was indexed.
    with open_session(tmp_path / "g") as other:
        assert other.query(FIND, {"b": "likes tea 3"}).rows() == [{"p.name": "p3"}]
        other.mutate(AGE, {"n": "p3"})


def test_a_table_that_something_else_has_changed_is_skipped_and_the_others_are_not(session, tmp_path):
    pin = session.snapshot().entry("node:Person").pin
    lance.dataset(str(tmp_path / "g" / pin.location)).delete("name = 'p1'")
    session.mutate('query t() { insert Team { code: "x" } }')
    done = session.optimize()
    assert person(done).skipped == "drift_needs_repair"
    assert (person(done).published_version, person(done).head_version) == (pin.version, pin.version + 1)
    assert next(table for table in done.tables if table.table_key == "node:Team").has_committed
    session.repair(confirm=True, discard=True)


def test_many_commits_are_tidied_up_behind_the_writer_and_never_by_its_thread(tmp_path):
    create_graph(tmp_path / "g", SCHEMA)
    threads, has_tidied = set(), threading.Event()

    def listen(_, commits):
        if commits[0].operation == "optimize":
            has_tidied.set()

    with open_session(tmp_path / "g", maintenance=MaintenanceSettings(auto_every=4)) as session:
        session.store.stores.listeners.append(listen)
        tidy = session._auto_maintenance._tidy

        def watched(branch, is_stopped):
            threads.add(threading.current_thread().name)
            tidy(branch, is_stopped)

        session._auto_maintenance._tidy = watched
        for number in range(9):
            session.mutate(ADD, {"n": f"p{number}", "b": "x"})
        assert has_tidied.wait(300)
    assert threads == {"omnigraph-upkeep"}
    with open_session(tmp_path / "g") as session:
        assert len(read_graph(session)["node:Person"]) == 9


def test_settings_come_from_the_environment_and_nonsense_is_refused():
    found = MaintenanceSettings.from_environment(
        {"OMNIGRAPH_MAINTENANCE_CONCURRENCY": "3", "OMNIGRAPH_AUTO_MAINTENANCE": "0"}
    )
    assert (found.threads, found.auto_every) == (3, 0)
    assert MaintenanceSettings.from_environment({}) == MaintenanceSettings()
    for text in ("0", "-1", "x", "9" * 30):
        with pytest.raises(ValueFormatError):
            MaintenanceSettings.from_environment({"OMNIGRAPH_MAINTENANCE_CONCURRENCY": text})


def test_fragments_that_an_index_came_to_cover_in_part_meanwhile_are_planned_again(session):
    snapshot, runner = session.snapshot(), LocalRunner(session.store.storage, 1)
    table = snapshot.table("node:Person")
    plan = plan_table_indexes(
        "node:Person", table, wanted_indexes(session.catalog(), "node:Person", table), group_rows=1 << 20
    )
    (built,) = runner.build([plan.job])
    step = segments_of(table, built, built_on=table.pin.version)
    late = [TableSteps(table_key="node:Person", base=plan.job.base, steps=(step,))]
    session.mutate(ADD, {"n": "later", "b": "is not in that index"})

    class Beside(LocalRunner):
        def compact(self, jobs):
            done = super().compact(jobs)
            if late:
                branch_writer = session.store.branch_writer(BranchName(MAIN))
                txn = branch_writer.begin(WriteKind.ENSURE_INDICES)
                txn.change(late.pop())
                branch_writer.commit(txn)
            return done

    done = person(session.optimize(runner=Beside(session.store.storage, 1)))
    assert done.skipped is None
    assert done.fragments_after < done.fragments_before
    assert all(coverage(session)[1].values())
    assert session.query(FIND, {"b": "is not in that index"}).rows() == [{"p.name": "later"}]
