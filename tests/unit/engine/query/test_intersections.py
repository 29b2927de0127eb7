"""Cyclic patterns: neighbour lists are intersected, and what is looked at stays in bounds."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter

import numpy as np
import pytest
from tests.session_graph import create_graph, open_session
from tests.unit.engine.query.graphs import SCHEMA, plan, steps

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.steps import Intersect, LinkTest
from omnigraph.engine.query.topology import Adjacency, NeighbourList, common_neighbours, shortest_lengths
from omnigraph.engine.query.topology.intersection import are_linked
from omnigraph.errors import QueryMemoryError

pytestmark = pytest.mark.more

TRIANGLE = "$a: Person  $a knows $b  $b knows $c  $a knows $c"
SPOKES = 400


def edges_of(count, seed):
    """Ends of edges: parallel ones, edges to oneself, and nodes that many know."""
    draw = random.Random(seed)  # noqa: S311 - a seed, not a secret
    ends = [(draw.randrange(count), draw.choice((0, 1, draw.randrange(count)))) for _ in range(5 * count)]
    return [*ends, *draw.choices(ends, k=count)]


def lines(names, ends):
    people = [{"type": "Person", "data": {"name": name, "age": at}} for at, name in enumerate(names)]
    knows = [
        {"edge": "Knows", "from": names[one], "to": names[other], "data": {"id": f"k{at:04}"}}
        for at, (one, other) in enumerate(ends)
    ]
    return "\n".join(json.dumps(line) for line in [*people, *knows])


PEOPLE = [f"p{at:02}" for at in range(14)]
ENDS = edges_of(len(PEOPLE), 5)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    root = tmp_path_factory.mktemp("circles") / "graph"
    create_graph(root, SCHEMA, lines(PEOPLE, ENDS))
    with open_session(root) as opened:
        yield opened


@pytest.fixture(scope="module")
def star(tmp_path_factory):
    """One who knows everybody and is known by everybody, and nobody else knows anybody."""
    root = tmp_path_factory.mktemp("star") / "graph"
    spokes = range(1, SPOKES + 1)
    ends = [(0, at) for at in spokes] + [(at, 0) for at in spokes] + [(1, 2)]
    create_graph(root, SCHEMA, lines([f"s{at:03}" for at in range(SPOKES + 1)], ends))
    with open_session(root) as opened:
        yield opened


def naive(pattern, nodes):
    """Every assignment by trying all nodes; a link is (from, to, direction, name of the edge or None)."""
    found = Counter()
    for chosen in itertools.product(range(len(PEOPLE)), repeat=len(nodes)):
        at = dict(zip(nodes, chosen, strict=True))
        choices = []
        for one, other, direction, name in pattern:
            ends = (at[one], at[other])
            edges = [
                f"k{number:04}"
                for number, each in enumerate(ENDS)
                if each == ends or (direction == "both" and each == ends[::-1])
            ]
            choices.append(edges if name else edges[:1])
        for picked in itertools.product(*choices):
            named = [edge for edge, link in zip(picked, pattern, strict=True) if link[3]]
            found[*(PEOPLE[node] for node in chosen), *named] += 1
    return found


def text_of(pattern):
    parts = []
    for one, other, direction, name in pattern:
        start = f"${name}:" if name else ""
        edge = f"{start}knows"
        parts.append(f"${one} {start}<knows> ${other}" if direction == "both" else f"${one} {edge} ${other}")
    return "  ".join(parts)


OUT, BOTH = "out", "both"
PATTERNS = {
    "transitive": [("a", "b", OUT, None), ("b", "c", OUT, None), ("a", "c", OUT, None)],
    "circle": [("a", "b", OUT, None), ("b", "c", OUT, None), ("c", "a", OUT, None)],
    "common acquaintance": [("a", "b", OUT, None), ("c", "a", OUT, None), ("c", "b", OUT, None)],
    "all edges": [("a", "b", OUT, "x"), ("b", "c", OUT, "y"), ("a", "c", OUT, "z")],
    "closing edge": [("a", "b", OUT, None), ("b", "c", OUT, None), ("c", "a", OUT, "z")],
    "there and back": [("a", "b", OUT, "x"), ("b", "a", OUT, "y")],
    "either way": [("a", "b", BOTH, None), ("b", "c", BOTH, "y"), ("a", "c", BOTH, None)],
    "twice": [("a", "b", OUT, "x"), ("a", "b", OUT, "y"), ("a", "b", OUT, "z")],
    "clique": [*(("abcd"[i], "abcd"[j], OUT, None) for i in range(4) for j in range(i + 1, 4))],
    "square with a named edge": [
        ("a", "b", OUT, None), ("b", "c", OUT, None), ("c", "d", OUT, None), ("d", "a", OUT, "e")
    ],
}  # fmt: skip


@pytest.mark.parametrize("mode", ["csr", "indexed"])
@pytest.mark.parametrize("name", PATTERNS)
def test_the_rows_of_a_cyclic_pattern_are_those_of_trying_everything(session, name, mode):
    pattern = PATTERNS[name]
    nodes = sorted({link[0] for link in pattern} | {link[1] for link in pattern})
    edges = [link[3] for link in pattern if link[3]]
    shown = ", ".join([f"${node}.name as {node}" for node in nodes] + [f"id(${edge}) as {edge}" for edge in edges])
    match = f"match {{ $a: Person  {text_of(pattern)} }}"
    expected = naive(pattern, nodes)
    assert sum(expected.values()) > 20
    for rules_off in (frozenset(), frozenset({"intersect"}), frozenset({"join_order"})):
        options = QueryOptions(mode=mode, rules_off=rules_off)
        found = session.query(f"query q() {{ {match} return {{ {shown} }} }}", options=options).rows()
        assert Counter(tuple(row.values()) for row in found) == expected
        (counted,) = session.query(f"query q() {{ {match} return {{ count($a) as n }} }}", options=options).rows()
        assert counted["n"] == sum(expected.values())


def test_filters_and_blocks_of_a_cyclic_pattern_give_what_they_give_without_the_rule(session):
    bodies = [
        f"match {{ {TRIANGLE}  $c.age > 6  $b.age < $c.age }} return {{ $a.name as a, $b.name as b, $c.name as c }}",
        "match { $p: Person  optional { $p knows $q  $q knows $r  $r knows $p } } return { $p.name, $q.name, $r.name }",
        "match { $p: Person  not { $p knows $q  $q knows $r  $p knows $r } } return { $p.name as p }",
        "match { $p: Person } return { $p.name as p, count { $p knows $q  $q knows $r  $p knows $r } as n }",
        "match { $a: Person  $a knows $b  $b knows $c  $a knows $c } return { $b.name as b, count($c) as n }",
        "match { $a: Person  $a knows $b  $b $y:knows $c  $a $z:knows $c  $c knows $d } return { count($d) as n }",
    ]
    for body in bodies:
        answers = [
            sorted(map(repr, session.query(f"query q() {{ {body} }}", options=QueryOptions(rules_off=off)).rows()))
            for off in (frozenset(), frozenset({"intersect"}), frozenset({"intersect", "link_test"}))
        ]
        assert answers[0] == answers[1] == answers[2]
        assert answers[0]


def test_an_edge_that_closes_a_circle_is_taken_into_the_expansion_that_it_ends_at():
    last = plan(f"match {{ {TRIANGLE} }} return {{ $a.name, $c.name }}").steps[-1]
    assert isinstance(last, Intersect)
    assert str(last) == "intersect $c: Person of $b -Knows-> and $a -Knows->"
    counted = steps(f"match {{ {TRIANGLE} }} return {{ count($c) as n }}")
    assert counted[-1] == "count intersection $c: Person of $b -Knows-> and $a -Knows->"
    turned = steps(
        "match { $a: Person  $a knows $b  $b knows $c  $c $e:knows $a } return { $a.name, $c.name, $e.since }"
    )
    assert turned[-1] == "intersect $c: Person of $b -Knows-> and $a <-$e:Knows-"
    without = plan(f"match {{ {TRIANGLE} }} return {{ $a.name, $c.name }}", rules_off=frozenset({"intersect"}))
    assert isinstance(without.steps[-1], LinkTest)


def test_a_list_that_is_far_longer_than_the_others_is_not_intersected():
    body = "match { $p: Person  $p memberOf $t  $p knows $q  $q memberOf $t } return { $p.name, $q.name }"
    # A team has a hundred members, a person knows twenty: to ask each of those for the team is less work.
    assert [type(step) for step in plan(body).steps][-1] is LinkTest


def test_what_the_steps_of_a_cyclic_pattern_make_is_bounded_by_the_edges(star):
    edge_count = 2 * SPOKES + 1
    text = f"query q() {{ match {{ {TRIANGLE} }} return {{ $a.name as a, $b.name as b, $c.name as c }} }}"
    explained = star.explain(text, run=True)
    # By expansion and filter the hub alone would make a row of every pair of spokes.
    assert [step.rows for step in explained.steps if step.rows is not None and step.rows > edge_count] == []
    off = QueryOptions(rules_off=frozenset({"intersect"}))
    widest = max(step.rows or 0 for step in star.explain(text, run=True, options=off).steps)
    assert widest > SPOKES * SPOKES
    assert len(list(star.query(text).rows())) == 3


def test_a_cyclic_pattern_keeps_within_a_budget_that_expansion_would_exceed(star):
    text = f"query q() {{ match {{ {TRIANGLE} }} return {{ count($c) as n }} }}"
    options = {"mode": "csr", "memory_bytes": 1_500_000}
    (row,) = star.query(text, options=QueryOptions(**options)).rows()
    assert row["n"] == 3
    rules_off = frozenset({"intersect", "count_rows"})
    with pytest.raises(QueryMemoryError):
        star.query(text, options=QueryOptions(**options, rules_off=rules_off))


def adjacency(ends, count):
    ordered = np.array(sorted(ends), dtype=np.int64)
    numbers = np.arange(len(ordered))
    return Adjacency.of_pairs(ordered[:, 0], ordered[:, 1], numbers, node_count=count, target_count=count)


def test_of_every_row_the_shortest_list_is_looked_through():
    count = 500
    ends = [(0, at) for at in range(count)] + [(at, 0) for at in range(1, count)] + [(3, 4)]
    graph = adjacency(ends, count)
    sources, targets = (np.array(column, dtype=np.int64) for column in zip(*ends, strict=True))
    lists = [NeighbourList(adjacency=graph, codes=targets), NeighbourList(adjacency=graph, codes=sources)]
    # Every edge has an end with few neighbours, but the one from the hub to itself.
    assert int(shortest_lengths(lists).sum()) <= count + 2 * len(ends)
    taken = []
    rows, nodes = common_neighbours(lists, taken.append)
    assert max(taken) < 100 * len(ends)
    known = {one: {other for start, other in ends if start == one} for one in range(count)}
    expected = [(row, node) for row, (one, other) in enumerate(ends) for node in sorted(known[one] & known[other])]
    assert list(zip(rows.tolist(), nodes.tolist(), strict=True)) == expected


@pytest.mark.parametrize("pairs", [100, 5_000, 60_000])
def test_links_are_found_however_many_are_asked_about(pairs):
    count = 700
    draw = np.random.default_rng(3)
    ends = [tuple(pair) for pair in draw.integers(0, count, (4_000, 2)).tolist()]
    graph = adjacency(ends, count)
    codes, others = draw.integers(0, count, (2, pairs))
    linked = are_linked(graph, codes, others)
    known = np.zeros((count, count), dtype=np.bool_)
    known[tuple(np.array(ends).T)] = True
    assert (linked == known[codes, others]).all()
    order = np.argsort(codes, kind="stable")
    assert (are_linked(graph, codes[order], others[order]) == linked[order]).all()
