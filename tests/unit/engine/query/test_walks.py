"""Walks with conditions and without an upper bound, beyond what the corpus of reads asks."""

from __future__ import annotations

import json

import pytest
from tests.session_graph import create_graph, open_session
from tests.unit.engine.query.graphs import open_ring, steps
from tests.unit.ir.graphs import compile_text

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import Facts, plan_read
from omnigraph.errors import QueryRuntimeError, QueryTypeError, UsageError
from omnigraph.ir import compile_query, expect_read

COUNT = 100


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with open_ring(tmp_path_factory.mktemp("walks") / "graph", COUNT) as opened:
        yield opened


def names(session, clause, **options):
    body = f'query q() {{ match {{ $p: Person {{ name: "p7" }}  {clause} }} return {{ $q.name as name }} }}'
    return sorted(row["name"] for row in session.query(body, options=QueryOptions(**options)).rows())


@pytest.mark.parametrize("mode", ["indexed", "csr"])
@pytest.mark.parametrize("clause", ["$p knows{1,} $q", "$p $e:knows{1,} $q where $e.since is null", "$q knows{1,} $p"])
def test_a_walk_without_an_upper_bound_ends_where_it_may_and_fails_beyond(session, clause, mode):
    # Everyone is at most 50 hops away: each knows the next two of 100.
    assert len(names(session, clause, mode=mode, max_hops=50)) == COUNT - 1
    with pytest.raises(QueryRuntimeError, match="after 49 hops"):
        names(session, clause, mode=mode, max_hops=49)
    with pytest.raises(QueryRuntimeError, match="after 32 hops"):
        names(session, clause, mode=mode)


def test_a_walk_whose_condition_asks_rows_is_bounded_too(session):
    clause = "$p $e:knows{1,} $q where $e.since is null or $p.age < 0"
    assert len(names(session, clause, max_hops=50)) == COUNT - 1
    with pytest.raises(QueryRuntimeError, match="after 32 hops"):
        names(session, clause)


def test_a_read_may_go_one_hop_at_least():
    with pytest.raises(UsageError, match="max_hops"):
        QueryOptions(max_hops=0)


def test_the_condition_of_a_walk_is_asked_of_the_edges_that_it_comes_to(session):
    assert names(session, "$p $e:knows{1,2} $q where 10 / (length(id($e)) - 5) < 0 and id($e) > $p.name") == []
    # The ids of all edges around p7 have four characters; those of ten and more, which divide by zero, are far away.
    assert names(session, "$p $e:knows{1,2} $q where 10 / (length(id($e)) - 5) < 0 and id($e) < $p.name") == [
        "p10",
        "p11",
        "p8",
        "p9",
    ]
    with pytest.raises(QueryRuntimeError):
        names(session, "$p $e:knows{1,4} $q where 10 / (length(id($e)) - 5) < 0")


def test_a_block_in_the_condition_of_a_walk_asks_the_row(session):
    walk = "$p $e:knows{1,2} $q where exists { $p knows $q  $q.name = "
    assert names(session, f'{walk}"p9" }}') == ["p10", "p11", "p8", "p9"]
    assert names(session, f'{walk}"p1" }}') == []
    with pytest.raises(QueryTypeError, match="cannot use its edge"):
        names(session, "$p $e:knows{1,2} $q where exists { $p $f:knows $r  $f.since = $e.since }")


def test_explain_shows_what_a_walk_uses():
    assert steps("match { $p: Person  $p $e:knows{1,3} $q where $e.since is null  $q knows{2,} $r } return { $r }") == [
        "scan $p: Person",
        "walk $p -$e:Knows{1,3}-> $q: Person over edges with is_null($e.since)",
        "walk $q -Knows{2,}-> $r: Person",
    ]


def test_explain_shows_the_alternatives_of_an_edge():
    read = "match { $p: Person  $p $e:knows|knows $q } return { type($e) }"
    assert steps(read) == ["scan $p: Person", "expand $p -$e:Knows-> $q: Person"]


def mixed_steps(body):
    catalog = compile_text(MIXED)
    read = expect_read(compile_query(f"query q() {{ {body} }}", None, catalog))
    planned = plan_read(read, Facts(catalog=catalog, row_counts={}))
    return [str(step) for step in planned.steps]


