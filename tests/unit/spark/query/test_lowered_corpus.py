"""The lowering with joins and tasks in this process: every read gives the rows of the embedded engine."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from tests.arrow_relations import query_in_parts
from tests.corpus.cases import read_expectation
from tests.corpus.test_reads import CASES, _parameters, _Sessions, _world_of
from tests.marks import every
from tests.prop.random_graphs import GRAPH_COUNT, GraphShelf
from tests.prop.read_schemas import NOW_MS, SCHEMAS
from tests.prop.test_queries_differential import questions
from tests.query_oracle import disagreement, evaluate
from tests.query_oracle.agreement import table_rows
from tests.query_oracle.values import to_text

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import RULES
from omnigraph.errors import SparkUnsupportedError
from omnigraph.lang.gq import parse_queries
from omnigraph.spark.queries.reading import Sizes

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
NOTHING_LOCAL = Sizes(broadcast_rows=0, local_edges=0)
SEARCHES = ("search(", "match_text(", "fuzzy(", "bm25(", "nearest(", "rrf(")


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    made = _Sessions(tmp_path_factory)
    yield made
    for session in made.values():
        session.close()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    made = GraphShelf(tmp_path_factory.mktemp("graphs"))
    yield made
    made.close()


@pytest.mark.parametrize("case", every(3, CASES), ids=lambda case: case.id)
def test_lowered_read_gives_what_the_embedded_engine_gives(case, sessions):
    session, text, params = sessions[_world_of(case), "none"], case.sections["query"], _parameters(case)
    if any(word in text for word in SEARCHES):
        with pytest.raises(SparkUnsupportedError, match="does not run on Spark"):
            query_in_parts(session, text, params, params_form="strict")
        return
    expected = session.query(text, params, params_form="strict").to_arrow()
    is_ordered = read_expectation(case.sections["expect"]).verdict == "rows"
    for off, sizes in ((frozenset(), NOTHING_LOCAL), (frozenset(RULES), Sizes())):
        options = QueryOptions(rules_off=off)
        found = query_in_parts(session, text, params, params_form="strict", options=options, sizes=sizes)
        assert found.schema == expected.schema
        if is_ordered:
            assert table_rows(found) == table_rows(expected)
        else:
            assert Counter(map(repr, table_rows(found))) == Counter(map(repr, table_rows(expected)))


@pytest.mark.timeout(3600 if LONG else 600)
def test_lowered_reads_and_naive_evaluator_agree(shelf):
    @settings(max_examples=20_000 if LONG else 60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(questions())
    def agree(question):
        number, read, options = question
        assume(not any(word in read.text for word in SEARCHES))
        # Making a graph costs more than reading it: the plain run takes the largest one of each schema.
        stored = shelf.get(number if LONG else GRAPH_COUNT - len(SCHEMAS) + number % len(SCHEMAS))
        (decl,) = parse_queries(read.text).queries
        answer = evaluate(decl, stored.schema, stored.graph, read.parameters, NOW_MS)
        params = {name: to_text(value, read.kinds[name]) for name, value in read.parameters.items()}
        found = query_in_parts(
            stored.session, read.text, params, options=options, sizes=NOTHING_LOCAL if number % 2 else Sizes()
        )
        problem = disagreement(answer, found)
        assert problem is None, f"{read.text}\nparameters {params}, graph {number}, {options}\n{problem}"

    agree()
