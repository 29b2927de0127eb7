"""History must not be felt: fragments grow with its logarithm, and one publish folds at most once."""

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.txn.manifest.lineage import FAN_IN, RECENT_LIMIT, Flush, Merge, plan_fold


def _run(publishes):
    """Simulate publishes of the given sizes; return the fragments, what is recent, and every fold."""
    recent, fragments, folds = 0, [], []
    for commits in publishes:
        fold = plan_fold(recent, fragments)
        folds.append(fold)
        if isinstance(fold, Flush):
            fragments.append(recent)
            recent = 0
        elif isinstance(fold, Merge):
            fragments[fold.start : fold.stop] = [sum(fragments[fold.start : fold.stop])]
        recent += commits
    return fragments, recent, folds


def test_a_young_history_lives_in_the_state_fragment_alone():
    fragments, recent, folds = _run([1] * RECENT_LIMIT)
    assert fragments == []
    assert recent == RECENT_LIMIT
    assert folds == [None] * RECENT_LIMIT


def test_ten_thousand_commits_leave_few_fragments():
    fragments, recent, folds = _run([1] * 10_000)
    assert sum(fragments) + recent == 10_000
    assert len(fragments) <= 20
    assert recent <= RECENT_LIMIT
    assert sum(fold is not None for fold in folds) <= 10_000 // RECENT_LIMIT * 1.4


def test_a_merge_reads_a_fixed_number_of_neighbours():
    assert plan_fold(0, [128, 32, 32, 32, 32, 32]) == Merge(start=1, stop=1 + FAN_IN)
    assert plan_fold(0, [512, 128, 32]) is None


@given(st.lists(st.integers(1, 64), max_size=400))
def test_no_commit_is_lost_or_reordered_whatever_the_group_sizes(publishes):
    fragments, recent, folds = _run(publishes)
    assert sum(fragments) + recent == sum(publishes)
    assert all(fold is None or isinstance(fold, Flush) or fold.stop - fold.start == FAN_IN for fold in folds)
    assert len(fragments) <= 24
