"""The embedder of a graph: one provider, found late, checked always."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from omnigraph.engine.embedding import Embedder, EmbeddingSettings
from omnigraph.engine.embedding import embedder as embedder_module
from omnigraph.engine.embedding.embedder import build_provider
from omnigraph.errors import (
    EmbeddingAnswerError,
    EmbeddingModelMismatchError,
    EmbeddingSettingsError,
    GraphClosedError,
    Kind,
    ValueFormatError,
)
from omnigraph.runtime import ManualClock


class Recorder:
    """A provider of the caller's own; ``answer`` makes the vectors."""

    name = "recorder"
    model = "m-1"

    def __init__(self, answer=None):
        self.calls = []
        self.is_closed = False
        self._answer = answer or (lambda texts, dimension: [[3.0, *([0.0] * (dimension - 1))] for _ in texts])

    def embed(self, texts, *, dimension, role, limit_ms=None):
        self.calls.append((list(texts), dimension, role, limit_ms))
        return self._answer(texts, dimension)

    def close(self):
        self.is_closed = True


def embedder_of(answer=None):
    provider = Recorder(answer)
    return Embedder(ManualClock(), provider, environment={"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}), provider


def test_given_provider_wins_over_the_environment_and_stays_its_owners():
    embedder, provider = embedder_of()
    assert embedder.is_configured
    vector = embedder.embed_query("x", dimension=2, model=None, field="D.v", limit_ms=7)
    assert vector.tolist() == [1.0, 0.0]
    assert provider.calls == [(["x"], 2, "query", 7)]
    embedder.close()
    assert not provider.is_closed


def test_given_settings_win_over_the_environment():
    embedder = Embedder(
        ManualClock(), EmbeddingSettings(provider="mock", model="m"), environment={"OMNIGRAPH_EMBED_PROVIDER": "?"}
    )
    assert embedder.embed_query("x", dimension=2, model="m", field="D.v").shape == (2,)


def test_environment_is_read_when_the_first_text_comes():
    environment = {}
    embedder = Embedder(ManualClock(), environment=environment)
    assert not embedder.is_configured
    with pytest.raises(EmbeddingSettingsError, match="no embedding provider is configured") as caught:
        embedder.embed_query("x", dimension=2, model=None, field="D.v")
    assert "OMNIGRAPH_EMBED_PROVIDER" in caught.value.hint
    environment["OMNIGRAPH_EMBED_PROVIDER"] = "mock"
    assert embedder.embed_query("x", dimension=2, model=None, field="D.v").shape == (2,)


@pytest.mark.parametrize(
    ("provider", "variables"),
    [
        ("openai-compatible", "OPENROUTER_API_KEY or OPENAI_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ],
)
def test_missing_key_is_an_error_that_names_its_variables(provider, variables):
    embedder = Embedder(ManualClock(), environment={"OMNIGRAPH_EMBED_PROVIDER": provider})
    with pytest.raises(EmbeddingSettingsError, match=variables) as caught:
        embedder.embed_query("x", dimension=2, model=None, field="D.v")
    assert caught.value.kind is Kind.INVALID


def test_another_model_than_the_schemas_is_refused_before_anybody_is_asked():
    embedder, provider = embedder_of()
    with pytest.raises(
        EmbeddingModelMismatchError, match=r"property 'D.v' declares 'm-2', but 'm-1' is active"
    ) as caught:
        embedder.embed_query("x", dimension=2, model="m-2", field="D.v")
    with pytest.raises(EmbeddingModelMismatchError):
        embedder.embed_documents(["x"], dimension=2, model="M-1", field="D.v")
    assert provider.calls == []
    assert (caught.value.details.declared, caught.value.details.active) == ("m-2", "m-1")
    assert embedder.embed_query("x", dimension=2, model="m-1", field="D.v").tolist() == [1.0, 0.0]


def test_mock_without_a_model_is_in_no_models_space():
    embedder = Embedder(ManualClock(), environment={"OMNIGRAPH_EMBED_PROVIDER": "mock"})
    with pytest.raises(EmbeddingModelMismatchError, match="but '' is active"):
        embedder.embed_query("x", dimension=2, model="m", field="D.v")


def test_equal_texts_are_embedded_once_and_order_is_kept():
    embedder, provider = embedder_of(lambda texts, _: [[float(len(text)), 1.0] for text in texts])
    rows = embedder.embed_documents(["aa", "b", "aa", "b", "ccc"], dimension=2, model=None, field="D.v")
    assert [call[0] for call in provider.calls] == [["aa", "b", "ccc"]]
    assert provider.calls[0][2] == "document"
    assert (rows[:, 0] / rows[:, 1]).round(4).tolist() == [2.0, 1.0, 2.0, 1.0, 3.0]
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)


def test_many_texts_come_to_the_provider_in_slices():
    embedder, provider = embedder_of(lambda texts, _: [[float(text), 1.0] for text in texts])
    rows = embedder.embed_documents([str(at) for at in range(2500)], dimension=2, model=None, field="D.v")
    assert [len(call[0]) for call in provider.calls] == [1024, 1024, 452]
    assert (rows[:, 0] / rows[:, 1]).round().tolist() == list(range(2500))


def test_no_text_needs_no_answer():
    embedder, provider = embedder_of()
    assert embedder.embed_documents([], dimension=3, model=None, field="D.v").shape == (0, 3)
    assert provider.calls == []


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "vectors, got 0"),
        ([[1.0, 0.0], [1.0, 0.0]], "vectors, got 2"),
        ([[1.0]], "2 dimensions, got 1"),
        ([[1.0, 2.0, 3.0]], "2 dimensions, got 3"),
        ([[1.0, float("nan")]], "not finite"),
        ([[1.0, float("inf")]], "not finite"),
        ([[1.0, 1e39]], "not finite"),
        ([[0.0, 0.0]], "all zero"),
        ([[1e-8, 1e-8]], "all zero"),
        ([["a", 1.0]], "not a number"),
        ([[None, [1.0]]], "not a number"),
    ],
)
def test_answer_that_is_no_direction_is_refused(rows, reason):
    embedder, _ = embedder_of(lambda _texts, _dimension: rows)
    with pytest.raises(EmbeddingAnswerError, match=reason) as caught:
        embedder.embed_query("x", dimension=2, model=None, field="D.v")
    assert caught.value.details.provider == "recorder"


