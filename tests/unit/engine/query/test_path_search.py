"""Shortest paths to a known goal: the same paths as a search without one, and far fewer edges looked at."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.session_graph import create_graph, open_session
from tests.unit.engine.query.graphs import SCHEMA, open_ring, steps

from omnigraph.engine.query.operators.paths import PathSearch, shortest_paths
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.topology import Adjacency
from omnigraph.errors import QueryMemoryError, QueryRuntimeError


class Counted:
    """Which edges may be used, and how many were asked about."""

    def __init__(self, forbidden=()):
        self.forbidden = np.array(sorted(forbidden), dtype=np.int64)
        self.asked = 0

    def __call__(self, rows, edges):
        self.asked += len(edges)
        return ~np.isin(edges, self.forbidden)


def adjacency(sources, targets, count):
    return Adjacency.of_pairs(sources, targets, np.arange(len(sources)), node_count=count, target_count=count)


def found(sources, targets, count, starts, goals, *, way, bounds=(1, 6), keeps_all=False, forbidden=()):
    """The paths of all rows as sorted tuples, and how many edges were looked at."""
    asked, goals = Counted(forbidden), np.array(goals)
    known = {} if way == "no goal" else {"goals": goals}
    if way == "both ends":
        known["backward"] = (adjacency(targets, sources, count), asked)
    search = PathSearch(
        adjacency=adjacency(sources, targets, count),
        min_hops=bounds[0],
        max_hops=bounds[1],
        is_same_type=True,
        keeps_all=keeps_all,
        allows=asked,
        node_ranks=lambda nodes: nodes,
        edge_ranks=lambda edges: -edges,
        is_wanted=lambda rows, nodes: nodes == goals[rows],
        check=lambda _: None,
        on_new_nodes=lambda _: None,
        **known,
    )
    paths = []
    for some in shortest_paths(search, np.array(starts)):
        columns = [some.rows, *some.nodes, *some.edges]
        paths += zip(*(column.tolist() for column in columns), strict=True)
    return sorted(paths), asked.asked


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("keeps_all", [False, True])
def test_a_search_with_a_goal_finds_the_paths_of_a_search_without_one(seed, keeps_all):
    draw = np.random.default_rng(seed)
    count = int(draw.integers(5, 30))
    sources, targets = draw.integers(0, count, (2, int(count * draw.uniform(0.8, 3))))
    starts, goals = draw.integers(0, count, (2, 12))
    forbidden = draw.choice(len(sources), len(sources) // 6, replace=False).tolist()
    for bounds in ((1, 6), (1, 2), (2, 4), (3, 3), (1, 40)):
        options = {"bounds": bounds, "keeps_all": keeps_all, "forbidden": forbidden}
        expected, _ = found(sources, targets, count, starts, goals, way="no goal", **options)
        for way in ("goal", "both ends"):
            assert found(sources, targets, count, starts, goals, way=way, **options)[0] == expected


def test_a_goal_ends_the_search_and_two_ends_meet_halfway():
    # Trees of ten branches on each side of a chain of two edges: 1,111 nodes each.
    edges, level, number = [], [0], 1
    for _ in range(3):
        grown = []
        for node in level:
            for _ in range(10):
                edges.append((node, number))
                grown.append(number)
                number += 1
        level = grown
    goal = 1
    sources, targets = (np.array(column) for column in zip(*edges, strict=True))
    everything = found(sources, targets, number, [0], [goal], way="no goal")
    stopped = found(sources, targets, number, [0], [goal], way="goal")
    assert everything[0] == stopped[0] == [(0, 1, 0)]
    assert (everything[1], stopped[1]) == (1_110, 10)
    deep = level[-1]
    from_one_end = found(sources, targets, number, [0], [deep], way="goal")
    from_both = found(sources, targets, number, [0], [deep], way="both ends")
    assert from_one_end[0] == from_both[0]
    # From a leaf there is one way up: what the other end would look at is the whole tree.
    assert from_one_end[1] == 1_110
    assert from_both[1] < 60


CHAIN = 60


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A chain of diamonds: each stage doubles the number of shortest ways."""
    lines = [{"type": "Person", "data": {"name": f"n{at:03}"}} for at in range(3 * CHAIN + 1)]
    for at in range(CHAIN):
        here, up, down, there = (f"n{3 * at + step:03}" for step in range(4))
        for number, (one, other) in enumerate([(here, up), (here, down), (up, there), (down, there)]):
            lines.append({"edge": "Knows", "from": one, "to": other, "data": {"id": f"k{at:03}-{number}"}})
    root = tmp_path_factory.mktemp("diamonds") / "graph"
    create_graph(root, SCHEMA, "\n".join(map(json.dumps, lines)))
    with open_session(root) as opened:
        yield opened


def ask(session, hops, end, *, is_all=False, tail="", **options):
    text = (
        f'query q() {{ match {{ $a: Person {{ name: "n000" }}  $b: Person {{ name: "{end}" }}'
        f"  path {'all ' if is_all else ''}$w: $a knows{hops} $b }}"
        f" return {{ length($w) as n, nodes($w) as nodes }} {tail} }}"
    )
    return list(session.query(text, options=QueryOptions(**options)).rows())


@pytest.mark.parametrize("mode", ["csr", "indexed"])
def test_the_least_of_very_many_shortest_paths_is_found_in_bounded_memory(session, mode):
    (row,) = ask(session, "{1,120}", f"n{3 * CHAIN:03}", mode=mode, memory_bytes=8 << 20)
    assert row["n"] == 2 * CHAIN
    assert row["nodes"][1] == "n001"


def test_all_of_exponentially_many_shortest_paths_are_too_many_and_a_few_are_not(session):
    assert len(ask(session, "{1,8}", "n012", is_all=True)) == 16
    with pytest.raises(QueryMemoryError):
        ask(session, "{1,120}", f"n{3 * CHAIN:03}", is_all=True, memory_bytes=64 << 20)


def test_a_goal_within_reach_is_found_although_the_walk_has_no_bound(session):
    assert [row["n"] for row in ask(session, "{1,}", "n030")] == [20]
    assert [row["n"] for row in ask(session, "{1,}", f"n{3 * CHAIN:03}", max_hops=2 * CHAIN)] == [2 * CHAIN]
    with pytest.raises(QueryRuntimeError, match="after 32 hops"):
        ask(session, "{1,}", f"n{3 * CHAIN:03}")


def test_a_path_to_a_node_whose_key_is_given_knows_its_goal():
    match = 'match { $a: Person { name: "a" }  path $w: $a knows{1,6} $b  $b: Person { name: "b" } }'
    body = f"{match} return {{ length($w) as n }}"
    shown = steps(body)
    assert shown[1] == 'look up $b: Person where $b.name = "b"'
    assert len(steps(body, rules_off=frozenset({"path_goal"}))) == len(shown) - 1


@pytest.mark.parametrize("mode", ["csr", "indexed"])
def test_a_path_between_nodes_of_two_types_is_one_edge(tmp_path, mode):
    with open_ring(tmp_path / "graph", 9) as opened:
        text = (
            "query q() { match { $p: Person  $t: Team  path $w: $p memberOf $t }"
            " return { $p.name as p, $t.code as t, length($w) as n } order { p } }"
        )
        rows = [tuple(row.values()) for row in opened.query(text, options=QueryOptions(mode=mode)).rows()]
        assert rows == [(f"p{at}", f"t{at % 3}", 1) for at in range(9)]
