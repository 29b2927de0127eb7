"""The full-text index against formulas written out row by row."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text_tables import no_limit, texts_of

from omnigraph.engine.query.search import TextIndex, analyse
from omnigraph.engine.query.search.analysis import Spellings
from omnigraph.engine.query.search.index import MAX_EXPANSIONS

# A busy machine must not fail a test that is right.
UNHURRIED = settings(deadline=None)
WORDS = ["graph", "graphs", "grape", "storage", "notes", "vector", "search", "the", "café", "日本", "x"]
TEXTS = st.none() | st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
QUERIES = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=4).map(" ".join)


def index_of(*texts):
    return TextIndex.build(texts_of(*texts), no_limit)


def naive_scores(texts, query):
    documents = {row: analyse(text) for row, text in enumerate(texts) if text is not None}
    total = len(documents)
    length = sum(map(len, documents.values()))
    scores = {}
    for term in sorted(set(analyse(query))):
        holding = sum(term in terms for terms in documents.values())
        for row, terms in documents.items():
            count = terms.count(term)
            if count:
                idf = math.log(1 + (total - holding + 0.5) / (holding + 0.5))
                share = count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(terms) / (length / total)))
                scores[row] = scores.get(row, 0.0) + idf * share
    return scores


def edit_distance(left, right):
    row = list(range(len(right) + 1))
    for index, letter in enumerate(left, start=1):
        corner, row[0] = row[0], index
        for place, other in enumerate(right, start=1):
            corner, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, corner + (letter != other)),
            )
    return row[-1]


def naive_fuzzy(texts, query, max_edits):
    documents = {row: set(analyse(text)) for row, text in enumerate(texts) if text is not None}
    indexed = set().union(*documents.values())
    wanted = set()
    for term in analyse(query):
        near = [(edit_distance(term, other), other) for other in indexed]
        wanted.update(other for distance, other in sorted(near)[:MAX_EXPANSIONS] if distance <= max_edits)
    return [row for row, terms in documents.items() if terms & wanted]


@UNHURRIED
@given(st.lists(TEXTS, max_size=12), QUERIES)
def test_scores_are_those_of_the_formula(texts, query):
    codes, scores = index_of(*texts).scores(query)
    expected = naive_scores(texts, query)
    assert codes.tolist() == sorted(expected)
    assert scores.tolist() == pytest.approx([expected[code] for code in codes], rel=1e-12)


@UNHURRIED
@given(st.lists(TEXTS, max_size=12), QUERIES)
def test_a_row_matches_when_it_shares_a_term(texts, query):
    wanted = set(analyse(query))
    expected = [row for row, text in enumerate(texts) if text is not None and wanted & set(analyse(text))]
    assert index_of(*texts).matches(query).tolist() == expected


@UNHURRIED
@given(st.lists(TEXTS, max_size=12), QUERIES, st.integers(0, 3))
def test_fuzzy_finds_what_is_near_enough(texts, query, max_edits):
    assert index_of(*texts).fuzzy(query, max_edits).tolist() == naive_fuzzy(texts, query, max_edits)


@UNHURRIED
@given(
    st.sets(st.text(alphabet="abé日😀", min_size=1, max_size=6)),
    st.text(alphabet="abé日😀", max_size=6),
    st.integers(0, 7),
)
def test_distances_are_levenshtein(words, word, max_edits):
    expected = {other: edit_distance(word, other) for other in words if edit_distance(word, other) <= max_edits}
    assert Spellings(words).within(word, max_edits) == expected


def test_fuzzy_expands_to_fifty_terms_the_nearest_and_then_the_first():
    far = [f"zz{first}{second}" for first in "abcdefgh" for second in "abcdefgh"]
    index = index_of("zz", *far, "zzy")
    found = index.fuzzy("zz", 2).tolist()
    assert len(found) == MAX_EXPANSIONS
    by_rank = [0, len(far) + 1, *range(1, len(far) + 1)]
    assert found == sorted(by_rank[:MAX_EXPANSIONS])


def test_fuzzy_finds_a_misspelt_word_after_stemming():
    index = index_of("graph storage", "graphs everywhere", "meeting")
    assert index.fuzzy("grpahs", 2).tolist() == [0, 1]
    assert index.fuzzy("grpahs", 1).tolist() == []


@pytest.mark.parametrize("max_edits", [0, -1])
def test_without_edits_fuzzy_is_search(max_edits):
    index = index_of("graph", "graft")
    assert index.fuzzy("graphs", max_edits).tolist() == [0]


def test_a_huge_number_of_edits_is_no_trouble():
    assert index_of("graph", "x", None, "").fuzzy("日本", 10**12).tolist() == [0, 1]


def test_rows_without_text_count_for_nothing():
    scores = index_of("graph", "notes", None, None).scores("graph")[1]
    assert scores.tolist() == index_of("graph", "notes").scores("graph")[1].tolist()


def test_an_empty_text_counts_as_a_row():
    scores = index_of("graph", "notes", "").scores("graph")[1]
    assert scores.tolist() == pytest.approx([naive_scores(["graph", "notes", ""], "graph")[0]])


def test_a_repeated_query_word_counts_once():
    index = index_of("graph notes", "notes")
    assert index.scores("graph graphs Graph")[1].tolist() == index.scores("graph")[1].tolist()


@pytest.mark.parametrize("texts", [(), (None,), ("",), ("the of",), (None, "", "!")])
def test_where_there_are_no_terms_nothing_is_found(texts):
    index = index_of(*texts)
    assert index.matches("graph").tolist() == []
    assert index.fuzzy("graph", 2).tolist() == []
    assert [part.tolist() for part in index.scores("graph")] == [[], []]


def test_a_query_without_terms_finds_nothing():
    index = index_of("the graph", "of")
    assert index.matches("the of").tolist() == []
    assert index.fuzzy("the", 2).tolist() == []
    assert index.scores("")[0].tolist() == []


def test_a_build_asks_before_it_takes_memory():
    asked, texts = [], texts_of(*(["some words here"] * 10))
    TextIndex.build(texts, asked.append)
    assert asked
    assert max(asked) > texts.nbytes


def test_texts_in_large_arrays_are_indexed_too():
    index = TextIndex.build(texts_of("graph", None).cast(pa.large_string()), no_limit)
    assert index.matches("graph").tolist() == [0]
