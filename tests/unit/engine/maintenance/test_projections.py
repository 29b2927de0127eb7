"""Maintenance builds projections that are missing or far behind, says so, and nothing depends on it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from tests.auditor import audit
from tests.session import Session
from tests.session_graph import RELAXED, create_graph, open_session, read_graph
from tests.unit.engine.maintenance.fake_projections import FakeBuilders

from omnigraph.engine.load import Source
from omnigraph.engine.maintenance import projections
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.building import ProjectionBounds, stopping
from omnigraph.engine.maintenance.optimize import Optimization
from omnigraph.engine.maintenance.planning import LocalRunner
from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import StorageCorruptError, StorageFault, UsageError
from omnigraph.runtime import Runtime
from omnigraph.server.control.admission import Admission
from omnigraph.server.control.metrics import ServerMetrics
from omnigraph.server.control.settings import AdmissionLimits
from omnigraph.store.location import Storage
from omnigraph.store.projections.files import PROJECTIONS_PREFIX
from omnigraph.store.staging.compaction import CompactionPolicy

SCHEMA = """
node Person { name: String @key  bio: String? @index  age: I32? @index }
node Team { code: String @key }
edge Knows: Person -> Person {}
"""
ADD = "query a($n: String, $b: String) { insert Person { name: $n, bio: $b, age: 1 } }"
KNOWS = "query k($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
AGE = "query u($n: String) { update Person set { age: 2 } where name = $n }"
DROP = "query d($n: String) { delete Person where name = $n }"
ALL_SIZES = MaintenanceSettings(
    threads=1, auto_every=0, unnamed_age_s=0, settle_s=0, projection_rows=1, load_projection_rows=1
)
WEEK = replace(ALL_SIZES, unnamed_age_s=7 * 86400.0)


@pytest.fixture
def fake(monkeypatch):
    return FakeBuilders().install(monkeypatch, "keys", "text", "adjacency")


@pytest.fixture
def session(tmp_path, fake):
    create_graph(tmp_path / "g", SCHEMA)
    with open_session(tmp_path / "g", maintenance=WEEK) as opened:
        opened.load([Source(path=str(people(tmp_path, 20)))], projections=False)
        opened.mutate(KNOWS, {"a": "p1", "b": "p2"})
        yield opened
    assert audit(str(tmp_path / "g"), edges={"edge:Knows": "node:Person"}) == []


def people(folder, count, first=0):
    path = folder / f"people{first}.jsonl"
    lines = [
        f'{{"type": "Person", "data": {{"name": "p{number}", "bio": "likes tea"}}}}'
        for number in range(first, first + count)
    ]
    path.write_text("\n".join(lines))
    return path


def outcomes(result):
    return [(one.table_key, one.kind, one.prop, one.rows) for table in result.tables for one in table.projections]


def stored(root):
    return sorted(path for path in (root / "g" / PROJECTIONS_PREFIX).rglob("*") if path.is_file())


def shown(session, table_key="node:Person"):
    table = next(table for table in session.status().tables if table.table_key == table_key)
    return {(one.kind, one.prop): one for one in table.projections}


def age(paths, days):
    for path in paths:
        moment = path.stat().st_mtime - days * 86400
        os.utime(path, (moment, moment))


def test_optimize_builds_what_is_missing_after_its_commit_and_says_so(session, fake):
    done = session.optimize()
    assert outcomes(done) == [
        ("edge:Knows", "keys", "", 1),
        ("edge:Knows", "adjacency-out", "", 1),
        ("edge:Knows", "adjacency-in", "", 1),
        ("node:Person", "keys", "", 20),
        ("node:Person", "text", "bio", 20),
    ]
    person = next(table for table in done.tables if table.table_key == "node:Person")
    keys = person.projections[0]
    assert keys.bytes > 0
    assert person.to_json()["projections"][1] == {
        "type_key": "node:Person",
        "kind": "text",
        "property": "bio",
        "rows": 20,
        "bytes": person.projections[1].bytes,
        "error": None,
    }
    assert f"built projection text of bio (20 rows, {keys.bytes} bytes)" in str(person)
    again = session.optimize()
    assert (outcomes(again), again.commits, list(again.lines())[-1]) == ([], (), "nothing to do")
    assert len(fake.built) == 5


def test_projections_alone_make_no_commit(session, tmp_path, fake):
    session.optimize()
    for path in stored(tmp_path):
        path.unlink()
    head = session.snapshot().state.head.commit
    done = session.optimize(types=["Person"])
    assert (done.commits, [kind for _, kind, _, _ in outcomes(done)]) == ((), ["keys", "text"])
    assert list(done.lines())[-1] == "no commit"
    assert session.snapshot().state.head.commit == head


def test_a_base_is_built_anew_when_more_than_a_tenth_has_changed(session, fake):
    session.optimize()
    for number in (1, 2):
        session.mutate(ADD, {"n": f"new{number}", "b": "x"})
        assert outcomes(session.build_indexes()) == []
    fake.built.clear()
    # Two rows of twenty are a tenth; compacting them with the others would take the base its fragments.
    optimize_flat(session)
    assert [one for one in fake.built if one[0] == "keys"] == []
    session.mutate(ADD, {"n": "new3", "b": "x"})
    optimize_flat(session)
    assert [one for one in fake.built if one[2] > 1] == [("keys", "", 23), ("text", "bio", 23)]


def test_keys_are_built_anew_when_more_rows_lie_outside_than_anybody_reads_for_themselves(session, fake, monkeypatch):
    session.optimize()
    fake.built.clear()
    monkeypatch.setattr(projections, "KEYS_ROWS", 1)
    session.mutate(ADD, {"n": "new1", "b": "x"})
    optimize_flat(session)
    assert fake.built == []
    session.mutate(ADD, {"n": "new2", "b": "x"})
    optimize_flat(session)
    assert fake.built == [("keys", "", 22)]


def optimize_flat(session):
    """Optimize without compacting, which would give the rows to other fragments."""
    return session.optimize(policy=CompactionPolicy(target_rows=1, deleted_share=1.0))


def test_deleted_rows_count_as_changed(session, fake):
    session.optimize()
    for number in (5, 6):
        session.mutate(DROP, {"n": f"p{number}"})
    optimize_flat(session)
    fake.built.clear()
    session.mutate(DROP, {"n": "p7"})
    optimize_flat(session)
    # Keys of deleted rows are in their way to nobody.
    assert [one for one in fake.built if one[2] > 1] == [("text", "bio", 17)]
    fake.built.clear()
    optimize_flat(session)
    assert fake.built == []


def test_what_another_revision_has_written_counts_as_missing(session, fake):
    session.optimize()
    fake.revision = 2
    assert shown(session)["keys", ""].is_built is False
    assert {kind for _, kind, _, _ in outcomes(session.optimize())} == {"keys"}
    assert shown(session)["keys", ""].share == 1.0


def test_small_tables_get_none_and_status_misses_none(session, fake):
    session.engine.maintenance = replace(WEEK, projection_rows=21)
    assert outcomes(session.optimize()) == []
    assert shown(session) == {}
    assert session.status().advice == ()
    session.engine.maintenance = replace(WEEK, projection_rows=20)
    assert shown(session)["keys", ""].is_built is False
    assert "node:Person" in session.status().advice[0]
    assert {table for table, *_ in outcomes(session.optimize())} == {"node:Person"}
    assert session.status().advice == ()


def test_status_tells_bytes_coverage_and_age(session, tmp_path):
    session.optimize()
    age(stored(tmp_path), 3)
    keys = shown(session)["keys", ""]
    assert (keys.is_built, keys.is_stale, keys.share) == (True, False, 1.0)
    assert int(keys.age_s // 86400) == 3
    assert keys.bytes > 100
    for number in range(5):
        session.mutate(ADD, {"n": f"new{number}", "b": "x"})
    keys = shown(session)["keys", ""]
    assert (keys.is_stale, keys.share) == (True, 0.8)
    found = session.status()
    assert f"  projection keys: 80% of the rows, {keys.bytes} bytes, 3 days old" in list(found.lines())
    document = found.to_json()
    assert document["projection_bytes"] == sum(path.stat().st_size for path in stored(tmp_path))
    (table,) = (one for one in document["datasets"] if one["type_key"] == "node:Person")
    assert int(table["projections"][0].pop("age_seconds") // 86400) == 3
    assert table["projections"][0] == {
        "kind": "keys",
        "property": None,
        "built": True,
        "bytes": keys.bytes,
        "covered_share": 0.8,
        "stale": True,
    }
    assert shown(session, "edge:Knows")["adjacency-in", ""].share == 0.8


def test_monitoring_shows_what_maintenance_last_saw(session, tmp_path):
    assert "projection_bytes" not in session.backend.figures()
    session.engine.measure_projections(session.snapshot().state.head.branch)
    assert session.backend.figures()["projection_coverage"] == 0.0
    session.optimize()
    figures = session.backend.figures()
    assert figures["projection_bytes"] == sum(path.stat().st_size for path in stored(tmp_path))
    assert figures["projection_coverage"] == 1.0
    metrics = ServerMetrics(Admission(AdmissionLimits()), Runtime.system().clock)
    metrics.show({"people": session.backend})
    shown_text = metrics.text().decode()
    assert 'omnigraph_projection_coverage{graph="people"} 1.0' in shown_text


def test_branches_share_what_covers_their_rows(session, fake):
    session.optimize()
    session.create_branch("draft")
    session.mutate(ADD, {"n": "drafted", "b": "x"}, branch="draft")
    fake.built.clear()
    assert outcomes(session.optimize("draft", ["Person"])) == []
    drafted = next(table for table in session.status("draft").tables if table.table_key == "node:Person")
    assert {round(one.share * 21) for one in drafted.projections} == {20}
    for number in range(3):
        session.mutate(ADD, {"n": f"drafted{number}", "b": "x"}, branch="draft")
    assert [rows for *_, rows in outcomes(session.optimize("draft", ["Person"]))] == [24, 24]
    # Main has what it had.
    assert {one.share for one in shown(session).values()} == {1.0}
    assert outcomes(session.optimize()) == []


def test_what_cannot_be_built_is_told_and_stops_nothing(session, fake, tmp_path):
    details = StorageFault(doing="read", location="nodes/1", reason="gone")
    fake.fails = StorageCorruptError("the rows are not there", details=details)
    done = session.optimize()
    assert len(done.commits) == 1
    person = next(table for table in done.tables if table.table_key == "node:Person")
    assert [one.error for one in person.projections] == ["the rows are not there"] * 2
    assert "projection keys not built (the rows are not there)" in str(person)
    fake.fails = MemoryError()
    assert {one.error for table in session.optimize().tables for one in table.projections} == {"MemoryError"}
    assert stored(tmp_path) == []
    fake.fails = None
    assert len(outcomes(session.optimize())) == 5


def test_a_full_disk_leaves_no_projection_and_fails_nothing(tmp_path, fake):
    runtime = Runtime.system()

    def full_disk():
        raise OSError(28, "No space left on device")

    create_graph(tmp_path / "g", SCHEMA)
    with open_session(tmp_path / "g", maintenance=WEEK, runtime=runtime) as session:
        runtime.failpoints.enable("store.projection.before_write", full_disk)
        loaded = session.load([Source(path=str(people(tmp_path, 3)))])
        assert [one.error for one in loaded.projections] == ["could not be written"] * 2
        assert len(read_graph(session)["node:Person"]) == 3
        done = session.optimize()
        assert {one.error for table in done.tables for one in table.projections} == {"could not be written"}
    assert stored(tmp_path) == []


@pytest.mark.parametrize("point", ["store.projection.before_write", "store.projection.after_write"])
def test_a_killed_builder_leaves_nothing_wrong(tmp_path, fake, point):
    class Killed(BaseException):
        pass

    def kill():
        raise Killed

    runtime = Runtime.system()
    create_graph(tmp_path / "g", SCHEMA)
    with open_session(tmp_path / "g", maintenance=WEEK, runtime=runtime) as session:
        session.load([Source(path=str(people(tmp_path, 3)))], projections=False)
        runtime.failpoints.enable(point, kill)
        with pytest.raises(Killed):
            session.optimize()
    with open_session(tmp_path / "g", maintenance=WEEK) as session:
        assert len(read_graph(session)["node:Person"]) == 3
        assert session.repair().projections == ()
        session.optimize()
        assert all(one.share == 1.0 and not one.is_stale for one in shown(session).values())
        assert session.optimize().commits == ()
    assert audit(str(tmp_path / "g"), edges={"edge:Knows": "node:Person"}) == []


_KILLED = """
import os, sys, pytest
from tests.session_graph import open_session
from tests.unit.engine.maintenance.fake_projections import FakeBuilders
from tests.unit.engine.maintenance.test_projections import WEEK
from omnigraph.runtime import Runtime

