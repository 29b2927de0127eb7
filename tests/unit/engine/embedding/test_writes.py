"""Writes that leave a required vector to the provider, and those that do not get one."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.embedding_server import KEY, Reply, counting, in_turn, serve
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

from omnigraph.engine.embedding import Embedder, EmbeddingSettings, Secret
from omnigraph.engine.load import LoadSettings
from omnigraph.errors import (
    BadRowsError,
    EmbeddingModelMismatchError,
    EmbeddingRefusedError,
    EmbeddingSettingsError,
    QueryMeaningError,
)
from omnigraph.runtime import ManualClock

SCHEMA = """
node Doc {
    slug: String @key
    title: String
    vec: Vector(3) @embed("title")
    hint: Vector(3)? @embed("title")
}
node Note {
    text: String?
    kind: enum(a, b)?
    vec: Vector(2) @embed("text", model="m-1")
    other: Vector(2) @embed("kind", model="m-1")
}
edge About: Doc -> Doc
"""
MOCK = EmbeddingSettings(provider="mock", model="m-1")
INSERT = "query q($slug: String, $title: String) { insert Doc { slug: $slug, title: $title } }"
NOTE = 'query q($text: String?) { insert Note { text: $text, kind: "a" } }'


def mocked(text, dimension=3):
    embedder = Embedder(ManualClock(), MOCK)
    return embedder.embed_query(text, dimension=dimension, model=None, field="").tolist()


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    return tmp_path / "graph"


def docs(session):
    return {name: (row["title"], row["vec"], row["hint"]) for name, row in read_graph(session)["node:Doc"].items()}


def test_insert_gets_the_vector_that_it_leaves_out_and_no_other(root):
    with open_session(root, embedding=MOCK) as session:
        done = session.mutate(INSERT, {"slug": "a", "title": "first"})
        assert done.affected_nodes == 1
        assert docs(session) == {"a": ("first", mocked("first"), None)}


def test_vector_that_is_given_is_stored_as_it_is(root):
    with serve(in_turn(Reply(status=400))) as server:
        settings = EmbeddingSettings(base_url=server.url, api_key=Secret(KEY))
        with open_session(root, embedding=settings) as session:
            session.mutate('query q() { insert Doc { slug: "a", title: "t", vec: [1, 2, 3] } }')
            assert docs(session) == {"a": ("t", [1.0, 2.0, 3.0], None)}
    assert server.requests == []


def test_texts_of_a_whole_mutation_are_embedded_together_as_documents(root):
    statements = "\n".join(f'insert Doc {{ slug: "{at}", title: "{"x" * at}" }}' for at in range(20))
    with serve(counting) as server:
        settings = EmbeddingSettings(base_url=server.url, api_key=Secret(KEY))
        with open_session(root, embedding=settings) as session:
            session.mutate(f"query q() {{ {statements} }}")
            ratios = {name: round(vec[0] / vec[1], 3) for name, (_, vec, _) in docs(session).items()}
    assert ratios == {str(at): at + 1.0 for at in range(20)}
    assert [request.body["input"] for request in server.requests] == [["x" * at for at in range(20)]]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_batch_of_calls_gets_a_vector_per_call(root, count):
    with open_session(root, embedding=MOCK) as session:
        rows = [{"slug": f"s{at}", "title": f"text {at % 5}"} for at in range(count)]
        session.mutate_batch(INSERT, rows)
        assert docs(session) == {row["slug"]: (row["title"], mocked(row["title"]), None) for row in rows}


def test_inserts_among_other_statements_get_their_vectors(root):
    text = """query q() {
        insert Doc { slug: "a", title: "one" }
        update Doc set { title: "changed" } where slug = "a"
        insert Doc { slug: "b", title: "two" }
        insert About { from: "a", to: "b" }
        delete Doc where slug = "b"
    }"""
    with open_session(root, embedding=MOCK) as session:
        session.mutate(text)
        assert docs(session) == {"a": ("changed", mocked("one"), None)}


def test_update_of_the_text_leaves_the_vector_alone(root):
    with open_session(root, embedding=MOCK) as session:
        session.mutate(INSERT, {"slug": "a", "title": "old"})
        session.mutate('query q() { update Doc set { title: "new" } where slug = "a" }')
        assert docs(session) == {"a": ("new", mocked("old"), None)}


def test_insert_over_a_stored_row_embeds_its_text_again(root):
    with open_session(root, embedding=MOCK) as session:
        session.mutate(INSERT, {"slug": "a", "title": "old"})
        session.mutate(INSERT, {"slug": "a", "title": "new"})
        assert docs(session) == {"a": ("new", mocked("new"), None)}


def test_without_a_provider_the_failure_names_the_vector_and_the_way_out(root):
    with open_session(root) as session:
        before = commit_ids(session)
        with pytest.raises(QueryMeaningError, match="required vector 'vec' of 'Doc'") as caught:
            session.mutate(INSERT, {"slug": "a", "title": "t"})
        assert "OMNIGRAPH_EMBED_PROVIDER" in str(caught.value)
        assert commit_ids(session) == before


def test_environment_configures_the_provider(root, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    with open_session(root) as session:
        session.mutate(INSERT, {"slug": "a", "title": "t"})
        assert docs(session) == {"a": ("t", mocked("t"), None)}


def test_provider_that_is_named_wrongly_disturbs_only_who_needs_it(root, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "nonsense")
    with open_session(root) as session:
        session.mutate('query q() { insert Doc { slug: "a", title: "t", vec: [1, 2, 3] } }')
        with pytest.raises(EmbeddingSettingsError, match="nonsense"):
            session.mutate(INSERT, {"slug": "b", "title": "t"})
        assert list(docs(session)) == ["a"]


def test_text_that_is_null_makes_no_vector(root):
    with open_session(root, embedding=MOCK) as session:
        with pytest.raises(QueryMeaningError, match="'vec' of 'Note': it is computed from 'text', which is NULL"):
            session.mutate(NOTE, {"text": None})
        with pytest.raises(QueryMeaningError, match=r"^row 2: no value for the required vector 'vec'"):
            session.mutate_batch(NOTE, [{"text": "x"}, {"text": None}])
        assert read_graph(session)["node:Note"] == {}


def test_vectors_of_several_sources_and_enums_are_made(root):
    with open_session(root, embedding=MOCK) as session:
        session.mutate(NOTE, {"text": "hello"})
        (row,) = read_graph(session)["node:Note"].values()
        assert (row["vec"], row["other"]) == (mocked("hello", 2), mocked("a", 2))


def test_another_model_than_the_schemas_writes_nothing(root):
    with open_session(root, embedding=EmbeddingSettings(provider="mock", model="m-2")) as session:
        before = commit_ids(session)
        with pytest.raises(
            EmbeddingModelMismatchError, match=r"property 'Note.vec' declares 'm-1', but 'm-2' is active"
        ):
            session.mutate(NOTE, {"text": "x"})
        assert commit_ids(session) == before


def test_provider_that_refuses_leaves_the_graph_as_it_was(root, tmp_path):
    with serve(in_turn(Reply(status=400))) as server:
        settings = EmbeddingSettings(base_url=server.url, api_key=Secret(KEY))
        with open_session(root, embedding=settings) as session:
            before = commit_ids(session)
            with pytest.raises(EmbeddingRefusedError):
                session.mutate(INSERT, {"slug": "a", "title": "t"})
            with pytest.raises(EmbeddingRefusedError):
                session.load([lines(tmp_path, {"slug": "a", "title": "t"})])
            assert commit_ids(session) == before


def lines(folder, *rows, type_name="Doc"):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"type": type_name, "data": row}) + "\n" for row in rows))
    return str(path)


GIVEN = {"slug": "g", "title": "given", "vec": [1, 2, 3]}
ROWS = [{"slug": "a", "title": "one"}, GIVEN, {"slug": "b", "title": "two", "vec": None, "hint": [0, 0, 1]}]
LOADED = {
    "a": ("one", mocked("one"), None),
    "g": ("given", [1.0, 2.0, 3.0], None),
    "b": ("two", mocked("two"), [0.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_load_fills_the_vectors_that_rows_leave_out(root, tmp_path, mode):
    with open_session(root, embedding=MOCK) as session:
        session.mutate(INSERT, {"slug": "z", "title": "before"})
        done = session.load([lines(tmp_path, *ROWS)], mode)
        assert dict(done.nodes_loaded) == {"Doc": 3}
        kept = {} if mode == "overwrite" else {"z": ("before", mocked("before"), None)}
        assert docs(session) == {**LOADED, **kept}


def test_load_of_csv_and_parquet_fills_vectors_too(root, tmp_path):
    (tmp_path / "Doc.csv").write_text("slug,title\na,one\nb,two\n")
    pq.write_table(pa.table({"slug": ["c"], "title": ["three"]}), tmp_path / "Doc.parquet")
    with open_session(root, embedding=MOCK) as session:
        session.load([str(tmp_path / "Doc.csv"), str(tmp_path / "Doc.parquet")])
        assert {name: row[1] for name, row in docs(session).items()} == {
            "a": mocked("one"),
            "b": mocked("two"),
            "c": mocked("three"),
        }


def test_load_that_spills_its_rows_fills_vectors_too(root, tmp_path):
    rows = [{"slug": str(at), "title": f"t{at % 7}"} for at in range(3000)]
    settings = LoadSettings(memory_bytes=1, chunk_bytes=10_000)
    with open_session(root, embedding=MOCK) as session:
        session.load([lines(tmp_path, *rows)], settings=settings)
        assert docs(session) == {row["slug"]: (row["title"], mocked(row["title"]), None) for row in rows}


def test_load_with_bad_rows_asks_nobody_and_names_the_lines_in_order(root, tmp_path):
    rows = [{"text": "x", "kind": "a"}, {"kind": "a"}, {"text": 1, "kind": "a"}, {"vec": [1, 2]}]
    with serve(in_turn(Reply(status=500))) as server:
        settings = EmbeddingSettings(base_url=server.url, api_key=Secret(KEY), model="m-1")
        with open_session(root, embedding=settings) as session, pytest.raises(BadRowsError) as caught:
            session.load([lines(tmp_path, *rows, type_name="Note")])
    assert server.requests == []
    found = [(item.line, item.property, item.rule) for item in caught.value.details.items]
    assert found == [(2, "vec", "required"), (3, "text", "type"), (4, "other", "required")]
    assert "and so is the text to compute it from, 'text'" in caught.value.details.items[0].message


def test_load_without_a_provider_names_the_vector_and_the_way_out(root, tmp_path):
    with open_session(root) as session, pytest.raises(BadRowsError, match="vector property 'vec' of Doc") as caught:
        session.load([lines(tmp_path, *ROWS)])
    assert [item.line for item in caught.value.details.items] == [1, 3]
    assert "OMNIGRAPH_EMBED_PROVIDER" in str(caught.value)
    assert "'title'" in str(caught.value)


def test_patch_changes_what_it_says_and_makes_no_vectors(root, tmp_path):
    with open_session(root, embedding=MOCK) as session:
        session.mutate(INSERT, {"slug": "a", "title": "old"})
        session.load([lines(tmp_path, {"slug": "a", "title": "new"})], "merge", patch=True)
        assert docs(session) == {"a": ("new", mocked("old"), None)}
        with pytest.raises(BadRowsError, match="vector property 'vec' of Doc"):
            session.load([lines(tmp_path, {"slug": "b", "title": "t"})], "merge", patch=True)


def test_load_of_another_model_writes_nothing(root, tmp_path):
    with open_session(root, embedding=EmbeddingSettings(provider="mock", model="m-2")) as session:
        with pytest.raises(EmbeddingModelMismatchError):
            session.load([lines(tmp_path, {"text": "t", "kind": "b"}, type_name="Note")])
        assert read_graph(session)["node:Note"] == {}


def test_closing_the_graph_closes_its_connections(root):
    with serve(counting) as server:
        settings = EmbeddingSettings(base_url=server.url, api_key=Secret(KEY))
        session = open_session(root, embedding=settings)
        session.mutate(INSERT, {"slug": "a", "title": "t"})
        client = session.embedder._provider._http._client
        session.mutate(INSERT, {"slug": "b", "title": "t"})
        assert session.embedder._provider._http._client is client
        session.close()
        assert client.is_closed
