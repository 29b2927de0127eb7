"""Sums of floats: the number nearest to the true sum, in whatever order and parts the numbers come."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.engine.exact_sums import PARTIAL, ExactSums, limb_columns

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NEAR = st.floats(min_value=-1e6, max_value=1e6)


def _nearest(values):
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _sums(values, codes, count):
    return ExactSums.of(np.array(values, dtype=np.float64), np.array(codes, dtype=np.int64), count)


@given(st.lists(st.one_of(FLOATS, NEAR, st.integers(-9, 9).map(float)), max_size=40))
@example([1e308, 1e308, -1e308])
@example([1e308, 1e308])
@example([1e100, 1.0, -1e100])
@example([5e-324, -5e-324, 5e-324])
@example([0.1] * 10)
@example([float(1 << 53), 1.0, 1e-300])
@example([-float(1 << 53), -1.0, -1e-300])
def test_a_sum_is_the_float_that_is_nearest_to_it(values):
    found = _sums(values, [0] * len(values), 1).rounded()
    assert found.tolist() == [_nearest(values)]


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(FLOATS, NEAR)), max_size=30), st.integers(1, 4), st.randoms())
def test_parts_and_their_order_change_nothing(rows, parts, random):
    whole = _sums([value for _, value in rows], [code for code, _ in rows], 4).rounded()
    random.shuffle(rows)
    pieces = [rows[start::parts] for start in range(parts)]
    encoded = [_sums([value for _, value in piece], [code for code, _ in piece], 4).encode() for piece in pieces]
    partial = ExactSums.decode(pa.concat_arrays(encoded))
    merged = partial.merge(np.tile(np.arange(4), parts), 4)
    assert merged.rounded().tobytes() == whole.tobytes()
    assert ExactSums.decode(merged.encode()).rounded().tobytes() == whole.tobytes()


def test_infinities_and_nan_are_kept_apart():
    inf, nan = math.inf, math.nan
    sums = _sums([inf, 1.0, -inf, inf, -inf, nan, 2.5], [0, 0, 1, 2, 2, 3, 4], 6)
    found = ExactSums.decode(sums.encode()).rounded().tolist()
    assert found[:2] == [inf, -inf]
    assert [math.isnan(value) for value in found] == [False, False, True, True, False, False]
    assert found[4:] == [2.5, 0.0]


@given(st.lists(st.one_of(FLOATS, NEAR, st.just(math.inf)), max_size=20))
def test_limbs_in_columns_are_those_of_the_sum(values):
    columns, others = limb_columns(np.array(values, dtype=np.float64), 31, 10)
    sums = ExactSums.of_limbs(31, np.array([[column.sum() for column in columns]]))
    assert sums.rounded().tolist() == [_nearest([value for value, out in zip(values, others, strict=True) if not out])]
    usual = [0 < abs(value) < 1e38 and abs(value) > 1e-28 for value in values]
    assert not any(is_usual and is_out for is_usual, is_out in zip(usual, others, strict=True))


def test_nothing_travels_as_nothing():
    empty = _sums([], [], 0).encode()
    assert (len(empty), empty.type) == (0, PARTIAL)
    assert ExactSums.decode(empty).rounded().tolist() == []
    assert ExactSums.decode(_sums([], [], 2).encode()).rounded().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rows", [1 << 20, (1 << 20) + 1])
def test_sums_of_more_rows_than_a_piece_has(rows):
    assert _sums(np.full(rows, 0.1), np.zeros(rows), 1).rounded().tolist() == [float(Fraction(0.1) * rows)]
