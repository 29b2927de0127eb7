"""Random queries over random graphs: the engine and a naive evaluator agree, whichever way edges are walked."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import RULES
from omnigraph.lang.gq import parse_queries
from tests.prop.choices import choices
from tests.prop.random_graphs import GRAPH_COUNT, GraphShelf
from tests.prop.read_queries import write_read
from tests.prop.read_schemas import NOW_MS, SCHEMAS
from tests.query_oracle import disagreement, evaluate
from tests.query_oracle.values import to_text

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
# What both editions can say, the texts of the second edition ask as well (test_texts_differential.py).
EXAMPLES = 40_000 if LONG else 60
MODES = ("indexed", "csr")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    made = GraphShelf(tmp_path_factory.mktemp("graphs"))
    yield made
    made.close()


@st.composite
def questions(draw):
    """Draw the number of a graph, a query over its schema, and how to run it."""
    number = draw(st.integers(0, GRAPH_COUNT - 1))
    supply = draw(choices(200))
    read = write_read(supply, SCHEMAS[number % len(SCHEMAS)])
    off = frozenset(rule for rule in RULES if supply.chance(5))
    return number, read, QueryOptions(mode=supply.pick(MODES), rules_off=off)


@pytest.mark.timeout(3600 if LONG else 600)
def test_engine_and_naive_evaluator_agree(shelf):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(questions())
    def agree(question):
        number, read, options = question
        stored = shelf.get(number)
        (decl,) = parse_queries(read.text).queries
        answer = evaluate(decl, stored.schema, stored.graph, read.parameters, NOW_MS)
        event("has rows" if answer.rows else "has no rows")
        params = {name: to_text(value, read.kinds[name]) for name, value in read.parameters.items()}
        result = stored.session.query(read.text, params, options=options)
        problem = disagreement(answer, result.to_arrow())
        assert problem is None, f"{read.text}\nparameters {params}, graph {number}, {options}\n{problem}"

    agree()
