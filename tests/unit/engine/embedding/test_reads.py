"""A text in ``nearest`` is embedded once, as a query, with the provider of the open graph."""

from __future__ import annotations

import pytest
from tests.embedding_server import KEY, counting, serve
from tests.session_graph import create_graph, open_session

from omnigraph.engine.embedding import EmbeddingSettings, Secret
from omnigraph.errors import EmbeddingModelMismatchError, EmbeddingSettingsError, QueryRuntimeError

SCHEMA = """
node Doc {
    slug: String @key
    title: String
    vec: Vector(3) @embed("title")
    told: Vector(3)? @embed("title", model="m-1")
}
"""
NEAREST = "query q($t: String) { match { $d: Doc } return { $d.slug } order { nearest($d.vec, $t) } limit 2 }"
TOLD = NEAREST.replace("$d.vec", "$d.told")
NO_ROW = NEAREST.replace("$d: Doc", '$d: Doc { slug: "nowhere" }')
BOTH = NEAREST.replace("nearest($d.vec, $t)", "rrf(nearest($d.vec, $t), nearest($d.vec, $t))")
BY_VECTOR = "query q($v: Vector(3)) { match { $d: Doc } return { $d.slug } order { nearest($d.vec, $v) } limit 2 }"


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    with open_session(tmp_path / "graph", embedding=EmbeddingSettings(provider="mock")) as session:
        for title in ("apple", "pear", "plum"):
            session.mutate(f'query q() {{ insert Doc {{ slug: "{title}", title: "{title}" }} }}')
    return tmp_path / "graph"


@pytest.mark.parametrize("title", ["apple", "pear", "plum"])
def test_text_finds_the_row_that_was_made_of_it_first(root, title):
    with open_session(root, embedding=EmbeddingSettings(provider="mock")) as session:
        assert session.query(NEAREST, {"t": title}).rows()[0] == {"d.slug": title}


def test_text_is_sent_once_with_the_dimension_of_the_property(root):
    with serve(counting) as server:
        settings = EmbeddingSettings(base_url=server.url, api_key=Secret(KEY), model="m-1")
        with open_session(root, embedding=settings) as session:
            assert len(session.query(NEAREST, {"t": "some text"}).rows()) == 2
            session.query(TOLD, {"t": "other"}).rows()
    assert [request.body["input"] for request in server.requests] == [["some text"], ["other"]]
    assert {request.body["dimensions"] for request in server.requests} == {3}
    assert len({request.port for request in server.requests}) == 1


def test_vector_needs_no_provider(root):
    with open_session(root) as session:
        assert len(session.query(BY_VECTOR, {"v": [1.0, 0.0, 0.0]}).rows()) == 2


def test_text_without_a_provider_is_refused(root):
    with open_session(root) as session, pytest.raises(EmbeddingSettingsError, match="no embedding provider"):
        session.query(NEAREST, {"t": "x"}).rows()


@pytest.mark.parametrize("text", [NEAREST, NO_ROW, NEAREST.replace("limit 2", "limit 0")])
def test_missing_provider_is_reported_whether_or_not_a_row_matches(root, text):
    with open_session(root) as session, pytest.raises(EmbeddingSettingsError) as refused:
        session.query(text, {"t": "x"}).rows()
    for name in ("OMNIGRAPH_EMBED_PROVIDER", "OPENROUTER_API_KEY"):
        assert name in refused.value.message
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        assert name in refused.value.hint


@pytest.mark.parametrize("text", [NEAREST, NO_ROW])
def test_missing_key_is_reported_whether_or_not_a_row_matches(root, text, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "gemini")
    with open_session(root) as session, pytest.raises(EmbeddingSettingsError, match="GEMINI_API_KEY is not set"):
        session.query(text, {"t": "x"}).rows()


@pytest.mark.parametrize("text", [NEAREST, NO_ROW])
def test_null_is_no_query_whether_or_not_a_row_matches(root, text):
    with open_session(root) as session, pytest.raises(QueryRuntimeError, match="nearest cannot rank by NULL"):
        session.query(text.replace("$t: String", "$t: String?"), {"t": None}).rows()


@pytest.mark.parametrize("text", [NEAREST, NO_ROW])
def test_read_asks_the_provider_once_whether_or_not_a_row_matches(root, text):
    with serve(counting) as server:
        settings = EmbeddingSettings(base_url=server.url, api_key=Secret(KEY), model="m-1")
        with open_session(root, embedding=settings) as session:
            rows = session.query(text, {"t": "some text"}).rows()
    assert len(rows) == (0 if text is NO_ROW else 2)
    assert [request.body["input"] for request in server.requests] == [["some text"]]


def test_fused_texts_for_one_space_are_embedded_once(root):
    with serve(counting) as server:
        settings = EmbeddingSettings(base_url=server.url, api_key=Secret(KEY), model="m-1")
        with open_session(root, embedding=settings) as session:
            session.query(BOTH, {"t": "some text"}).rows()
    assert len(server.requests) == 1


@pytest.mark.parametrize("told", [TOLD, TOLD.replace("$d: Doc", '$d: Doc { slug: "nowhere" }')])
def test_text_for_another_models_vector_is_refused(root, told):
    with open_session(root, embedding=EmbeddingSettings(provider="mock", model="m-2")) as session:
        with pytest.raises(EmbeddingModelMismatchError, match=r"declares 'm-1', but 'm-2' is active"):
            session.query(told, {"t": "x"}).rows()
        assert len(session.query(NEAREST, {"t": "x"}).rows()) == 2
