"""The analysis of text, case by case, and its promise that cutting a text at separators changes nothing."""

# ruff: noqa: RUF001 - letters that look alike are the subject

import hashlib
import threading

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.engine.query.search import analyse
from omnigraph.engine.query.search.analysis import (
    ANALYSER,
    MAX_TOKEN_LENGTH,
    REVISION,
    STOP_WORDS,
    Vocabulary,
    batches,
    term_occurrences,
    tokens,
)

# A busy machine must not fail a test that is right.
UNHURRIED = settings(deadline=None)
CASES = [
    ("", []),
    ("   \t\n ", []),
    ("!?… — “”", []),
    ("graph storage engine", ["graph", "storag", "engin"]),
    ("Graphs GRAPH graph", ["graph", "graph", "graph"]),
    ("running runs ran", ["run", "run", "ran"]),
    ("the of and to", []),
    ("The THE tHe", []),
    ("not the graph", ["graph"]),
    ("who are you", ["who", "you"]),
    ("don't", ["don", "t"]),
    ("Ann's notes", ["ann", "s", "note"]),
    ("o’neil", ["o", "neil"]),
    ("a-b foo_bar x/y", ["b", "foo", "bar", "x", "y"]),
    ("e.g. v1.2", ["e", "g", "v1", "2"]),
    ("2024 x1y2 007", ["2024", "x1y2", "007"]),
    ("café CAFÉ cafe", ["cafe", "cafe", "cafe"]),
    ("cafe\u0301", ["cafe"]),
    ("naïve Ångström", ["naiv", "angstrom"]),
    ("Straße", ["strass"]),
    ("ÆON œuvre þing øre łódź đon ħal ısı", ["aeon", "oeuvr", "thing", "ore", "lodz", "don", "hal", "isi"]),
    ("İstanbul", ["istanbul"]),
    ("ﬁnd ＡＢＣ x²", ["find", "abc", "x2"]),
    ("½", ["½"]),
    ("ΣΑΣ σας", ["σασ", "σασ"]),
    ("\u03ac \u03b1\u0301", ["ά", "ά"]),
    ("日本語，検索。", ["日本語", "検索"]),
    ("हिन्दी", ["हिन्दी"]),
    ("emoji😀x 😀", ["emoji", "x"]),
    ("❤️ 1️⃣ 👩‍👩‍👧", ["1"]),
    ("co\u00adoperate zero\u200bwidth", ["cooper", "zero", "width"]),
    ("non\u00a0breaking", ["non", "break"]),
    ("x" * 40, ["x" * 40]),
    ("x" * 41, []),
    ("ß" * 20, ["s" * 40]),
    ("ß" * 21, []),
    ("a\x00b\x7fc", ["b", "c"]),
]


@pytest.mark.parametrize(("text", "terms"), CASES)
def test_text_becomes_these_terms(text, terms):
    assert analyse(text) == terms


@pytest.mark.parametrize("word", sorted(STOP_WORDS))
def test_a_stop_word_leaves_no_term(word):
    assert analyse(word.upper()) == []


def column_terms(texts):
    vocabulary = Vocabulary()
    found = [[] for _ in texts]
    start = 0
    for batch in batches(pa.chunked_array([pa.array(texts, pa.string())])):
        rows, numbers = term_occurrences(batch, vocabulary)
        names = list(vocabulary.terms)
        for row, number in zip(rows, numbers, strict=True):
            found[start + row].append(names[number])
        start += len(batch)
    return found


def test_a_column_gives_the_terms_of_each_of_its_texts():
    texts = [text for text, _ in CASES]
    assert column_terms(texts) == [terms for _, terms in CASES]


@UNHURRIED
@given(st.lists(st.text() | st.text(alphabet="aé e\u0301\u0338-Σςß😀\ufe0f\u200d日x'"), max_size=6))
@example(["ab", "cd"])
@example(["", "é", "", "\u0301a"])
def test_a_column_is_analysed_as_single_texts_are(texts):
    assert column_terms(texts) == [analyse(text) for text in texts]


@UNHURRIED
@given(st.text(), st.text(), st.sampled_from(" .-_'\n，"))
def test_terms_of_a_text_are_those_of_its_pieces(left, right, separator):
    assert analyse(left + separator + right) == analyse(left) + analyse(right)


@UNHURRIED
@given(st.text(alphabet=st.characters()))
def test_any_text_at_all_gives_short_terms_without_space(text):
    for term in analyse(text):
        assert 0 < len(term) <= MAX_TOKEN_LENGTH
        assert not any(letter.isspace() for letter in term)


@UNHURRIED
@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyzäöüéñ ", max_size=30))
def test_case_makes_no_difference(text):
    assert analyse(text.upper()) == analyse(text)


def test_threads_analyse_side_by_side():
    words = [f"relational{number}s running" for number in range(300)]
    expected = [analyse(word) for word in words]
    answers = []

    def work():
        answers.append([analyse(word) for word in words])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 4


def test_a_slice_of_an_array_is_analysed_from_its_own_place():
    texts = pa.chunked_array([pa.array(["zero", None, "one two", "three", ""], pa.string())[1:4]])
    (batch,) = batches(texts)
    vocabulary = Vocabulary()
    rows, _ = term_occurrences(batch, vocabulary)
    assert (rows.tolist(), list(vocabulary.terms)) == ([1, 1, 2], ["one", "two", "three"])


def test_one_huge_text_is_a_batch_of_its_own():
    huge = "word " * (1 << 20)
    sizes = [len(batch) for batch in batches(pa.chunked_array([pa.array(["a", huge, "b", "c"])]))]
    assert sizes == [1, 1, 2]


def test_another_analysis_has_another_revision():
    # Letters that have been what they are since long before any Unicode that a supported Python knows.
    letters = [tokens(f"a{chr(code)}b {chr(code)} x{chr(code)}") for code in range(0x250)]
    rules = repr((letters, sorted(STOP_WORDS), MAX_TOKEN_LENGTH)).encode()
    # When this fails, stored postings no longer fit the analysis: raise the revision, then write the new digest here.
    assert (REVISION, hashlib.sha256(rules).hexdigest()[:16]) == (1, "daa28e0bbd9b4bd1")


def test_the_analyser_names_what_it_depends_on():
    assert ANALYSER.startswith(f"{REVISION}; Unicode ")
    assert "; Snowball " in ANALYSER
