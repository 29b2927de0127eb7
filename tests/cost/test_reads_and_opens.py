"""Reads and opens: a probe and the data; a handful of calls to open, however long the history."""

import itertools
from types import SimpleNamespace

import pytest

from omnigraph.catalog import compile_schema
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.status import read_status
from omnigraph.lang.pg import parse_schema
from omnigraph.runtime import Runtime, counting
from omnigraph.values import MAIN, BranchName
from tests.cost.conftest import DEPTHS, WIDTHS
from tests.cost.driver import sample
from tests.cost.hops import assert_hops
from tests.txn_graph import PERSON, open_graph

OPEN_CALLS, OPEN_HOPS = 8, 6
STATUS_CALLS, STATUS_CALLS_A_TABLE = 8, 3
MODES = ("read_write", "read_only")
CATALOG = compile_schema(parse_schema(b"node Other { name: String }", "schema.pg"))


def resolve(driver):
    with counting() as counters:
        snapshot = driver.graph.snapshot(BranchName(MAIN))
    return SimpleNamespace(snapshot=snapshot, cost=counters.cost())


def read(driver):
    with counting() as counters:
        table = driver.graph.snapshot(BranchName(MAIN)).table(PERSON)
        rows = table.read(["id"])
    assert rows.num_rows == table.row_count
    return SimpleNamespace(cost=counters.cost())


def open_and_close(driver, mode):
    with counting() as counters:
        graph = open_graph(driver.storage, mode=mode)
    graph.close()
    return SimpleNamespace(cost=counters.cost())


def look(graph):
    with counting() as counters:
        read_status(graph, BranchName(MAIN), CATALOG, MaintenanceSettings(), Runtime.system())
    return SimpleNamespace(cost=counters.cost())


@pytest.mark.parametrize("depth", DEPTHS)
def test_resolving_a_current_snapshot_is_one_probe(driver_at, endpoint, depth):
    driver = driver_at(depth, 4)
    found = sample(endpoint, lambda: resolve(driver))
    assert found.kinds == ((("LIST", "manifest_version"), 1),)
    assert (found.cost.total_calls, found.stages) == (1, 1)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_read_is_one_probe_and_the_data(driver_at, endpoint, depth):
    driver = driver_at(depth, 4)
    read(driver)
    found = sample(endpoint, lambda: read(driver))
    kinds = dict(found.kinds)
    assert kinds.pop(("LIST", "manifest_version")) == 1
    assert {object_class for _, object_class in kinds} <= {"table_data", "table_deletion"}
    assert found.cost.total_calls == found.calls
    table = resolve(driver).snapshot.table(PERSON)
    assert found.calls - 1 <= 2 * len(table.fragments)


def test_the_log_shows_one_hop_for_a_current_snapshot(shared_driver, endpoint):
    driver = shared_driver(100, 4)
    assert_hops(endpoint, lambda: resolve(driver), 1, stages=1)


@pytest.mark.parametrize("mode", MODES)
def test_opening_costs_the_same_at_every_depth_and_width(driver_at, endpoint, mode):
    totals = {}
    for depth, tables in itertools.product(DEPTHS, WIDTHS):
        driver = driver_at(depth, tables)
        # Sidecars of acknowledged writes may still be under deletion; an open would look at them.
        driver.settle()
        found = sample(endpoint, lambda chosen=driver: open_and_close(chosen, mode))
        assert found.calls <= OPEN_CALLS
        assert found.stages <= OPEN_HOPS
        assert found.cost.total_calls == found.calls
        totals[depth, tables] = found.kinds
    assert len(set(totals.values())) == 1, totals


@pytest.mark.parametrize("mode", MODES)
def test_the_log_shows_the_hops_of_opening(shared_driver, endpoint, mode):
    driver = shared_driver(DEPTHS[-1], WIDTHS[-1])
    driver.settle()
    stages = open_and_close(driver, mode).cost.serial_stages
    assert_hops(endpoint, lambda: open_and_close(driver, mode), OPEN_HOPS, stages=stages)


def test_a_status_costs_the_same_at_every_depth(driver_at, endpoint):
    totals = {}
    for depth in DEPTHS:
        driver = driver_at(depth, 4)
        driver.settle()
        with open_graph(driver.storage, mode="read_only") as graph:
            cold = sample(endpoint, lambda chosen=graph: look(chosen))
            warm = sample(endpoint, lambda chosen=graph: look(chosen))
        assert cold.cost.total_calls == cold.calls <= STATUS_CALLS + 4 * STATUS_CALLS_A_TABLE
        totals[depth] = cold.kinds, warm.kinds
    assert len(set(totals.values())) == 1, totals
