"""Rank order with ties, and reciprocal rank fusion against exact fractions."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.query.search import fuse, rank_order

# A busy machine must not fail a test that is right.
UNHURRIED = settings(deadline=None)
RANKINGS = st.lists(st.integers(0, 30), unique=True, max_size=20)


def codes(*values):
    return np.array(values, dtype=np.int64)


def ids_of(asked):
    return pa.array([f"e{(code * 7) % 101:03}" for code in asked], pa.string())


def naive_fuse(first, second, k, limit):
    scores = {}
    for arm in (first, second):
        for rank, code in enumerate(arm, start=1):
            scores[code] = scores.get(code, 0) + Fraction(1, k + rank)
    last = len(scores) + 1

    def key(code):
        return (
            -scores[code],
            first.index(code) if code in first else last,
            second.index(code) if code in second else last,
        )

    best = sorted(scores, key=key)[:limit]
    return best, [float(scores[code]) for code in best]


@UNHURRIED
@given(RANKINGS, RANKINGS, st.integers(1, 80), st.integers(0, 25))
def test_fusion_is_that_of_exact_fractions(first, second, k, limit):
    found, scores = fuse(codes(*first), codes(*second), k, limit)
    assert (found.tolist(), scores.tolist()) == naive_fuse(first, second, k, limit)


def test_equal_scores_keep_the_order_of_the_first_ranking():
    found, scores = fuse(codes(1, 2, 3), codes(2, 1, 4), 60, 4)
    assert found.tolist() == [1, 2, 3, 4]
    assert scores[0] == scores[1]
    assert scores[2] == scores[3]


def test_sums_that_are_equal_on_paper_are_equal_numbers():
    first = codes(*range(30))
    second = codes(*range(100, 111), 11, *range(111, 122), 2)
    found, scores = fuse(first, second, 60, 60)
    by_code = dict(zip(found.tolist(), scores.tolist(), strict=True))
    assert Fraction(1, 72) * 2 == Fraction(1, 63) + Fraction(1, 84)
    assert by_code[11] == by_code[2]
    assert found.tolist().index(2) < found.tolist().index(11)


@pytest.mark.parametrize("limit", [0, -1])
def test_no_room_gives_nothing(limit):
    found, scores = fuse(codes(1, 2), codes(2), 60, limit)
    assert (found.tolist(), scores.tolist()) == ([], [])


def test_an_empty_ranking_adds_nothing():
    found, scores = fuse(codes(), codes(5, 3), 60, 10)
    assert (found.tolist(), scores.tolist()) == ([5, 3], [1 / 61, 1 / 62])
    assert fuse(codes(), codes(), 60, 10)[0].tolist() == []


def test_a_huge_constant_is_no_trouble():
    found, _ = fuse(codes(1, 2), codes(2, 1), 2**62, 2)
    assert found.tolist() == [1, 2]


@UNHURRIED
@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, np.nan, np.inf]), max_size=25),
    st.none() | st.integers(-1, 30),
    st.booleans(),
)
def test_rank_order_is_a_sort_by_value_and_id(values, limit, is_descending):
    entities = np.arange(len(values))[::-1]
    found = rank_order(np.array(values, dtype=np.float64), entities, ids_of, limit=limit, is_descending=is_descending)
    sign = -1 if is_descending else 1
    ids = ids_of(entities).to_pylist()
    ranked = sorted((sign * value, ids[place], place) for place, value in enumerate(values) if not np.isnan(value))
    expected = [place for *_, place in ranked]
    assert found.tolist() == (expected if limit is None else expected[: max(limit, 0)])


def test_ids_are_asked_about_ties_only():
    asked = []

    def listening(tied):
        asked.append(tied.tolist())
        return ids_of(tied)

    values = np.array([3.0, 1.0, 2.0, 1.0])
    rank_order(values, codes(10, 11, 12, 13), listening)
    rank_order(values[:3], codes(10, 11, 12), listening)
    assert asked == [[11, 13]]
