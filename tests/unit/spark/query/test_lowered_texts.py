"""The lowering of the second edition with joins and tasks in this process: rows and errors of the embedded engine."""

from __future__ import annotations

import os
from functools import partial

import pytest
from tests.arrow_relations import query_in_parts
from tests.corpus.cases import read_expectation
from tests.corpus.test_reads_2 import _parameters
from tests.marks import every, first
from tests.prop.random_graphs import GRAPH_COUNT, GraphShelf
from tests.prop.read_schemas import NOW_MS, SCHEMAS
from tests.query_oracle import Fault, evaluate
from tests.query_oracle.agreement import outcome_disagreement
from tests.query_oracle.texts import seeded_text
from tests.query_oracle.values import to_text
from tests.read_contract import NOT_ON_SPARK, READS, assert_same, corpus_session, outcome

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import RULES
from omnigraph.errors import QueryRuntimeError, SparkUnsupportedError
from omnigraph.lang.gq import parse_queries
from omnigraph.spark.queries.reading import Sizes

pytestmark = pytest.mark.more

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
NOTHING_LOCAL = Sizes(broadcast_rows=0, local_edges=0)
WAYS = ((frozenset(), NOTHING_LOCAL), (frozenset(RULES), Sizes()))
COUNT, STEP = 2_000 if LONG else 60, 20


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with corpus_session(tmp_path_factory.mktemp("reads") / "graph") as opened:
        yield opened


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    made = GraphShelf(tmp_path_factory.mktemp("graphs"))
    yield made
    made.close()


@pytest.mark.parametrize("case", every(3, READS), ids=lambda case: case.id)
def test_lowered_read_gives_what_the_embedded_engine_gives(case, session):
    text, params = case.sections["query"], _parameters(case)
    expected = outcome(partial(session.query, text, params, params_form="strict"))
    is_ordered = read_expectation(case.sections["expect"]).verdict == "rows"
    is_walk = case.id.startswith("walks-")
    for off, sizes in WAYS if LONG or is_walk else WAYS[len(text) % 2 :][:1]:
        options = QueryOptions(rules_off=off)
        found = outcome(
            partial(query_in_parts, session, text, params, params_form="strict", options=options, sizes=sizes)
        )
        if isinstance(found, SparkUnsupportedError):
            assert found.details.value == ("version" if "version(" in text else "path")
            assert found.details.value in text
        else:
            assert_same(found, expected, is_ordered=is_ordered)


@pytest.mark.parametrize("sizes", [NOTHING_LOCAL, Sizes()])
def test_walk_without_a_bound_fails_beyond_the_hops_that_are_allowed(sizes, session):
    text = "query q() { match { $p: Person  $p knows{1,} $q } return { $q } }"
    with pytest.raises(QueryRuntimeError, match="still reaches new nodes after 1 hops"):
        query_in_parts(session, text, options=QueryOptions(max_hops=1), sizes=sizes)


# What the corpus has no case for: names, types and missing entities on their way through blocks, walks and stages.
TEXTS = [
    "match { $x: Named } return { $x, count($x) as n }",
    "match { $p: Person  not { $q knows $p }  $p knows $q } return { $p, $q }",
    """match { $p: Person  each $v in [0.0, -0.0]  exists { $p knows $q  to_string($v) = "-0.0" } }
        return { $p, to_string($v) as v }""",
    "match { $t: Team  not { $p worksIn $t  not { $p knows $f  exists { $f worksIn $t } } } } return { $t.code }",
    """match { $p: Person  $p $e:knows|likes $q } with { $e, count($q) as n }
        return { type($e) as t, id($e) as i, $e.weight as w, n }""",
    """match { $t: Team  optional { $x: Named { name: "Ann" } } } with { $t, $x } match { $x knows $y }
        return { $t, $x, type($x) as k, $y }""",
    "match { $x: Named  $y: Named } return { count(distinct $x) as n, count($x) as every }",
    "match { $t: Team  $p worksIn $t } return { $t.code as c, $p.slug as s } order { s } limit 1 per { $t }",
    "match { $p: Person  each $v in [1, null]  count { $p knows $q  $v is null } = 1 } return { $p, $v }",
    """match { $p: Person  each $v in [1, null, 3]  $p $e:knows{1,2} $q where coalesce($e.weight, 0) < coalesce($v, 2) }
        return { $p, $q, $v }""",
    """match { $t: Team  optional { $p worksIn $t }  $a: Person { slug: "ann" }
        $a $e:knows{1,3} $q where $e.weight > 1 or $p.age is null } return { $t.code, $p, $q }""",
    "match { $p: Person  $p $e:knows{1,3} $q where 10 / ($e.weight - 1) > 1 } return { $p, $q }",
    """match { $q: Person { slug: "cy" }  $p $e:knows{2,} $q where $e.since is null } return { $p, $q }""",
    """match { $p: Person } with { $p, $p.age as a } order { a desc } limit 3 match { optional { $p worksIn $t } }
        with { $t, collect($p.slug) as ps, count(*) as n } return { $t.code as c, ps, n } order { n desc, c }""",
    "match { $t: Team  optional { $p worksIn $t  each $v in $p.tags } } return { $t, $v, $p }",
    "match { $p: Person } with { null as n, $p } return { n, $p, n is null as y }",
    "match { $x: Named  $y: Named  $x worksIn $y } return { $x, type($x) as k, $y, $y.name as n }",
    """match { $p: Person { slug: "ann" }  optional { $y: Named  $p worksIn $y }  optional { $z: Named  $z knows $p } }
        return { $y, type($y) as k, $z.name as n, type($z) as l }""",
    """match { $p: Person  optional { $p worksIn $t }  $p knows $f  optional { $f worksIn $u  $u.code != $t.code } }
        return { $p, $t, $f, $u }""",
]


@pytest.mark.parametrize("body", every(3, TEXTS))
def test_lowered_text_gives_what_the_embedded_engine_gives(body, session):
    text = f"query q() {{ {body} }}"
    expected = outcome(partial(session.query, text))
    for off, sizes in WAYS:
        found = outcome(partial(query_in_parts, session, text, options=QueryOptions(rules_off=off), sizes=sizes))
        assert_same(found, expected, is_ordered="order {" in body.rpartition("return")[2])


@pytest.mark.parametrize("start", first(1, range(0, COUNT, STEP)))
def test_lowered_texts_and_naive_evaluator_agree(start, shelf):
    for seed in range(start, start + STEP):
        # Making a graph costs more than reading it: the plain run takes the largest one of each schema.
        number = seed % GRAPH_COUNT if LONG else GRAPH_COUNT - len(SCHEMAS) + seed % len(SCHEMAS)
        stored, read = shelf.get(number), seeded_text(seed, SCHEMAS[number % len(SCHEMAS)])
        params = {name: to_text(value, read.kinds[name]) for name, value in read.parameters.items()}
        off, sizes = WAYS[seed % 2]
        found = outcome(
            partial(query_in_parts, stored.session, read.text, params, options=QueryOptions(rules_off=off), sizes=sizes)
        )
        if isinstance(found, SparkUnsupportedError):
            assert found.details.value in NOT_ON_SPARK
            continue
        problem = outcome_disagreement(_expected(read, stored), found)
        assert problem is None, f"seed {seed}\n{read.text}\nparameters {read.parameters}\n{problem}"


def _expected(read, stored):
    (decl,) = parse_queries(read.text).queries
    try:
        return evaluate(decl, stored.schema, stored.graph, read.parameters, NOW_MS)
    except Fault as fault:
        return fault
