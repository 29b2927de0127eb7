"""Adjacency arrays: their order, and the road for graphs whose numbers do not fit into one word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.query.topology.stored import Graph, assert_same
from tests.unit.engine.query.topology.test_expansion import SEEDED

from omnigraph.engine.query.topology import Adjacency, TopologyCache
from omnigraph.engine.query.topology import adjacency as links

ENTRIES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30)


@pytest.mark.parametrize("word_bits", [63, 0], ids=["packed", "by position"])
def test_entries_are_ordered_by_node_target_and_edge(monkeypatch, word_bits):
    monkeypatch.setattr(links, "_WORD_BITS", word_bits)

    @SEEDED
    @given(ENTRIES, st.randoms(use_true_random=False))
    def holds(pairs, random):
        edges = list(range(len(pairs)))
        random.shuffle(edges)
        sources, targets = (np.array([pair[side] for pair in pairs], dtype=np.int32) for side in (0, 1))
        made = Adjacency.of_pairs(sources, targets, np.array(edges, dtype=np.int64), node_count=6, target_count=4)
        expected = sorted((source, target, edge) for (source, target), edge in zip(pairs, edges, strict=True))
        nodes = np.repeat(np.arange(6), np.diff(made.offsets))
        assert list(zip(nodes.tolist(), made.targets.tolist(), made.edges.tolist(), strict=True)) == expected
        assert made.targets.dtype == np.int32

    holds()


def test_parallel_edges_are_kept_apart_and_their_target_is_distinct(graph):
    adjacency = graph.adjacency(TopologyCache(), "out")
    assert adjacency.edge_count == 5
    assert len(adjacency.distinct.targets) == 4
    assert adjacency.targets.dtype == np.int32


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_an_adjacency_leads_along_its_direction(graph, direction):
    cache = TopologyCache()
    assert graph.walked(cache, direction) == graph.expected(direction)


@pytest.mark.parametrize("direction", ["out", "in"])
def test_equal_ids_of_two_types_are_two_nodes(graph, direction):
    """The node ``ann`` of the first type is not the node ``ann`` of the second."""
    graph.change("e", {"m1": ("bo", "ann"), "m2": ("ann", "ann")})
    cache = TopologyCache()
    assert graph.walked(cache, direction, targets="b") == graph.expected(direction, targets="b")
    assert graph.adjacency(cache, direction, targets="b").target_count == {"out": 2, "in": 5}[direction]


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_empty_tables_have_an_empty_adjacency(tmp_path, direction):
    graph = Graph(tmp_path / "graph")
    cache = TopologyCache()
    assert (graph.adjacency(cache, direction).node_count, graph.adjacency(cache, direction).edge_count) == (0, 0)
    graph.change("e", {"k1": ("ann", "bo")})
    assert graph.adjacency(cache, direction).edge_count == 0
    graph.change("a", {"ann": 1, "bo": 2})
    assert graph.walked(cache, direction) == graph.expected(direction)
    assert_same(graph.adjacency(cache, direction), graph.rebuilt(direction))


def test_a_self_loop_stands_once_in_an_undirected_adjacency(graph):
    cache = TopologyCache()
    walked = graph.walked(cache, "both")
    assert [entry for entry in walked if entry[2] == "k4"] == [("cy", "cy", "k4")]
    has_loop = graph.adjacency(cache, "both").has_loop
    assert [name for name, loops in zip(graph.ids(cache, "a"), has_loop, strict=True) if loops] == ["cy"]
