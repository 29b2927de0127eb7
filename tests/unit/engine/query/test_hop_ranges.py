"""Ranges of hops, against all walks of so many edges: every way to ask, over many small graphs in one."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import NamedTuple

import pytest
from tests.arrow_relations import query_in_parts
from tests.session_graph import create_graph, open_session

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import QueryMemoryError, QueryRuntimeError
from omnigraph.spark.queries.reading import Sizes

SCHEMA = """
node N { name: String @key  part: I32  age: I32 }
edge K: N -> N { w: I32 }
edge L: N -> N { w: I32 }
"""
# A node needs no more hops beyond the least number than there are nodes.
RANGES = [(low, high) for low in range(1, 5) for high in (*range(low, 6), None)]
MODES = ("csr", "indexed")
FEW = [(1, 2), (1, None), (2, 2), (2, 3), (3, None), (4, 4)]


class Edge(NamedTuple):
    id: str
    type: str
    source: str
    target: str
    w: int


class Part(NamedTuple):
    """One small graph."""

    nodes: list[str]
    edges: list[Edge]


def part(number, size, pairs):
    """A graph of so many nodes; the pairs say the type and the ends of its edges."""
    nodes = [f"n{number:05}-{at}" for at in range(size)]
    edges = [
        Edge(f"e{number:05}-{len(pairs) - at:02}", kind, nodes[one], nodes[two], at % 3)
        for at, (kind, one, two) in enumerate(pairs)
    ]
    return Part(nodes, edges)


def every_graph(size):
    """All graphs of so many nodes, loops included."""
    links = list(product(range(size), repeat=2))
    for chosen in product((False, True), repeat=len(links)):
        yield size, [("K", *link) for link, is_in in zip(links, chosen, strict=True) if is_in]


def drawn_graphs(count, seed=7):
    """Graphs of four nodes with loops, parallel edges and edges of two types."""
    draw = random.Random(seed)  # noqa: S311 - a fixed sample
    for _ in range(count):
        ends = ((draw.choice("KKL"), draw.randrange(4), draw.randrange(4)) for _ in range(draw.randrange(3, 10)))
        yield 4, list(ends)


def stored(root, graphs):
    """Store the graphs as parts of one; return the parts and the opened graph."""
    parts = [part(number, *graph) for number, graph in enumerate(graphs)]
    lines = []
    for number, one in enumerate(parts):
        for at, name in enumerate(one.nodes):
            lines.append({"type": "N", "data": {"name": name, "part": number, "age": at % 3}})
        for edge in one.edges:
            data = {"id": edge.id, "w": edge.w}
            lines.append({"edge": edge.type, "from": edge.source, "to": edge.target, "data": data})
    create_graph(root, SCHEMA, "\n".join(map(json.dumps, lines)))
    return parts, open_session(root)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """All graphs of up to two nodes, every seventh of three, and some of four."""
    three = [graph for number, graph in enumerate(every_graph(3)) if number % 7 == 3]
    graphs = [*every_graph(1), *every_graph(2), *three, *drawn_graphs(60)]
    parts, session = stored(tmp_path_factory.mktemp("ranges") / "graph", graphs)
    with session:
        yield parts, session


@pytest.fixture(scope="module")
def whole_world(tmp_path_factory):
    """All graphs of up to three nodes, and many of four."""
    graphs = [*every_graph(1), *every_graph(2), *every_graph(3), *drawn_graphs(1_500, seed=11)]
    parts, session = stored(tmp_path_factory.mktemp("ranges") / "graph", graphs)
    with session:
        yield parts, session


def links_of(one, types, keeps, *, is_undirected=False):
    """The edges that may be walked, each as (from, to, edge)."""
    chosen = [edge for edge in one.edges if edge.type in types and keeps(edge)]
    links = {(edge.source, edge.target, edge.id) for edge in chosen}
    return links | {(two, start, name) for start, two, name in links} if is_undirected else links


def ends_of_walks(links, start, hops):
    """Where the walks of so many edges end; none of them uses an edge from a node to itself."""
    ends = {start}
    for _ in range(hops):
        ends = {two for one, two, _ in links if one in ends and two != one}
    return ends


def by_definition(links, start, low, high, size):
    """Each node of the result with the least number of hops in the range that lead to it."""
    found = {}
    for hops in range(low, (low + size if high is None else high) + 1):
        for end in ends_of_walks(links, start, hops) - {start}:
            found.setdefault(end, hops)
    if low == 1 and any(one == two == start for one, two, _ in links):
        found[start] = 1
    return found


def expected_pairs(parts, low, high, types="K", keeps=None, **options):
    """All pairs of a start and a node of its result; ``keeps(start, edge)`` says which edges it may use."""
    pairs = []
    for one in parts:
        for at, start in enumerate(one.nodes):
            links = links_of(one, types, lambda edge, age=at % 3: keeps is None or keeps(age, edge), **options)
            pairs += [(start, end) for end in by_definition(links, start, low, high, len(one.nodes))]
    return sorted(pairs)


def written(low, high):
    return f"{{{low},{'' if high is None else high}}}"


FORMS = {
    "forward": ("$a: N  $a k# $b", {}),
    "backward": ("$b: N  $a k# $b", {}),
    "either way": ("$a: N  $a <k># $b", {"is_undirected": True}),
    "two types": ("$a: N  $a k|l# $b", {"types": "KL"}),
    "two types, either way": ("$a: N  $a <k|l># $b", {"types": "KL", "is_undirected": True}),
    "asks edges": ("$a: N  $a $e:k# $b where $e.w > 0", {"keeps": lambda _age, edge: edge.w > 0}),
    "asks rows": ("$a: N  $a $e:k# $b where $e.w >= $a.age", {"keeps": lambda age, edge: edge.w >= age}),
    "asks rows, either way": (
        "$a: N  $a $e:<k># $b where $e.w >= $a.age",
        {"keeps": lambda age, edge: edge.w >= age, "is_undirected": True},
    ),
    "both bound": ("$a: N  $b: N { part: $a.part }  $a k# $b", {}),
}


def asked_pairs(session, clause, **options):
    text = f"query q() {{ match {{ {clause} }} return {{ $a, $b }} }}"
    return sorted((row["a"], row["b"]) for row in session.query(text, options=QueryOptions(**options)).rows())


def check_form(world, form, ranges, modes):
    parts, session = world
    clause, options = FORMS[form]
    for low, high in ranges:
        if "$e" in clause and (low, high) == (1, 1):
            # One hop with a name is a row of every edge.
            continue
        expected = expected_pairs(parts, low, high, **options)
        for mode in modes:
            found = asked_pairs(session, clause.replace("#", written(low, high)), mode=mode)
            assert found == expected, (low, high, mode)


@pytest.mark.parametrize("form", FORMS)
def test_a_range_has_each_node_that_a_walk_of_so_many_edges_leads_to(world, form):
    check_form(world, form, RANGES, MODES[:1])
    check_form(world, form, FEW, MODES)


@pytest.mark.more
@pytest.mark.parametrize("form", FORMS)
def test_a_range_has_them_in_every_graph_of_up_to_three_nodes(whole_world, form):
    check_form(whole_world, form, RANGES, MODES)


def walks_between(links, start, goal, hops):
    """All walks of so many edges without loops between two nodes, as ids of nodes and of edges."""
    if hops == 0:
        return [((start,), ())] if start == goal else []
    return [
        ((start, *nodes), (name, *edges))
        for one, two, name in sorted(links)
        if one == start and two != start
        for nodes, edges in walks_between(links, two, goal, hops - 1)
    ]


def expected_paths(parts, low, high, *, is_all, **options):
    """The shortest walks of the range to each node of it."""
    paths = []
    for one in parts:
        links = links_of(one, "K", lambda _edge: True, **options)
        for start in one.nodes:
            for end, hops in by_definition(links, start, low, high, len(one.nodes)).items():
                if end == start:
                    found = [((start, start), (name,)) for left, right, name in links if left == right == start]
                else:
                    found = walks_between(links, start, end, hops)
                paths += sorted(found) if is_all else [min(found)]
    return sorted(paths)


def check_paths(world, clause, low, high, mode, **options):
    parts, session = world
    for is_all in (False, True):
        text = f"match {{ {clause} }}".replace("path", "path all" if is_all else "path").replace(
            "#", written(low, high)
        )
        rows = session.query(f"query q() {{ {text} return {{ $w }} }}", options=QueryOptions(mode=mode)).rows()
        found = sorted((tuple(row["w"]["nodes"]), tuple(row["w"]["edges"])) for row in rows)
        assert found == expected_paths(parts, low, high, is_all=is_all, **options), (low, high, mode, is_all)


PATHS = {
    "from one end": ("$a: N  path $w: $a k# $b", {}),
    "from the other end": ("$b: N  path $w: $a k# $b", {}),
    "either way": ("$a: N  path $w: $a <k># $b", {"is_undirected": True}),
    "to a goal": ("$a: N  $b: N { part: $a.part }  path $w: $a k# $b", {}),
    "with a condition": ("$a: N  path $w: $a $e:k# $b where $e.w >= $a.age - 9", {}),
}


@pytest.mark.parametrize("form", PATHS)
def test_a_path_is_the_shortest_walk_of_the_range(world, form):
    clause, options = PATHS[form]
    for low, high in FEW:
        check_paths(world, clause, low, high, "csr", **options)
    check_paths(world, clause, 2, 3, "indexed", **options)


@pytest.mark.more
@pytest.mark.parametrize("form", PATHS)
@pytest.mark.parametrize("mode", MODES)
def test_a_path_is_that_walk_in_every_graph_of_up_to_three_nodes(whole_world, form, mode):
    clause, options = PATHS[form]
    for low, high in RANGES:
        check_paths(whole_world, clause, low, high, mode, **options)


def test_blocks_count_and_test_what_a_range_has(world):
    parts, session = world
    for low, high in FEW:
        counts = dict.fromkeys((name for one in parts for name in one.nodes), 0)
        for start, _ in expected_pairs(parts, low, high):
            counts[start] += 1
        walk = f"$a k{written(low, high)} $b"
        counted = session.query(f"query q() {{ match {{ $a: N }} return {{ $a, count {{ {walk} }} as n }} }}").rows()
        assert {row["a"]: row["n"] for row in counted} == counts
        for block, is_wanted in ((f"exists {{ {walk} }}", True), (f"not {{ {walk} }}", False)):
            rows = session.query(f"query q() {{ match {{ $a: N  {block} }} return {{ $a }} }}").rows()
            assert sorted(row["a"] for row in rows) == sorted(
                name for name in counts if bool(counts[name]) is is_wanted
            )


LOCAL = Sizes()
JOINED = Sizes(broadcast_rows=0, local_edges=0)


@pytest.mark.parametrize("sizes", [LOCAL, JOINED], ids=["in tasks", "joined hop by hop"])
@pytest.mark.parametrize("form", FORMS)
def test_the_plan_of_spark_gives_the_same(tmp_path, form, sizes):
    graphs = [(3, [("K", 0, 1), ("K", 1, 2), ("K", 0, 2)]), *drawn_graphs(12, seed=3)]
    parts, opened = stored(tmp_path / "graph", graphs)
    clause, options = FORMS[form]
    with opened as session:
        for low, high in ((1, 3), (2, 2), (2, None), (3, 4)):
            text = f"query q() {{ match {{ {clause.replace('#', written(low, high))} }} return {{ $a, $b }} }}"
            found = query_in_parts(session, text, sizes=sizes).to_pylist()
            pairs = sorted((row["a"], row["b"]) for row in found)
            assert pairs == expected_pairs(parts, low, high, **options), (low, high)


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """A ring of 33 nodes, one of seven, and all links between 40 nodes."""
    ring = [("K", at, (at + 1) % 33) for at in range(33)]
    seven = [("K", at, (at + 1) % 7) for at in range(7)]
    full = [("K", one, two) for one in range(40) for two in range(40)]
    _, session = stored(tmp_path_factory.mktemp("rings") / "graph", [(33, ring), (7, seven), (40, full)])
    with session:
        yield session


def reached(session, part_number, hops, *, form="$a k# $b", **options):
    first = f"n{part_number:05}-0"
    text = f'match {{ $a: N {{ name: "{first}" }}  {form.replace("#", hops)} }} return {{ $b }}'
    rows = session.query(f"query q() {{ {text} }}", options=QueryOptions(**options)).rows()
    return sorted(int(row["b"].partition("-")[2]) for row in rows)


BOUNDED = ["$a k# $b", "$a $e:k# $b where $e.w >= $a.age - 9", "path $w: $a k# $b"]


@pytest.mark.parametrize("form", BOUNDED)
def test_an_open_range_fails_if_a_node_is_further_than_the_limit_and_not_if_only_the_start_is(rings, form):
    # Once round the ring of 33 is its start, which is in no result.
    assert reached(rings, 0, "{1,}", form=form) == list(range(1, 33))
    assert reached(rings, 0, "{2,}", form=form, max_hops=34) == list(range(1, 33))
    with pytest.raises(QueryRuntimeError, match="after 33 hops"):
        reached(rings, 0, "{2,}", form=form, max_hops=33)
    with pytest.raises(QueryRuntimeError, match="after 32 hops"):
        reached(rings, 0, "{2,}", form=form)
    with pytest.raises(QueryRuntimeError, match="after 32 hops"):
        reached(rings, 0, "{40,}", form=form)


@pytest.mark.parametrize("hops", [1, 6, 7, 8, 1_000, 7_000_000, 4_294_967_289])
def test_a_walk_of_very_many_hops_goes_round_a_ring_without_taking_every_step(rings, hops):
    expected = [] if hops % 7 == 0 else [hops % 7]
    assert reached(rings, 1, f"{{{hops},{hops}}}", timeout_ms=30_000) == expected
    assert reached(rings, 1, f"{{{hops},{hops + 6}}}", timeout_ms=30_000) == list(range(1, 7))


def test_many_walks_are_not_followed_one_by_one(rings):
    # There are 39 ** 30 walks of thirty hops.
    assert reached(rings, 2, "{30,30}") == list(range(1, 40))
    assert reached(rings, 2, "{30,31}", form="path $w: $a k# $b") == list(range(1, 40))
    with pytest.raises(QueryMemoryError):
        reached(rings, 2, "{30,30}", form="path all $w: $a k# $b", memory_bytes=64 << 20)
