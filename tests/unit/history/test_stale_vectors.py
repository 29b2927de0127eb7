"""Stale vectors are found by what commits changed, and computed anew: only they, as one commit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.session_graph import RELAXED

import omnigraph
from omnigraph.engine.embedding.providers import MockProvider
from omnigraph.errors import (
    EmbeddingSettingsError,
    EmbeddingUnavailableError,
    ProviderFault,
    ReadOnlyError,
    TypeMissingError,
    UsageError,
)
from omnigraph.runtime import counting

SCHEMA = """
node Note {
    slug: String @key
    text: String?
    vec: Vector(4)? @embed(text)
    photo: Blob?
}
node Page {
    slug: String @key
    body: String
    vec: Vector(3) @embed(body)
}
node Tag { name: String @key }
"""
TEXT = "query t($s: String, $t: String?) { update Note set { text: $t } where slug = $s }"
VECTORS = "query v() { match { $n: Note } return { $n.slug, $n.vec } order { $n.slug asc } }"


@dataclass
class Provider:
    """The mock, which remembers what it was asked, and fails when it is told to."""

    name: str = "test"
    model: str = ""
    asked: list[str] = field(default_factory=list)
    fails_after: int | None = None

    def embed(self, texts, *, dimension, role, limit_ms=None):
        if self.fails_after is not None and len(self.asked) >= self.fails_after:
            fault = ProviderFault(provider="test", address="", reason="gone")
            raise EmbeddingUnavailableError("gone", details=fault)
        self.asked += texts
        return MockProvider("").embed(texts, dimension=dimension, role=role, limit_ms=limit_ms)

    def close(self):
        pass

    def take(self):
        """Return what it was asked since the last look."""
        asked, self.asked = sorted(self.asked), []
        return asked


@pytest.fixture
def provider():
    return Provider()


@pytest.fixture
def graph(tmp_path, provider):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED, embedding=provider) as made:
        made.load({"Note": [{"slug": f"n{at}", "text": f"text {at}", "photo": b"p"} for at in range(5)]})
        yield made


def fits(graph, slug, text):
    stored = {row["n.slug"]: row["n.vec"] for row in graph.query(VECTORS).rows()}[slug]
    made = np.array(MockProvider("").embed([text], dimension=4, role="document")[0])
    return np.allclose(stored, made / np.linalg.norm(made))


def set_text(graph, slug, text):
    graph.mutate(TEXT, {"s": slug, "t": text})


def test_missing_vectors_are_computed_once_and_nothing_else_is(graph, provider):
    before = len(graph.log(limit=50))
    dry = graph.embed(dry_run=True)
    assert (dry.stale, dry.embedded, dry.commit, provider.take()) == (5, 0, None, [])
    done = graph.embed(actor="ann", message="vectors")
    assert (done.stale, done.embedded, done.cleared, done.remaining) == (5, 5, 0, 0)
    assert provider.take() == [f"text {at}" for at in range(5)]
    newest = graph.log(limit=50)
    assert (len(newest) - before, newest[0].actor, newest[0].message) == (1, "ann", "vectors")
    assert all(fits(graph, f"n{at}", f"text {at}") for at in range(5))
    assert graph.blob("Note", "n1", "photo").data == b"p"
    again = graph.embed()
    assert (again.stale, again.commit, provider.take()) == (0, None, [])


def test_only_rows_whose_text_changed_and_whose_vector_did_not_are_stale(graph, provider):
    graph.embed()
    provider.take()
    set_text(graph, "n1", "changed")
    graph.mutate('query p($p: Blob) { update Note set { photo: $p } where slug = "n2" }', {"p": b"q"})
    graph.mutate('query v() { update Note set { text: "given", vec: [1.0, 0.0, 0.0, 0.0] } where slug = "n3" }')
    set_text(graph, "n4", "away")
    set_text(graph, "n4", "text 4")
    graph.load({"Note": [{"slug": "n5", "text": "new", "vec": [0.0, 1.0, 0.0, 0.0]}, {"slug": "n6"}]})
    graph.optimize()
    done = graph.embed()
    assert (done.stale, done.embedded, provider.take()) == (1, 1, ["changed"])
    assert fits(graph, "n1", "changed")


def test_a_text_that_changed_after_its_row_was_inserted_with_a_vector_is_found(graph, provider):
    graph.load({"Note": [{"slug": "x", "text": "one", "vec": [1.0, 0.0, 0.0, 0.0]}]})
    set_text(graph, "x", "two")
    assert graph.embed(types=["Note"]).embedded == 6
    assert "two" in provider.take()
    assert fits(graph, "x", "two")
    # A run of some types leaves no mark, and finds nothing all the same.
    assert graph.embed(types=["Note"]).stale == 0


def test_a_vector_whose_text_is_gone_is_removed(graph):
    graph.embed()
    set_text(graph, "n0", None)
    done = graph.embed()
    assert (done.stale, done.embedded, done.cleared) == (1, 0, 1)
    assert graph.entity("Note", "n0")["vec"] is None
    assert graph.embed().stale == 0


def test_a_limit_makes_whole_batches_and_the_next_run_goes_on(graph, provider):
    counts = []
    while (done := graph.embed(limit=2)).commit is not None:
        counts.append((done.embedded, done.remaining, len(provider.take())))
    assert counts == [(2, 3, 2), (2, 1, 2), (1, 0, 1)]


def test_a_run_that_fails_writes_nothing_and_the_next_one_does_all(graph, provider, tmp_path):
    head = graph.log(limit=1)[0].id
    provider.fails_after = 0
    with pytest.raises(EmbeddingUnavailableError):
        graph.embed()
    assert graph.log(limit=1)[0].id == head
    provider.fails_after = None
    assert graph.embed().embedded == 5


def test_a_text_that_changes_while_it_is_embedded_stays_stale(graph, provider):
    seen = []

    def interfere(state):
        seen.append((state.embedded, state.total))
        set_text(graph, "n0", "meanwhile")

    done = graph.embed(progress=interfere)
    assert seen == [(5, 5)]
    assert (done.stale, done.embedded, done.remaining) == (5, 4, 1)
    provider.take()
    assert (graph.embed().embedded, provider.take()) == (1, ["meanwhile"])


def test_every_vector_is_computed_on_request(graph, provider):
    graph.embed()
    provider.take()
    done = graph.embed(["Note"], every=True)
    assert (done.stale, done.embedded, len(provider.take())) == (5, 5, 5)


def test_a_run_reads_what_changed_since_the_last_one_and_not_all_of_history(graph):
    def calls():
        with counting() as counters:
            assert graph.embed(dry_run=True).stale == 0
        return sum(counters.cost().calls.values())

    costs = []
    for rounds in (2, 25):
        for at in range(rounds):
            set_text(graph, "n1", f"again {at}")
        graph.embed()
        costs.append(calls())
    # A walk over all of the states would open each of them.
    assert costs[1] <= costs[0] + 6


def test_branches_merges_and_renames_are_followed(graph, provider):
    graph.embed()
    side = graph.create_branch("side")
    set_text(side, "n2", "aside")
    assert (side.embed(dry_run=True).stale, graph.embed(dry_run=True).stale) == (1, 0)
    graph.merge("side")
    graph.apply_schema(
        SCHEMA.replace("text: String?", 'words: String? @rename_from("text")').replace("@embed(text)", "@embed(words)")
    )
    provider.take()
    assert (graph.embed().embedded, provider.take()) == (1, ["aside"])
    assert fits(graph, "n2", "aside")


def test_what_cannot_be_done_is_refused(graph, tmp_path):
    with pytest.raises(TypeMissingError, match="node type 'Nope' was not found"):
        graph.embed(["Nope"])
    with pytest.raises(UsageError, match="node type 'Tag' has no vector with @embed"):
        graph.embed(["Tag"])
    for limit in (-1, 1.5, "1", True):
        with pytest.raises(UsageError):
            graph.embed(limit=limit)
    with omnigraph.open(graph.uri, mode="read_only") as reader, pytest.raises(ReadOnlyError):
        reader.embed()
    with omnigraph.open(graph.uri, settings=RELAXED) as bare, pytest.raises(EmbeddingSettingsError):
        bare.embed()
