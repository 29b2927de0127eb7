"""Rows in order, few or many: as a plain sort by all keys gives them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.query.output.ordering import PIECE_ROWS, first_rows, rank_values

MANY = 2 * PIECE_ROWS + 5


def keys_of(count, *below):
    numbers = np.random.default_rng(11)
    return [numbers.integers(-limit, limit, count) for limit in below]


@pytest.mark.parametrize("count", [0, 1, 1000, MANY])
@pytest.mark.parametrize(
    "below", [(1, 1), (2, 3, 1_000_000), (90, 7), (1_000_000,)], ids=["few values", "ties", "groups", "spread"]
)
def test_rows_come_in_the_order_of_all_keys_and_equal_ones_as_they_were(count, below):
    keys = keys_of(count, *below)
    expected = np.lexsort(keys[::-1])
    assert np.array_equal(first_rows(keys, None), expected)
    for limit in (0, 1, 20, count, count + 1):
        assert np.array_equal(first_rows(keys, limit), expected[:limit])


def test_one_value_that_most_rows_have_does_not_hide_the_others():
    keys = [np.where(np.arange(MANY) % 1000 == 0, np.arange(MANY), 7), *keys_of(MANY, 1_000_000)]
    assert np.array_equal(first_rows(keys, None), np.lexsort(keys[::-1]))


def test_rows_in_order_already_stay():
    assert np.array_equal(first_rows([np.arange(MANY)], None), np.arange(MANY))


@pytest.mark.parametrize(
    ("values", "of"),
    [
        ([3, None, -7, 3], pa.int32()),
        ([3, None, -7, 3], pa.int64()),
        ([(1 << 63) - 1, None, -(1 << 63), (1 << 63) - 1], pa.int64()),
        ([(1 << 64) - 1, None, 0, (1 << 64) - 1], pa.uint64()),
        (["b", None, "a", "b"], pa.string()),
        ([0.5, None, -0.5, 0.5], pa.float64()),
        ([True, None, False, True], pa.bool_()),
    ],
)
def test_null_ranks_below_every_value_in_both_directions(values, of):
    ranks = rank_values(pa.array(values, of))
    assert ranks[1] < ranks[2] < ranks[0] == ranks[3]
    assert np.array_equal(np.argsort(-ranks, kind="stable"), [0, 3, 2, 1])