def test_small_but_honest_vector_is_normalised():
    embedder, _ = embedder_of(lambda _texts, _dimension: np.array([[0.0, 2e-7]]))
    assert embedder.embed_query("x", dimension=2, model=None, field="D.v").tolist() == [0.0, 1.0]


def test_half_a_surrogate_pair_is_refused():
    embedder, provider = embedder_of()
    with pytest.raises(ValueFormatError, match="not valid Unicode"):
        embedder.embed_documents(["fine", "\ud800"], dimension=2, model=None, field="D.v")
    assert provider.calls == []


def test_closed_embedder_says_that_the_graph_is_closed():
    embedder = Embedder(ManualClock(), EmbeddingSettings(provider="mock"))
    embedder.close()
    embedder.close()
    with pytest.raises(GraphClosedError):
        embedder.embed_query("x", dimension=2, model=None, field="D.v")


def test_threads_share_one_provider(monkeypatch):
    built = []
    monkeypatch.setattr(embedder_module, "build_provider", lambda *given: built.append(1) or build_provider(*given))
    embedder = Embedder(ManualClock(), EmbeddingSettings(provider="mock"))
    gate = threading.Barrier(8)
    found = []

    def ask():
        gate.wait()
        found.append(embedder.embed_query("x", dimension=2, model=None, field="D.v").tolist())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert len(found) == 8
    assert all(vector == found[0] for vector in found)


def test_local_provider_has_one_model_only():
    embedder = Embedder(
        ManualClock(), environment={"OMNIGRAPH_EMBED_PROVIDER": "local", "OMNIGRAPH_EMBED_MODEL": "other"}
    )
    with pytest.raises(EmbeddingSettingsError, match="does not have model"):
        embedder.embed_query("x", dimension=384, model=None, field="D.v")
