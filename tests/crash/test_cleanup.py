"""A cleanup or an optimization killed anywhere leaves a whole graph, and the next one finishes the work."""

import pytest

from omnigraph.errors import HistoryGoneError
from omnigraph.runtime import Runtime
from omnigraph.values import MAIN, BranchName, TagName
from tests.crash.checks import assert_sound
from tests.crash.child import Job
from tests.crash.dying import crash_together
from tests.crash.kinds import DRAFT, clean_up, optimize
from tests.crash.matrix import IS_FULL
from tests.txn_graph import PERSON, history, init_graph, insert, node_rows, open_graph, read_ids

STORES = ["local", "s3"] if IS_FULL else ["local"]
_CLEANUP = [
    *(("txn.publish.before_cas", nth) for nth in (1, 2)),
    *(("txn.publish.after_cas", nth) for nth in (1, 2)),
    ("engine.cleanup.after_floor", 1),
    *(("engine.cleanup.after_removal", nth) for nth in (1, 2, 3)),
]
_OPTIMIZE = [
    ("txn.stage.after_table", 1),
    *((point, nth) for nth in (1, 2) for point in ("txn.commit.before_table", "txn.commit.after_table")),
    ("txn.commit.after_tables", 1),
    ("txn.publish.before_cas", 1),
    ("txn.publish.after_cas", 1),
    ("txn.release.before_delete", 1),
]
# Every other point is passed in the plain run.
CLEANUP, OPTIMIZE = (_CLEANUP, _OPTIMIZE) if IS_FULL else (_CLEANUP[::2], _OPTIMIZE[2::2])


def _prepare(places):
    storage = init_graph(places.fresh(), places.options)
    with open_graph(storage) as graph:
        for name in ("a", "b", "c"):
            insert(graph, PERSON, node_rows([name]))
        graph.create_tag(TagName("named"), "main~1")
        graph.create_branch(BranchName(DRAFT))
        insert(graph, PERSON, node_rows(["drafted"]), branch=DRAFT)
        insert(graph, PERSON, node_rows(["d"]))
    return storage


@pytest.fixture(scope="module")
def killed(places_of):
    """The graphs of all crashes, by store and by what was killed there: one process dies in every way at once."""
    known = {}

    def make(store, act):
        if store not in known:
            places, jobs, found = places_of(store), [], {"cleanup": [], "optimize": []}
            for what, points in (("cleanup", CLEANUP), ("optimize", OPTIMIZE)):
                for point, nth in points:
                    storage = _prepare(places)
                    found[what].append(storage)
                    where = {"root": storage.root, "options": dict(storage.options), "kind": "", "act": what}
                    jobs.append(Job(name=f"{what}-{point}@{nth}", point=point, nth=nth, **where))
            crash_together(jobs)
            known[store] = found
        return known[store][act]

    return make


def _assert_whole(storage):
    with open_graph(storage) as graph:
        assert read_ids(graph, PERSON) == ["a", "b", "c", "d"]
        assert read_ids(graph, PERSON, DRAFT) == ["a", "b", "c", "drafted"]
        named = graph.refs.resolve_ref("tag:named", BranchName(MAIN)).snapshot
        assert named.table(PERSON).row_count == 2
    assert_sound(storage)


@pytest.mark.parametrize("store", STORES)
def test_a_killed_cleanup_leaves_a_whole_graph_and_the_next_one_finishes(store, killed):
    for storage in killed(store, "cleanup"):
        _assert_whole(storage)
        clean_up(storage, Runtime.system())
        _assert_whole(storage)
        assert clean_up(storage, Runtime.system()).datasets == ()
        with open_graph(storage) as graph:
            first = history(graph)[-1]
            with pytest.raises(HistoryGoneError):
                graph.snapshot_at(BranchName(MAIN), first.id).table(PERSON).read()
            insert(graph, PERSON, node_rows(["next"]))
        assert_sound(storage)


@pytest.mark.parametrize("store", STORES)
def test_a_killed_optimization_changes_no_row_and_the_next_one_finishes(store, killed):
    for storage in killed(store, "optimize"):
        _assert_whole(storage)
        optimize(storage, Runtime.system())
        assert optimize(storage, Runtime.system()).commits == ()
        _assert_whole(storage)
        with open_graph(storage) as graph:
            table = graph.snapshot(BranchName(MAIN)).table(PERSON)
            assert len(table.fragments) == 1
            assert table.indexes()[0].fragment_ids == {item.metadata.id for item in table.fragments}
