"""The worked examples of the query language, as far as search decides them."""

import numpy as np
import pyarrow as pa
import pytest
from tests.text_tables import no_limit, texts_of

from omnigraph.engine.query.search import TextIndex, distances, fuse, nearest, rank_order

SLUGS = pa.array(["d1", "d2", "d3", "d4"])
TITLES = ("graph storage engine", "graph query language", "vector search notes", "meeting agenda")
VECTORS = pa.chunked_array([pa.array([[0, 0], [1, 0], [3, 4], None], pa.list_(pa.float32(), 2))])
OPEN = np.array([0, 2, 3])


def ids_of(codes):
    return SLUGS.take(pa.array(codes))


def slugs(codes):
    return ids_of(codes).to_pylist()


@pytest.fixture
def titles():
    return TextIndex.build(texts_of(*TITLES), no_limit)


def ranked_by_text(titles, query):
    codes, scores = titles.scores(query)
    return codes[rank_order(scores, codes, ids_of, is_descending=True)]


def test_nearest_ranks_by_distance():
    codes, found = nearest(VECTORS, [0, 0], 2, ids_of)
    assert (slugs(codes), found.tolist()) == (["d1", "d2"], [0.0, 1.0])
    assert distances(VECTORS, [0, 0])[2] == 5.0


def test_a_predicate_acts_before_the_search():
    assert slugs(nearest(VECTORS, [0, 0], 2, ids_of, OPEN)[0]) == ["d1", "d3"]


@pytest.mark.parametrize(
    ("query", "expected"), [("Graphs", ["d1", "d2"]), ("storage notes", ["d1", "d3"]), ("the", [])]
)
def test_search_finds_any_word_in_any_form(titles, query, expected):
    assert slugs(titles.matches(query)) == expected


def test_fusion_of_meaning_and_words(titles):
    by_vector = nearest(VECTORS, [0, 0], 3, ids_of)[0]
    by_text = ranked_by_text(titles, "vector search")
    assert (slugs(by_vector), slugs(by_text)) == (["d1", "d2", "d3"], ["d3"])
    codes, scores = fuse(by_vector, by_text, 60, 3)
    assert slugs(codes) == ["d3", "d1", "d2"]
    assert scores.tolist() == pytest.approx([0.032266, 0.016393, 0.016129], abs=5e-7)


def test_fusion_of_two_places():
    first, second = (nearest(VECTORS, place, 2, ids_of)[0] for place in ([0, 0], [3, 4]))
    assert (slugs(first), slugs(second)) == (["d1", "d2"], ["d3", "d2"])
    assert slugs(fuse(first, second, 60, 2)[0]) == ["d2", "d1"]


def test_a_ranking_looks_only_at_entities_of_the_match():
    citing, cited = np.array([1, 2]), np.array([0, 2])
    assert slugs(nearest(VECTORS, [0, 0], 1, ids_of, citing)[0]) == ["d2"]
    assert slugs(nearest(VECTORS, [0, 0], 5, ids_of, cited)[0]) == ["d1", "d3"]


def test_no_vector_is_near_when_none_is_asked_for():
    assert slugs(nearest(VECTORS, [0, 0], 0, ids_of)[0]) == []
