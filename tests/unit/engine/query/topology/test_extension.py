"""Adjacency of a later version, made from that of an earlier one, is what building it anew gives."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.engine.query.topology.stored import Graph, assert_same

from omnigraph.engine.query.topology import TopologyCache, ends
from omnigraph.engine.query.topology import layers as building
from omnigraph.runtime import counting

pytestmark = pytest.mark.more

DIRECTIONS = ("out", "in", "both")


def check_all(graph, cache):
    for direction in DIRECTIONS:
        assert graph.walked(cache, direction) == graph.expected(direction)
        assert_same(graph.adjacency(cache, direction), graph.rebuilt(direction))
    assert graph.walked(cache, "out", targets="b") == graph.expected("out", targets="b")
    assert_same(graph.adjacency(cache, "out", targets="b"), graph.rebuilt("out", targets="b"))


def changes(graph):
    """Every kind of change that a version can bring, by name."""
    return {
        "edges come": lambda: graph.change("e", {"k8": ("eli", "ann"), "k0": ("ann", "bo")}),
        "edges go": lambda: graph.change("e", deletes=["k1", "k5"]),
        "all edges go": lambda: graph.change("e", deletes=list(graph.rows["e"])),
        "an edge turns": lambda: graph.change("e", {"k1": ("cy", "dee")}),
        "edges come and go": lambda: graph.change("e", {"k9": ("cy", "bo")}, deletes=["k2", "k4"]),
        "edges are compacted": lambda: (graph.change("e", {"k8": ("eli", "eli")}), graph.compact("e")),
        "edges are replaced": lambda: graph.replace("e", {"k1": ("bo", "cy"), "x": ("cy", "ann")}),
        "edges are indexed": lambda: graph.index("e", "src"),
        "a node comes": lambda: graph.change("a", {"nobody": 1}),
        "a node changes": lambda: graph.change("a", {"ann": 99}),
        "a node goes": lambda: graph.change("a", deletes=["bo"]),
        "a node goes and comes back": lambda: (graph.change("a", deletes=["bo"]), graph.change("a", {"bo": 3})),
        "nodes are compacted": lambda: (graph.change("a", {"zoe": 1}, deletes=["eli"]), graph.compact("a")),
        "nodes are replaced": lambda: graph.replace("a", {"cy": 1, "bo": 2, "ann": 3}),
        "everything changes": lambda: (
            graph.change("a", {"bo": 5, "fay": 6}, deletes=["eli"]),
            graph.change("e", {"k3": ("fay", "bo"), "q": ("fay", "fay")}, deletes=["k1"]),
        ),
    }


@pytest.mark.parametrize("inserted_share", [0, 16], ids=["inserting", "either"])
@pytest.mark.parametrize("what", sorted(changes(None)))
def test_an_extended_adjacency_is_the_rebuilt_one(graph, monkeypatch, what, inserted_share):
    monkeypatch.setattr(building, "_INSERTED_SHARE", inserted_share)
    cache = TopologyCache()
    check_all(graph, cache)
    builds = cache.stats.builds
    changes(graph)[what]()
    check_all(graph, cache)
    if what not in {"edges are replaced", "edges are compacted", "all edges go"}:
        assert cache.stats.builds == builds
        assert cache.stats.extensions > 0


def test_going_back_to_an_earlier_version_is_an_extension_too(graph):
    earlier, rows = dict(graph.pins), {name: dict(found) for name, found in graph.rows.items()}
    graph.change("e", {"k8": ("eli", "ann")}, deletes=["k1"])
    graph.change("a", {"ann": 3}, deletes=["cy"])
    cache = TopologyCache()
    check_all(graph, cache)
    graph.pins, graph.rows = earlier, rows
    check_all(graph, cache)
    assert cache.stats.builds == 2


def test_rows_of_two_branches_that_got_the_same_row_id_are_not_confused(graph):
    cache = TopologyCache()
    main, rows = dict(graph.pins), {name: dict(found) for name, found in graph.rows.items()}
    graph.change("a", {"on main": 1})
    graph.change("e", {"m": ("on main", "ann")})
    check_all(graph, cache)
    graph.pins, graph.rows = dict(main), rows
    graph.fork("a", "side")
    graph.fork("e", "side")
    graph.change("a", {"aside": 1})
    graph.change("e", {"s": ("ann", "aside"), "t": ("aside", "aside")})
    check_all(graph, cache)


def test_an_extension_reads_no_edge_of_unchanged_files(graph):
    graph.change("e", {f"z{number}": (f"{number * 2_654_435_761 % 2**32:x}", "bo") for number in range(5_000)})
    reader, cache = graph.another_process(), TopologyCache()
    with counting() as first:
        reader.adjacency(cache, "out")
    graph.change("e", {"late": ("cy", "dee")}, deletes=["z3"])
    reader.pins, reader.rows = dict(graph.pins), graph.rows
    with counting() as second:
        adjacency = reader.adjacency(cache, "out")
    assert second.cost().bytes_read * 5 < first.cost().bytes_read
    assert_same(adjacency, graph.rebuilt("out"))


def test_few_edges_whose_node_came_later_are_found(graph):
    """With so many edges in one file, the one that leads to nobody is fetched alone."""
    graph.change("e", {f"z{number:04}": ("ann", "bo") for number in range(200)} | {"z9": ("bo", "flo")})
    cache = TopologyCache()
    assert graph.walked(cache, "out") == graph.expected("out")
    graph.change("a", {"flo": 1})
    assert graph.walked(cache, "out") == graph.expected("out")
    assert ("bo", "flo", "z9") in graph.walked(cache, "out")
    assert_same(graph.adjacency(cache, "out"), graph.rebuilt("out"))


def test_a_version_that_only_has_another_index_shares_its_arrays(graph):
    cache = TopologyCache()
    before = graph.adjacency(cache, "out")
    graph.index("e", "src")
    after = graph.adjacency(cache, "out")
    assert after.targets is before.targets
    assert (before.edge_image.pin, after.edge_image.pin) == (before.edge_image.table.pin, graph.pins["e"])


def test_edges_are_resolved_in_bounded_groups(graph, monkeypatch):
    monkeypatch.setattr(ends, "_EDGES_AT_ONCE", 1)
    graph.change("e", {"k8": ("eli", "ann")})
    graph.change("e", {"k9": ("ann", "eli")})
    assert graph.walked(TopologyCache(), "both") == graph.expected("both")


NODE_IDS = st.sampled_from([f"n{number}" for number in range(6)])
EDGE_IDS = st.sampled_from([f"e{number}" for number in range(8)])
EDGE_ROWS = st.dictionaries(EDGE_IDS, st.tuples(NODE_IDS, NODE_IDS), max_size=5)
STEPS = st.one_of(
    st.tuples(st.just("nodes"), st.sets(NODE_IDS, max_size=3), st.sets(NODE_IDS, max_size=2)),
    st.tuples(st.just("edges"), EDGE_ROWS, st.sets(EDGE_IDS, max_size=3)),
    st.tuples(st.just("compact"), st.sampled_from(["a", "e"]), st.none()),
    st.tuples(st.just("replace"), EDGE_ROWS, st.none()),
    st.tuples(st.just("look"), st.none(), st.none()),
)


def apply(graph, step):
    kind, first, second = step
    if kind == "nodes":
        graph.change("a", dict.fromkeys(sorted(first), 1), deletes=sorted(second - first))
    elif kind == "edges":
        graph.change("e", first, deletes=sorted(second - set(first)))
    elif kind == "compact":
        graph.compact(first)
    elif kind == "replace" and first:
        graph.replace("e", first)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(STEPS, min_size=2, max_size=9), st.sampled_from([0, 16]))
def test_any_sequence_of_changes_gives_the_rebuilt_adjacency(steps, inserted_share):
    """Looking between some of the changes lets extensions span one change, or several."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "_INSERTED_SHARE", inserted_share)
        graph, cache = Graph(Path(folder) / "graph"), TopologyCache()
        graph.change("a", {"n0": 1, "n1": 2, "n2": 3})
        graph.change("e", {"e0": ("n0", "n1"), "e1": ("n0", "n1"), "e2": ("n2", "n2"), "e3": ("n1", "n5")})
        for step in steps:
            apply(graph, step)
            if step[0] == "look":
                assert graph.walked(cache, "both") == graph.expected("both")
        check_all(graph, cache)
