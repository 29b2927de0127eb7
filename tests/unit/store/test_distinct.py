"""Values that are all different, however they are looked at."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.store.tables import tail as distinct


@pytest.mark.parametrize("one_array_bytes", [0, 1 << 30])
@given(values=st.lists(st.none() | st.sampled_from("abcdef"), max_size=8), cut=st.integers(0, 8), ordered=st.booleans())
@settings(max_examples=100, deadline=None)
def test_repeated_values_are_found_in_any_order_and_any_pieces(one_array_bytes, values, cut, ordered):
    if ordered:
        values = sorted(value for value in values if value is not None)
    whole = [value for value in values if value is not None]
    column = pa.chunked_array([pa.array(values[:cut], pa.string()), pa.array(values[cut:], pa.string())])
    kept, distinct._ONE_ARRAY_BYTES = distinct._ONE_ARRAY_BYTES, one_array_bytes
    try:
        assert distinct.are_all_different(column) == (len(set(whole)) == len(whole))
    finally:
        distinct._ONE_ARRAY_BYTES = kept


def test_one_repetition_behind_many_values_in_order_is_found():
    ids = [f"{number:06d}" for number in range(5000)]
    assert distinct.are_all_different(pa.array(ids))
    assert not distinct.are_all_different(pa.array([*ids, ids[-1]]))
    assert not distinct.are_all_different(pa.array([*ids, ids[0]]))


@pytest.mark.parametrize(
    "values", [pa.array([1, 2]), pa.array([1.5, -2.0]), pa.array([True, False]), pa.array([b"x", b"y"])]
)
def test_columns_of_other_types_are_compared_too(values):
    assert distinct.are_all_different(values)
    assert not distinct.are_all_different(pa.concat_arrays([values, values.slice(0, 1)]))
