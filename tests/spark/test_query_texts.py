"""Reads of the second edition on real Spark give the rows, the order, the types and the errors of the local engine."""

from __future__ import annotations

import os
from functools import partial

import pytest

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import QueryRowLimitError, QueryRuntimeError, SparkUnsupportedError
from omnigraph.lang.gq import parse_queries
from omnigraph.spark.queries import frame, query
from omnigraph.spark.queries.reading import Sizes
from omnigraph.spark.queries.relations import FrameRelations
from omnigraph.spark.queries.run import collect, lower
from tests.arrow_relations import prepared_read
from tests.corpus.cases import read_expectation
from tests.corpus.test_reads_2 import _parameters
from tests.marks import number_of, with_core
from tests.prop.random_graphs import GRAPH_COUNT, GraphShelf
from tests.prop.read_schemas import NOW_MS, SCHEMAS
from tests.query_oracle import Fault, evaluate
from tests.query_oracle.agreement import outcome_disagreement
from tests.query_oracle.texts import seeded_text
from tests.query_oracle.values import to_text
from tests.read_contract import NOT_ON_SPARK, READS, assert_same, corpus_session, outcome

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
# Each construct once; all of them run in process, and here in the long run.
CHOSEN = {
    "aggregates-02",
    "aggregates-15",
    "blocks-11",
    "blocks-13",
    "blocks-18",
    "failures-03",
    "order-07",
    "order-11",
    "stages-07",
    "stages-10",
    "stages-14",
    "walks-08",
    "walks-11",
    "walks-17",
    "walks-20",
}
ON_SPARK = [case for case in READS if not any(word in case.sections["query"] for word in ("path ", "version("))]
RUN = [case for case in ON_SPARK if LONG or number_of(case) in CHOSEN]
CORE = {"aggregates-02", "failures-03", "stages-10", "walks-08"}
# Every edge in one join after the other, nothing sent to all workers.
SHUFFLED = {"blocks-08", "walks-04", "walks-11"}
NOTHING_LOCAL = Sizes(broadcast_rows=0, local_edges=0)
# A job is two orders of magnitude slower than the rows of such graphs: a few texts stand for the many in process.
TEXTS = 600 if LONG else 12


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with corpus_session(tmp_path_factory.mktemp("reads") / "graph") as opened:
        yield opened


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    made = GraphShelf(tmp_path_factory.mktemp("graphs"))
    yield made
    made.close()


def test_every_construct_that_is_chosen_is_there():
    assert {number_of(case) for case in ON_SPARK} >= CHOSEN | SHUFFLED | CORE


@pytest.mark.parametrize("case", with_core(RUN, CORE, number_of), ids=lambda case: case.id)
def test_read_gives_on_spark_what_it_gives_in_process(case, session, spark):
    text, params = case.sections["query"], _parameters(case)
    expected = outcome(partial(session.query, text, params, params_form="strict"))
    found = outcome(partial(query, session, text, params, params_form="strict", spark=spark))
    assert_same(found, expected, is_ordered=_is_ordered(case))


@pytest.mark.parametrize("chosen", sorted(SHUFFLED))
def test_shuffled_joins_and_walks_by_hop_give_the_same_rows(chosen, session, spark):
    (case,) = [case for case in ON_SPARK if case.id.startswith(chosen)]
    text, params = case.sections["query"], _parameters(case)
    prepared = prepared_read(session, text, params, params_form="strict")
    lowered = lower(FrameRelations(spark=spark), session.store.storage, prepared, 2, sizes=NOTHING_LOCAL)
    expected = session.query(text, params, params_form="strict").to_arrow()
    assert_same(collect(lowered, prepared), expected, is_ordered=_is_ordered(case))


@pytest.mark.parametrize("start", range(0, TEXTS, 12))
def test_written_texts_and_naive_evaluator_agree(start, shelf, spark):
    for seed in range(start, start + 12):
        number = seed % GRAPH_COUNT if LONG else GRAPH_COUNT - 1
        stored, read = shelf.get(number), seeded_text(seed, SCHEMAS[number % len(SCHEMAS)])
        params = {name: to_text(value, read.kinds[name]) for name, value in read.parameters.items()}
        found = outcome(partial(query, stored.session, read.text, params, spark=spark))
        if isinstance(found, SparkUnsupportedError):
            assert found.details.value in NOT_ON_SPARK
            continue
        problem = outcome_disagreement(_expected(read, stored), found)
        assert problem is None, f"seed {seed}\n{read.text}\nparameters {read.parameters}\n{problem}"


def test_walk_by_hop_fails_beyond_the_hops_that_are_allowed(session, spark):
    text = "query q() { match { $p: Person  $p knows{1,} $q } return { $q } }"
    prepared = prepared_read(session, text, options=QueryOptions(max_hops=1))
    with pytest.raises(QueryRuntimeError, match="still reaches new nodes after 1 hops"):
        lower(FrameRelations(spark=spark), session.store.storage, prepared, 2, sizes=NOTHING_LOCAL)


def test_frame_of_stages_is_ordered_and_has_one_row_where_spark_drops_all_parts(session, spark):
    text = """query q() {
        match { $p: Person }
        with { $p, $p.age * 2 as twice } order { twice desc nulls last } limit 3
        return { $p.slug as slug, twice, collect($p.tags[0]) as first } order { twice desc }
    }"""
    shown = frame(session, text, spark=spark)
    assert [field.dataType.simpleString() for field in shown.schema] == ["string", "bigint", "array<string>"]
    assert [row["twice"] for row in shown.collect()] == [row["twice"] for row in session.query(text).rows()]
    none = 'query q() { match { $p: Person { slug: "nobody" } } return { count(*) as n, collect($p.age) as ages } }'
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        assert [row.asDict() for row in frame(session, none, spark=spark).collect()] == [{"n": 0, "ages": []}]
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")


def test_rows_beyond_the_limit_of_a_read_of_stages_are_refused(session, spark):
    options = QueryOptions(max_rows=2)
    many = "query q() { match { $p: Person } return distinct { $p.slug as slug } order { slug }"
    with pytest.raises(QueryRowLimitError):
        query(session, f"{many} }}", spark=spark, options=options)
    few = query(session, f"{many} offset 1 limit 2 }}", spark=spark, options=options)
    assert [row["slug"] for row in few.rows()] == ["bo", "cy"]


def _is_ordered(case):
    return read_expectation(case.sections["expect"]).verdict == "rows"


def _expected(read, stored):
    (decl,) = parse_queries(read.text).queries
    try:
        return evaluate(decl, stored.schema, stored.graph, read.parameters, NOW_MS)
    except Fault as fault:
        return fault