MIXED = """
interface Named { name: String }
node Person implements Named { slug: String @key }
node Team implements Named { code: String @key }
edge Knows: Person -> Person { weight: I32? }
edge Likes: Person -> Person { weight: I32 }
edge WorksIn: Person -> Team
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    nodes = [{"type": "Person", "data": {"slug": name, "name": name.upper()}} for name in ("a", "b", "c")]
    nodes += [{"type": "Team", "data": {"code": name, "name": name.upper()}} for name in ("a", "t")]
    knows = [{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "k", "weight": 1}}]
    likes = [{"edge": "Likes", "from": "b", "to": "c", "data": {"id": "k", "weight": 2}}]
    works = [{"edge": "WorksIn", "from": "a", "to": "t", "data": {"id": "w"}}]
    root = tmp_path_factory.mktemp("mixed") / "graph"
    create_graph(root, MIXED, "\n".join(map(json.dumps, [*nodes, *knows, *likes, *works])))
    with open_session(root) as opened:
        yield opened


def rows(session, body, **options):
    found = session.query(f"query q() {{ {body} }}", options=QueryOptions(**options)).rows()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize("mode", ["indexed", "csr"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("match { $x: Named } return distinct { $x }", [("a",), ("a",), ("b",), ("c",), ("t",)]),
        ("match { $x: Named } return { count(distinct $x) as n }", [(5,)]),
        ("match { $p: Person  $x: Named  $p worksIn $x } return { $p, $x, type($x) as t }", [("a", "t", "Team")]),
        ("match { $t: Team  $x: Named  $x worksIn $t } return { $x, $x.name, $t }", [("a", "A", "t")]),
        ('match { $x: Named  $y: Named  $x knows $y  $y.name != "C" } return { $x, $y }', [("a", "b")]),
        ("match { $x: Named  $y: Named { name: $x.name }  $x knows $y } return { $x }", []),
        ("match { $x: Named  $x worksIn $x } return { $x }", []),
        ("match { $x: Named  not { $x worksIn $_ } } return { $x, type($x) as t }", None),
        ("match { $x: Named  optional { $x worksIn $t } } return { $x, type($x) as k, $t }", None),
        ("match { $x: Named } with { $x } match { $x knows|likes{1,2} $y } return { $x, $y }", None),
        ("match { $x: Named  $y: Named { name: $x.name }  type($x) < type($y) } return { $x, $y }", [("a", "a")]),
        ("match { $p: Person  optional { $p $e:knows|likes $q } } return { $p, type($e) as t, $e.weight }", None),
        ("match { $p: Person  $p $e:knows|likes $q  $e.weight > 1 } return { $p, type($e) as t }", [("b", "Likes")]),
        ("match { $p: Person  $p $e:knows|likes $q } return { count(distinct $e) as n }", [(2,)]),
    ],
)
def test_variables_over_several_tables_hold_what_they_mean(mixed, body, expected, mode):
    others = {
        "not": [("a", "Team"), ("b", "Person"), ("c", "Person"), ("t", "Team")],
        "optional { $x": [
            ("a", "Person", "t"),
            ("a", "Team", None),
            ("b", "Person", None),
            ("c", "Person", None),
            ("t", "Team", None),
        ],
        "with": [("a", "b"), ("a", "c"), ("b", "c")],
        "optional { $p": [("a", "Knows", 1), ("b", "Likes", 2), ("c", None, None)],
    }
    wanted = expected if expected is not None else next(found for key, found in others.items() if key in body)
    assert rows(mixed, body, mode=mode) == wanted


def test_explain_shows_where_a_variable_is_of_one_type():
    assert mixed_steps("match { $x: Named  $x worksIn $t  $y: Named  $t worksIn $y } return { $x, $y }") == [
        "scan $x: Person | Team",
        "narrow $x to $#3: Person",
        "expand $#3 -WorksIn-> $t: Team",
        "expand $t <-WorksIn- $#4: Person",
        "widen $#4: Person to $y: Person | Team",
    ]


@pytest.mark.parametrize("mode", ["indexed", "csr"])
@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("path $w: $p knows|likes{1,2} $q", [("a", "b", ["k"]), ("a", "c", ["k", "k"]), ("b", "c", ["k"])]),
        ("path $w: $p <knows|likes>{2,2} $q", [("a", "c", ["k", "k"]), ("c", "a", ["k", "k"])]),
        ('path $w: $p <knows|likes>{2,} $q  $q.slug = "c"', [("a", "c", ["k", "k"]), ("b", "c", ["k", "k", "k"])]),
        ("path $w: $p $e:knows|likes{1,} $q where $e.weight < 2", [("a", "b", ["k"])]),
    ],
)
def test_paths_go_over_several_edges(mixed, clause, expected, mode):
    body = f"match {{ $p: Person  {clause} }} return {{ $p, $q, edges($w) as e }}"
    assert rows(mixed, body, mode=mode) == expected


@pytest.mark.parametrize("mode", ["indexed", "csr"])
def test_a_path_is_the_least_from_its_start_whichever_end_is_bound(session, mode):
    body = 'match { $q: Person { name: "p13" }  path $w: $p knows{3,3} $q } return { $p, nodes($w) as n }'
    # Among the ways from p8, p10 comes before p9 in the order of texts.
    assert rows(session, body, mode=mode) == [
        ("p10", ["p10", "p11", "p12", "p13"]),
        ("p7", ["p7", "p9", "p11", "p13"]),
        ("p8", ["p8", "p10", "p11", "p13"]),
        ("p9", ["p9", "p10", "p11", "p13"]),
    ]


def test_all_paths_are_counted(session):
    # Nine places in five hops: four of two and one of one, in any order.
    ends = '$p: Person { name: "p10" }  $q: Person { name: "p19" }'
    body = f"match {{ {ends}  path all $w: $p knows{{1,9}} $q }} return {{ count(*) as n, max(length($w)) as l }}"
    assert rows(session, body) == [(5, 5)]


def test_what_a_path_is_not(mixed):
    for wrong in ("$w = $w", "lower($w) is null", "$w in [$w]"):
        with pytest.raises(QueryTypeError):
            rows(mixed, f"match {{ $p: Person  path $w: $p knows $q  {wrong} }} return {{ $p }}")
    for wrong in ("min($w)", "collect($w)", "coalesce($w, $w)", "nodes($p)"):
        with pytest.raises(QueryTypeError):
            rows(mixed, f"match {{ $p: Person  path $w: $p knows $q }} return {{ {wrong} as x }}")


def test_an_edge_that_an_optional_block_did_not_find_is_null(mixed):
    body = "match { $p: Person  optional { $p $e:knows|likes $q }  $e is null } return { $p }"
    assert rows(mixed, body) == [("c",)]
