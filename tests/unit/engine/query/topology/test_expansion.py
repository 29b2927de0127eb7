"""One step along edges, against plain loops over lists of edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.query.topology import (
    Adjacency,
    are_linked,
    incident_edges,
    intersection,
    neighbour_counts,
    neighbour_sums,
    neighbours,
)

SEEDED = settings(derandomize=True, deadline=None)

NODES, TARGETS = 7, 5
PAIRS = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, TARGETS - 1)), max_size=40)
CODES = st.lists(st.integers(0, NODES - 1), max_size=12)


def adjacency_of(pairs, node_count=NODES, target_count=TARGETS):
    sources, targets = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))
    return Adjacency.of_pairs(sources, targets, np.arange(len(pairs)), node_count=node_count, target_count=target_count)


def codes_of(codes):
    return np.array(codes, dtype=np.int64)


def listed(*arrays):
    assert all(array.dtype == np.int64 for array in arrays)
    return list(zip(*(array.tolist() for array in arrays), strict=True))


@SEEDED
@given(PAIRS, CODES)
def test_neighbours_come_once_per_row_in_ascending_order(pairs, codes):
    expected = [
        (row, target) for row, code in enumerate(codes) for target in sorted({t for s, t in pairs if s == code})
    ]
    assert listed(*neighbours(adjacency_of(pairs), codes_of(codes))) == expected


@SEEDED
@given(PAIRS, st.integers(0, NODES), st.integers(0, NODES))
def test_neighbours_of_nodes_that_follow_one_another_are_the_same(pairs, first, last):
    codes = list(range(first, last))
    expected = [
        (row, target) for row, code in enumerate(codes) for target in sorted({t for s, t in pairs if s == code})
    ]
    assert listed(*neighbours(adjacency_of(pairs), codes_of(codes))) == expected


@SEEDED
@given(PAIRS, CODES)
def test_neighbour_counts_do_not_count_parallel_edges(pairs, codes):
    expected = [len({target for source, target in pairs if source == code}) for code in codes]
    assert neighbour_counts(adjacency_of(pairs), codes_of(codes)).tolist() == expected


@SEEDED
@given(PAIRS, st.lists(st.integers(-9, 9), min_size=TARGETS, max_size=TARGETS))
def test_neighbour_sums_add_each_neighbour_once(pairs, weights):
    expected = [sum(weights[t] for t in {t for s, t in pairs if s == node}) for node in range(NODES)]
    assert neighbour_sums(adjacency_of(pairs), np.array(weights)).tolist() == expected
    as_floats = neighbour_sums(adjacency_of(pairs), np.array(weights, dtype=np.float64))
    assert (as_floats.dtype, as_floats.tolist()) == (np.float64, expected)


@SEEDED
@given(PAIRS, CODES)
def test_incident_edges_come_one_by_one(pairs, codes):
    expected = sorted((row, t, e) for row, code in enumerate(codes) for e, (s, t) in enumerate(pairs) if s == code)
    assert sorted(listed(*incident_edges(adjacency_of(pairs), codes_of(codes), by_id=False))) == expected


@pytest.mark.parametrize(
    ("sorted_pairs", "marked_pairs"), [(0, 4096), (0, 0), (4096, 0)], ids=["sorted first", "marked", "as they come"]
)
def test_a_pair_is_linked_if_an_edge_leads_from_one_to_the_other(monkeypatch, sorted_pairs, marked_pairs):
    monkeypatch.setattr(intersection, "_SORTED_PAIRS", sorted_pairs)
    monkeypatch.setattr(intersection, "_MARKED_PAIRS", marked_pairs)
    monkeypatch.setattr(intersection, "_MARKS", 2 * TARGETS)

    @SEEDED
    @given(PAIRS, st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, TARGETS - 1)), max_size=12))
    def holds(pairs, asked):
        sources, targets = (codes_of([pair[side] for pair in asked]) for side in (0, 1))
        linked = are_linked(adjacency_of(pairs), sources, targets)
        assert linked.tolist() == [pair in pairs for pair in asked]

    holds()


def test_a_graph_without_nodes_has_no_neighbours():
    empty = adjacency_of([], node_count=0, target_count=0)
    nobody = codes_of([])
    assert listed(*neighbours(empty, nobody)) == []
    assert listed(*incident_edges(empty, nobody)) == []
    assert neighbour_sums(empty, np.zeros(0)).tolist() == []
    assert are_linked(empty, nobody, nobody).tolist() == []
