"""Stale vectors computed by executors: the same as in process, as one commit."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph import spark as plane
from omnigraph.errors import EmbeddingModelMismatchError, EmbeddingSettingsError
from omnigraph.spark.embedding import ExecutorEmbedder
from tests.session_graph import RELAXED

SCHEMA = 'node Note { slug: String @key  text: String  vec: Vector(4)? @embed(text, model="m") }'
VECTORS = "query v() { match { $n: Note } return { $n.slug, $n.vec } order { $n.slug asc } }"
MOCK = omnigraph.EmbeddingSettings(provider="mock", model="m")


def make(place, **more):
    graph = omnigraph.init(place, SCHEMA, settings=RELAXED, **more)
    graph.load({"Note": [{"slug": f"n{at}", "text": f"text {at % 7}"} for at in range(20)]})
    return graph


@pytest.mark.core
def test_executors_compute_what_is_stale_and_one_commit_stores_it(tmp_path, spark):
    with make(tmp_path / "a", embedding=MOCK) as far, make(tmp_path / "b", embedding=MOCK) as near:
        near.embed()
        before, seen = len(far.log(limit=50)), []
        assert plane.embed(far, spark=spark, dry_run=True).stale == 20
        done = plane.embed(far, ["Note"], spark=spark, message="vectors", progress=seen.append)
        assert (done.stale, done.embedded, done.remaining) == (20, 20, 0)
        # Equal texts are sent once.
        assert [(state.embedded, state.total) for state in seen] == [(7, 7)]
        assert len(far.log(limit=50)) == before + 1
        assert far.query(VECTORS).rows() == near.query(VECTORS).rows()
        far.mutate('query t() { update Note set { text: "other" } where slug = "n3" }')
        near.mutate('query t() { update Note set { text: "other" } where slug = "n3" }')
        assert (plane.embed(far, spark=spark).embedded, near.embed().embedded) == (1, 1)
        assert far.query(VECTORS).rows() == near.query(VECTORS).rows()
        assert plane.embed(far, spark=spark).commit is None


def test_an_error_of_an_executor_is_that_of_the_provider_and_writes_nothing(tmp_path, spark):
    other = omnigraph.EmbeddingSettings(provider="mock", model="other")
    with make(tmp_path / "g", embedding=other) as graph:
        head = graph.log(limit=1)[0].id
        with pytest.raises(EmbeddingModelMismatchError, match="'other' is active"):
            plane.embed(graph, spark=spark)
        assert graph.log(limit=1)[0].id == head
    with make(tmp_path / "bare") as graph, pytest.raises(EmbeddingSettingsError):
        ExecutorEmbedder.of(graph.backend.engine, spark)
