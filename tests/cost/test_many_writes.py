"""Long runs of writes: what folds cost, and what a write costs on average."""

import statistics

import pytest

from omnigraph.txn.manifest.lineage import FAN_IN, RECENT_LIMIT
from omnigraph.values import MAIN, BranchName
from tests.cost.driver import sample
from tests.cost.test_one_row import CALLS, FOLD_CALLS, FOLD_HOPS, HOPS

WINDOW = 32
MEAN_CALLS = 14


@pytest.mark.more
def test_folds_are_bounded_and_the_mean_of_any_32_writes_stays_low(fresh_driver, endpoint):
    driver = fresh_driver()
    # Long enough that lineage fragments are not only flushed but also merged.
    writes = RECENT_LIMIT * FAN_IN + WINDOW
    samples = [sample(endpoint, lambda number=number: driver.deepen(number)) for number in range(writes)]
    warm = samples[4:]
    assert max(item.calls for item in warm) <= CALLS + FOLD_CALLS
    assert max(item.stages for item in warm) <= HOPS + FOLD_HOPS
    totals = [item.calls + item.released for item in warm]
    windows = [totals[start : start + WINDOW] for start in range(len(totals) - WINDOW + 1)]
    assert max(statistics.mean(window) for window in windows) <= MEAN_CALLS
    assert [item.cost.total_calls for item in warm] == [item.calls for item in warm]


def test_history_is_really_folded_by_such_a_run(shared_driver, endpoint):
    driver = shared_driver(100, 4)
    loaded = driver.graph.snapshot(BranchName(MAIN)).manifest
    assert loaded.lineage
    assert sum(fragment.row_count for fragment in loaded.lineage) + len(loaded.state.recent) >= 100
    assert len(loaded.state.recent) <= RECENT_LIMIT
