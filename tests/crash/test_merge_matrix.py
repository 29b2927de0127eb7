"""A merge or a revert killed anywhere leaves all of itself or nothing, and can be made again."""

import pytest

from tests.crash.checks import assert_history_tells, assert_sound, recovery_kinds, without_indexes
from tests.crash.killing import killing_recoverers, killing_writers, morgues, params
from tests.crash.merge_child import MergeJob
from tests.crash.merge_kinds import MergeTwins
from tests.crash.merge_matrix import CHOSEN_CRASHES, CHOSEN_RECOVERIES
from tests.crash.session_checks import assert_agrees, assert_next_mutation_succeeds, seen_state, session_state
from tests.crash.session_kinds import write_inputs


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def twins(tmp_path_factory, inputs):
    return MergeTwins(tmp_path_factory.mktemp("twins"), inputs)


@pytest.fixture(scope="module")
def prepare(inputs):
    def make(crash, places):
        return crash.writer.prepare(places.fresh(), places.options, inputs)

    return make


def _job(crash, storage, *, act="write", point=None, nth=1, name=None):
    return MergeJob(
        name=name or crash.name,
        root=storage.root,
        options=dict(storage.options),
        kind=crash.kind,
        act=act,
        point=point,
        nth=nth,
    )


@pytest.fixture(scope="module")
def killed(places_of, prepare):
    return morgues(CHOSEN_CRASHES, places_of, killing_writers(prepare, _job))


@pytest.fixture(scope="module")
def killed_twice(places_of, prepare):
    return morgues(CHOSEN_RECOVERIES, places_of, killing_recoverers(prepare, _job))


@pytest.mark.parametrize(("store", "crash"), params(CHOSEN_CRASHES))
def test_a_killed_merge_leaves_all_or_nothing_and_can_be_made_again(store, crash, killed, twins, inputs):
    storage = killed(store, crash)
    before, after = twins.of(crash.kind)
    assert seen_state(crash.writer, storage) == (after if crash.is_visible else before)
    _assert_recovers(crash, storage, twins, inputs)


@pytest.mark.parametrize(("store", "broken"), params(CHOSEN_RECOVERIES))
def test_a_killed_recovery_of_a_merge_changes_nothing_about_the_outcome(store, broken, killed_twice, twins, inputs):
    storage = killed_twice(store, broken)
    seen = without_indexes(seen_state(broken.crash.writer, storage))
    assert seen in [without_indexes(state) for state in twins.of(broken.crash.kind)]
    _assert_recovers(broken.crash, storage, twins, inputs)


def _assert_recovers(crash, storage, twins, inputs):
    before, after = twins.of(crash.kind)
    with crash.writer.open(storage) as session:
        if crash.succeeds:
            assert session_state(session) == after
        else:
            assert without_indexes(session_state(session)) == without_indexes(before)
        assert_agrees(session)
        recovered = recovery_kinds(storage)
        assert recovered == ([] if crash.recovery is None else [crash.recovery])
        assert_history_tells(session.store, crash.writer.branch, recovered)
        assert_sound(storage)
        if not crash.succeeds:
            crash.writer.write(session, inputs)
            assert session_state(session) == after
        crash.writer.assert_done(session)
    assert_next_mutation_succeeds(crash.writer, storage)
