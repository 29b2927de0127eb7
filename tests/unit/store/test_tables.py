"""Tables by pin: strict idempotent commits, forks, marks, and what a lost race looks like."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from tests.unit.store.conftest import SCHEMA

from omnigraph.errors import (
    AlreadyExistsError,
    Effect,
    ForkOccupiedError,
    OutcomeUnknownError,
    Retry,
    StorageCorruptError,
    TableMissingError,
    TableMovedError,
    VersionMissingError,
)
from omnigraph.runtime import counting
from omnigraph.store.staging import (
    IndexBuild,
    stage_compaction,
    stage_create,
    stage_indexes,
    stage_overwrite,
)
from omnigraph.testing.s3 import FOREVER, Fault


def test_a_table_is_created_once_and_creating_it_again_is_success(bench):
    staged = stage_create(bench.datasets, "nodes/1", SCHEMA, bench.rows("a", "b"), **bench.origin)
    assert (staged.before.version, staged.after.version, staged.row_count) == (0, 1, 2)
    for store in (bench, bench, bench.another_process()):
        assert store.commit(staged) == staged.after
    assert bench.tables.head("nodes/1", None) == 1
    assert bench.content(staged.after) == {"a": 0, "b": 0}


def test_a_creation_staged_again_by_the_same_operation_is_the_same_creation(bench):
    origin = bench.origin
    first = stage_create(bench.datasets, "nodes/1", SCHEMA, None, **origin)
    second = stage_create(bench.datasets, "nodes/1", SCHEMA, None, **origin)
    assert first.uuid != second.uuid
    assert bench.commit(first) == bench.commit(second)


def test_a_creation_by_somebody_else_is_a_conflict(bench):
    staged = stage_create(bench.datasets, "nodes/1", SCHEMA, None, **bench.origin)
    bench.create("x")
    with pytest.raises(TableMovedError) as caught:
        bench.commit(staged)
    assert (caught.value.details.expected, caught.value.details.actual) == (0, 1)
    with pytest.raises(AlreadyExistsError):
        stage_create(bench.datasets, "nodes/1", SCHEMA, bench.rows("y"), **bench.origin)


def test_a_pin_is_opened_once_and_costs_nothing_after_its_commit(bench):
    pin = bench.change(bench.create("a"), upserts=["b"])
    with counting() as counters:
        assert bench.tables.open(pin) is bench.tables.open(pin)
    assert counters.cost().total_calls == 0


def test_what_is_missing_has_a_type(bench):
    pin = bench.create()
    with pytest.raises(VersionMissingError):
        bench.open(pin.at(5))
    with pytest.raises(TableMissingError):
        bench.open(bench.at(1, location="nodes/2"))
    with pytest.raises(TableMissingError):
        bench.tables.head("nodes/1", "nope")


def test_staging_moves_no_head(bench):
    pin = bench.create("a")
    bench.stage(pin, upserts=["b"], deletes=["a"])
    stage_overwrite(bench.open(pin), bench.rows("z"), **bench.origin)
    stage_indexes(bench.open(pin), [IndexBuild(column="id", kind="btree", name="i")], **bench.origin)
    assert bench.tables.head("nodes/1", None) == 1
    assert bench.content(pin) == {"a": 0}


def test_a_commit_can_be_repeated_by_anybody_at_any_time(bench):
    first = bench.create("a")
    staged = bench.stage(first, upserts=["b"])
    for store in (bench, bench, bench.another_process()):
        assert store.commit(staged) == bench.at(2)
    bench.change(bench.at(2), upserts=["c"])
    assert bench.commit(staged) == bench.at(2)
    assert bench.content(bench.at(3)) == {"a": 0, "b": 0, "c": 0}


@pytest.mark.parametrize("first", ["insert", "update", "delete", "overwrite"])
@pytest.mark.parametrize("second", ["insert", "update", "delete", "overwrite"])
def test_two_commits_on_one_version_never_both_land(local, first, second):
    pin = local.create("a", "b", "c", n=1)
    pin = local.change(pin, upserts=["d"])

    def stage(kind, key):
        match kind:
            case "insert":
                return local.stage(pin, upserts=[key])
            case "update":
                return local.stage(pin, upserts=["a" if key == "x" else "d"], n=9)
            case "delete":
                return local.stage(pin, deletes=["b" if key == "x" else "d"])
            case _:
                return stage_overwrite(local.open(pin), local.rows(key), **local.origin)

    winner, loser = stage(first, "x"), stage(second, "y")
    local.commit(winner)
    expected = local.content(winner.after)
    with pytest.raises(TableMovedError) as caught:
        local.commit(loser)
    assert (caught.value.details.expected, caught.value.details.actual) == (2, 3)
    assert (caught.value.retry, caught.value.effect) == (Retry.AFTER_REFRESH, Effect.STAGED)
    assert local.tables.head("nodes/1", None) == 3
    assert local.content(winner.after) == expected


def test_the_first_write_of_an_empty_table_is_strict_too(bench):
    pin = bench.create()
    one, two = bench.stage(pin, upserts=["a"]), bench.stage(pin, upserts=["b"])
    bench.commit(one)
    with pytest.raises(TableMovedError):
        bench.commit(two)
    assert bench.content(one.after) == {"a": 0}


def test_simultaneous_writers_lose_nothing(bench):
    bench.create("seed")

    def write(number):
        other = bench.another_process()
        while True:
            head = other.tables.head("nodes/1", None)
            try:
                return other.change(bench.at(head), upserts=[f"w{number}"], assume_new=True).version
            except TableMovedError:
                continue

    with ThreadPoolExecutor(4) as pool:
        versions = sorted(pool.map(write, range(8)))
    assert versions == list(range(2, 10))
    assert bench.content(bench.at(9)).keys() == {"seed", *(f"w{number}" for number in range(8))}


@pytest.mark.parametrize("kind", ["index", "compaction"])
def test_maintenance_never_lands_on_another_version_than_its_own(bench, kind):
    pin = bench.create("a")
    pin = bench.change(pin, upserts=["b"])
    table = bench.open(pin)
    if kind == "index":
        staged = stage_indexes(table, [IndexBuild(column="id", kind="btree", name="i")], **bench.origin).commit
    else:
        staged = stage_compaction(table, **bench.origin)
    other = bench.another_process()
    moved = other.change(pin, upserts=["c"])
    with pytest.raises(TableMovedError):
        bench.commit(staged)
    assert bench.tables.head("nodes/1", None) == moved.version


def test_the_mark_tells_who_made_a_version(bench):
    created = bench.create("a")
    staged = bench.stage(created, upserts=["b"])
    pin = bench.commit(staged)
    other = bench.another_process()
    mark = other.tables.commit_mark(pin)
    assert (mark.uuid, mark.operation_id, mark.read_version) == (staged.uuid, staged.operation_id, 1)


def test_a_strangers_commit_has_no_operation_id(bench):
    pin = bench.create("a")
    bench.datasets.handles.open(pin).checkout_version(1).delete("id = 'a'")
    assert bench.tables.commit_mark(bench.at(2)).operation_id is None


def test_the_mark_of_a_native_compaction_of_an_indexed_table_can_be_read(bench):
    pin = bench.change(bench.create("a", "b"), upserts=["c"])
    indexes = stage_indexes(bench.open(pin), [IndexBuild(column="id", kind="btree", name="i")], **bench.origin)
    pin = bench.commit(indexes.commit)
    bench.datasets.handles.open(pin).checkout_version(1).checkout_version(3).optimize.compact_files()
    head = bench.tables.head("nodes/1", None)
    assert head > 3
    assert bench.tables.commit_mark(bench.at(head)).operation_id is None


def test_a_fork_starts_at_its_pin_and_goes_its_own_way(bench):
    pin = bench.change(bench.create("a"), upserts=["b"])
    fork = bench.tables.fork(pin, "draft.1")
    assert fork == bench.at(2, branch="draft.1")
    ahead = bench.change(fork, upserts=["a", "c"], deletes=["b"], n=5)
    assert bench.content(ahead) == {"a": 5, "c": 5}
    assert bench.content(pin) == {"a": 0, "b": 0}
    assert bench.row_ids(ahead)["a"] == bench.row_ids(pin)["a"]
    grandchild = bench.tables.fork(ahead, "draft.2")
    assert bench.content(bench.change(grandchild, upserts=["d"], n=1)) == {"a": 5, "c": 5, "d": 1}


def test_an_untouched_fork_of_the_same_pin_is_taken_over(bench):
    pin = bench.create("a")
    first = bench.tables.fork(pin, "draft")
    other = bench.another_process()
    assert other.tables.fork(pin, "draft") == first


def test_a_fork_with_commits_is_not_taken_over(bench):
    pin = bench.create("a")
    bench.change(bench.tables.fork(pin, "draft"), upserts=["b"])
    with pytest.raises(ForkOccupiedError) as caught:
        bench.tables.fork(pin, "draft")
    assert (caught.value.details.expected, caught.value.details.actual) == (1, 2)


def test_a_fork_of_another_branch_at_the_same_number_is_not_taken_over(bench):
    pin = bench.change(bench.create("a"), upserts=["b"])
    side = bench.change(bench.tables.fork(bench.at(1), "side"), upserts=["c"])
    assert side.version == pin.version
    bench.tables.fork(side, "draft")
    with pytest.raises(ForkOccupiedError):
        bench.tables.fork(pin, "draft")


def test_a_removed_fork_can_be_made_again(bench):
    pin = bench.create("a")
    bench.change(bench.tables.fork(pin, "draft"), upserts=["b"])
    bench.tables.delete_fork("nodes/1", "draft")
    fork = bench.tables.fork(pin, "draft")
    assert bench.content(fork) == {"a": 0}


def test_a_table_commit_of_unknown_outcome_can_be_sent_again(on_s3, clean_s3_endpoint):
    staged = on_s3.stage(on_s3.create("a"), upserts=["b"])
    clean_s3_endpoint.add_fault(Fault(action="error", operation="PUT", object_class="table_version", times=FOREVER))
    with pytest.raises(OutcomeUnknownError):
        on_s3.commit(staged)
    clean_s3_endpoint.clear_faults()
    assert on_s3.commit(staged) == staged.after


def test_a_table_commit_whose_answer_was_lost_is_recognised(on_s3, clean_s3_endpoint):
    staged = on_s3.stage(on_s3.create("a"), upserts=["b"])
    clean_s3_endpoint.add_fault(Fault(action="drop", when="after", operation="PUT", object_class="table_version"))
    assert on_s3.commit(staged) == staged.after
    assert on_s3.content(staged.after) == {"a": 0, "b": 0}


def test_a_reclaimed_version_and_a_lost_file_are_told_apart(local):
    pin = local.create("a")
    later = local.change(local.change(pin, upserts=["a"], n=1), upserts=["a"], n=2)
    held = local.another_process()
    table = held.open(local.at(2))
    local.open(later).handle.checkout_version(later.version).cleanup_old_versions(versions=[1, 2])
    with pytest.raises(VersionMissingError, match="reclaimed"):
        table.read()
    for file in local.storage.path("nodes/1/data").iterdir():
        file.unlink()
    fresh = local.another_process()
    with pytest.raises(StorageCorruptError):
        fresh.open(later).read()


FORKING = """
import os, sys
from omnigraph.errors import ForkedProcessError
from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage

