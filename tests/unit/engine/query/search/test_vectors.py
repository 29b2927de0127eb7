"""Distances and nearest vectors against plain arithmetic."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.query.search import distances, nearest

# A busy machine must not fail a test that is right.
UNHURRIED = settings(deadline=None)
NUMBERS = st.floats(-100, 100, width=32)
POINTS = st.lists(st.none() | st.lists(NUMBERS, min_size=3, max_size=3), max_size=20)
QUERY = st.lists(NUMBERS, min_size=3, max_size=3)


def column(vectors, width=3, chunk_rows=4):
    of = pa.list_(pa.field("item", pa.float32(), nullable=True), width)
    chunks = [pa.array(vectors[start : start + chunk_rows], of) for start in range(0, len(vectors), chunk_rows)]
    return pa.chunked_array(chunks, type=of)


def ids_of(codes):
    """Ids that run against the codes, so that ties show whether ids were asked."""
    return pa.array([f"id{1000 - code:04}" for code in codes], pa.string())


def plain(vectors, query):
    return [math.nan if vector is None else math.dist(vector, query) for vector in vectors]


def same(left, right):
    return left.tolist() == pytest.approx(right, rel=1e-12, abs=1e-300, nan_ok=True)


@UNHURRIED
@given(POINTS, QUERY)
def test_distance_is_euclidean(vectors, query):
    assert same(distances(column(vectors), query), plain(vectors, query))


@UNHURRIED
@given(POINTS, QUERY, st.randoms())
def test_a_row_has_the_same_distance_whatever_else_is_asked(vectors, query, random):
    codes = np.array(random.sample(range(len(vectors)), len(vectors) // 2), dtype=np.int64)
    whole = distances(column(vectors), query)
    some = distances(column(vectors, chunk_rows=3), query, codes)
    assert np.array_equal(some, whole[codes], equal_nan=True)


@UNHURRIED
@given(POINTS, QUERY, st.integers(-1, 25))
def test_nearest_are_the_first_of_a_full_sort(vectors, query, limit):
    exact = distances(column(vectors), query)
    ranked = sorted((exact[code], f"id{1000 - code:04}", code) for code in range(len(vectors)) if exact[code] >= 0)
    codes, found = nearest(column(vectors), query, limit, ids_of)
    expected = ranked[: max(limit, 0)]
    assert codes.tolist() == [code for *_, code in expected]
    assert found.tolist() == [distance for distance, *_ in expected]


@UNHURRIED
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(1, 8))
def test_differences_too_small_for_single_precision_are_told_apart(steps, limit):
    vectors = [[1.0 + step * 2**-23] * 64 for step in steps]
    query = [1.0] * 64
    codes, _ = nearest(column(vectors, 64), query, limit, ids_of)
    ranked = sorted(range(len(steps)), key=lambda code: (abs(np.float32(vectors[code][0]) - 1), -code))
    assert codes.tolist() == ranked[:limit]


def test_only_the_given_rows_take_part():
    vectors = column([[0, 0, 0], [1, 0, 0], None, [2, 0, 0], [3, 0, 0]])
    codes, found = nearest(vectors, [0, 0, 0], 2, ids_of, np.array([4, 2, 1]))
    assert (codes.tolist(), found.tolist()) == ([1, 4], [1.0, 3.0])


def test_ties_go_by_entity_id():
    vectors = column([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert nearest(vectors, [0, 0, 0], 2, ids_of)[0].tolist() == [2, 1]


def test_numbers_may_stand_for_ids():
    vectors = column([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert nearest(vectors, [0, 0, 0], 2, lambda codes: codes)[0].tolist() == [0, 1]


def test_a_query_is_rounded_as_stored_vectors_are():
    assert distances(column([[0.1, 0.2, 0.3]]), [0.1, 0.2, 0.3]).tolist() == [0.0]


def test_the_largest_numbers_do_not_overflow():
    largest = float(np.finfo(np.float32).max)
    vectors = column([[largest] * 3, [-largest] * 3, [0, 0, 0]])
    codes, found = nearest(vectors, [largest] * 3, 3, ids_of)
    assert codes.tolist() == [0, 2, 1]
    assert all(math.isfinite(distance) for distance in found)


def test_the_smallest_numbers_are_told_apart():
    vectors = column([[2e-30, 0, 0], [1e-30, 0, 0]])
    assert nearest(vectors, [0, 0, 0], 1, ids_of)[0].tolist() == [1]


@pytest.mark.parametrize("vectors", [[], [None], [None, None, None, None, None]])
def test_where_there_is_no_vector_nothing_is_near(vectors):
    codes, found = nearest(column(vectors), [0, 0, 0], 3, ids_of)
    assert (codes.tolist(), found.tolist()) == ([], [])


def test_an_incomplete_vector_takes_no_part():
    vectors = column([[1, None, 0], [1, 1, 0]])
    assert nearest(vectors, [0, 0, 0], 2, ids_of)[0].tolist() == [1]


def test_slices_of_arrays_are_read_from_their_own_place():
    whole = column([[9, 9, 9], None, [1, 0, 0], [2, 0, 0]]).chunk(0)
    assert same(distances(pa.chunked_array([whole[1:]]), [0, 0, 0]), [math.nan, 1.0, 2.0])


def test_many_rows_agree_with_a_full_sort():
    random = np.random.default_rng(7)
    numbers = random.integers(-4, 5, (5000, 16)).astype(np.float32)
    vectors = pa.chunked_array([pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 16)])
    query = [0.5] * 16
    exact = np.sqrt(((numbers.astype(np.float64) - 0.5) ** 2).sum(axis=1))
    codes, found = nearest(vectors, query, 50, lambda codes: codes)
    assert codes.tolist() == np.lexsort((np.arange(5000), exact))[:50].tolist()
    assert found.tolist() == exact[codes].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_single_precision_cannot_tell_apart_are_ranked_right(seed):
    random = np.random.default_rng(seed)
    numbers = (1 + random.uniform(0, 1e-6, (3000, 64))).astype(np.float32)
    query = random.uniform(-1, 1, 64).astype(np.float32)
    vectors = pa.chunked_array([pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 64)])
    best = np.argsort(distances(vectors, query.tolist()))[:10]
    assert nearest(vectors, query.tolist(), 10, ids_of)[0].tolist() == best.tolist()
