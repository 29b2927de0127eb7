"""Algorithms on Spark give what they give in process: the same rows in the same order."""

from __future__ import annotations

import os

import pytest

import omnigraph
from omnigraph.errors import AlgorithmInputError, SparkUnsupportedError, TypeMissingError, UsageError
from omnigraph.spark import algorithms
from tests.marks import with_core
from tests.unit.engine.algorithms.graphs import create, lines

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
    "shortest_paths, to a target": {"sources": ["p00", "p01"], "target": "p05", "direction": "both"},
    "shortest_paths, from each": {"sources": ["p00", "p01"], "each": True},
    "strongly_connected_components": {},
    "k_core": {},
    "clustering_coefficient": {},
    "node_similarity": {"top": 2, "direction": "both", "min_similarity": 0.1},
    "betweenness": {"samples": 5},
    "betweenness, weighted": {"samples": 4, "weight": "w", "direction": "both", "normalized": True},
    "fast_rp": {"dimension": 6, "weight": "w", "normalization": 0.5, "self_influence": 0.25, "weights": [1, 0.5]},
}
# A process that runs in rounds costs dozens of jobs; the others are a handful.
LONG = os.environ.get("OMNIGRAPH_SPARK") == "full"
SHORT = (
    "degree",
    "pagerank",
    "connected_components",
    "clustering_coefficient",
    "node_similarity",
    "shortest_paths",
    "k_core",
    "fast_rp",
)
# Sums of floats in another order: scores are near, and rows stand by them.
NEAR = {"pagerank": ("score", 1e-12), "betweenness": ("score", 1e-12), "fast_rp": ("embedding", 1e-6)}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with create(tmp_path_factory.mktemp("algorithms"), lines(seed=2, people=16, teams=2)) as made:
        made.mutate('query q() { delete Person where name = "p03" }')
        yield made


@pytest.mark.parametrize("case", with_core(CASES if LONG else SHORT, {"degree", "connected_components"}))
def test_rows_are_those_of_the_engine_in_process(graph, spark, case):
    name, params = case.partition(",")[0], CASES[case]
    wanted = graph.algorithms.run(name, None, params)
    found = algorithms.run(graph, name, None, params, spark=spark)
    assert (found.schema, found.warnings) == (wanted.schema, wanted.warnings)
    if name in NEAR:
        column, far = NEAR[name]
        assert len(found) == len(wanted)
        values = {(row["type"], row["id"]): row[column] for row in wanted}
        for row in found:
            assert row[column] == pytest.approx(values[row["type"], row["id"]], abs=far)
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
        (UsageError, ("shortest_paths", "Knows", {"sources": ["p00"], "target": "p01", "each": True})),
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


def test_values_are_written_by_executors_as_one_commit_and_only_where_they_change(graph, spark):
    before = graph.log()[0]
    written = algorithms.write(graph, "degree", "Person.place", "Knows", spark=spark, actor="ann")
    wanted = {row["id"]: row["degree"] for row in graph.algorithms.degree("Knows") if row["type"] == "Person"}
    assert {row["id"]: row["rank"] for row in graph.query(RANKS)} == wanted
    assert (written.updated, written.unchanged) == (len(wanted), 0)
    newest = graph.log()[0]
    assert (str(newest.id), newest.actor, newest.parent) == (written.commit_id, "ann", before.id)
    again = algorithms.write(graph, "degree", "Person.place", "Knows", spark=spark)
    assert (again.updated, again.unchanged, again.commit_id) == (0, len(wanted), None)


RANKS = "query q() { match { $p: Person } return { $p.name as id, $p.place as rank } }"


def test_property_that_cannot_hold_the_values_is_refused_before_a_job_starts(graph, spark):
    with pytest.raises(AlgorithmInputError, match="has no property 'plaice'"):
        algorithms.write(graph, "degree", "Person.plaice", "Knows", spark=spark)
