"""Distances and nearest vectors against plain arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.query.search import distances, nearest, rank_order, squared_norms
from omnigraph.engine.query.search.vectors import near_by_product

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


LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)
# Numbers at which single precision overflows, underflows, cancels, or has no value at all.
ORDINARY = (0.0, -0.0, 1.0, 1.0 + 2**-23, -1.0, 3e18, -3e18, 1e19, 1e-38, 1e-20)
HOSTILE = st.sampled_from((*ORDINARY, LARGEST, -LARGEST, SMALLEST, -SMALLEST, math.inf, -math.inf, math.nan))


@st.composite
def hostile_cases(draw):
    width = draw(st.integers(1, 5))
    vector = st.lists(HOSTILE | NUMBERS, min_size=width, max_size=width)
    known = draw(st.lists(vector, min_size=1, max_size=6))
    # Drawn again and again, so that there are duplicates.
    rows = draw(st.lists(st.none() | st.sampled_from(known), max_size=150))
    wanted = draw(st.none() | st.lists(st.integers(0, max(len(rows) - 1, 0)), unique=True, max_size=len(rows)))
    codes = None if wanted is None else np.array(wanted, dtype=np.int64)
    return rows, draw(vector | st.sampled_from(known)), draw(st.integers(0, 12)), codes, width


@settings(deadline=None, max_examples=300)
@given(hostile_cases(), st.integers(1, 200))
def test_whatever_the_numbers_are_the_nearest_are_those_of_double_precision(case, chunk_rows):
    rows, query, limit, codes, width = case
    vectors = column(rows, width, chunk_rows)
    everyone = np.arange(len(rows)) if codes is None else codes
    with np.errstate(all="ignore"):
        exact = distances(vectors, query, everyone)
    best = rank_order(exact, everyone, ids_of, limit=limit)
    found, away = nearest(vectors, query, limit, ids_of, codes)
    assert found.tolist() == everyone[best].tolist()
    assert away.tolist() == exact[best].tolist()


@pytest.mark.more
@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 3, 64, 300]),
    st.sampled_from([1e-30, 1e-3, 1.0, 1e6, 1e17]),
    st.sampled_from([0.0, 1.0, 1e4]),
    st.sampled_from([1.0, 1e-5, 1e5]),
)
def test_the_bound_on_the_product_holds_in_exact_arithmetic(seed, width, scale, offset, ratio):
    """Every row that is truly among the nearest passes, though single precision has lost most digits."""
    random = np.random.default_rng(seed)
    numbers = ((offset + random.normal(size=(200, width))) * scale).astype(np.float32)
    query = ((offset + random.normal(size=width)) * scale * ratio).astype(np.float32)
    vectors = pa.chunked_array([pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), width)])
    norms = pa.chunked_array([squared_norms(vectors.chunk(0))])
    true = [
        sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(row, query, strict=True)) for row in numbers
    ]
    order = sorted(range(200), key=true.__getitem__)
    for limit in (1, 7, 100):
        passing = set(near_by_product(vectors, norms, query.tolist(), limit, None).tolist())
        last = true[order[limit - 1]]
        assert {code for code in range(200) if true[code] <= last} <= passing


def test_the_product_leaves_few_candidates():
    random = np.random.default_rng(3)
    numbers = random.normal(size=(20_000, 64)).astype(np.float32)
    vectors = pa.chunked_array([pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 64)])
    norms = pa.chunked_array([squared_norms(vectors.chunk(0))])
    assert len(near_by_product(vectors, norms, numbers[5].tolist(), 10, None)) < 20


def test_one_huge_vector_does_not_make_candidates_of_the_others():
    random = np.random.default_rng(3)
    numbers = random.normal(size=(20_000, 64)).astype(np.float32)
    numbers[77] = 1e15
    vectors = pa.chunked_array([pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 64)])
    norms = pa.chunked_array([squared_norms(vectors.chunk(0))])
    assert len(near_by_product(vectors, norms, numbers[5].tolist(), 10, None)) < 20


def test_norms_say_where_there_is_no_vector():
    found = squared_norms(column([[3, 4, 0], None, [1, None, 0], [math.inf, 0, 0]]).chunk(0)).to_pylist()
    assert found == pytest.approx([25.0, math.nan, math.nan, math.inf], nan_ok=True)
