"""One-row writes: their calls and hops, which neither history nor the number of tables may change."""

import itertools
import statistics

import pytest

from omnigraph.testing.s3 import Fault, measure
from tests.cost.conftest import DEPTHS, WIDTHS
from tests.cost.driver import OPERATIONS, sample, usual
from tests.cost.hops import assert_hops

CALLS, HOPS = 12, 8
FOLD_CALLS, FOLD_HOPS = 8, 4
SAMPLES = 5


def prices(driver, operation, count=SAMPLES):
    """Samples of an operation on a handle that has written its tables before."""
    for warm_up in OPERATIONS:
        driver.write(warm_up)
    return [sample(driver.endpoint, lambda: driver.write(operation)) for _ in range(count)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_one_row_write_costs_the_same_at_every_depth_and_width(driver_at, endpoint, operation):
    shapes = {}
    for depth, tables in itertools.product(DEPTHS, WIDTHS):
        found = prices(driver_at(depth, tables), operation)
        shapes[depth, tables] = usual(found)
        assert sum(count for _, count in usual(found)) <= CALLS
        assert statistics.median(item.stages for item in found) <= HOPS
        assert max(item.calls for item in found) <= CALLS + FOLD_CALLS
        assert max(item.stages for item in found) <= HOPS + FOLD_HOPS
    assert len(set(shapes.values())) == 1, shapes


@pytest.mark.parametrize(("depth", "tables"), [(DEPTHS[0], 4), (DEPTHS[-1], 100)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_log_shows_no_more_hops_than_the_contract_allows(driver_at, endpoint, operation, depth, tables):
    driver = driver_at(depth, tables)
    stages = int(statistics.median(item.stages for item in prices(driver, operation)))
    assert_hops(endpoint, lambda: driver.write(operation), HOPS, stages=stages)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_products_own_counters_agree_with_the_endpoint(driver_at, endpoint, operation):
    found = prices(driver_at(10, 4), operation, count=12)
    assert [item.cost.total_calls for item in found] == [item.calls for item in found]
    plain = [item for item in found if item.kinds == usual(found)]
    assert len({item.stages for item in plain}) == 1
    assert all(item.cost.bytes_written > 0 for item in found)


def test_every_write_releases_its_sidecar_once_and_after_the_acknowledgement(fresh_driver, endpoint):
    driver = fresh_driver()
    endpoint.reset_calls()
    for _ in range(8):
        driver.write("keyed insert")
    driver.close()
    assert endpoint.count(operation="POST_DELETE", object_class="sidecar") in {8, 9}
    assert endpoint.count(operation="PUT", object_class="sidecar") == 8


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_steady_write_resolves_the_manifest_once_and_never_lists_sidecars(driver_at, endpoint, operation):
    for item in prices(driver_at(10, 4), operation):
        kinds = dict(item.kinds)
        assert ("LIST", "sidecar") not in kinds
        assert ("GET", "sidecar") not in kinds
        assert kinds["LIST", "manifest_version"] == 1
        # Nothing of the manifest is read again: what the probe confirms is in memory.
        assert ("GET", "manifest_version") not in kinds
        assert ("HEAD", "manifest_version") not in kinds
        assert kinds["PUT", "sidecar"] == 1


@pytest.mark.parametrize("depth", [DEPTHS[0], DEPTHS[-1]])
def test_a_store_that_serves_eight_calls_at_once_adds_no_hop_at_any_depth(driver_at, endpoint, depth):
    driver = driver_at(depth, 4)
    driver.write("keyed insert")
    endpoint.set_concurrency(8)
    assert_hops(endpoint, lambda: driver.write("keyed insert"), HOPS, stages=HOPS)


def test_a_write_that_finds_its_key_taken_costs_one_probe(driver_at, endpoint):
    driver = driver_at(10, 4)
    driver.write("keyed insert")
    assert driver.has_taken("seed-5")
    assert_hops(endpoint, lambda: driver.has_taken("seed-5"), 1, stages=1)


def test_a_deletion_file_that_cannot_be_read_back_does_not_fail_the_write(fresh_driver, endpoint):
    driver = fresh_driver()
    driver.write("upsert")
    fault = endpoint.add_fault(Fault(action="error", status=403, operation="GET", object_class="table_deletion"))
    with measure(endpoint) as measured:
        driver.write("upsert")
    assert fault in {call.fault for call in measured.calls}
    endpoint.clear_faults()
    driver.write("upsert")


def test_a_write_is_acknowledged_while_its_deletion_file_is_still_being_read_back(fresh_driver, endpoint):
    driver = fresh_driver()
    driver.write("upsert")
    for delay_ms in (1500, 6000, 24_000):
        late = Fault(action="delay", delay_ms=delay_ms, operation="GET", object_class="table_deletion")
        fault = endpoint.add_fault(late)
        with measure(endpoint) as measured:
            driver.write("upsert")
            # A call is in the log when it has ended.
            is_under_way = fault not in {call.fault for call in endpoint.calls()}
        endpoint.clear_faults()
        assert fault in {call.fault for call in measured.calls}
        # The write may have been slow itself: then only a longer delay tells.
        if is_under_way:
            break
    assert is_under_way
    driver.write("upsert")
