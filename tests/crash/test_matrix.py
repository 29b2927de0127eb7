"""A writer killed anywhere leaves all of its change or none of it, and nobody has to clean up after it."""

from functools import partial

import pytest

from omnigraph.errors import GraphMissingError
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from tests.crash.checks import (
    assert_history_tells,
    assert_next_write_succeeds,
    assert_sound,
    recovery_kinds,
    state_of,
    visible_state,
    without_indexes,
)
from tests.crash.child import Job
from tests.crash.dying import crash_alone, crash_together
from tests.crash.killing import job_of, killing_recoverers, killing_writers, morgues, params
from tests.crash.kinds import create_branch, initialise
from tests.crash.matrix import CHOSEN_ALONE, CHOSEN_CRASHES, CHOSEN_RECOVERIES, FORWARD
from tests.marks import STORES
from tests.txn_graph import PERSON, init_graph, insert, node_rows, open_graph, read_ids

_job = partial(job_of, Job)


def _prepare(crash, places):
    return crash.writer.prepare(places.fresh(), places.options)


@pytest.fixture(scope="module")
def killed(places_of):
    return morgues(CHOSEN_CRASHES, places_of, killing_writers(_prepare, _job))


@pytest.fixture(scope="module")
def killed_twice(places_of):
    return morgues(CHOSEN_RECOVERIES, places_of, killing_recoverers(_prepare, _job))


@pytest.mark.parametrize(("store", "crash"), params(CHOSEN_CRASHES))
def test_a_killed_writer_leaves_all_or_nothing(store, crash, killed, twins):
    storage = killed(store, crash)
    before, after = twins.of(crash.kind, storage)
    seen = visible_state(crash.writer, storage)
    assert seen == (after if crash.is_visible else before)
    _assert_recovers(crash, storage, twins, crash.recovery)


@pytest.mark.parametrize(("store", "broken"), params(CHOSEN_RECOVERIES))
def test_a_killed_recoverer_changes_nothing_about_the_outcome(store, broken, killed_twice, twins):
    storage = killed_twice(store, broken)
    seen = without_indexes(visible_state(broken.crash.writer, storage))
    assert seen in [without_indexes(state) for state in twins.of(broken.crash.kind, storage)]
    _assert_recovers(broken.crash, storage, twins, broken.crash.recovery)


def _assert_recovers(crash, storage, twins, recovery):
    before, after = twins.of(crash.kind, storage)
    with crash.writer.open(storage) as graph:
        if crash.succeeds:
            assert state_of(graph) == after
        else:
            assert without_indexes(state_of(graph)) == without_indexes(before)
        recovered = recovery_kinds(storage)
        assert recovered == ([] if recovery is None else [recovery])
        assert_history_tells(graph, crash.writer.branch, recovered)
        assert_sound(storage)
        if not crash.succeeds:
            # A retry starts clean: the same write goes through and gives what it would have given at first.
            crash.writer.write(graph)
            assert state_of(graph) == after
    assert_next_write_succeeds(crash.writer, storage)


@pytest.mark.parametrize("store", STORES)
def test_a_killed_init_leaves_no_graph_and_the_next_one_succeeds(store, places_of):
    places = places_of(store)
    storage = Storage.open(places.fresh(), places.options)
    name = "init"
    point = "txn.init.before_manifest"
    crash_together([Job(name=name, root=storage.root, options=places.options, kind="", act="init", point=point)])
    for mode in ("read_only", "read_write"):
        with pytest.raises(GraphMissingError):
            open_graph(storage, mode=mode)
    initialise(storage, Runtime.system())
    assert_sound(storage)
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        assert read_ids(graph, PERSON) == ["a"]


@pytest.mark.parametrize("point", ["txn.branch.after_line", "txn.branch.before_ref"])
@pytest.mark.parametrize("store", STORES)
def test_a_killed_branch_create_leaves_no_branch_and_the_next_one_succeeds(store, point, places_of):
    places = places_of(store)
    storage = init_graph(places.fresh(), places.options)
    crash_together([Job(name="branch", root=storage.root, options=places.options, kind="", act="branch", point=point)])
    with open_graph(storage) as graph:
        assert graph.branch_names() == ["main"]
        insert(graph, PERSON, node_rows(["a"]))
    create_branch(storage, Runtime.system())
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["b"]), branch="draft")
        assert (read_ids(graph, PERSON), read_ids(graph, PERSON, "draft")) == (["a"], ["a", "b"])
    assert_sound(storage)


@pytest.mark.parametrize(("store", "crash"), params(CHOSEN_ALONE))
def test_a_process_killed_in_the_very_moment_leaves_all_or_nothing(store, crash, places_of, twins):
    """Threads of the writer die in the middle of whatever they do, so how many tables moved is a matter of luck."""
    places = places_of(store)
    storage = crash.writer.prepare(places.fresh(), places.options)
    crash_alone(_job(crash, storage), crash.point, crash.nth)
    before, after = twins.of(crash.kind, storage)
    assert visible_state(crash.writer, storage) == (after if crash.is_visible else before)
    with crash.writer.open(storage) as graph:
        state = state_of(graph)
        recovered = recovery_kinds(storage)
        expected = after if crash.is_visible or recovered == [FORWARD] else before
        assert without_indexes(state) == without_indexes(expected)
        assert len(recovered) == (crash.recovery is not None)
        assert_history_tells(graph, crash.writer.branch, recovered)
        assert_sound(storage)
    assert_next_write_succeeds(crash.writer, storage)
