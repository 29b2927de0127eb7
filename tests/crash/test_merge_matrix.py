"""A merge or a revert killed anywhere leaves all of itself or nothing, and can be made again."""

from functools import partial

import pytest

from tests.crash.killing import job_of, killing_recoverers, killing_writers, morgues, params
from tests.crash.merge_child import MergeJob
from tests.crash.merge_kinds import MERGE_KINDS
from tests.crash.merge_matrix import CHOSEN_CRASHES, CHOSEN_RECOVERIES
from tests.crash.session_checks import SessionTwins, assert_all_or_nothing, assert_same_outcome

pytestmark = pytest.mark.more

_job = partial(job_of, MergeJob)


@pytest.fixture(scope="module")
def twins(tmp_path_factory, inputs):
    return SessionTwins(tmp_path_factory.mktemp("twins"), inputs, MERGE_KINDS)


@pytest.fixture(scope="module")
def killed(places_of, prepare):
    return morgues(CHOSEN_CRASHES, places_of, killing_writers(prepare, _job))


@pytest.fixture(scope="module")
def killed_twice(places_of, prepare):
    return morgues(CHOSEN_RECOVERIES, places_of, killing_recoverers(prepare, _job))


@pytest.mark.parametrize(("store", "crash"), params(CHOSEN_CRASHES))
def test_a_killed_merge_leaves_all_or_nothing_and_can_be_made_again(store, crash, killed, twins, inputs):
    assert_all_or_nothing(crash, killed(store, crash), twins, inputs)


@pytest.mark.parametrize(("store", "broken"), params(CHOSEN_RECOVERIES))
def test_a_killed_recovery_of_a_merge_changes_nothing_about_the_outcome(store, broken, killed_twice, twins, inputs):
    assert_same_outcome(broken, killed_twice(store, broken), twins, inputs)
