"""Proofs never call a change clean that is not."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.constraints import evaluation as proofs
from omnigraph.engine.constraints.kernel import Kernel
from omnigraph.engine.constraints.set_rules import UNIQUE_IN_CHANGE

ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["", "a", "b"]),
        st.none() | st.sampled_from([0.0, -0.0, 1.5]),
        st.none() | st.integers(0, 2),
    ),
    max_size=6,
)


def columns_of(rows, pieces=2):
    kinds = (pa.string(), pa.float64(), pa.int64())
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    cut = len(rows) // pieces
    return [
        pa.chunked_array([pa.array(column[:cut], kind), pa.array(column[cut:], kind)])
        for column, kind in zip(columns, kinds, strict=True)
    ]


@pytest.mark.parametrize("most_codes", [1, 1 << 62])
@given(rows=ROWS, width=st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_tuples_are_distinct_exactly_when_no_two_whole_ones_are_equal(most_codes, rows, width):
    whole = [row[:width] for row in rows if None not in row[:width]]
    kept, proofs._MOST_CODES = proofs._MOST_CODES, most_codes
    try:
        assert proofs.are_distinct(columns_of(rows)[:width]) == (len(set(whole)) == len(whole))
    finally:
        proofs._MOST_CODES = kept


def test_dates_with_a_time_of_day_are_told_apart():
    instants = pa.array([1_704_067_200_000, 1_704_067_200_001], pa.int64()).view(pa.date64())
    assert proofs.are_distinct([pa.chunked_array([instants])])
    assert not proofs.are_distinct([pa.chunked_array([instants, instants])])


def test_what_is_proven_is_neither_built_nor_run():
    def never():
        pytest.fail("the relations of a clean rule were built")

    with Kernel() as kernel:
        assert kernel.find(UNIQUE_IN_CHANGE, never, unless=lambda: True) is None
        assert kernel._connection is None
