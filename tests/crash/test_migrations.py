"""A migration killed anywhere leaves a graph that this version serves, and the next migration finishes it."""

import pytest

from omnigraph.engine.maintenance.migrate import Migration
from omnigraph.errors import FormatUnsupportedError
from omnigraph.values import MAIN, BranchName, TagName
from tests.crash.checks import assert_sound, recovery_kinds
from tests.crash.child import Job
from tests.crash.dying import crash_alone, crash_together
from tests.crash.kinds import DRAFT
from tests.crash.later import later_world
from tests.crash.matrix import RECOVERER_POINTS
from tests.crash.nth_call import DROP_AFTER, ERROR_BEFORE, fail_call
from tests.crash.torn import IMPATIENT
from tests.formats import FORMAT_1, make_format
from tests.marks import STORES, every
from tests.txn_graph import PERSON, history, init_graph, insert, node_rows, open_graph, read_ids

POINTS = [
    (point, nth)
    for point in (
        "txn.claim.before_put",
        "txn.claim.after_put",
        "txn.publish.before_cas",
        "txn.publish.after_cas",
        "engine.migrate.after_line",
    )
    for nth in (1, 2)
]
RECOVERIES = [*RECOVERER_POINTS, "txn.publish.before_cas", "txn.publish.after_cas"]
_FEWEST_CALLS, _MOST_CALLS = 10, 80


def _prepare(places):
    return _prepare_at(places.fresh(), places.options)


def _prepare_at(root, options):
    storage = init_graph(root, options)
    with open_graph(storage) as graph:
        for name in ("a", "b"):
            insert(graph, PERSON, node_rows([name]))
        graph.create_tag(TagName("named"), "main~1")
        line = graph.create_branch(BranchName(DRAFT)).line.lance_branch
        insert(graph, PERSON, node_rows(["drafted"]), branch=DRAFT)
    make_format(storage, "1")
    make_format(storage, "1", line)
    return storage


def _job(storage, name, point=None, nth=1, act="migrate"):
    where = {"root": storage.root, "options": dict(storage.options), "kind": "insert", "act": act}
    return Job(name=name, point=point, nth=nth, **where)


@pytest.fixture(scope="module")
def killed(places_of):
    """The graphs of all crashes by store: one process dies in every way at once."""
    known = {}

    def make(store):
        if store not in known:
            found = {case: _prepare(places_of(store)) for case in POINTS}
            crash_together(_job(storage, f"{point}@{nth}", point, nth) for (point, nth), storage in found.items())
            known[store] = found
        return known[store]

    return make


def _assert_whole(graph):
    assert read_ids(graph, PERSON) == ["a", "b"]
    assert read_ids(graph, PERSON, DRAFT) == ["a", "b", "drafted"]
    assert graph.refs.resolve_ref("tag:named", BranchName(MAIN)).snapshot.table(PERSON).row_count == 1


def _assert_migrates(storage):
    with open_graph(storage) as graph:
        _assert_whole(graph)
        Migration(graph).run()
        assert Migration(graph).run().migrated == Migration(graph).preview().outdated == ()
        _assert_whole(graph)
        for branch in (MAIN, DRAFT):
            assert graph.snapshot(BranchName(branch)).manifest.format == 2
            assert [commit.operation for commit in history(graph, branch)].count("upgrade") == 1
            insert(graph, PERSON, node_rows(["next"]), branch=branch)
    assert_sound(storage)
    with pytest.raises(FormatUnsupportedError, match="storage format 2; this version supports 1 to 1"):
        open_graph(storage, formats=FORMAT_1)


@pytest.mark.parametrize(("point", "nth"), POINTS)
@pytest.mark.parametrize("store", STORES)
def test_a_killed_migration_is_finished_by_the_next_one(store, point, nth, killed):
    storage = killed(store)[point, nth]
    with open_graph(storage, mode="read_only") as graph:
        _assert_whole(graph)
        done = [graph.snapshot(BranchName(branch)).manifest.format for branch in (MAIN, DRAFT)]
    published = nth if point in {"txn.publish.after_cas", "engine.migrate.after_line"} else nth - 1
    assert done == [2] * published + [1] * (2 - published)
    _assert_migrates(storage)
    has_claim = point in {"txn.claim.after_put", "txn.publish.before_cas", "txn.publish.after_cas"}
    assert recovery_kinds(storage) == (["RolledForward"] if has_claim else [])


@pytest.mark.parametrize("point", RECOVERIES)
@pytest.mark.parametrize("store", STORES)
def test_a_migration_is_finished_although_who_recovers_it_is_killed(store, point, places_of):
    storage = _prepare(places_of(store))
    crash_together([_job(storage, "migrate", "txn.claim.after_put")])
    crash_together([_job(storage, "recover", point, act="recover")])
    _assert_migrates(storage)


@pytest.mark.parametrize(("point", "nth"), every(4, POINTS))
@pytest.mark.parametrize("store", STORES)
def test_a_process_killed_in_the_very_moment_of_a_migration_loses_nothing(store, point, nth, places_of):
    storage = _prepare(places_of(store))
    crash_alone(_job(storage, point), point, nth)
    _assert_migrates(storage)


@pytest.mark.more
def test_a_version_that_only_knows_format_1_does_not_finish_a_migration(places_of):
    storage = _prepare(places_of("local"))
    crash_together([_job(storage, "migrate", "txn.claim.after_put")])
    with pytest.raises(FormatUnsupportedError, match="storage format 2; this version supports 1 to 1"):
        open_graph(storage, formats=FORMAT_1)
    _assert_migrates(storage)


@pytest.mark.more
@pytest.mark.parametrize("trouble", [ERROR_BEFORE, DROP_AFTER], ids=lambda trouble: trouble.name)
def test_every_call_of_a_migration_may_fail(trouble, s3_endpoint):
    failed = 0
    for nth in range(1, _MOST_CALLS):
        storage = _prepare_at(s3_endpoint.fresh_prefix(), s3_endpoint.storage_options_without_retries)
        with open_graph(storage) as graph:
            fault = trouble.on_call(nth, storage.prefix)
            _, was_hit = fail_call(s3_endpoint, fault, graph, Migration(graph).run)
        if nth % 4 == 1 or not was_hit:
            # What could not be removed is, once this process is presumed dead.
            open_graph(storage, runtime=later_world(hours=2), settings=IMPATIENT).close()
            _assert_migrates(storage)
        failed += was_hit
        if not was_hit:
            break
    assert failed > _FEWEST_CALLS
