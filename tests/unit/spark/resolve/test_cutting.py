"""Clusters with records that are decided to be different are taken apart, always in the same way."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.resolve_model import clusters_of

from omnigraph.errors import ContradictingDecisionsError
from omnigraph.spark.resolution.cutting import CutTask, Link, cut


def link(left, right, score=None, verdict=None):
    return Link(left=left, right=right, score=score, verdict=verdict)


def test_weakest_link_between_them_is_left_out():
    links = [link("a", "b", 0.9), link("b", "c", 0.8), link("c", "d", 0.95), link("a", "d", verdict="different")]
    assert cut(links) == {"a": "a", "b": "a", "c": "c", "d": "c"}


def test_equal_links_are_made_in_the_order_of_their_ids():
    links = [link("b", "c", 0.9), link("a", "b", 0.9), link("a", "c", verdict="different")]
    assert cut(links) == cut(links[::-1]) == {"a": "a", "b": "a", "c": "c"}


def test_decided_links_come_before_every_score():
    links = [link("a", "b", 1.0), link("b", "c", verdict="same"), link("a", "c", verdict="different")]
    assert cut(links) == {"a": "a", "b": "b", "c": "b"}


def test_contradiction_names_the_pairs_that_lead_to_it():
    links = [
        link("a", "b", verdict="same"),
        link("c", "b", verdict="same"),
        link("b", "x", verdict="same"),
        link("a", "c", verdict="different"),
    ]
    with pytest.raises(ContradictingDecisionsError) as refused:
        cut(links)
    assert refused.value.details.pairs == (("a", "c", "different"), ("a", "b", "same"), ("c", "b", "same"))
    assert refused.value.message == ("the decision that 'a' and 'c' are different contradicts 'a' and 'b', 'c' and 'b'")


def test_random_clusters_are_cut_as_the_plain_model_cuts_them():
    chance = random.Random(3)  # noqa: S311 - the same at every run
    cuts = 0
    for _ in range(300):
        keys = [f"k{number}" for number in range(chance.randint(2, 8))]
        pairs = [(one, two) for one in keys for two in keys if one < two]
        scored = {pair: chance.choice([0.8, 0.9, 1.0]) for pair in chance.sample(pairs, chance.randint(1, len(pairs)))}
        apart = chance.sample(pairs, chance.randint(0, min(3, len(pairs))))
        evidence = {pair: ("same", score) for pair, score in scored.items()}
        evidence |= dict.fromkeys(apart, ("different by overrule", None))
        links = [link(*pair, score) for pair, score in scored.items() if pair not in apart]
        links += [link(*pair, verdict="different") for pair in apart]
        chance.shuffle(links)
        wanted = {key: min(cluster) for cluster in clusters_of(keys, evidence) for key in cluster}
        cuts += len(set(wanted.values())) > 1
        assert cut(links) == {key: wanted[key] for one in links for key in (one.left, one.right)}
    assert cuts > 100


def test_task_cuts_cluster_by_cluster_across_batches():
    rows = [
        {"label": "a", "left": "a", "right": "b", "score": 0.9, "verdict": None},
        {"label": "a", "left": "a", "right": "c", "score": None, "verdict": "different"},
        {"label": "a", "left": "b", "right": "c", "score": 0.8, "verdict": None},
        {"label": "x", "left": "x", "right": "y", "score": None, "verdict": "same"},
    ]
    kinds = [(name, pa.string()) for name in ("label", "left", "right")] + [
        ("score", pa.float64()),
        ("verdict", pa.string()),
    ]
    table = pa.Table.from_pylist(rows, pa.schema(kinds))
    for size in (1, 2, 10):
        found = pa.Table.from_batches(CutTask().run(iter(table.to_batches(size)))).to_pylist()
        assert {row["key"]: row["part"] for row in found} == {"a": "a", "b": "a", "c": "c", "x": "x", "y": "x"}
