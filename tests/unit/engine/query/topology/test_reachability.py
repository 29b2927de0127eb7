"""Reachability, against the loop that defines it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.query.topology.test_expansion import SEEDED, adjacency_of, codes_of, listed

from omnigraph.engine.query.topology import expansion as reachability
from omnigraph.engine.query.topology import reach

NODES = 6
PAIRS = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=14)
CODES = st.lists(st.integers(0, NODES - 1), max_size=8)
HOPS = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(sorted)


class RefusedError(Exception):
    pass


def nothing(_):
    return None


def reached_from(source, pairs, min_hops, max_hops, *, same_type=True):
    """What the definition has for one source."""
    if not same_type:
        return {target for one, target in pairs if one == source and min_hops == 1}
    ends, found = {source}, set()
    for hop in range(1, max_hops + 1):
        ends = {target for one, target in pairs if one in ends and one != target}
        if hop >= min_hops:
            found |= ends - {source}
    return found | ({source} if min_hops == 1 and (source, source) in pairs else set())


@pytest.fixture(params=[(1 << 22, 1 << 20, 16), (1, 1, 16), (12, 3, 1 << 20), (1 << 22, 1 << 20, 0)])
def bounds(request, monkeypatch):
    """Walk all together, one by one, in small pieces that mark everything, and sorting always."""
    for name, value in zip(("_MARKS", "_EDGES_AT_ONCE", "_DENSE_SHARE"), request.param, strict=True):
        monkeypatch.setattr(reachability, name, value)


@pytest.mark.usefixtures("bounds")
def test_a_walk_reaches_what_the_definition_has():
    @SEEDED
    @given(PAIRS, CODES, HOPS)
    def holds(pairs, codes, hops):
        found = reach(adjacency_of(pairs, NODES, NODES), codes_of(codes), *hops, same_type=True, check=nothing)
        expected = [(row, node) for row, code in enumerate(codes) for node in sorted(reached_from(code, pairs, *hops))]
        assert listed(*found) == expected

    holds()


@pytest.mark.usefixtures("bounds")
def test_a_walk_from_the_destination_finds_the_sources_that_reach_it():
    @SEEDED
    @given(PAIRS, CODES, HOPS)
    def holds(pairs, codes, hops):
        reverse = adjacency_of([(target, source) for source, target in pairs], NODES, NODES)
        found = reach(reverse, codes_of(codes), *hops, same_type=True, check=nothing)
        sources = {node: reached_from(node, pairs, *hops) for node in range(NODES)}
        expected = [(row, node) for row, code in enumerate(codes) for node in range(NODES) if code in sources[node]]
        assert listed(*found) == expected

    holds()


@SEEDED
@given(PAIRS, CODES, HOPS)
def test_an_edge_between_two_types_is_walked_once(pairs, codes, hops):
    found = reach(adjacency_of(pairs, NODES, NODES), codes_of(codes), *hops, same_type=False, check=nothing)
    reached = [reached_from(code, pairs, *hops, same_type=False) for code in codes]
    assert listed(*found) == [(row, node) for row, nodes in enumerate(reached) for node in sorted(nodes)]


def test_a_cycle_does_not_lead_back_to_its_start():
    ring = adjacency_of([(0, 1), (1, 2), (2, 0)], 3, 3)
    assert listed(*reach(ring, codes_of([0]), 1, 9, same_type=True, check=nothing)) == [
        (0, 1),
        (0, 2),
    ]


def test_a_walk_says_how_much_memory_it_wants_and_stops_when_refused():
    star = adjacency_of([(0, node) for node in range(1, 50)] + [(node, 0) for node in range(1, 50)], 50, 50)
    asked = []
    reach(star, np.arange(50), 1, 2, same_type=True, check=asked.append)
    # 50 walks find 49 nodes each, and hold row and node of each.
    assert max(asked) >= 50 * 49 * 16

    def refuse(size_bytes):
        if size_bytes > 5_000:
            raise RefusedError

    with pytest.raises(RefusedError):
        reach(star, np.arange(50), 1, 2, same_type=True, check=refuse)


def test_a_walk_asks_for_leave_before_every_piece_of_work(monkeypatch):
    monkeypatch.setattr(reachability, "_EDGES_AT_ONCE", 10)
    line = adjacency_of([(node, node + 1) for node in range(99)], 100, 100)
    asked = []
    reach(line, codes_of([0]), 1, 99, same_type=True, check=asked.append)
    assert len(asked) >= 99


@pytest.mark.more
def test_a_walk_in_every_graph_of_four_nodes_reaches_what_the_definition_has():
    # The graphs are parts of a few larger ones, so that one call walks in many.
    numbers = np.arange(1 << 16)
    links = ((numbers[:, None] >> np.arange(16)) & 1).astype(bool).reshape(-1, 4, 4)
    starts = np.eye(4, dtype=bool)
    for some in np.array_split(links, 256):
        sources, targets = (axis.ravel() for axis in np.indices((len(some), 4, 4))[1:])
        first = np.repeat(np.arange(len(some)) * 4, 16)
        pairs = list(zip((first + sources)[some.ravel()], (first + targets)[some.ravel()], strict=True))
        adjacency = adjacency_of(pairs, 4 * len(some), 4 * len(some))
        others = (some & ~starts).astype(int)
        ends = [np.broadcast_to(starts, some.shape).astype(int)]
        for _ in range(9):
            ends.append(((ends[-1] @ others) > 0).astype(int))
        for low in range(1, 5):
            for high in (*range(low, 6), low + 4):
                expected = (sum(ends[low : high + 1]) > 0) & ~starts
                expected |= some & starts & (low == 1)
                codes = np.arange(4 * len(some))
                rows, found = reach(adjacency, codes, low, high, same_type=True, check=nothing)
                reached = np.zeros(some.shape, dtype=bool)
                reached[rows // 4, rows % 4, found % 4] = True
                assert (found // 4 == rows // 4).all()
                assert (reached == expected).all(), (low, high)
