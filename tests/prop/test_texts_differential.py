"""Random reads of the second edition over random graphs: the engine and the naive evaluator come to the same."""

from __future__ import annotations

import os

import pytest

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import RULES
from omnigraph.errors import OmnigraphError
from omnigraph.lang.gq import parse_queries
from tests.marks import first
from tests.prop.random_graphs import GRAPH_COUNT, GraphShelf
from tests.prop.read_schemas import NOW_MS, SCHEMAS
from tests.query_oracle import Fault, evaluate, outcome_disagreement
from tests.query_oracle.texts import seeded_text
from tests.query_oracle.values import to_text

pytestmark = [pytest.mark.more, pytest.mark.long]

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
COUNT = 10_000 if LONG else 300
STEP = 50
MODES = ("indexed", "csr")
STARTS = range(0, COUNT, STEP)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    made = GraphShelf(tmp_path_factory.mktemp("graphs"))
    yield made
    made.close()


@pytest.mark.parametrize("start", first(2, STARTS))
def test_engine_and_naive_evaluator_agree(start, shelf):
    for seed in range(start, start + STEP):
        stored = shelf.get(seed % GRAPH_COUNT)
        read = seeded_text(seed, SCHEMAS[seed % GRAPH_COUNT % len(SCHEMAS)])
        options = QueryOptions(mode=MODES[seed % 2], rules_off=_rules_off(seed))
        problem = outcome_disagreement(_expected(read, stored), _found(read, stored, options))
        assert problem is None, f"seed {seed}\n{read.text}\nparameters {read.parameters}, {options}\n{problem}"


def _rules_off(seed: int) -> frozenset[str]:
    """Every other read without one of the rules, each in its turn."""
    rules = sorted(RULES)
    return frozenset({rules[seed // 4 % len(rules)]} if seed % 4 > 1 else ())


def test_every_rule_is_left_out_in_both_modes_and_graphs_of_every_kind_are_asked():
    seeds = range(COUNT)
    left_out = {(rule, MODES[seed % 2]) for seed in seeds for rule in _rules_off(seed)}
    assert left_out == {(rule, mode) for rule in RULES for mode in MODES}
    indexed = {seed % GRAPH_COUNT // len(SCHEMAS) % 3 for seed in seeds}
    assert indexed == {0, 1, 2}


def _expected(read, stored):
    (decl,) = parse_queries(read.text).queries
    try:
        return evaluate(decl, stored.schema, stored.graph, read.parameters, NOW_MS)
    except Fault as fault:
        return fault


def _found(read, stored, options):
    params = {name: to_text(value, read.kinds[name]) for name, value in read.parameters.items()}
    try:
        return stored.session.query(read.text, params, options=options).to_arrow()
    except OmnigraphError as error:
        if error.code != "query.runtime":
            raise
        return error
