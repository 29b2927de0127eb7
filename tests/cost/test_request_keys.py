"""An idempotency key is free for a warm writer, and one look at the last days for a new process."""

import itertools

import pytest

from omnigraph.errors import RequestRepeatedError
from omnigraph.runtime import CallContext, calling
from omnigraph.testing.s3 import measure
from tests.cost.conftest import DEPTHS
from tests.cost.driver import sample, usual
from tests.txn_graph import open_graph

SAMPLES = 5
_numbers = itertools.count()


def _keyed(driver):
    with calling(CallContext(request_id="r", idempotency_key=f"k{next(_numbers)}", payload_digest="p")):
        return driver.write("keyed insert")


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_key_costs_a_warm_writer_no_call_at_any_depth(driver_at, endpoint, depth):
    driver = driver_at(depth, 4)
    for write in (driver.write, lambda _: _keyed(driver)):
        write("keyed insert")
    plain = [sample(endpoint, lambda: driver.write("keyed insert")) for _ in range(SAMPLES)]
    keyed = [sample(endpoint, lambda: _keyed(driver)) for _ in range(SAMPLES)]
    assert usual(keyed) == usual(plain)
    assert {item.stages for item in keyed if item.kinds == usual(keyed)} == {
        item.stages for item in plain if item.kinds == usual(plain)
    }


def test_the_first_keyed_write_of_a_process_reads_each_fragment_of_history_once(driver_at, endpoint):
    driver = driver_at(DEPTHS[-1], 4)
    _keyed(driver)
    with open_graph(driver.storage) as graph:
        branch_writer = graph.branch_writer(driver.main.services.line.name)
        snapshot = branch_writer.snapshot()
        with measure(endpoint) as first, calling(CallContext(idempotency_key="new", payload_digest="p")):
            branch_writer.refuse_repeated(snapshot, None)
        with measure(endpoint) as later, calling(CallContext(idempotency_key="newer", payload_digest="p")):
            branch_writer.refuse_repeated(snapshot, None)
        known = CallContext(idempotency_key=f"k{next(_numbers) - 1}", payload_digest="p")
        with calling(known), pytest.raises(RequestRepeatedError):
            branch_writer.refuse_repeated(snapshot, None)
    assert 0 < len(first.calls) <= 4 * len(snapshot.manifest.lineage)
    assert not later.calls
