"""Writes that touch several tables, and merges into indexed ones."""

import statistics

import pytest

from omnigraph.txn.publish.kinds import WriteKind
from tests.cost.driver import sample, usual
from tests.cost.hops import assert_hops

HOPS = 8
MERGE_CALLS, MERGE_HOPS = 20, 11


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_tables_that_are_written_together_add_calls_but_no_hops(shared_driver, endpoint, count):
    driver = shared_driver(10, 100)
    for _ in range(2):
        driver.write_tables(count)
    samples = [sample(endpoint, lambda: driver.write_tables(count)) for _ in range(5)]
    assert sum(number for _, number in usual(samples)) <= 7 + 5 * count
    assert max(item.calls for item in samples) <= 7 + 5 * count + 8
    assert [item.cost.total_calls for item in samples] == [item.calls for item in samples]
    assert {item.stages for item in samples if item.kinds == usual(samples)} == {HOPS}


@pytest.mark.parametrize("count", [3, 8])
def test_the_log_shows_tables_commit_side_by_side(shared_driver, endpoint, count):
    driver = shared_driver(10, 100)
    for _ in range(2):
        driver.write_tables(count)
    assert_hops(endpoint, lambda: driver.write_tables(count), HOPS, stages=HOPS)


@pytest.mark.parametrize("edge", ["known", "unknown"])
def test_merging_one_edge_into_an_indexed_table_is_within_its_bounds(fresh_driver, endpoint, edge):
    driver = fresh_driver(depth=10)
    driver.index_ids()
    numbers = iter(range(10_000))

    def write():
        number = next(numbers)
        edge_id = f"edge-{number % 400}" if edge == "known" else f"merged-{number}"
        return driver.write_edge(WriteKind.LOAD_MERGE, edge_id)

    first = sample(endpoint, write)
    # The first look at an index reads its pages, which stay in memory.
    assert first.calls <= MERGE_CALLS
    for _ in range(2):
        write()
    samples = [sample(endpoint, write) for _ in range(5)]
    assert max(item.calls for item in samples) <= MERGE_CALLS
    assert [item.cost.total_calls for item in samples] == [item.calls for item in samples]
    stages = int(statistics.median(item.stages for item in samples))
    assert stages <= MERGE_HOPS
    assert_hops(endpoint, write, MERGE_HOPS, stages=stages)
