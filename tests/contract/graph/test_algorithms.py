"""Algorithms over every backend: the same rows, the same commit, the same errors."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.errors import AlgorithmInputError, QueryMemoryError, TypeMissingError, UsageError
from tests.session_graph import RELAXED

SCHEMA = """
node Person { name: String @key  score: F64?  place: I64? }
node Team { code: String @key }
edge Knows: Person -> Person { w: F64? }
edge In: Person -> Team
"""
LOADED = """
{"type": "Person", "data": {"name": "ann"}}
{"type": "Person", "data": {"name": "bo"}}
{"type": "Person", "data": {"name": "cy"}}
{"type": "Team", "data": {"code": "red"}}
{"edge": "Knows", "from": "ann", "to": "bo", "data": {"w": 2.0}}
{"edge": "Knows", "from": "bo", "to": "cy", "data": {"w": 0.5}}
{"edge": "In", "from": "cy", "to": "red", "data": {}}
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory, backend):
    folder = tmp_path_factory.mktemp("g")
    (folder / "rows.jsonl").write_text(LOADED)
    with omnigraph.init(folder / "g", SCHEMA, settings=RELAXED) as opened:
        opened.load(folder / "rows.jsonl")
        yield opened


def test_rows_of_an_algorithm_come_from_every_state(graph):
    then = graph.at("main")
    found = graph.algorithms.degree("Knows", direction="out")
    assert found.rows() == [
        {"type": "Person", "id": "ann", "degree": 1},
        {"type": "Person", "id": "bo", "degree": 1},
        {"type": "Person", "id": "cy", "degree": 0},
    ]
    assert then.algorithms.degree("Knows", direction="out").to_arrow() == found.to_arrow()
    side = graph.create_branch("side")
    side.mutate('query q() { delete Person where name = "bo" }')
    assert [row["degree"] for row in side.algorithms.degree("Knows")] == [0, 0]
    assert graph.algorithms.degree("Knows", direction="out").to_arrow() == found.to_arrow()
    assert found.to_pandas().shape == (3, 3)


def test_parameters_of_every_kind_arrive(graph):
    path = graph.algorithms.shortest_paths(sources="ann", target=("Team", "red"))
    assert [(row["step"], row["id"]) for row in path] == [(0, "ann"), (1, "bo"), (2, "cy"), (3, "red")]
    several = graph.algorithms.shortest_paths("Knows", sources=[("Person", "ann"), "cy"], weight="w")
    assert [(row["id"], row["distance"], row["source_id"]) for row in several] == [
        ("ann", 0.0, "ann"),
        ("cy", 0.0, "cy"),
        ("bo", 2.0, "ann"),
    ]
    ranked = graph.algorithms.pagerank("Knows", sources={("Person", "ann"): 3, "bo": 1}, damping=0.0)
    assert {row["id"]: row["score"] for row in ranked} == {"ann": 0.75, "bo": 0.25, "cy": 0.0}
    vectors = graph.algorithms.fast_rp("Knows", dimension=3, weights=(1, 0.5), limit=1).rows()
    assert len(vectors[0]["embedding"]) == 3
    limited = omnigraph.QueryOptions(memory_bytes=10)
    with pytest.raises(QueryMemoryError, match="the algorithm needs"):
        graph.algorithms.run("k_core", "Knows", options=limited)


def test_a_property_is_written_as_one_commit(graph):
    review = graph.create_branch("review")
    head = review.log()[0]
    done = review.algorithms.pagerank("Knows", write="score", message="rank", expected_head=head)
    assert (done.written.property, done.written.updated, done.num_rows) == ("score", 3, 3)
    assert done.written.commit_id == str(review.log()[0].id)
    assert review.log()[0].message == "rank"
    assert {row["id"]: row["score"] for row in done} == {
        name: review.entity("Person", name)["score"] for name in ("ann", "bo", "cy")
    }
    again = review.algorithms.pagerank("Knows", write="score")
    assert (again.written.commit_id, again.written.unchanged) == (None, 3)
    assert graph.entity("Person", "ann")["score"] is None


def test_mistakes_are_the_same_errors(graph):
    with pytest.raises(TypeMissingError, match="type 'Know' was not found"):
        graph.algorithms.degree("Know")
    with pytest.raises(UsageError, match="damping must be"):
        graph.algorithms.pagerank(damping=3)
    with pytest.raises(AlgorithmInputError, match="source 'zoe' was not found"):
        graph.algorithms.shortest_paths("Knows", sources=["zoe"])
    with pytest.raises(AlgorithmInputError, match="node type 'Team' has no property 'score'"):
        graph.algorithms.pagerank(write="score")
    with pytest.raises(UsageError, match="an earlier state cannot be written to"):
        graph.at("main").algorithms.degree("Knows", write="place")


def test_what_there_is_can_be_shown(graph):
    assert "pagerank" in str(graph.algorithms)
    assert "Algorithms on main" in repr(graph.algorithms)
    assert "pagerank" in graph.algorithms._repr_html_()
