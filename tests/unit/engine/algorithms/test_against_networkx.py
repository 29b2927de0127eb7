"""Every algorithm gives what networkx gives, on random graphs with loops, parallel edges and nodes without any."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from tests.unit.engine.algorithms.networks import SEEDS, Network, groups, names_of, rows, run, values

from omnigraph.engine.algorithms.seeds import chosen_nodes

DIRECTIONS = ("out", "in", "both")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_degree(seed, direction, weight):
    network = Network(seed)
    graph = network.graph()
    found = values("degree", network.projection(is_weighted=weight is not None), direction=direction)
    wanted = {"out": graph.out_degree, "in": graph.in_degree, "both": graph.degree}[direction](weight=weight)
    assert found == dict(wanted)


def turned(graph, direction):
    """Return a graph as it is walked; networkx has a loop once in either direction."""
    if direction == "out":
        return graph
    if direction == "in":
        return graph.reverse()
    both = graph.copy()
    both.add_edges_from((v, u, data) for u, v, data in graph.edges(data=True) if u != v)
    return both


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_pagerank(seed, direction, weight):
    network = Network(seed)
    projection = network.projection(is_weighted=weight is not None)
    found = values("pagerank", projection, direction=direction, damping=0.7, tolerance=1e-12)
    if not network.count:
        assert found == {}
        return
    wanted = nx.pagerank(turned(network.graph(), direction), alpha=0.7, weight=weight, tol=1e-13, max_iter=500)
    assert found == pytest.approx(wanted, abs=1e-10)
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize("seed", SEEDS[1:])
def test_pagerank_with_sources_and_shares(seed):
    network = Network(seed)
    last = network.count - 1
    named = network.names.columns(np.array([0, last]))
    nodes = [f"{a}:{b}" for a, b in zip(named["type"].to_pylist(), named["id"].to_pylist(), strict=True)]
    jumps = {0: 1.0, last: 3.0} if last else {0: 1.0}
    wanted = nx.pagerank(network.graph(), personalization=jumps, weight=None, tol=1e-13, max_iter=500)
    shares = dict(zip(nodes, [1.0, 3.0], strict=True))
    assert values("pagerank", network.projection(), sources=shares, tolerance=1e-12) == pytest.approx(wanted, abs=1e-10)
    even = nx.pagerank(network.graph(), personalization=dict.fromkeys(jumps, 1), weight=None, tol=1e-13, max_iter=500)
    assert values("pagerank", network.projection(), sources=nodes, tolerance=1e-12) == pytest.approx(even, abs=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_components(seed):
    network = Network(seed)
    graph = network.graph()
    weak = values("connected_components", network.projection())
    assert groups(weak) == set(map(frozenset, nx.weakly_connected_components(graph)))
    strong = values("strongly_connected_components", network.projection())
    assert groups(strong) == set(map(frozenset, nx.strongly_connected_components(graph)))
    for labels in (weak, strong):
        # Numbered by the first member, without gaps.
        assert list(dict.fromkeys(labels[node] for node in range(network.count))) == list(range(len(groups(labels))))


@pytest.mark.parametrize("seed", SEEDS)
def test_k_core(seed):
    network = Network(seed, is_dense=True)
    assert values("k_core", network.projection()) == nx.core_number(network.simple())


@pytest.mark.parametrize("seed", SEEDS)
def test_triangles_and_clustering(seed):
    network = Network(seed, is_dense=True)
    assert values("triangle_count", network.projection()) == nx.triangles(network.simple())
    found = values("clustering_coefficient", network.projection())
    assert found == pytest.approx(nx.clustering(network.simple()))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("normalized", [False, True])
def test_betweenness(seed, direction, weight, normalized):
    network = Network(seed, least_weight=1)
    graph = network.lightest(nx.Graph if direction == "both" else nx.DiGraph)
    graph = graph.reverse() if direction == "in" else graph
    wanted = nx.betweenness_centrality(graph, weight=weight, normalized=normalized)
    projection = network.projection(is_weighted=weight is not None)
    found = values("betweenness", projection, direction=direction, normalized=normalized)
    assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS[2:])
@pytest.mark.parametrize("direction", ["out", "both"])
def test_betweenness_from_some_nodes_is_scaled_up(seed, direction):
    network = Network(seed)
    graph = network.lightest(nx.Graph if direction == "both" else nx.DiGraph)
    count = max(1, network.count // 2)
    chosen = chosen_nodes(network.names, count, 7).tolist()
    wanted = nx.betweenness_centrality_subset(graph, sources=chosen, targets=list(graph))
    found = values("betweenness", network.projection(), direction=direction, samples=count, seed=7)
    scaled = {node: value * network.count / count for node, value in wanted.items()}
    assert found == pytest.approx(scaled, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS[2:])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_shortest_paths(seed, direction, weight):
    network = Network(seed)
    graph = turned(network.graph(), direction)
    sources = sorted({0, network.count // 2})
    names = network.names.columns(np.array(sources))
    nodes = [list(pair) for pair in zip(names["type"].to_pylist(), names["id"].to_pylist(), strict=True)]
    projection = network.projection(is_weighted=weight is not None)
    wanted = nx.multi_source_dijkstra_path_length(graph, sources, weight=weight or (lambda *_: 1))
    assert values("shortest_paths", projection, sources=nodes, direction=direction) == wanted
    found = rows("shortest_paths", projection, sources=nodes, direction=direction)
    assert [row["distance"] for row in found] == sorted(row["distance"] for row in found)
    # Following the nodes before leads to the source, and every step is an edge that is as long as it says.
    by_node = {(row["type"], row["id"]): row for row in found}
    for row in found:
        before = by_node.get((row["previous_type"], row["previous_id"]))
        if before is None:
            assert (row["type"], row["id"], row["distance"]) == (row["source_type"], row["source_id"], 0)
            continue
        ends = [projection.nodes.find("node", (one["type"], one["id"])) for one in (before, row)]
        length = min(data["weight"] if weight else 1 for data in graph.get_edge_data(*ends).values())
        assert before["distance"] + length == row["distance"]
        assert (before["source_type"], before["source_id"]) == (row["source_type"], row["source_id"])
    each = rows("shortest_paths", projection, sources=nodes, direction=direction, each=True)
    for source, node in zip(sources, nodes, strict=True):
        alone = nx.single_source_dijkstra_path_length(graph, source, weight=weight or (lambda *_: 1))
        mine = [row for row in each if [row["source_type"], row["source_id"]] == node]
        assert {projection.nodes.find("n", (row["type"], row["id"])): row["distance"] for row in mine} == alone
    for target in range(network.count):
        name = network.names.columns(np.array([target]))
        pair = [name["type"][0].as_py(), name["id"][0].as_py()]
        path = rows("shortest_paths", projection, sources=nodes, direction=direction, target=pair)
        assert [row["step"] for row in path] == list(range(len(path)))
        assert bool(path) == (target in wanted)
        if path:
            assert path[-1]["distance"] == wanted[target]
            assert [path[0]["type"], path[0]["id"]] in nodes


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_node_similarity(seed, direction):
    network = Network(seed, is_dense=True)
    graph = turned(network.graph(), direction)
    lists = {node: set(graph.successors(node)) for node in graph}
    wanted = {}
    for one, two in itertools.permutations(lists, 2):
        shared = len(lists[one] & lists[two])
        if shared:
            wanted[one, two] = shared / len(lists[one] | lists[two])
    if direction == "both":
        # Of linked nodes, networkx does not count the two themselves.
        undirected = nx.Graph(network.graph())
        pairs = [pair for pair in itertools.combinations(graph, 2) if pair in wanted and not undirected.has_edge(*pair)]
        theirs = {(u, v): p for u, v, p in nx.jaccard_coefficient(undirected, pairs)}
        assert theirs == {pair: wanted[pair] for pair in pairs}
    order = sorted(wanted, key=lambda pair: (-wanted[pair], pair))
    for top in (1, 3, 100):
        kept = [pair for pair in order if [one for one in order if one[0] == pair[0]].index(pair) < top]
        found = rows("node_similarity", network.projection(), direction=direction, top=top)
        number = network.projection().nodes.find
        pairs = [(number("n", (r["type"], r["id"])), number("n", (r["other_type"], r["other_id"]))) for r in found]
        assert pairs == kept
        assert [row["similarity"] for row in found] == [wanted[pair] for pair in kept]
    assert all(row["similarity"] >= 0.5 for row in rows("node_similarity", network.projection(), min_similarity=0.5))


def modularity(graph, found, resolution=1.0):
    return nx.community.modularity(graph, groups(found), weight="weight", resolution=resolution)


@pytest.mark.parametrize("seed", SEEDS)
def test_louvain(seed):
    network = Network(seed, least_weight=1)
    found = values("louvain", network.projection(is_weighted=True), seed=3)
    assert found == values("louvain", network.projection(is_weighted=True), seed=3)
    graph = network.graph(nx.MultiGraph)
    if not graph.number_of_edges():
        assert groups(found) == {frozenset({node}) for node in graph}
        return
    theirs = [nx.community.louvain_communities(graph, weight="weight", seed=one) for one in range(4)]
    worst = min(nx.community.modularity(graph, one, weight="weight") for one in theirs)
    assert modularity(graph, found) >= worst - 0.05
    # Communities hang together.
    simple = network.simple()
    assert all(nx.is_connected(simple.subgraph(one)) for one in groups(found))


def test_louvain_finds_cliques_that_one_edge_joins():
    network = Network(1)
    network.count, network.names = 12, names_of(12)
    pairs = [(a, b) for start in (0, 6) for a, b in itertools.combinations(range(start, start + 6), 2)] + [(5, 6)]
    network.sources, network.targets = map(np.array, zip(*pairs, strict=True))
    network.weights = np.ones(len(pairs))
    for name in ("louvain", "label_propagation"):
        assert groups(values(name, network.projection())) == {frozenset(range(6)), frozenset(range(6, 12))}


def elected(graph, labels, node, weight):
    votes = {}
    edges = [(other, data["weight"] if weight else 1) for _, other, data in graph.edges(node, data=True)]
    if not edges:
        return labels[node]
    for other, share in edges:
        votes[labels[other]] = votes.get(labels[other], 0) + share
    own = sum(share for _, share in edges) / len(edges)
    votes[labels[node]] = votes.get(labels[node], 0) + own
    return min(votes, key=lambda label: (-votes[label], label))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("most", [1, 2, 30])
def test_label_propagation_is_the_election_of_all_nodes_at_once(seed, weight, most):
    network = Network(seed)
    graph = network.graph(nx.MultiGraph)
    graph.remove_edges_from(list(nx.selfloop_edges(graph, keys=True)))
    labels = {node: node for node in graph}
    for _ in range(most):
        labels = {node: elected(graph, labels, node, weight) for node in graph}
    found = values("label_propagation", network.projection(is_weighted=weight is not None), max_iterations=most)
    assert groups(found) == groups(labels)
    components = list(nx.connected_components(graph))
    assert all(any(group <= one for one in components) for group in groups(found))


def test_label_propagation_says_when_labels_still_change():
    network = Network(3)
    assert run("label_propagation", network.projection(), max_iterations=1).warnings == (
        "labels still changed after 1 iteration",
    )
    assert run("label_propagation", network.projection()).warnings == ()
    warning = run("pagerank", network.projection(), max_iterations=1, tolerance=1e-12).warnings
    assert len(warning) == 1
    assert "after 1 iteration" in warning[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_fast_rp_is_the_sum_of_normalised_averages(seed, weight):
    network = Network(seed)
    projection = network.projection(is_weighted=weight is not None)
    settings = {"dimension": 16, "weights": [0.5, 1.0], "self_influence": 0.25, "normalization": -0.5, "seed": 9}
    found = values("fast_rp", projection, **settings)
    if not network.count:
        assert found == {}
        return
    # The random vectors themselves are what comes out if nothing else counts; their scale is that of a unit vector.
    own = values("fast_rp", projection, dimension=16, weights=[0.0], self_influence=1.0, seed=9)
    start = np.array([own[node] for node in range(network.count)], dtype=np.float64)
    matrix = nx.to_numpy_array(turned(network.graph(), "both"), weight=weight, nodelist=range(network.count))
    sums = matrix.sum(axis=1, keepdims=True)
    averages = np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)
    scale = np.where(sums > 0, sums, 1) ** -0.5
    lengths = np.sqrt(np.count_nonzero(start, axis=1, keepdims=True))
    vectors = start * lengths * scale
    wanted = 0.25 * start
    for share in (0.5, 1.0):
        vectors = averages @ vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        # What rounding leaves of vectors that cancel out has no direction.
        wanted += share * np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 1e-6)
        has_direction = (norms > 1e-6) | (norms == 0)
        assert has_direction.all()
    assert np.array([found[node] for node in range(network.count)]) == pytest.approx(wanted, abs=1e-4)
