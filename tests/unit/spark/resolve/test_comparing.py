"""Records of blocks are compared pair by pair, each once, and alike in every grouping of their rows."""

from __future__ import annotations

import math
import random
import sys
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resolve_model import jaro_winkler, score

from omnigraph.errors import LibraryMissingError, ResolveInputError
from omnigraph.spark.resolution import similarity as module
from omnigraph.spark.resolution.comparing import CompareTask, PrepareTask, _pairs
from omnigraph.spark.resolution.folding import fold
from omnigraph.spark.resolution.model import Comparison, Resolution

TEXTS = (
    st.none() | st.text("abÄäß é'-.1ガ", max_size=8) | st.sampled_from(["Mira Löwe", "mira lowe", "MIRA  LOWE!", ""])
)
VECTORS = st.none() | st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.25]), min_size=2, max_size=2)
RECORDS = st.fixed_dictionaries({"text": TEXTS, "vector": VECTORS, "blocks": st.sets(st.integers(0, 5), max_size=4)})
EVERY = (
    Comparison(column="text", name="exact"),
    Comparison(column="text", method="normalised", name="normalised", weight=0.5, missing=0.25),
    Comparison(column="text", method="jaro_winkler", name="jaro_winkler", weight=2),
    Comparison(column="text", method="token_overlap", name="token_overlap"),
    Comparison(column="vector", method="vector_distance", name="cosine"),
    Comparison(column="vector", method="vector_distance", name="l2", metric="l2", reach=3.0),
    Comparison(column="text", method="jaro_winkler", name="raw", fold=False),
)


def compare(records, resolution, batch_rows=1000):
    """Return the pairs that the tasks find, with score and similarities, and how many they compared."""
    keys = [f"k{number:03}" for number in range(len(records))]
    names = [[str(block) for block in sorted(record["blocks"])] for record in records]
    values = {f"v{at}": [record[one.column] for record in records] for at, one in enumerate(resolution.comparisons)}
    kinds = [pa.list_(pa.float64()) if one.column == "vector" else pa.string() for one in resolution.comparisons]
    arrays = [pa.array(some, kind) for some, kind in zip(values.values(), kinds, strict=True)]
    raw = pa.record_batch(
        [pa.array(keys, pa.string()), pa.array(names, pa.list_(pa.string())), *arrays], names=["key", "blocks", *values]
    )
    ready = pa.Table.from_batches(PrepareTask(comparisons=resolution.comparisons).run(iter([raw]))).to_pylist()
    rows = [
        row | {"block": int(block), "earlier": [int(one) for one in row["blocks"] if int(one) < int(block)]}
        for row in ready
        for block in row["blocks"]
    ]
    rows.sort(key=lambda row: (row["block"], row["key"]))
    task = CompareTask(resolution=resolution)
    fields = [("key", pa.string()), ("block", pa.int64()), ("earlier", pa.list_(pa.int64()))]
    schema = pa.schema(
        [*fields, *((f"v{at}", module.VALUES[one.method]) for at, one in enumerate(resolution.comparisons))]
    )
    table = pa.Table.from_pylist(rows, schema)
    found = [row for batch in task.run(iter(table.to_batches(batch_rows))) for row in batch.to_pylist()]
    pairs = {
        (row["left"], row["right"]): (row["score"], [row[f"s{at}"] for at in range(len(resolution.comparisons))])
        for row in found
        if row["left"] is not None
    }
    assert len(pairs) == sum(row["left"] is not None for row in found), "a pair came twice"
    return pairs, sum(row["compared"] or 0 for row in found)


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORDS, max_size=9), st.sampled_from([1, 3, 1000]), st.booleans())
def test_pairs_and_scores_are_those_of_the_plain_model(records, batch_rows, is_shown):
    resolution = Resolution(blocking=["x"], comparisons=EVERY, threshold=0.8, review=1e-9 if is_shown else 0.5)
    found, compared = compare(records, resolution, batch_rows)
    wanted, count = {}, 0
    for left, right in combinations(range(len(records)), 2):
        one, two = records[left], records[right]
        if one["blocks"] & two["blocks"]:
            count += 1
            scores, total = score(resolution, one, two)
            if total is not None and total >= resolution.floor:
                wanted[f"k{left:03}", f"k{right:03}"] = (total, scores)
    assert compared == count
    assert found.keys() == wanted.keys()
    for pair, (total, scores) in wanted.items():
        assert found[pair][0] == pytest.approx(total)
        assert found[pair][1] == [one if one is None else pytest.approx(one) for one in scores]


@pytest.mark.parametrize("size", [0, 1, 2, 7, 60])
def test_block_of_n_rows_makes_every_pair_once(size):
    resolution = Resolution(blocking=["x"], comparisons=[Comparison(column="text")], threshold=1)
    records = [{"text": "a", "blocks": {1}} for _ in range(size)]
    found, compared = compare(records, resolution)
    assert compared == len(found) == size * (size - 1) // 2