datasets = DatasetStore(Storage.open(sys.argv[1]), Runtime.system())
datasets.open_latest("nodes/1", None)
child = os.fork()
if child == 0:
    status = 1
    try:
        datasets.open_latest("nodes/1", None)
    except ForkedProcessError:
        status = 0
    finally:
        os._exit(status)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_is_told_instead_of_hanging(local):
    local.create("a")
    # Lance warns of every fork of a process that has loaded it, and warnings are errors here.
    command = [sys.executable, "-W", "ignore", "-c", FORKING, local.storage.root]
    assert subprocess.run(command, check=False, timeout=300).returncode == 0


def test_a_staged_commit_of_an_unknown_operation_is_refused(local):
    staged = local.stage(local.create("a"), upserts=["b"])
    for damaged in ({"op": "append"}, {"op": "update"}, {}):
        with pytest.raises(StorageCorruptError):
            local.tables.commit(msgspec.structs.replace(staged, transaction=damaged))


def test_threads_that_share_a_version_are_not_in_each_others_way(bench):
    """Reading a transaction, forking and indexing take a handle of Lance for themselves while they last."""
    pin = bench.create("a", "b", "c")
    table = bench.tables.open(pin)
    build = IndexBuild(column="id", kind="btree", name="by_id")
    stop = threading.Event()

    def look():
        while not stop.is_set():
            assert table.handle.schema.names == SCHEMA.names

    with ThreadPoolExecutor(max_workers=3) as pool:
        looking = pool.submit(look)
        marks = pool.submit(lambda: [bench.tables.commit_mark(pin) for _ in range(60)])
        try:
            for number in range(5):
                stage_indexes(table, [build], **bench.origin)
                bench.tables.fork(pin, f"b{number}")
            assert len(marks.result()) == 60
        finally:
            stop.set()
        looking.result()
