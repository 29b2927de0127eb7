"""Every object-store call of a deletion fails once in turn; the branch is there or gone, and the error says which."""

from __future__ import annotations

import pytest

from omnigraph.errors import BranchMissingError, Effect, OmnigraphError
from omnigraph.txn.refs import LogFilter
from omnigraph.values import MAIN, BranchName
from tests.crash.checks import assert_sound
from tests.crash.later import later_world
from tests.crash.matrix import IS_FULL
from tests.crash.nth_call import DROP_AFTER, ERROR_AFTER, OUTAGE, TROUBLES
from tests.crash.torn import IMPATIENT
from tests.marks import first
from tests.txn_graph import PERSON, TEAM, init_graph, insert, join, node_rows, open_graph, read_ids

DRAFT = BranchName("draft")
_MOST_CALLS = 60
_FEWEST_CALLS = 10
PLAIN = [
    pytest.param(ERROR_AFTER, True, 5, False, id="error-after-again"),
    pytest.param(OUTAGE, False, 9, False, id="outage-gives-up"),
    pytest.param(DROP_AFTER, False, 9, False, id="drop-after-gives-up"),
    pytest.param(ERROR_AFTER, False, 7, True, id="error-after-gives-up-merged"),
]
FULL = [
    pytest.param(
        trouble,
        again,
        1,
        is_merged,
        id=f"{trouble.name}-{'again' if again else 'gives-up'}{'-merged' if is_merged else ''}",
    )
    for trouble in TROUBLES
    for again in (True, False)
    for is_merged in (False, True)
]


def _is_there(storage):
    with open_graph(storage, mode="read_only") as graph:
        return DRAFT in graph.branch_names()


def _assert_effect_is_true(error, is_there):
    match None if error is None else error.effect:
        case None | Effect.PUBLISHED:
            assert not is_there, "an acknowledged deletion has not happened"
        case Effect.NONE | Effect.STAGED:
            assert is_there, f"the error said that nothing happened: {error!r}"
        case _:
            assert error.effect is Effect.UNKNOWN


def _prepare(endpoint, *, is_merged):
    storage = init_graph(endpoint.fresh_prefix(), endpoint.storage_options_without_retries)
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        graph.create_branch(DRAFT)
        insert(graph, PERSON, node_rows(["b"]), branch=DRAFT)
        if is_merged:
            join(graph, DRAFT)
    return storage


def _fail_call(endpoint, storage, trouble, nth, *, again, is_merged):
    """Fail one call, look, perhaps delete again, let the graph settle, look again; return whether the call came."""
    error = None
    with open_graph(storage, settings=IMPATIENT) as graph:
        graph.snapshot(DRAFT)
        since = endpoint.last_sequence()
        fault = endpoint.add_fault(trouble.on_call(nth, storage.prefix))
        try:
            graph.delete_branch(DRAFT)
        except OmnigraphError as caught:
            error = caught
        was_hit = any(call.fault == fault for call in endpoint.calls(since=since))
        endpoint.clear_faults()
        _assert_effect_is_true(error, _is_there(storage))
        if again and error is not None:
            try:
                graph.delete_branch(DRAFT)
            except BranchMissingError:
                assert error.effect is Effect.UNKNOWN
            assert not _is_there(storage)
    assert was_hit or error is None, f"failed without a fault: {error!r}"
    _assert_settles(storage, error if not again else None, is_merged=is_merged)
    return was_hit


def _assert_settles(storage, error, *, is_merged):
    with open_graph(storage, runtime=later_world(hours=2), settings=IMPATIENT) as graph:
        _assert_effect_is_true(error, DRAFT in graph.branch_names())
        assert graph._stores.control.list_keys("__recovery") == ()
        if DRAFT not in graph.branch_names():
            if is_merged:
                merged = graph.refs.log(BranchName(MAIN), LogFilter(), 2, None, is_full=True).commits[1]
                assert graph.snapshot_of(merged).existing_ids(PERSON, ["a", "b"]) == {"a", "b"}
            else:
                assert graph._stores.control.list_keys("__manifest/tree") == ()
            graph.create_branch(DRAFT)
        insert(graph, TEAM, node_rows(["after"]), branch=DRAFT)
        assert read_ids(graph, PERSON, MAIN) == ["a"]


@pytest.mark.parametrize(("trouble", "again", "step", "is_merged"), first(2, FULL if IS_FULL else PLAIN))
@pytest.mark.timeout(900)
def test_no_failing_call_of_a_deletion_breaks_the_graph_or_makes_an_error_lie(
    trouble, again, step, is_merged, clean_s3_endpoint
):
    endpoint = clean_s3_endpoint
    for nth in range(1, _MOST_CALLS, step):
        storage = _prepare(endpoint, is_merged=is_merged)
        was_hit = _fail_call(endpoint, storage, trouble, nth, again=again, is_merged=is_merged)
        assert_sound(storage)
        if not was_hit:
            break
    else:
        pytest.fail("the deletion never passed untouched")
    assert nth > _FEWEST_CALLS
