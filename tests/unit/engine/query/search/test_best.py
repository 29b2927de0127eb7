"""The best rows of a ranking by words are found without scoring all, and are the same to the last bit."""

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.query.search import index as indexes
from omnigraph.engine.query.search import postings as all_postings
from omnigraph.engine.query.search.best import ScoredTexts
from omnigraph.engine.query.search.classes import classes_of
from omnigraph.engine.query.search.index import IndexPart, TextIndex
from omnigraph.engine.query.search.places import Moves
from omnigraph.engine.query.search.postings import postings_of

WORDS = ("river", "stone", "quiet", "early", "bridge", "letter")
QUERIES = ("river", "river stone", "quiet early bridge", "river stone quiet early bridge letter", "river nowhere")
GONE = -(1 << 62)


def make_texts(seed, count, longest=30):
    """Texts of a few words, some without any that is asked for, some NULL."""
    random = np.random.default_rng(seed)
    texts = []
    for length in random.integers(0, longest, count).tolist():
        chosen = random.integers(0, len(WORDS) + 12, length)
        texts.append(" ".join(WORDS[one] if one < len(WORDS) else f"other{one}" for one in chosen.tolist()))
    return pa.chunked_array([pa.array([None if number % 41 == 7 else text for number, text in enumerate(texts)])])


def no_check(size_bytes):
    assert size_bytes >= 0


def best_of(codes, scores, limit):
    """What must be there: every row that scores as much as the last of the best."""
    floor = np.sort(scores)[::-1][:limit][-1]
    return codes[scores >= floor].tolist(), scores[scores >= floor].tolist()


def check(index, query, limit):
    codes, scores = index.best(query, limit)
    assert (np.diff(codes) > 0).all()
    every, values = index.scores(query)
    if not len(every):
        assert len(codes) == 0
        return
    wanted, exact = best_of(every, values, limit)
    found = dict(zip(codes.tolist(), scores.tolist(), strict=True))
    assert [found.get(code) for code in wanted] == exact
    # Whatever else is there scores less than these.
    assert all(score < min(exact) for code, score in found.items() if code not in set(wanted))


@pytest.fixture
def everything_is_bounded(monkeypatch):
    monkeypatch.setattr(indexes, "FEW_ROWS", 0)
    monkeypatch.setattr(indexes, "FEW_SHARE", 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("everything_is_bounded")
def test_the_best_rows_have_the_scores_that_all_rows_would_have(seed):
    index = TextIndex.build(make_texts(seed, 3000), no_check)
    for query in QUERIES:
        for limit in (1, 10, 37, 2000, 10_000):
            check(index, query, limit)


@pytest.mark.usefixtures("everything_is_bounded")
def test_rows_of_several_parts_are_one_ranking_without_those_that_are_gone():
    first, second = make_texts(5, 2000), make_texts(6, 900)
    parts = [IndexPart(postings=postings_of(first, no_check))]
    parts.append(IndexPart(postings=postings_of(second, no_check), start=2000))
    # Rows 100 to 149 and 2100 are gone; the second part stands before the first.
    starts = np.array([0, 100, 150, 2000, 2100, 2101])
    shifts = np.array([899, GONE, 849, -2000, GONE, -2001])
    gone = [np.arange(100, 150), np.array([100])]
    totals = [part.postings.totals_without(rows) for part, rows in zip(parts, gone, strict=True)]
    index = TextIndex(
        parts,
        Moves.of(starts, shifts),
        row_count=2849,
        text_count=sum(texts for texts, _ in totals),
        term_count=sum(terms for _, terms in totals),
    )
    for query in QUERIES:
        for limit in (1, 10, 200):
            check(index, query, limit)


@pytest.mark.usefixtures("everything_is_bounded")
def test_long_texts_and_words_that_are_repeated_often_share_classes():
    texts = [f"river {'stone ' * (number % 400)}{'other ' * (number * 7 % 5000)}" for number in range(600)]
    index = TextIndex.build(pa.chunked_array([texts]), no_check)
    [part] = index.parts
    classes = part.postings.classes("stone")
    assert len(classes.counts) <= 256 * 256
    assert classes.counts.max() == 2.0**60
    for query in ("river", "stone", "river stone"):
        for limit in (1, 5, 100):
            check(index, query, limit)


def test_a_term_that_few_rows_hold_needs_no_slot_for_every_row():
    places, lengths = np.array([3, 70, 900], dtype=np.uint32), np.full(1000, 9, dtype=np.int8)
    few = classes_of(places, np.array([1, 2, 1], dtype=np.uint8), lengths)
    assert not few.is_dense
    assert few.find(np.array([0, 3, 70, 900, 999], dtype=np.uint32)).tolist() == [0, 1, 2, 1, 0]
    assert few.places.tolist() == [3, 900, 70]


def test_few_of_many_rows_are_scored_and_classes_are_made_once(monkeypatch):
    index = TextIndex.build(make_texts(9, 40_000), no_check)
    scored, made = [], []
    score, classes = TextIndex.score, all_postings.classes_of
    monkeypatch.setattr(
        TextIndex,
        "score",
        lambda self, rarity, counts, lengths: scored.append(len(counts)) or score(self, rarity, counts, lengths),
    )
    monkeypatch.setattr(all_postings, "classes_of", lambda *given: made.append(1) or classes(*given))
    codes, scores = index.best("river stone", 10)
    held = sum(len(index.matches(word)) for word in ("river", "stone"))
    assert held > 30_000
    assert sum(scored) < held / 10
    assert made == [1, 1]
    again, same = index.best("stone river", 10)
    assert made == [1, 1]
    assert (again.tolist(), same.tolist()) == (codes.tolist(), scores.tolist())
    assert index.private_bytes > sum(part.postings.size_bytes for part in index.parts)


def test_known_scores_serve_what_they_cover():
    known = ScoredTexts(codes=np.array([2, 5, 9]), scores=np.array([1.0, 3.0, 2.0]), limit=3)
    assert known.serves(3, None)
    assert known.serves(2, None)
    assert not known.serves(4, None)
    assert not known.serves(None, None)
    assert known.serves(None, np.array([5, 9]))
    assert not known.serves(None, np.array([5, 6]))
    complete = ScoredTexts(codes=np.array([2]), scores=np.array([1.0]), limit=None)
    assert complete.serves(None, None)
    assert complete.serves(None, np.array([5]))
