"""The lowering of the second edition with joins and tasks in this process: rows and errors of the embedded engine."""

from __future__ import annotations

import os
from functools import partial

import pytest
from tests.arrow_relations import query_in_parts
from tests.corpus.cases import read_expectation
from tests.corpus.test_reads_2 import _parameters
from tests.prop.random_graphs import GRAPH_COUNT, GraphShelf
from tests.prop.read_schemas import NOW_MS, SCHEMAS
from tests.query_oracle import Fault, evaluate
from tests.query_oracle.agreement import outcome_disagreement
from tests.query_oracle.texts import seeded_text
from tests.query_oracle.values import to_text
from tests.read_contract import READS, assert_same, corpus_session, outcome

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import RULES
from omnigraph.errors import SparkUnsupportedError
from omnigraph.lang.gq import parse_queries
from omnigraph.spark.query.reading import Sizes

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
NOTHING_LOCAL = Sizes(broadcast_rows=0, local_edges=0)
WAYS = ((frozenset(), NOTHING_LOCAL), (frozenset(RULES), Sizes()))
COUNT, STEP = 2_000 if LONG else 100, 20


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with corpus_session(tmp_path_factory.mktemp("reads") / "graph") as opened:
        yield opened


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    made = GraphShelf(tmp_path_factory.mktemp("graphs"))
    yield made
    made.close()


@pytest.mark.parametrize("case", READS, ids=lambda case: case.id)
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
        if "path " in text:
            assert isinstance(found, SparkUnsupportedError)
            assert found.details.value == "path"
        else:
            assert_same(found, expected, is_ordered=is_ordered)


@pytest.mark.parametrize("start", range(0, COUNT, STEP))
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
            assert found.details.value == "path"
            continue
        problem = outcome_disagreement(_expected(read, stored), found)
        assert problem is None, f"seed {seed}\n{read.text}\nparameters {read.parameters}\n{problem}"


def _expected(read, stored):
    (decl,) = parse_queries(read.text).queries
    try:
        return evaluate(decl, stored.schema, stored.graph, read.parameters, NOW_MS)
    except Fault as fault:
        return fault
