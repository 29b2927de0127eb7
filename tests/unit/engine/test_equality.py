"""Two rows are the same when every value is, by type and structure."""

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.equality import rows_equal
from omnigraph.errors import InternalError

TEXTS = pa.list_(pa.field("item", pa.string()))
VECTOR = pa.list_(pa.field("item", pa.float32()), 2)


def compared(kind, before, after):
    old = pa.table({"id": ["x"] * len(before), "v": pa.array(before, kind)})
    new = pa.table({"id": ["x"] * len(after), "v": pa.array(after, kind)})
    return rows_equal(old, new).tolist()


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (pa.string(), None, ""),
        (TEXTS, None, []),
        (TEXTS, [], [""]),
        (TEXTS, [None], [""]),
        (TEXTS, ["a, b"], ["a", "b"]),
        (TEXTS, ["a", "b"], ["b", "a"]),
        (TEXTS, ["a"], ["a", None]),
        (pa.float64(), 0.0, -0.0),
        (pa.float32(), 0.0, -0.0),
        (VECTOR, [0.0, 1.0], [-0.0, 1.0]),
        (VECTOR, [1.0, None], [1.0, 0.0]),
        (pa.large_binary(), None, b""),
        (pa.large_binary(), b"one", b"two"),
        (pa.bool_(), None, False),
        (pa.date64(), 0, 86_400_000),
        (pa.uint64(), 2**64 - 1, 2**64 - 2),
    ],
)
def test_values_that_only_look_alike_differ(kind, before, after):
    assert compared(kind, [before], [after]) == [False]
    assert compared(kind, [after, before], [after, before]) == [True, True]


def test_a_float_that_is_no_number_equals_itself():
    nan = float("nan")
    assert compared(pa.float64(), [nan, nan, None], [nan, 1.0, None]) == [True, False, True]
    assert compared(VECTOR, [[nan, 1.0]], [[nan, 1.0]]) == [True]


def test_rows_are_compared_place_by_place_whatever_their_chunks():
    values = [["a"], None, [], ["b", None], ["c"] * 3, [None]]
    whole = pa.table({"v": pa.array(values, TEXTS)})
    cut = pa.table(
        {
            "v": pa.chunked_array(
                [pa.array(values[:1], TEXTS), pa.array(values[1:5], TEXTS), pa.array(values[5:], TEXTS)]
            )
        }
    )
    other = pa.table({"v": pa.chunked_array([pa.array(values[:4], TEXTS), pa.array([["c"] * 2, [None]], TEXTS)])})
    assert rows_equal(whole, cut).all()
    assert rows_equal(cut, other).tolist() == [True, True, True, True, False, True]


def test_columns_are_paired_by_name_and_ids_count():
    before = pa.table({"id": ["a", "b"], "v": [1, 2]})
    assert rows_equal(before, before.select(["v", "id"])).all()
    assert rows_equal(before, pa.table({"id": ["a", "c"], "v": [1, 2]})).tolist() == [True, False]


def test_no_rows_are_equal_to_no_rows():
    none = pa.table({"id": pa.array([], pa.string()), "v": pa.array([], VECTOR)})
    assert rows_equal(none, none).tolist() == []
    assert rows_equal(none, none).dtype == np.bool_


@pytest.mark.parametrize(
    "other",
    [
        pa.table({"id": ["a"]}),
        pa.table({"id": ["a"], "v": ["1"]}),
        pa.table({"id": ["a", "b"], "v": [1, 2]}),
    ],
)
def test_rows_of_another_shape_are_never_compared(other):
    with pytest.raises(InternalError, match="cannot compare"):
        rows_equal(pa.table({"id": ["a"], "v": [1]}), other)
