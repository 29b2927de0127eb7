"""A table of answers, computed by hand, that the naive evaluator of reads must give: one construct each."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.query_oracle import Fault, Illegal, evaluate, read_schema
from tests.query_oracle.seeds import read_seed

from omnigraph.lang.gq import parse_queries

FOLDER = Path(__file__).parents[2] / "corpus" / "reads-2"
SCHEMA_TEXT = (FOLDER / "graph.pg").read_text(encoding="utf-8")
SCHEMA = read_schema(SCHEMA_TEXT)
GRAPH = read_seed(SCHEMA_TEXT, (FOLDER / "graph.jsonl").read_text(encoding="utf-8"))
ANN = '$p: Person { slug: "ann" }'

# Rows in their order where the text has one, else sorted.
ANSWERS = [
    # Conditions as clauses
    ("match { $p: Person  $p.age > 40 or $p.score = 0 } return { $p }", [("bo",), ("di",)]),
    ("match { $p: Person  not $p.age > 30 } return { $p }", [("bo",), ("eve",)]),
    ("match { $p: Person  not ($p.age > 30) or $p.age is null } return { $p }", [("bo",), ("cy",), ("eve",)]),
    ('match { $p: Person { slug: "a" + "nn" } } return { $p }', [("ann",)]),
    ("match { $a: Person  $b: Person { age: $a.age - 6 } } return { $a, $b }", [("ann", "bo"), ("ann", "eve")]),
    ("match { $p: Person  $p.score / $p.age > 0.2 } return { $p }", [("ann",), ("di",)]),
    # Optional
    (
        "match { $t: Team  optional { $p worksIn $t  $p.age > 30 } } return { $t.code, $p.slug }",
        [("ann", None), ("core", "ann"), ("lab", None), ("ops", "di")],
    ),
    (
        "match { $t: Team  optional { $p worksIn $t } $p.slug is null } return { $t.code }",
        [("ann",), ("lab",)],
    ),
    ("match { $t: Team  optional { $p worksIn $t } $p is null } return { $t.code }", [("ann",), ("lab",)]),
    (
        "match { $t: Team  optional { $p worksIn $t } $p knows $f } return { $t.code, $f }",
        [
            ("core", "bo"),
            ("core", "cy"),
            ("core", "di"),
            ("ops", "ann"),
        ],
    ),
    (
        "match { $p: Person  optional { $p worksIn $t } optional { $t locatedIn $c } } return { $p, $c }",
        [("ann", "ber"), ("bo", "ber"), ("cy", None), ("di", "ber"), ("eve", "ber")],
    ),
    (
        "match { $p: Person  optional { $p $e:likes $q } } return { $p, $e.weight, type($e), id($e) }",
        [
            ("ann", 2, "Likes", "l1"),
            ("bo", None, "Likes", "l2"),
            ("cy", None, None, None),
            ("di", None, None, None),
            ("eve", 1, "Likes", "l3"),
        ],
    ),
    (
        "match { $t: Team  optional { $p worksIn $t } not { $p knows $_ } } return { $t.code, $p }",
        [
            ("ann", None),
            ("lab", None),
            ("ops", "eve"),
        ],
    ),
    # Blocks
    ("match { $p: Person  exists { $p likes $q } } return { $p }", [("ann",), ("bo",), ("eve",)]),
    ("match { $p: Person  exists { $p likes $q } and $p.age < 30 } return { $p }", [("bo",), ("eve",)]),
    ("match { $p: Person  not { $p likes $q } or $p.age = 34 } return { $p }", [("ann",), ("cy",), ("di",)]),
    ("match { $p: Person  count { $p knows $f } >= 2 } return { $p }", [("ann",)]),
    (
        "match { $p: Person } return { $p, count { $p knows $f } as n } order { n desc, $p }",
        [
            ("ann", 2),
            ("bo", 1),
            ("cy", 1),
            ("di", 1),
            ("eve", 0),
        ],
    ),
    ("match { $t: Team  exists { $p worksIn $t  not { $p likes $_ } } } return { $t.code }", [("ops",)]),
    # Alternation and interfaces
    (f"match {{ {ANN}  $p knows|likes $q }} return {{ $q }}", [("bo",), ("cy",), ("di",)]),
    (
        f"match {{ {ANN}  $p $e:knows|likes $q }} return {{ id($e), type($e), $e.weight }}",
        [
            ("k1", "Knows", 1),
            ("k2", "Knows", 3),
            ("k3", "Knows", None),
            ("l1", "Likes", 2),
        ],
    ),
    (f"match {{ {ANN}  $p <knows|likes> $q }} return {{ $q }}", [("bo",), ("cy",), ("di",), ("eve",)]),
    (
        'match { $p: Person { slug: "eve" }  $p knows|likes{1,2} $q } return { $q }',
        [
            ("ann",),
            ("bo",),
            ("cy",),
            ("di",),
        ],
    ),
    (
        "match { $x: Named } return { type($x), $x.name }",
        [
            ("Person", ""),
            ("Person", "Ann"),
            ("Person", "Ann"),
            ("Person", "Bo"),
            ("Person", "Cÿ 😀"),
            ("Team", "Ann"),
            ("Team", "Core"),
            ("Team", "Lab"),
            ("Team", "Ops"),
        ],
    ),
    (
        'match { $x: Named { name: "Ann" } } return { $x, type($x) as t } order { $x.name }',
        [
            ("ann", "Person"),
            ("ann", "Team"),
            ("eve", "Person"),
        ],
    ),
    ('match { $x: Named { name: "Ann" } } return { $x, count(*) as n }', [("ann", 1), ("ann", 1), ("eve", 1)]),
    (
        "match { $x: Named  $x worksIn $t } return { $x, $t }",
        [
            ("ann", "core"),
            ("bo", "core"),
            ("di", "ops"),
            ("eve", "ops"),
        ],
    ),
    # Walks with a condition
    (f"match {{ {ANN}  $p $e:knows{{1,3}} $q where $e.since is not null }} return {{ $q }}", [("bo",), ("di",)]),
    (f"match {{ {ANN}  $p $e:knows $q where $e.weight > 1 }} return {{ $q, $e.weight }}", [("bo", 3)]),
    (
        "match { $p: Person  $p $e:knows{1,2} $q where $e.weight < $p.age - 33 } return { $p, $q }",
        [
            ("di", "ann"),
            ("di", "bo"),
        ],
    ),
    # Paths
    (
        f"match {{ {ANN}  path $w: $p knows{{1,6}} $q }} return {{ $q, length($w), nodes($w), edges($w) }}",
        [
            ("bo", 1, ["ann", "bo"], ["k1"]),
            ("cy", 1, ["ann", "cy"], ["k3"]),
            ("di", 2, ["ann", "bo", "di"], ["k1", "k4"]),
        ],
    ),
    (
        f"match {{ {ANN}  path all $w: $p knows{{1,6}} $q }} return {{ $q, edges($w) }}",
        [
            ("bo", ["k1"]),
            ("bo", ["k2"]),
            ("cy", ["k3"]),
            ("di", ["k1", "k4"]),
            ("di", ["k2", "k4"]),
        ],
    ),
    (
        f"match {{ {ANN}  path $w: $p knows{{2,3}} $q }} return {{ $q, nodes($w) }}",
        [
            ("di", ["ann", "bo", "di"]),
        ],
    ),
    (
        'match { $p: Person { slug: "cy" }  path $w: $p knows $p } return { $w }',
        [
            ({"nodes": ["cy", "cy"], "edges": ["k6"]},),
        ],
    ),
    (
        f"match {{ {ANN}  path $w: $p $e:knows{{1,4}} $q where $e.weight != 1 }} return {{ $q, edges($w) }}",
        [
            ("bo", ["k2"]),
            ("di", ["k2", "k4"]),
        ],
    ),
    (f"match {{ {ANN}  $p knows{{1,}} $q }} return {{ $q }}", [("bo",), ("cy",), ("di",)]),
    (
        f"match {{ {ANN}  optional {{ path $w: $p worksIn $t }} }} return {{ length($w), nodes($w) }}",
        [
            (1, ["ann", "core"]),
        ],
    ),
    # Each
    (f"match {{ {ANN}  each $t in $p.tags }} return {{ $t }}", [("a",), ("b",)]),
    ("match { $p: Person  each $t in $p.tags } return { $t, count(*) as n }", [("a", 3), ("b", 2), ("é", 1)]),
    ("match { each $s in ['bo', 'nobody', 'bo']  $p: Person { slug: $s } } return { $p.age }", [(28,), (28,)]),
    ("match { each $n in [3, 1.5] } return { $n * 2 as d }", [(3.0,), (6.0,)]),
    ("match { $p: Person { slug: 'cy' }  each $t in $p.tags } return { $t }", []),
    # Aggregates
    (
        "match { $p: Person } return { count(*), count($p.age) as a, count(distinct $p.age) as d, sum_int($p.age) }",
        [(5, 4, 3, 131)],
    ),
    (
        "match { $p: Person } return { collect($p.age) as all, collect(distinct $p.age) as d }",
        [
            ([34, 28, 41, 28], [34, 28, 41]),
        ],
    ),
    ("match { $p: Person } return { median($p.age) as m, percentile($p.age, 0.25) as q }", [(31.0, 28.0)]),
    ("match { $p: Person } return { percentile($p.age, 1.0) as q, percentile($p.age, null) as n }", [(41.0, None)]),
    (
        "match { $p: Person  $p.age < 40 } return { variance($p.age) as v, round(stddev($p.age), 3) as s }",
        [
            (12.0, 3.464),
        ],
    ),
    ("match { $p: Person { slug: 'bo' } } return { variance($p.age), stddev($p.age) }", [(None, None)]),
    ("match { $p: Person } return { any($p.is_lead), every($p.is_lead) }", [(True, False)]),
    (
        "match { $p: Person { slug: 'cy' } } return { any($p.is_lead), every($p.is_lead), median($p.age) }",
        [
            (None, None, None),
        ],
    ),
    ("match { $p: Person } return { min($p.is_lead) as a, max($p.born) as b }", [(False, 11322)]),
    (
        "match { $p: Person } return { count($p where $p.age > 30) as n, sum($p.age where $p.is_lead) as s }",
        [
            (2, 75.0),
        ],
    ),
    ("match { $p: Person } return { sum(distinct $p.age) as s, avg(distinct $p.age) as a }", [(103.0, 103 / 3)]),
    ("match { $p: Person } return { sum($p.age) / count($p.age) as mean, 1 + count(*) as n }", [(32.75, 6)]),
    ("match { $p: Person  $p $e:knows $f } return { $p, count($e) as n } having n > 1", [("ann", 3)]),
    (
        "match { $p: Person } return { $p.age / 2 as half, count(*) as n } order { half nulls last }",
        [
            (14.0, 2),
            (17.0, 1),
            (20.5, 1),
            (None, 1),
        ],
    ),
    (
        "match { $p: Person { slug: 'none' } } return { count(*) as n, collect($p.age) as c, sum_int($p.age) as s }",
        [
            (0, [], None),
        ],
    ),
    ("match { $p: Person { slug: 'none' } } return { $p.age, count(*) as n }", []),
    (
        "match { $p: Person  $p worksIn $t } return { $t, $t.budget - avg($p.age) as d } order { d }",
        [
            ("ops", -27.0),
            ("core", -21.0),
        ],
    ),
    (
        "match { $p: Person  $p worksIn $t } return { $t.code } having count(*) = 2 and min($p.age) > 27",
        [
            ("core",),
            ("ops",),
        ],
    ),
    # Distinct, order, cuts
    ("match { $p: Person } return distinct { $p.age }", [(None,), (28,), (34,), (41,)]),
    (
        "match { $p: Person } return distinct { $p.age as a } order { a desc nulls first }",
        [
            (None,),
            (41,),
            (34,),
            (28,),
        ],
    ),
    ("match { $p: Person } return { $p } order { $p.age }", [("cy",), ("bo",), ("eve",), ("ann",), ("di",)]),
    ("match { $p: Person } return { $p } order { $p.age desc }", [("di",), ("ann",), ("bo",), ("eve",), ("cy",)]),
    (
        "match { $p: Person } return { $p } order { $p.age nulls last }",
        [
            ("bo",),
            ("eve",),
            ("ann",),
            ("di",),
            ("cy",),
        ],
    ),
    (
        "match { $p: Person } return { $p } order { $p.age % 4 desc nulls last, length($p.name) }",
        [
            ("ann",),
            ("di",),
            ("bo",),
            ("eve",),
            ("cy",),
        ],
    ),
    ("match { $p: Person } return { $p } order { $p.age } offset 1 limit 2", [("bo",), ("eve",)]),
    ("match { $p: Person } return { $p } order { $p.age } offset 4", [("di",)]),
    ("match { $p: Person } return { $p } offset 3", [("di",), ("eve",)]),
    (
        "match { $p: Person } return { $p } order { $p.age } limit 1 per { $p.age }",
        [
            ("cy",),
            ("bo",),
            ("ann",),
            ("di",),
        ],
    ),
    ("match { $p: Person } return { $p } order { $p.age } offset 1 limit 1 per { $p.age }", [("eve",)]),
    (
        "match { $p: Person  $p worksIn $t } return { $t.code as c, $p } order { $p.age desc } limit 1 per { c }",
        [
            ("ops", "di"),
            ("core", "ann"),
        ],
    ),
    ("match { $p: Person } return { $p, $p.age as a } having a > 30 order { a }", [("ann", 34), ("di", 41)]),
    # Stages
    (
        (
            "match { $t: Team  optional { $p worksIn $t } } with { $t, count($p) as n } having n >= 1"
            " match { $t locatedIn $c } return { $c, $t, n } order { $t }"
        ),
        [("ber", "core", 2), ("ber", "ops", 2)],
    ),
    (
        "match { $p: Person } with { $p } order { $p.age desc } limit 2 return { collect($p.slug) as c }",
        [(["di", "ann"],)],
    ),
    (
        "match { $p: Person } with { $p.age as a } with distinct { a } return { count(*) as n, collect(a) as c }",
        [
            (4, [28, 34, 41]),
        ],
    ),
    (
        "match { $p: Person } with { $p as who, $p.age + 1 as a } match { $who likes $q } return { $who, $q, a }",
        [
            ("ann", "di", 35),
            ("bo", "ann", 29),
            ("eve", "ann", 29),
        ],
    ),
    (
        "match { $p: Person } with { max($p.age) as top } match { $p: Person  $p.age = top } return { $p, top }",
        [
            ("di", 41),
        ],
    ),
    ("match { $p: Person } with { $p } order { $p.age } offset 1 limit 1 per { $p.age } return { $p }", [("eve",)]),
    ("match { $a $e:likes $b } with { $e } return { $e.weight }", [(None,), (1,), (2,)]),
    # Sets
    (
        "match { $p: Person } return { $p.name } union match { $t: Team } return { $t.name }",
        [
            ("",),
            ("Ann",),
            ("Bo",),
            ("Core",),
            ("Cÿ 😀",),
            ("Lab",),
            ("Ops",),
        ],
    ),
    (
        (
            "match { $p: Person } return { $p.age as v } union all match { $t: Team } return { $t.budget }"
            " order { v desc } offset 1 limit 3"
        ),
        [(34.0,), (28.0,), (28.0,)],
    ),
    (
        (
            "match { $p: Person } return { $p.age as v } union all match { $p: Person } return { $p.age }"
            " union match { $c: City } return { 1 } order { v }"
        ),
        [(None,), (1,), (28,), (34,), (41,)],
    ),
    ("match { $c: City } return { 1 } union all match { $c: City } return { 1 }", [(1,), (1,), (1,), (1,)]),
    # Columns of an entity
    ('match { $t: Team { code: "ops" } } return { $t.* }', [("ops", 7.5, "Ops")]),
    ("match { $p: Person { slug: 'cy' }  optional { $p worksIn $t } } return { $t.* }", [(None, None, None)]),
]
FAULTS = [
    ("match { $p: Person } return { 10 / $p.score }", "division"),
    ("match { $p: Person  10 / $p.score > 1 } return { $p }", "division"),
    ("match { $p: Person } return { sum_int($p.score) }", "overflow"),
    ("match { $p: Person } return { $p.score + 1 }", "overflow"),
    ("match { $p: Person } return { percentile($p.age, 2.0) }", "fraction"),
    ("match { $p: Person } return { $p } limit $k", "amount"),
]
REFUSED = [
    "match { $p: Person } return { $p.name + count(*) }",
    "match { $p: Person } return { count(sum($p.age)) }",
    "match { $p: Person  count(*) > 1 } return { $p }",
    "match { $p: Person } return { count(distinct *) }",
    "match { $p: Person } with { $p.age } return { 1 }",
    "match { $p: Person } with { $p.age as a } return { $p }",
    "match { $p: Person } with { $p.* } return { 1 }",
    "match { $p: Person } with { $p, $p.age as p2, 1 as p2 } return { 1 }",
    "match { $p: Person } return { $p.age as a, a + 1 }",
    "match { $p: Person } return distinct { $p.age } order { $p.name }",
    "match { $p: Person } return { $p.age } union match { $p: Person } return { $p.name }",
    "match { $p: Person } return { $p.age } union match { $p: Person } return { $p.age, 1 }",
    "match { $p: Person } return { $p.age } union match { $t: Team } return { $t.budget } order { $t.budget }",
    "match { $p: Person  $p $e:knows{1,2} $q } return { $q }",
    "match { $p: Person  $p $e:knows{1,2} $q where $e.weight > 1 } return { $e.weight }",
    "match { $p: Person  $p knows|worksIn $q } return { $q }",
    "match { $p: Person  $p $e:knows|likes $q } return { $e.note }",
    "match { $x: Named } return { $x.age }",
    "match { $x: Named  $x locatedIn $x } return { $x }",
    "match { $p: Person  exists { $p knows $f } } return { $f }",
    "match { $p: Person  $f.age > 1  optional { $p knows $f } } return { $p }",
    "match { $p: Person  each $p in [1] } return { $p }",
    "match { $p: Person  each $t in $p.age } return { $t }",
    "match { $p: Person  path $p: $p knows $q } return { $q }",
    "match { $p: Person  $p $e:knows $q } return { $e }",
    "match { $p: Person } return { days(1) as d }",
    "match { $p: Person } return { min($p.tags) }",
    "match { $p: Person } return { sum($p.name) }",
    "match { $p: Person } return { sum_int($p.height) }",
    "match { $p: Person } return { every($p.age) }",
    "match { $p: Person } return { collect($p.tags) }",
    "match { $p: Person } return { $p } order { $p.tags }",
    "match { $p: Person } return { $p.age } having $p.age",
]


def _evaluate(body: str, max_hops: int = 32):
    (decl,) = parse_queries(f"query q($k: I64?) {{ {body} }}").queries
    return evaluate(decl, SCHEMA, GRAPH, {}, 0, max_hops)


@pytest.mark.parametrize(("body", "rows"), ANSWERS)
def test_read_has_its_rows(body: str, rows: list[tuple]) -> None:
    answer = _evaluate(body)
    found = list(answer.rows)
    assert (found if answer.is_ordered else sorted(found, key=repr)) == (
        rows if answer.is_ordered else sorted(rows, key=repr)
    )


@pytest.mark.parametrize(("body", "reason"), FAULTS)
def test_read_fails_at_run_time(body: str, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        _evaluate(body)
    assert caught.value.reason == reason


@pytest.mark.parametrize("body", REFUSED)
def test_read_is_refused_before_it_runs(body: str) -> None:
    with pytest.raises(Illegal):
        _evaluate(body)


def test_open_walk_that_exceeds_the_cap_fails() -> None:
    body = 'match { $p: Person { slug: "ann" }  $p knows{1,} $q } return { $q }'
    with pytest.raises(Fault, match="hops"):
        _evaluate(body, max_hops=1)
    assert len(_evaluate(body, max_hops=2).rows) == 3


def test_failure_that_a_cut_may_hide_is_left_open() -> None:
    answer = _evaluate("match { $p: Person } return { 10 / $p.score as v } order { $p.slug } limit 1")
    assert answer.rows == ((1.0,),)
    assert answer.may_fail


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("$p.age", "p.age"),
        ("$p", "p"),
        ("$k", "k"),
        ("-1", "literal"),
        ("null", "literal"),
        ("now()", "now"),
        ("$p.age+1", "$p.age + 1"),
        ("count($p)", "p"),
        ("max($p.age)", "p.age"),
        ("count(*)", "count(*)"),
        ("count(distinct $p.age)", "count(distinct $p.age)"),
        ("count($p where $p.age>1)", "count($p where $p.age > 1)"),
        ("collect($p.age)", "collect($p.age)"),
        ("sum($p.age+1)", "sum($p.age + 1)"),
        ("$p.tags[0]", "$p.tags[0]"),
        ("lower($p.name)", "lower($p.name)"),
    ],
)
def test_column_without_alias_is_named_by_its_text(expression: str, name: str) -> None:
    assert _evaluate(f"match {{ $p: Person }} return {{ {expression} }}").columns == (name,)
