"""Postings as arrays: terms found by halving, places that move, postings put together."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text_tables import no_limit, texts_of

from omnigraph.engine.query.search import analyse
from omnigraph.engine.query.search.places import Moves, to_codes, to_places
from omnigraph.engine.query.search.postings import Postings, PostingsBuilder, merged, postings_of
from omnigraph.errors import InternalError
from omnigraph.store.projections.coverage import Match, Piece

# A busy machine must not fail a test that is right.
UNHURRIED = settings(deadline=None)
NONE = np.zeros(0, dtype=np.uint32)
WORDS = ["graph", "grape", "notes", "vector", "café", "日本", "😀x", "zz", "a1"]
TEXTS = st.lists(st.none() | st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), max_size=10)


def plain(postings):
    """Return postings as a dictionary of terms, and lengths."""
    terms = [term.decode() for term in postings.terms.to_pylist()]
    found = {}
    for term in terms:
        places, counts = postings.find(term)
        if len(places):
            found[term] = list(zip(places.tolist(), counts.tolist(), strict=True))
    return found, postings.lengths.tolist(), postings.text_count, postings.term_count


def expected(texts):
    analysed = [None if text is None else analyse(text) for text in texts]
    terms = {term for each in analysed if each for term in each}
    found = {
        term: [(place, each.count(term)) for place, each in enumerate(analysed) if each and term in each]
        for term in terms
    }
    lengths = [-1 if each is None else len(each) for each in analysed]
    known = [length for length in lengths if length >= 0]
    return found, lengths, len(known), sum(known)


@UNHURRIED
@given(TEXTS)
def test_postings_say_what_the_texts_hold(texts):
    postings = postings_of(texts_of(*texts), no_limit)
    assert plain(postings) == expected(texts)
    assert postings.terms.to_pylist() == sorted(postings.terms.to_pylist())
    assert postings.is_consistent
    for unknown in ("", "gr", "graphx", "zzz", "0", "語"):
        assert [len(array) for array in postings.find(unknown)] == [0, 0]


@UNHURRIED
@given(TEXTS)
def test_postings_survive_as_arrays_of_numbers(texts):
    postings = postings_of(texts_of(*texts), no_limit)
    assert all(array.dtype.kind in "iu" for array in postings.arrays.values())
    copies = {name: array.copy() for name, array in postings.arrays.items()}
    copy = Postings(**copies, text_count=postings.text_count, term_count=postings.term_count)
    assert plain(copy) == plain(postings)


@pytest.mark.parametrize("name", ["term_bytes", "term_offsets", "offsets", "places", "counts"])
def test_arrays_that_do_not_fit_together_are_noticed(name):
    postings = postings_of(texts_of("graph notes", "notes"), no_limit)
    arrays = {**postings.arrays, name: postings.arrays[name][:-1]}
    assert not Postings(**arrays, text_count=2, term_count=3).is_consistent


def test_long_texts_and_frequent_words_have_room():
    texts = [" ".join(["graph"] * 300), " ".join(["graph"] * 70_000), None, ""]
    postings = postings_of(texts_of(*texts), no_limit)
    assert plain(postings) == ({"graph": [(0, 300), (1, 70_000)]}, [300, 70_000, -1, 0], 3, 70_300)


@UNHURRIED
@given(st.lists(TEXTS, max_size=4), st.randoms(use_true_random=False))
def test_postings_put_together_are_those_of_all_texts(groups, random):
    count = sum(map(len, groups))
    places = list(range(count))
    random.shuffle(places)
    together, parts, first = [None] * count, [], 0
    for texts in groups:
        mine = places[first : first + len(texts)]
        first += len(texts)
        is_kept = [random.random() < 0.8 for _ in texts]
        for text, place, kept in zip(texts, mine, is_kept, strict=True):
            together[place] = text if kept else None
        shifts = [
            place - at if kept else -(1 << 62) for at, (place, kept) in enumerate(zip(mine, is_kept, strict=True))
        ]
        starts = np.arange(len(texts), dtype=np.int64)
        moves = Moves.of(starts, np.array(shifts, dtype=np.int64)) if texts else Moves.none()
        parts.append((postings_of(texts_of(*texts), no_limit), moves))
    assert plain(merged(parts, count, no_limit)) == expected(together)


FRAGMENTS = st.lists(
    st.tuples(st.integers(0, 6), st.sets(st.integers(0, 5)), st.booleans(), st.randoms(use_true_random=False)),
    max_size=5,
)


class FakeTable:
    def __init__(self, row_counts):
        self.fragments = [type("Fragment", (), {"row_count": count})() for count in row_counts]


@UNHURRIED
@given(FRAGMENTS, st.permutations(range(5)), st.data())
def test_places_become_codes_of_live_rows_in_stored_order(fragments, order, data):
    starts = np.cumsum([0, *(count for count, *_ in fragments)]).tolist()
    listed = [at for at in order if at < len(fragments) and fragments[at][2]]
    deleted = [sorted(offset for offset in gone if offset < count) for count, gone, *_ in fragments]
    codes, code, pieces = {}, 0, []
    for index, at in enumerate(listed):
        for offset in range(fragments[at][0]):
            if offset not in deleted[at]:
                codes[starts[at] + offset], code = code, code + 1
        holes = np.array(deleted[at], dtype=np.uint32)
        pieces.append(
            Piece(start=starts[at], count=fragments[at][0], index=index, gone=holes, back=NONE, deleted=holes)
        )
    lost = tuple((starts[at], starts[at + 1]) for at in range(len(fragments)) if at not in listed)
    table = FakeTable([fragments[at][0] - len(deleted[at]) for at in listed])
    match = Match(pieces=tuple(pieces), lost=lost, uncovered=())
    moves = to_codes(match, table)
    every = np.arange(starts[-1])
    wanted = [codes.get(place, -1) for place in every]
    assert np.maximum(moves.find(every), -1).tolist() == wanted
    assert np.maximum(moves.find(every[::-1]), -1).tolist() == wanted[::-1]
    assert moves.has_gone == (len(codes) < len(every))
    live = [found for found in wanted if found >= 0]
    assert moves.is_ascending <= (live == sorted(live))
    # Places of one part of an index are counted from where the part begins.
    start = data.draw(st.integers(0, starts[-1]))
    some = sorted(data.draw(st.sets(st.integers(start, max(start, starts[-1] - 1)))) if start < starts[-1] else ())
    local = np.array([place - start for place in some], dtype=np.uint32)
    assert np.maximum(moves.find_ascending(local, start), -1).tolist() == [wanted[place] for place in some]
    firsts = {piece.index: 100 * (piece.index + 1) for piece in pieces}
    moved = to_places(match, firsts).find(every)
    for piece in pieces:
        for offset in range(piece.count):
            place = moved[piece.start + offset]
            assert place == 100 * (piece.index + 1) + offset if offset not in piece.gone else place < 0


def test_a_text_too_few_is_no_index():
    builder = PostingsBuilder(np.arange(2), 2, no_limit)
    builder.add(pa.chunked_array([["one"]]))
    with pytest.raises(InternalError, match="1 texts for 2 rows"):
        builder.finish()
