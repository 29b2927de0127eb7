"""What storage calls each building block of a write and a read makes, counted at the S3 endpoint."""

import pytest
from tests.unit.store.test_datasets import SCHEMA, fresh, rows

from omnigraph.runtime import counting
from omnigraph.store.staging import IndexBuild, stage_indexes
from omnigraph.testing.s3 import measure

BTREE = IndexBuild(column="id", kind="btree", name="id_idx")


class Cost:
    """Runs a step, counts it at the endpoint and by our own counters, and keeps the result."""

    def __init__(self, endpoint):
        self.endpoint = endpoint

    def __call__(self, step, *, own_count=True):
        with measure(self.endpoint) as measured, counting() as self.counters:
            self.result = step()
        if own_count:
            assert self.counters.cost().total_calls == measured.total, measured
        return [call.operation for call in measured.calls]


@pytest.fixture
def cost(clean_s3_endpoint):
    return Cost(clean_s3_endpoint)


def test_the_probe_is_one_listing_and_a_replacement_two_puts(on_s3, cost):
    datasets = on_s3.datasets
    made = datasets.create("__manifest", SCHEMA, [rows("a")], {})
    assert cost(lambda: datasets.latest_version("__manifest", None)) == ["LIST"]
    assert cost(lambda: datasets.stage_fragment(made, rows("b"))) == ["PUT"]
    staged = cost.result
    assert cost(lambda: datasets.replace(made, [staged, *made.fragments], SCHEMA, {}, fresh())) == [
        "PUT",
        "PUT",
    ]
    assert cost(lambda: datasets.latest_version("__manifest", None)) == ["LIST"]


def test_opening_the_latest_version_is_a_listing_and_a_get(on_s3, cost):
    on_s3.datasets.create("__manifest", SCHEMA, [rows("a")], {})
    cold = on_s3.another_process()
    assert cost(lambda: cold.datasets.open_latest("__manifest", None)) == ["LIST", "GET"]
    assert cost(lambda: cold.datasets.open_latest("__manifest", None)) == ["LIST"]


def test_opening_a_pin_costs_two_calls_cold_and_none_warm(on_s3, cost):
    pin = on_s3.create("a")
    cold = on_s3.another_process()
    assert cost(lambda: cold.open(pin)) == ["HEAD", "GET"]
    assert cost(lambda: cold.open(pin)) == []


@pytest.mark.parametrize("depth", [1, 12])
def test_a_blind_insert_is_one_put_and_its_commit_three_calls(on_s3, cost, depth):
    pin = on_s3.create("seed")
    for number in range(depth):
        pin = on_s3.change(pin, upserts=[f"k{number}"])
    assert cost(lambda: on_s3.stage(pin, upserts=["new"], assume_new=True)) == ["PUT"]
    assert cost(lambda: on_s3.commit(cost.result)) == ["LIST", "PUT", "PUT"]


@pytest.mark.parametrize("depth", [1, 12])
def test_a_warm_keyed_insert_costs_no_more_than_a_blind_one(on_s3, cost, depth):
    pin = on_s3.create("seed")
    for number in range(depth):
        pin = on_s3.change(pin, upserts=[f"k{number}"])
    assert cost(lambda: on_s3.stage(pin, upserts=["new"], expect_new=True)) == ["PUT"]
    assert cost(lambda: on_s3.commit(cost.result)) == ["LIST", "PUT", "PUT"]


def test_a_warm_keyed_insert_into_an_indexed_table_asks_only_memory(on_s3, cost):
    pin = on_s3.create(*(f"k{number}" for number in range(50)))
    pin = on_s3.commit(stage_indexes(on_s3.open(pin), [BTREE], **on_s3.origin).commit)
    pin = on_s3.change(pin, upserts=["one"])
    assert cost(lambda: on_s3.stage(pin, upserts=["two"], expect_new=True)) == ["PUT"]


def test_a_warm_update_of_a_tail_row_writes_two_files_side_by_side(on_s3, cost):
    pin = on_s3.create("seed", "other")
    pin = on_s3.change(pin, upserts=["a", "b"])
    assert sorted(cost(lambda: on_s3.stage(pin, upserts=["a"], n=1))) == ["PUT", "PUT"]
    assert cost.counters.cost().serial_stages == 1


def test_a_warm_fold_reads_nothing(on_s3, cost):
    pin = on_s3.create("seed")
    for number in range(5):
        pin = on_s3.change(pin, upserts=[f"k{number}"])
    assert cost(lambda: on_s3.stage(pin, upserts=["new"], tail_limit=3)) == ["PUT"]
    assert len(on_s3.open(on_s3.commit(cost.result)).fragments) == 1


def test_a_head_is_one_listing_and_a_mark_one_get(on_s3, cost):
    pin = on_s3.change(on_s3.create("a"), upserts=["b"])
    assert cost(lambda: on_s3.tables.head("nodes/1", None)) == ["LIST"]
    assert cost(lambda: on_s3.tables.commit_mark(pin)) == ["GET"]


def test_a_fork_is_eight_calls_and_its_first_write_needs_no_reopening(on_s3, cost):
    pin = on_s3.change(on_s3.create("a"), upserts=["b"])
    assert len(cost(lambda: on_s3.tables.fork(pin, "draft"))) <= 8
    fork = cost.result
    # What the fork inherits is known by its data files, so the tail in memory serves the branch too.
    assert cost(lambda: on_s3.stage(fork, upserts=["c"])) == ["PUT"]
    assert cost(lambda: on_s3.commit(cost.result)) == ["LIST", "PUT", "PUT"]


def test_deleting_a_branch_does_not_look_at_the_others(on_s3, cost):
    pin = on_s3.create("a")
    for name in ("one", "two", "three", "four"):
        on_s3.tables.fork(pin, name)
    calls = cost(lambda: on_s3.tables.delete_fork("nodes/1", "two"))
    assert calls == ["POST_DELETE", "LIST", "POST_DELETE"]
