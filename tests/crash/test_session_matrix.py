"""A mutation, a load or a schema change killed anywhere leaves all of itself or nothing, and can be made again."""

from functools import partial

import pytest

from omnigraph.values import MAIN
from tests.crash.checks import assert_history_tells, assert_sound, recovery_kinds, without_indexes
from tests.crash.dying import crash_alone
from tests.crash.killing import job_of, killing_recoverers, killing_writers, morgues, params
from tests.crash.matrix import FORWARD
from tests.crash.session_checks import (
    SessionTwins,
    assert_agrees,
    assert_all_or_nothing,
    assert_next_mutation_succeeds,
    assert_same_outcome,
    seen_state,
    session_state,
)
from tests.crash.session_child import SessionJob
from tests.crash.session_kinds import SESSION_KINDS
from tests.crash.session_matrix import CHOSEN_ALONE, CHOSEN_CRASHES, CHOSEN_RECOVERIES

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def twins(tmp_path_factory, inputs):
    return SessionTwins(tmp_path_factory.mktemp("twins"), inputs, SESSION_KINDS)


@pytest.fixture(scope="module")
def job(inputs, tmp_path_factory):
    return partial(job_of, SessionJob, inputs=str(inputs), scratch=str(tmp_path_factory.mktemp("scratch")))


@pytest.fixture(scope="module")
def killed(places_of, prepare, job):
    return morgues(CHOSEN_CRASHES, places_of, killing_writers(prepare, job))


@pytest.fixture(scope="module")
def killed_twice(places_of, prepare, job):
    return morgues(CHOSEN_RECOVERIES, places_of, killing_recoverers(prepare, job))


@pytest.mark.parametrize(("store", "crash"), params(CHOSEN_CRASHES))
def test_a_killed_write_leaves_all_or_nothing_and_can_be_made_again(store, crash, killed, twins, inputs):
    assert_all_or_nothing(crash, killed(store, crash), twins, inputs)


@pytest.mark.parametrize(("store", "broken"), params(CHOSEN_RECOVERIES))
def test_a_killed_recovery_changes_nothing_about_the_outcome(store, broken, killed_twice, twins, inputs):
    assert_same_outcome(broken, killed_twice(store, broken), twins, inputs)


@pytest.mark.parametrize(("store", "crash"), params(CHOSEN_ALONE))
def test_a_process_killed_in_the_very_moment_leaves_all_or_nothing(
    store, crash, places_of, prepare, job, twins, inputs
):
    """Threads of the writer die in the middle of whatever they do, so how many tables moved is a matter of luck."""
    storage = prepare(crash, places_of(store))
    crash_alone(job(crash, storage), crash.point, crash.nth)
    before, after = twins.of(crash.kind)
    assert seen_state(crash.writer, storage) == (after if crash.is_visible else before)
    with crash.writer.open(storage) as session:
        recovered = recovery_kinds(storage)
        is_there = crash.is_visible or recovered == [FORWARD]
        assert without_indexes(session_state(session)) == without_indexes(after if is_there else before)
        assert len(recovered) == (crash.recovery is not None)
        assert_history_tells(session.store, MAIN, recovered)
        assert_agrees(session)
        assert_sound(storage)
        if not is_there:
            crash.writer.write(session, inputs)
            assert session_state(session) == after
    assert_next_mutation_succeeds(crash.writer, storage)
