"""The sentence model that runs in this process, for real."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from omnigraph.engine.embedding import Embedder, EmbeddingSettings
from omnigraph.errors import EmbeddingAnswerError, EmbeddingModelMismatchError
from omnigraph.runtime import SystemClock
from tests.session_graph import create_graph, open_session, read_graph

LOCAL = EmbeddingSettings(provider="local")
SCHEMA = 'node Doc { slug: String @key  text: String  vec: Vector(384) @embed("text", model="all-MiniLM-L6-v2") }'
TEXTS = ["a kitten sleeps on the sofa", "the stock market fell sharply", "how to bake sourdough bread"]


@pytest.fixture(scope="module")
def embedder():
    embedder = Embedder(SystemClock(), LOCAL, environment={})
    yield embedder
    embedder.close()


def embed(embedder, text):
    return embedder.embed_query(text, dimension=384, model="all-MiniLM-L6-v2", field="Doc.vec")


def test_vectors_have_length_one_and_repeat(embedder, capfd):
    vector = embed(embedder, TEXTS[0])
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert np.allclose(vector, embed(embedder, TEXTS[0]), atol=1e-6)
    assert capfd.readouterr().out == ""


def test_question_is_nearest_to_the_passage_that_answers_it(embedder):
    rows = embedder.embed_documents(TEXTS, dimension=384, model=None, field="Doc.vec")
    for question, expected in [("where is the cat?", 0), ("economy and shares", 1), ("recipe for a loaf", 2)]:
        assert int(np.argmax(rows @ embed(embedder, question))) == expected


def test_batches_and_single_texts_agree(embedder):
    rows = embedder.embed_documents([*TEXTS, "", "x " * 5000], dimension=384, model=None, field="Doc.vec")
    for row, text in zip(rows, TEXTS, strict=False):
        assert np.allclose(row, embed(embedder, text), atol=1e-5)


def test_other_dimensions_and_models_are_refused(embedder):
    with pytest.raises(EmbeddingAnswerError, match="expected vectors of 4 dimensions, got 384"):
        embedder.embed_query("x", dimension=4, model=None, field="Doc.vec")
    with pytest.raises(EmbeddingModelMismatchError):
        embedder.embed_query("x", dimension=384, model="m", field="Doc.vec")


def test_threads_may_ask_at_once(embedder):
    found = {}
    threads = [
        threading.Thread(target=lambda at=at: found.update({at: embed(embedder, TEXTS[at % 3])})) for at in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.allclose(found[at], found[at % 3], atol=1e-5) for at in range(6))


def test_insert_stores_what_the_model_makes_of_the_text(tmp_path, embedder):
    create_graph(tmp_path / "graph", SCHEMA)
    with open_session(tmp_path / "graph", embedding=LOCAL) as session:
        session.mutate('query q() { insert Doc { slug: "a", text: "a kitten sleeps on the sofa" } }')
        stored = read_graph(session)["node:Doc"]["a"]["vec"]
    assert np.allclose(stored, embed(embedder, TEXTS[0]), atol=1e-6)