def test_pair_in_several_blocks_is_compared_once():
    resolution = Resolution(blocking=["x"], comparisons=[Comparison(column="text")], threshold=1)
    blocks = [{1, 2, 3}, {1, 2, 3}, {2, 3}, {3, 4}]
    found, compared = compare([{"text": "a", "blocks": some} for some in blocks], resolution)
    assert compared == len(found) == 6


def test_pieces_and_slices_of_pairs_change_nothing(monkeypatch):
    resolution = Resolution(blocking=["x"], comparisons=EVERY[:3], threshold=0.6)
    chance = random.Random(4)  # noqa: S311 - the same at every run
    records = [
        {"text": chance.choice(["Ann", "anne", "Bo", None]), "blocks": set(chance.sample(range(6), 2))}
        for _ in range(40)
    ]
    whole = compare(records, resolution)
    comparing = sys.modules["omnigraph.spark.resolution.comparing"]
    monkeypatch.setattr(comparing, "_PIECE_ROWS", 4)
    monkeypatch.setattr(comparing, "_PAIRS", 3)
    assert compare(records, resolution, batch_rows=3) == whole
    assert max(len(left) for left, _ in _pairs(np.array([1, 1, 1, 2, 3, 3, 3]))) <= 3


@pytest.mark.parametrize(
    ("one", "two", "wanted"),
    [
        # From Winkler's papers, and from the definition by hand.
        ("MARTHA", "MARHTA", 0.961),
        ("DWAYNE", "DUANE", 0.840),
        ("DIXON", "DICKSONX", 0.813),
        ("JONES", "JOHNSON", 0.832),
        ("ABROMS", "ABRAMS", 0.922),
        ("abc", "xyz", 0.0),
        ("a", "a", 1.0),
    ],
)
def test_jaro_winkler_has_the_published_values(one, two, wanted):
    assert jaro_winkler(one, two) == pytest.approx(wanted, abs=6e-4)
    resolution = Resolution(
        blocking=["x"], comparisons=[Comparison(column="text", method="jaro_winkler")], threshold=1, review=1e-9
    )
    found, _ = compare([{"text": one, "blocks": {0}}, {"text": two, "blocks": {0}}], resolution)
    assert [total for total, _ in found.values()] == ([pytest.approx(wanted, abs=6e-4)] if wanted else [])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=12))
def test_folding_a_folded_text_changes_nothing(text):
    assert fold(fold(text)) == fold(text)
    assert fold(f"  {text.upper()}. ") == fold(fold(text.upper()))


@pytest.mark.parametrize(
    ("one", "two", "are_equal"),
    [
        ("Renée", "RENE\u0301E", True),
        ("O\u2019Brien-Smith", "obrien smith", True),
        ("Straße", "STRASSE", True),
        ("\uff21\uff42\uff43", "abc", True),
        ("İstanbul", "istanbul", True),
        ("zero\u200bwidth", "zerowidth", True),
        ("カ", "ガ", False),
        ("कि", "की", False),
        ("한글", "한글 ", True),
        ("C", "C++", False),
    ],
)
def test_folding_removes_ways_of_writing_and_keeps_letters(one, two, are_equal):
    assert (fold(one) == fold(two)) is are_equal


def test_missing_values_are_left_out_or_stand_for_a_number():
    pair = [{"text": "a", "vector": None, "blocks": {0}}, {"text": "a", "vector": [1.0, 0.0], "blocks": {0}}]
    text, vector = Comparison(column="text"), Comparison(column="vector", method="vector_distance", weight=3)

    def total(*comparisons):
        resolution = Resolution(blocking=["x"], comparisons=comparisons, threshold=1, review=1e-9)
        found, compared = compare(pair, resolution)
        assert compared == 1
        return [one for one, _ in found.values()]

    assert total(text, vector) == [1.0]
    assert total(text, Comparison(column="vector", method="vector_distance", weight=3, missing=0.0)) == [0.25]
    assert total(vector) == []


@pytest.mark.parametrize("odd", [[math.nan, 1.0], [math.inf, 1.0], [0.0, 0.0], [None, 1.0]])
def test_vectors_without_a_direction_are_missing(odd):
    resolution = Resolution(
        blocking=["x"], comparisons=[Comparison(column="vector", method="vector_distance")], threshold=0.1
    )
    found, compared = compare([{"vector": odd, "blocks": {0}}, {"vector": [1.0, 1.0], "blocks": {0}}], resolution)
    assert (found, compared) == ({}, 1)


def test_vectors_of_different_lengths_are_an_error_that_names_both_records():
    resolution = Resolution(
        blocking=["x"], comparisons=[Comparison(column="vector", method="vector_distance")], threshold=0.1
    )
    with pytest.raises(ResolveInputError) as refused:
        compare([{"vector": [1.0], "blocks": {0}}, {"vector": [1.0, 1.0], "blocks": {0}}], resolution)
    assert "'k000'" in refused.value.message
    assert "'k001'" in refused.value.message


def test_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(LibraryMissingError) as refused:
        module.check_library(Comparison(column="name", method="jaro_winkler"))
    assert "omnigraphdb[resolve]" in refused.value.hint
    module.check_library(Comparison(column="name", method="token_overlap"))
