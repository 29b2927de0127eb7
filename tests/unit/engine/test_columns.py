"""Values at some places of a column in several pieces are those of the column in one, and sizes are never too small."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.columns import held_bytes, take_scattered
from omnigraph.errors import InternalError

VALUES = {
    "texts": (pa.string(), lambda number: f"value {number}"),
    "numbers": (pa.int64(), lambda number: number),
    "truth": (pa.bool_(), lambda number: number % 3 == 0),
    "lists": (pa.list_(pa.int32()), lambda number: [number] * (number % 3)),
}


def chunked(kind, make, sizes, *, has_nulls=True):
    values = [make(number) if number % 4 or not has_nulls else None for number in range(sum(sizes))]
    starts = [0, *accumulate(sizes)]
    return pa.chunked_array([pa.array(values[at : at + size], kind) for at, size in zip(starts, sizes, strict=False)])


@pytest.mark.parametrize("sizes", [(3, 4), (1, 0, 2, 4), (7, 0), (0, 7)], ids=str)
@pytest.mark.parametrize("of", VALUES)
def test_values_are_those_of_the_whole_column_in_the_order_of_the_places(of, sizes):
    column = chunked(*VALUES[of], sizes)
    for places in ([], [0], [6], [0, 1, 6], [6, 0, 5, 0], [2, 2, 3, 3], [*range(7)], [6, 5, 1, 0]):
        found = take_scattered(column, np.array(places, dtype=np.int64), lambda array, at: array.take(pa.array(at)))
        assert found.type == column.type
        assert found.to_pylist() == [column[place].as_py() for place in places]


@pytest.mark.parametrize("places", [[], [6], [0, 1, 6], [6, 0, 5, 0], [6, 5, 1, 0]])
@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.int64(), pa.float32(), pa.float64()], ids=str)
def test_numbers_are_taken_as_they_are_whatever_their_width(kind, places):
    column = chunked(kind, lambda number: number, (1, 0, 2, 4), has_nulls=False)
    found = take_scattered(column, np.array(places, dtype=np.int64), lambda *_: pytest.fail("sorted and taken"))
    assert found.type == kind
    assert found.to_pylist() == places


@pytest.mark.parametrize("place", [-1, 7])
def test_a_place_beyond_the_column_is_an_error_of_ours(place):
    column = chunked(pa.int64(), lambda number: number, (3, 4), has_nulls=False)
    with pytest.raises(InternalError, match="7 rows"):
        take_scattered(column, np.array([0, place]), lambda *_: None)


def test_only_chunks_that_have_a_place_are_asked_and_each_of_them_once():
    column = chunked(*VALUES["texts"], (10,) * 20)
    asked = []

    def take(array, at):
        asked.append(at.tolist())
        return array.take(pa.array(at))

    take_scattered(column, np.array([151, 3, 150, 5]), take)
    assert asked == [[3, 5], [0, 1]]


def test_a_part_of_something_large_counts_as_the_part():
    whole = pa.array(np.arange(1 << 20))
    assert held_bytes(whole.slice(0, 8)) == 64
    assert held_bytes(pa.array(np.arange(100)).slice(0, 8)) == 800
    assert held_bytes(whole) == whole.nbytes
