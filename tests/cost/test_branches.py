"""Branches: creating and deleting one is constant, and the first write to a table on it adds a constant."""

import itertools
import statistics
from types import SimpleNamespace

import pytest

from omnigraph.runtime import counting
from omnigraph.values import BranchName
from tests.cost.conftest import DEPTHS, WIDTHS
from tests.cost.driver import sample
from tests.cost.hops import LOOKS, assert_hops

pytestmark = pytest.mark.more

CREATE_CALLS, CREATE_HOPS = 13, 12
# Lance takes eleven calls to branch from a branch, against eight from main; the mark on the parent comes on top.
CREATE_FROM_BRANCH_CALLS, CREATE_FROM_BRANCH_HOPS = 18, 15
DELETE_CALLS, DELETE_HOPS = 10, 12
DELETE_CALLS_PER_FORK = 4
FORK_CALLS, FORK_HOPS = 14, 12


def create(driver, name=None, source="main"):
    """Create a branch; the result carries the cost as a commit's would."""
    chosen = BranchName(name or driver.fresh_branch_name())
    with counting() as counters:
        driver.graph.create_branch(chosen, source=BranchName(source))
    return SimpleNamespace(cost=counters.cost())


def ready_branch(driver):
    """A branch that this process has opened and not written to."""
    name = driver.fresh_branch_name()
    create(driver, name)
    driver.graph.snapshot(BranchName(name))
    return name


def test_creating_a_branch_costs_the_same_whatever_the_graph_holds(driver_at, endpoint):
    shapes = set()
    for depth, tables in itertools.product(DEPTHS, WIDTHS):
        driver = driver_at(depth, tables)
        create(driver)
        found = sample(endpoint, lambda chosen=driver: create(chosen))
        assert found.calls <= CREATE_CALLS
        assert found.stages <= CREATE_HOPS
        assert found.cost.total_calls == found.calls
        shapes.add(found.kinds)
    assert len(shapes) == 1


def test_the_log_shows_the_hops_of_creating_a_branch(shared_driver, endpoint):
    driver = shared_driver(DEPTHS[-1], WIDTHS[-1])
    stages = create(driver).cost.serial_stages
    assert_hops(endpoint, lambda: create(driver), CREATE_HOPS, stages=stages)


def test_creating_a_branch_from_another_costs_a_constant_too(shared_driver, endpoint):
    shapes = set()
    for tables in WIDTHS:
        driver = shared_driver(DEPTHS[-1], tables)
        source = ready_branch(driver)
        driver.write_to_branch(source)
        found = [sample(endpoint, lambda chosen=driver, name=source: create(chosen, source=name)) for _ in range(2)]
        assert found[1].calls <= CREATE_FROM_BRANCH_CALLS
        assert found[1].stages <= CREATE_FROM_BRANCH_HOPS
        shapes.add(found[1].kinds)
    assert len(shapes) == 1


@pytest.mark.parametrize("tables", WIDTHS)
def test_the_first_write_to_a_table_on_a_branch_adds_a_constant(shared_driver, endpoint, tables):
    driver = shared_driver(100, tables)
    plain = sample(endpoint, lambda: driver.write("keyed insert"))
    steady = min(plain.calls, 9)
    firsts = []
    for _ in range(4):
        name = ready_branch(driver)
        firsts.append(sample(endpoint, lambda chosen=name: driver.write_to_branch(chosen)))
        second = sample(endpoint, lambda chosen=name: driver.write_to_branch(chosen))
        assert second.calls <= 12
        assert second.stages <= 8
    assert max(item.calls for item in firsts) <= steady + FORK_CALLS + 1
    assert statistics.median(item.calls for item in firsts) <= steady + FORK_CALLS
    assert max(item.stages for item in firsts) <= 8 + FORK_HOPS
    assert [item.cost.total_calls for item in firsts] == [item.calls for item in firsts]


def test_the_log_shows_the_hops_of_the_first_write_to_a_table_on_a_branch(shared_driver, endpoint):
    driver = shared_driver(100, 4)
    first, *names = [ready_branch(driver) for _ in range(1 + LOOKS)]
    stages = driver.write_to_branch(first).cost.serial_stages
    assert_hops(endpoint, lambda: driver.write_to_branch(names.pop()), 8 + FORK_HOPS, stages=stages)


def delete(driver, name):
    """Delete a branch; the result carries the cost as a commit's would."""
    with counting() as counters:
        driver.graph.delete_branch(BranchName(name))
    return SimpleNamespace(cost=counters.cost())


def deletion(driver, endpoint, name):
    """What the endpoint serves for a deletion; unlike a write it is acknowledged behind the release of its claim."""
    found = sample(endpoint, lambda: delete(driver, name))
    return found.calls + found.released, found


def test_deleting_a_branch_costs_the_same_whatever_the_graph_holds(driver_at, endpoint):
    costs = set()
    for depth, tables in itertools.product(DEPTHS, WIDTHS):
        driver = driver_at(depth, tables)
        for _ in range(3):
            create(driver)
        name = ready_branch(driver)
        driver.settle()
        calls, found = deletion(driver, endpoint, name)
        assert calls <= DELETE_CALLS
        assert found.stages <= DELETE_HOPS
        assert found.cost.total_calls == calls
        costs.add(calls)
    assert len(costs) == 1


def test_every_forked_table_adds_a_constant_to_deleting_a_branch(fresh_driver, endpoint):
    driver = fresh_driver(10, 4)
    name = ready_branch(driver)
    driver.write_to_branch(name)
    _finish_releases(driver, name)
    calls, found = deletion(driver, endpoint, name)
    assert calls <= DELETE_CALLS + DELETE_CALLS_PER_FORK
    assert found.stages <= DELETE_HOPS


def test_the_log_shows_the_hops_of_deleting_a_branch(fresh_driver, endpoint):
    driver = fresh_driver(10, 4)
    first, *names = [ready_branch(driver) for _ in range(1 + LOOKS)]
    driver.settle()
    stages = delete(driver, first).cost.serial_stages
    # Unlike a write it waits for the release of its claim.
    assert_hops(endpoint, lambda: delete(driver, names.pop()), DELETE_HOPS, stages=stages, counts=lambda _: True)


def _finish_releases(driver, name):
    last = driver.graph._branches.authorities[name]._publisher._releaser._last
    if last is not None:
        last.result()