FakeBuilders().install(pytest.MonkeyPatch(), "keys", "text", "adjacency")
runtime = Runtime.system()
with open_session(sys.argv[1], maintenance=WEEK, runtime=runtime) as session:
    runtime.failpoints.enable(sys.argv[2], lambda: os._exit(9))
    session.optimize()
"""


@pytest.mark.parametrize(("point", "left"), [("store.projection.before_write", 1), ("store.projection.after_write", 0)])
def test_what_a_process_that_died_left_is_overlooked_and_cleaned_up(session, tmp_path, point, left):
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "g"), point], check=False)
    assert done.returncode == 9
    unfinished = [path for path in stored(tmp_path) if "#" in path.name]
    assert (len(unfinished), len(stored(tmp_path))) == (left, 1)
    assert len(read_graph(session)["node:Person"]) == 20
    session.optimize()
    assert all(one.share == 1.0 for one in shown(session).values())
    assert session.repair().projections == ()
    age(unfinished, 8)
    assert cleaned(session.cleanup(keep=100, confirm=True)) == left
    assert len(stored(tmp_path)) == 5


def test_two_builders_at_once_leave_one_file_of_each(session, fake, tmp_path):
    session.build_indexes()
    gate = threading.Barrier(2)
    results = []

    def build():
        with open_session(tmp_path / "g", maintenance=WEEK) as other:
            gate.wait()
            results.append(outcomes(other.optimize(types=["Person"])))

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one.share == 1.0 for one in shown(session).values())
    assert session.repair().projections == ()
    assert not [path for path in stored(tmp_path) if "#" in path.name]


def test_the_background_thread_leaves_large_ones_to_optimize(session, fake):
    session.engine.maintenance = replace(WEEK, auto_projection_rows=19)
    session.engine._maintain(session.snapshot().state.head.branch, lambda: False)
    assert [one for one in fake.built if one[2] > 1] == []
    session.engine.maintenance = WEEK
    session.engine._maintain(session.snapshot().state.head.branch, lambda: False)
    assert ("keys", "", 20) in fake.built


def test_a_build_that_nobody_waits_for_ends(session, fake):
    stops = []

    class Slow(LocalRunner):
        def project(self, jobs, open_table, check):
            stops.append(True)
            return super().project(jobs, open_table, check)

    branch_writer = session.store.current(session.snapshot().state.head.branch)[0]
    work = Optimization(
        branch_writer,
        session.catalogs.get,
        Slow(session.store.storage, 1),
        projections=ProjectionBounds(least_rows=1),
        is_stopped=lambda: bool(stops),
    )
    assert outcomes(work.run()) == []
    assert (fake.checks, fake.built) == (0, [])
    stopping(lambda: False)(0)


def test_a_large_load_builds_them_and_a_small_one_does_not(session, fake, tmp_path):
    session.engine.maintenance = replace(WEEK, load_projection_rows=30)
    assert session.load([Source(path=str(people(tmp_path, 29, 100)))]).projections == ()
    assert fake.built == []
    done = session.load([Source(path=str(people(tmp_path, 30, 200)))])
    assert [(one.table_key, one.kind, one.rows) for one in done.projections] == [
        ("node:Person", "keys", 79),
        ("node:Person", "text", 79),
    ]
    assert [item["kind"] for item in done.to_json()["projections"]] == ["keys", "text"]
    assert "  node:Person: built projection keys (79 rows" in "\n".join(done.lines())
    assert session.load([Source(path=str(people(tmp_path, 30, 300)))], projections=False).projections == ()
    with pytest.raises(UsageError):
        session.load([Source(path=str(people(tmp_path, 1, 400)))], projections="no")


def test_a_load_that_cannot_build_them_is_published_all_the_same(session, fake, tmp_path):
    fake.fails = OSError(28, "No space left on device")
    done = session.load([Source(path=str(people(tmp_path, 2, 100)))])
    assert done.commit is not None
    assert {one.error for one in done.projections} == {"[Errno 28] No space left on device"}
    assert len(read_graph(session)["node:Person"]) == 22


def test_repair_drops_damaged_ones_and_leaves_those_of_another_format(session, tmp_path, fake):
    session.optimize()
    keys, text = (path for path in stored(tmp_path) if "/nodes/" in str(path))
    keys.write_bytes(keys.read_bytes()[:-1] + b"\1")
    other = bytearray(text.read_bytes())
    other[8] = 9
    text.write_bytes(other)
    for confirm, action in ((False, "preview"), (True, "dropped")):
        (found,) = session.repair(confirm=confirm).projections
        assert (found.table_key, found.kind, found.action) == ("node:Person", "keys", action)
        assert keys.exists() is not confirm
    assert list(session.repair(confirm=True).lines()) == ["no drift in 3 tables"]
    assert text.exists()
    # This process has read the header of what is now of another format.
    with open_session(tmp_path / "g", maintenance=WEEK) as other:
        assert [kind for _, kind, _, _ in outcomes(other.optimize())] == ["keys", "text"]


def test_repair_says_which_file_it_dropped(session, tmp_path):
    session.optimize()
    keys = next(path for path in stored(tmp_path) if path.name.startswith("keys"))
    keys.write_bytes(b"torn")
    done = session.repair(confirm=True)
    name = keys.relative_to(tmp_path / "g").as_posix()
    assert list(done.lines())[-1].endswith(f"dropped, damaged projection keys, 4 bytes file={name}")
    assert done.projections[0].to_json() == {
        "type_key": "edge:Knows",
        "kind": "keys",
        "file": name,
        "bytes": 4,
        "action": "dropped",
    }


def cleaned(result):
    return {one.table_key: one.files for one in result.datasets}.get(PROJECTIONS_PREFIX, 0)


def test_cleanup_removes_what_no_retained_version_has_fragments_of(session, tmp_path, fake):
    session.optimize()
    first = stored(tmp_path)
    session.load([Source(path=str(people(tmp_path, 50)))], mode="overwrite", projections=False)
    session.optimize()
    assert len(stored(tmp_path)) == len(first) + 4
    # What the first ones cover is still in states that are kept.
    assert cleaned(session.cleanup(keep=100)) == 0
    assert cleaned(session.cleanup(keep=1)) == 4
    assert set(first) <= set(stored(tmp_path))
    with_reader = session.store.tables.datasets.projections.find(
        session.snapshot().entry("node:Person").pin.location, "keys"
    )
    mapped = [one.load() for one in with_reader]
    assert cleaned(session.cleanup(keep=1, confirm=True)) == 4
    assert len(set(first) & set(stored(tmp_path))) == 1
    assert sorted(int(arrays["counts"][0]) for arrays in mapped) == [20, 50]
    assert all(one.share == 1.0 for one in shown(session).values())
    assert cleaned(session.cleanup(keep=1, confirm=True)) == 0


def test_cleanup_removes_old_ones_that_a_newer_one_replaces(session, tmp_path, fake):
    session.optimize()
    first = stored(tmp_path)
    session.mutate(ADD, {"n": "a", "b": "x"})
    session.mutate(ADD, {"n": "b", "b": "x"})
    session.mutate(ADD, {"n": "c", "b": "x"})
    optimize_flat(session)
    assert cleaned(session.cleanup(keep=100, confirm=True)) == 0
    age(first, 8)
    # The keys of edges were never replaced, the two directions were because of the nodes.
    assert cleaned(session.cleanup(keep=100, confirm=True)) == 4
    assert [path.name.split(".")[0] for path in set(first) & set(stored(tmp_path))] == ["keys"]


def test_a_newer_one_of_another_branch_replaces_none_that_covers_more_of_this_one(session, tmp_path, fake):
    session.optimize()
    first = set(stored(tmp_path))
    session.create_branch("draft")
    for number in range(3):
        session.mutate(ADD, {"n": f"m{number}", "b": "x"})
    optimize_flat(session)
    for number in range(6):
        session.mutate(ADD, {"n": f"d{number}", "b": "x"}, branch="draft")
    session.optimize("draft", ["Person"])
    later = set(stored(tmp_path)) - first
    age(stored(tmp_path), 8)
    assert (len(first), len(later)) == (5, 6)
    # Of the first ones the keys of the edges are left, which nothing has replaced.
    assert cleaned(session.cleanup(keep=100, confirm=True)) == 4
    assert later < set(stored(tmp_path))
    assert {one.share for one in shown(session).values()} == {1.0}


def test_cleanup_removes_unreadable_unknown_and_unfinished_files_when_they_are_old(session, tmp_path):
    session.optimize()
    folder = stored(tmp_path)[0].parent
    strays = [
        folder / "keys..0-1.arrays#1",
        folder / "notes.txt",
        folder / "keys..0-1.arrays",
        tmp_path / "g" / PROJECTIONS_PREFIX / "nodes" / "gone" / "keys..0-1.arrays",
    ]
    for path in strays:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    assert cleaned(session.cleanup(keep=100, confirm=True)) == 0
    age(strays, 8)
    assert cleaned(session.cleanup(keep=100)) == 4
    assert cleaned(session.cleanup(keep=100, confirm=True)) == 4
    assert not any(path.exists() for path in strays)
    assert all(one.share == 1.0 for one in shown(session).values())


def test_cleanup_removes_those_of_dropped_types(session, tmp_path):
    session.optimize()
    location = session.snapshot().entry("edge:Knows").pin.location
    smaller = SCHEMA.replace("edge Knows: Person -> Person {}", "")
    session.apply_schema(smaller, allow_data_loss=True)
    session.cleanup(keep=1, confirm=True)
    assert not [path for path in stored(tmp_path) if location in str(path)]
    assert len(stored(tmp_path)) == 2
    # The auditor looks for edges of the type.
    session.apply_schema(SCHEMA)


def test_on_an_object_store_it_is_the_same(fake, tmp_path, monkeypatch, clean_s3_endpoint):
    monkeypatch.setenv("OMNIGRAPH_CACHE", str(tmp_path / "cache"))
    options = clean_s3_endpoint.storage_options_without_retries
    storage = Storage.open(clean_s3_endpoint.fresh_prefix(), options)
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED, maintenance=ALL_SIZES) as session:
        loaded = session.load([Source(path=str(people(tmp_path, 5)))])
        assert [one.kind for one in loaded.projections] == ["keys", "text"]
        assert outcomes(session.optimize()) == []
        session.load([Source(path=str(people(tmp_path, 9)))], mode="overwrite", projections=False)
        assert {(one.is_stale, one.share) for one in shown(session).values()} == {(True, 0.0)}
        assert [rows for *_, rows in outcomes(session.optimize())] == [9, 9]
        control = session.store.tables.datasets.control
        assert len(control.list_keys(PROJECTIONS_PREFIX)) == 4
        assert cleaned(session.cleanup(keep=1, confirm=True)) == 2
        keys, text = control.list_keys(PROJECTIONS_PREFIX)
        control.put(keys, control.get(keys)[:-1])
        assert [(one.kind, one.action) for one in session.repair(confirm=True).projections] == [("keys", "dropped")]
        assert control.list_keys(PROJECTIONS_PREFIX) == (text,)
        assert [kind for _, kind, _, _ in outcomes(session.optimize())] == ["keys"]
        assert {(one.is_stale, one.share) for one in shown(session).values()} == {(False, 1.0)}
