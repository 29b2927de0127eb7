"""A deletion killed anywhere leaves the branch or takes it; whoever comes next makes sure of one of the two."""

import pytest

from omnigraph.errors import BranchMissingError
from omnigraph.runtime import Runtime
from omnigraph.values import MAIN, BranchName
from tests.crash.checks import assert_sound, recovery_kinds
from tests.crash.child import Job
from tests.crash.dying import crash_alone, crash_together
from tests.crash.kinds import DRAFT, create_branch
from tests.crash.matrix import DELETE_POINTS, FORWARD, IS_FULL
from tests.crash.torn import IMPATIENT
from tests.marks import STORES
from tests.txn_graph import PERSON, TEAM, init_graph, insert, join, node_rows, open_graph, read_ids

ENDED = ("txn.branch_delete.after_end", "txn.branch_delete.after_reclaim")
RECOVERER_POINTS = (
    "txn.recover.after_takeover",
    "txn.branch_delete.before_end",
    "txn.branch_delete.after_end",
    "txn.branch_delete.after_reclaim",
    "txn.recover.after_audit",
)


def _prepare(places):
    storage = init_graph(places.fresh(), places.options)
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        graph.create_branch(BranchName(DRAFT))
        insert(graph, PERSON, node_rows(["b"]), branch=DRAFT)
        insert(graph, TEAM, node_rows(["t"]), branch=DRAFT)
    return storage


def _points(store, points):
    """Every point on the disk; a case costs about ten times as much on S3, where the plain run takes some."""
    return points if IS_FULL or store == "local" else points[1::3]


def _job(name, storage, act, point):
    return Job(name=name, root=storage.root, options=dict(storage.options), kind="insert", act=act, point=point)


def _assert_gone(storage, *, recoveries):
    for _ in range(2):
        with open_graph(storage) as graph:
            assert graph.branch_names() == [MAIN]
            assert read_ids(graph, PERSON) == ["a"]
            control = graph._stores.control
            assert control.list_keys("__recovery") == ()
            assert [key for key in control.list_keys("nodes") if "/tree/" in key] == []
            assert control.list_keys("__manifest/tree") == ()
        assert recovery_kinds(storage) == [FORWARD] * recoveries
        assert_sound(storage)


def _assert_name_is_free(storage):
    with open_graph(storage) as graph:
        graph.create_branch(BranchName(DRAFT))
        insert(graph, PERSON, node_rows(["again"]), branch=DRAFT)
        assert read_ids(graph, PERSON, DRAFT) == ["a", "again"]
    assert_sound(storage)


@pytest.mark.parametrize("store", STORES)
def test_a_killed_deletion_is_finished_by_whoever_opens_the_graph(store, places_of):
    places = places_of(store)
    storages = {point: _prepare(places) for point in _points(store, DELETE_POINTS)}
    crash_together(_job(point, storage, "delete", point) for point, storage in storages.items())
    for point, storage in storages.items():
        with open_graph(storage, mode="read_only") as reader:
            assert (DRAFT in reader.branch_names()) == (point not in ENDED)
            if point not in ENDED:
                assert read_ids(reader, PERSON, DRAFT) == ["a", "b"]
        _assert_gone(storage, recoveries=1)
        _assert_name_is_free(storage)


def test_a_killed_deletion_can_be_repeated_wherever_it_died(places_of):
    places = places_of("local")
    storages = {point: _prepare(places) for point in DELETE_POINTS}
    crash_together(_job(point, storage, "delete", point) for point, storage in storages.items())
    for storage in storages.values():
        with open_graph(storage) as graph:
            graph.delete_branch(BranchName(DRAFT))
            with pytest.raises(BranchMissingError):
                graph.delete_branch(BranchName(f"{DRAFT}s"))
        _assert_gone(storage, recoveries=1)
        _assert_name_is_free(storage)


@pytest.mark.parametrize("store", STORES)
def test_a_killed_recoverer_of_a_deletion_changes_nothing_about_its_end(store, places_of):
    places = places_of(store)
    storages = {point: _prepare(places) for point in _points(store, RECOVERER_POINTS)}
    crash_together(_job(point, place, "delete", "txn.branch_delete.after_claim") for point, place in storages.items())
    crash_together(_job(point, place, "recover", point) for point, place in storages.items())
    for storage in storages.values():
        _assert_gone(storage, recoveries=1)
        _assert_name_is_free(storage)


def test_a_name_that_was_taken_again_before_the_recovery_keeps_its_new_branch(places_of):
    storage = _prepare(places_of("local"))
    crash_alone(_job("late", storage, "delete", None), "txn.branch_delete.after_end", 1)
    with open_graph(storage, mode="read_only") as graph:
        graph._mode = "read_write"
        graph.create_branch(BranchName(DRAFT))
        insert(graph, PERSON, node_rows(["next"]), branch=DRAFT)
    with open_graph(storage) as graph:
        assert read_ids(graph, PERSON, DRAFT) == ["a", "next"]
        assert graph._stores.control.list_keys("__recovery") == ()
    assert_sound(storage)


def _assert_retired(storage, merged, *, recoveries):
    """The branch is gone for every process, and what was merged can still be found and read."""
    with open_graph(storage) as graph:
        assert graph.branch_names() == [MAIN]
        assert graph._stores.control.list_keys("__recovery") == ()
        with pytest.raises(BranchMissingError):
            graph.snapshot(BranchName(DRAFT))
    assert recovery_kinds(storage) == [FORWARD] * recoveries
    assert_sound(storage)
    _assert_name_is_free(storage)
    with open_graph(storage) as graph:
        assert graph.refs.show(merged, BranchName(MAIN)).id == merged
        assert graph.snapshot_at(BranchName(MAIN), merged).existing_ids(PERSON, ["a", "b", "again"]) == {"a", "b"}


@pytest.mark.parametrize("store", STORES)
def test_a_killed_deletion_of_a_merged_branch_is_finished_and_leaves_its_states(store, places_of):
    places = places_of(store)
    points = (*DELETE_POINTS, "txn.publish.before_cas", "txn.publish.after_cas")
    storages = {point: _prepare(places) for point in _points(store, points)}
    merged, stale = {}, {}
    for point, storage in storages.items():
        with open_graph(storage) as graph:
            join(graph, DRAFT)
            merged[point] = graph.snapshot(BranchName(DRAFT)).state.head.commit
        stale[point] = open_graph(storage, settings=IMPATIENT)
        stale[point].snapshot(BranchName(DRAFT))
    crash_together(_job(point, storage, "delete", point) for point, storage in storages.items())
    for point, storage in storages.items():
        _assert_retired(storage, merged[point], recoveries=1)
        # A process that had the branch open before finds out, whatever it does with it.
        with stale[point] as graph, pytest.raises(BranchMissingError):
            insert(graph, TEAM, node_rows(["late"]), branch=DRAFT)


@pytest.mark.parametrize("store", STORES)
def test_a_creator_killed_behind_its_ref_has_made_the_branch(store, places_of):
    places = places_of(store)
    storage = init_graph(places.fresh(), places.options)
    crash_together([_job("branch", storage, "branch", "txn.branch.after_ref")])
    with open_graph(storage) as graph:
        assert graph.branch_names() == [MAIN, DRAFT]
        insert(graph, PERSON, node_rows(["b"]), branch=DRAFT)
        graph.delete_branch(BranchName(DRAFT))
    create_branch(storage, Runtime.system())
    assert_sound(storage)
