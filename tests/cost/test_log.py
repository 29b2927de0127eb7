"""History: a page of the log and a state in the past cost the same however much history there is."""

import pytest

from omnigraph.runtime import counting
from omnigraph.testing.s3 import measure
from omnigraph.txn.refs import LogFilter
from omnigraph.values import MAIN, BranchName
from tests.cost.conftest import DEPTHS
from tests.txn_graph import open_graph

LOG_CALLS = 6
# The page of history that names the version, and then the version itself.
ANCESTOR_CALLS = 7
PAGE = 20
ROOT = BranchName(MAIN)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_page_of_the_log_costs_the_same_at_every_depth(driver_at, endpoint, depth):
    driver = driver_at(depth, 4)
    # Another process, which has the newest state and nothing else in memory.
    with open_graph(driver.storage, mode="read_only") as graph:
        with measure(endpoint) as measured, counting() as counters:
            page = graph.refs.log(ROOT, LogFilter(), PAGE, None)
        assert len(measured.calls) <= LOG_CALLS
        assert counters.cost().total_calls == len(measured.calls)
        assert len(page.commits) >= min(depth, PAGE)


@pytest.mark.parametrize("depth", DEPTHS[-1:])
def test_any_later_page_and_any_ancestor_cost_no_more(driver_at, endpoint, depth):
    driver = driver_at(depth, 4)
    with open_graph(driver.storage, mode="read_only") as graph:
        page = graph.refs.log(ROOT, LogFilter(), 60, None)
    with open_graph(driver.storage, mode="read_only") as graph:
        with measure(endpoint) as measured:
            graph.refs.log(ROOT, LogFilter(), PAGE, page.following)
        assert len(measured.calls) <= LOG_CALLS
    with open_graph(driver.storage, mode="read_only") as graph:
        with measure(endpoint) as measured:
            graph.refs.resolve_ref(f"main~{depth - 10}", ROOT)
        assert len(measured.calls) <= ANCESTOR_CALLS
