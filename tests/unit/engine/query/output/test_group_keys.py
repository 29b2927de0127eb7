"""Group columns: the same values come back, and what is grouped spreads over Arrow's buckets whatever the bits are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.query.output.aggregates import GroupKey

COLUMNS = {
    "text": pa.array(["b", None, "a", "b"]),
    "small integers": pa.array([3, None, -1, 3], pa.int32()),
    "wide integers": pa.array([1 << 40, None, 1 << 41, 1 << 40]),
    "floats": pa.array([0.0, None, 1.5, -0.0]),
    "dates": pa.array([1, None, 2, 1], pa.int32()).view(pa.date32()),
    "times": pa.array([86_400_000, None, 1, 86_400_000], pa.int64()).view(pa.date64()),
    "booleans": pa.array([True, None, False, True]),
    "lists": pa.array([["x"], None, [], ["x"]], pa.list_(pa.string())),
    "vectors": pa.array([[1.0, 2.0], None, [2.0, 1.0], [1.0, 2.0]], pa.list_(pa.float32(), 2)),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_each_value_is_one_group_and_comes_back_as_it_was(column):
    key = GroupKey.encode(column)
    groups = pa.table({"key": key.values}).group_by("key", use_threads=False).aggregate([])
    shown = key.decode(groups.column("key"))
    assert shown.type == column.type
    assert sorted(map(repr, shown.to_pylist())) == sorted(map(repr, column.slice(0, 3).to_pylist()))


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_no_row_gives_no_group(column):
    key = GroupKey.encode(column.slice(0, 0))
    shown = key.decode(pa.chunked_array([], key.values.type))
    assert (shown.type, len(shown)) == (column.type, 0)


@pytest.mark.parametrize("spread", [lambda numbers: numbers << 40, lambda numbers: numbers.astype(np.float64)])
def test_values_that_differ_only_in_their_high_bits_are_grouped_by_numbers_that_differ_in_their_low_ones(spread):
    numbers = np.random.default_rng(3).integers(0, 70_000, 400_000)
    key = GroupKey.encode(pa.array(spread(numbers)))
    groups = pa.table({"key": key.values}).group_by("key", use_threads=False).aggregate([])
    count = len(np.unique(numbers))
    assert len(groups) == count
    # By the values themselves all rows fall into one bucket, and each is compared with every group.
    assert len(np.unique(key.values.to_numpy() & 0x1FFFF)) == count
