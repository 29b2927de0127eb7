"""Algorithms on Spark give what they give in process: the same rows in the same order."""

from __future__ import annotations

import os

import pytest

import omnigraph
from omnigraph.errors import AlgorithmInputError, SparkUnsupportedError, TypeMissingError, UsageError
from omnigraph.spark import algorithms
from tests.unit.engine.algorithms.graphs import create, lines

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
CASES = {
    "degree": {},
    "degree, weighted": {"weight": "w", "direction": "in"},
    "pagerank": {"damping": 0.3, "tolerance": 1e-2},
    "pagerank, weighted": {
        "damping": 0.2,
        "tolerance": 1e-2,
        "weight": "w",
        "direction": "both",
        "sources": {"p01": 1, "Team:t0": 3},
    },
    "connected_components": {},
    "label_propagation": {"weight": "w", "max_iterations": 2},
    "triangle_count": {},
    "shortest_paths": {"sources": ["p00", ["Person", "p01"]]},
    "shortest_paths, weighted": {"sources": ["p02"], "weight": "w", "direction": "both"},
}
# Every algorithm once; each round of one is several jobs, and all of them run in process, too.
RUN = CASES if LONG else [name for name in CASES if name not in {"degree", "pagerank", "shortest_paths, weighted"}]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with create(tmp_path_factory.mktemp("algorithms"), lines(seed=2, people=16, teams=2)) as made:
        made.mutate('query q() { delete Person where name = "p03" }')
        yield made


@pytest.mark.parametrize("case", RUN)
def test_rows_are_those_of_the_engine_in_process(graph, spark, case):
    name, params = case.partition(",")[0], CASES[case]
    wanted = graph.algorithms.run(name, None, params)
    found = algorithms.run(graph, name, None, params, spark=spark)
    assert (found.schema, found.warnings) == (wanted.schema, wanted.warnings)
    if name == "pagerank":
        scores = {(row["type"], row["id"]): row["score"] for row in wanted}
        assert {(row["type"], row["id"]): row["score"] for row in found} == pytest.approx(scores, abs=1e-12)
    else:
        assert found.to_arrow() == wanted.to_arrow()


def test_a_frame_has_the_rows_of_the_result(graph, spark):
    frame = algorithms.frame(graph, "degree", "Knows", {"direction": "out"}, spark=spark)
    wanted = graph.algorithms.degree("Knows", direction="out").to_arrow()
    assert frame.columns == wanted.column_names
    keys = [("degree", "descending"), ("type", "ascending"), ("id", "ascending")]
    assert frame.toArrow().sort_by(keys).to_pylist() == wanted.to_pylist()


def test_earlier_states_and_limits(graph, spark):
    then = graph.log()[1]
    found = algorithms.run(graph, "degree", "Knows", spark=spark, at=str(then.id), limit=2)
    assert found.to_arrow() == graph.at(then).algorithms.degree("Knows", limit=2).to_arrow()
    with pytest.raises(omnigraph.OmnigraphError) as refused:
        algorithms.run(graph, "degree", "Knows", spark=spark, options=omnigraph.QueryOptions(max_rows=1))
    assert refused.value.code == "query.row_limit"


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (SparkUnsupportedError, ("louvain", "Knows")),
        (SparkUnsupportedError, ("shortest_paths", "Knows", {"sources": ["p00"], "target": "p01"})),
        (TypeMissingError, ("degree", "Know")),
        (UsageError, ("pagerank", "Knows", {"damping": 2})),
        (AlgorithmInputError, ("degree", "Knows", {"weight": "note"})),
        (AlgorithmInputError, ("pagerank", "Knows", {"weight": "neg"})),
        (AlgorithmInputError, ("shortest_paths", "Knows", {"sources": ["nobody"]})),
    ],
)
def test_mistakes_are_the_same_errors(graph, spark, error, arguments):
    with pytest.raises(error):
        algorithms.run(graph, *arguments, spark=spark)
