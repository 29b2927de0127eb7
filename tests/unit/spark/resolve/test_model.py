"""What an entity resolution is told is checked when it is written down."""

from __future__ import annotations

import pytest

from omnigraph.errors import UsageError
from omnigraph.spark import Comparison, EvidenceNames, Overrule, Resolution
from omnigraph.spark.resolution import ResolveCounts

NAME = Comparison(column="name")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"column": ""}, "column"),
        ({"column": 3}, "column"),
        ({"method": "jaro"}, "method"),
        ({"weight": 0}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"weight": -1}, "weight"),
        ({"missing": 1.5}, "missing"),
        ({"fold": "yes"}, "fold"),
        ({"metric": "dot"}, "metric"),
        ({"reach": 0.0}, "reach"),
        ({"name": 1}, "name"),
    ],
)
def test_unfit_comparison_is_refused(given, what):
    with pytest.raises((UsageError, ValueError)) as refused:
        Comparison(**{"column": "name"} | given)
    assert refused.value.details.what == what


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"blocking": ()}, "blocking"),
        ({"blocking": "name"}, "blocking"),
        ({"blocking": ("name", " ")}, "blocking"),
        ({"comparisons": ()}, "comparisons"),
        ({"comparisons": NAME}, "comparisons"),
        ({"comparisons": ("name",)}, "comparisons"),
        ({"comparisons": (NAME, NAME)}, "comparisons"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": 1.1}, "threshold"),
        ({"review": 0.9}, "review"),
        ({"review": 0}, "review"),
        ({"max_block_rows": 1}, "max_block_rows"),
        ({"on_large_block": "cut"}, "on_large_block"),
    ],
)
def test_unfit_resolution_is_refused(given, what):
    with pytest.raises(UsageError) as refused:
        Resolution(**{"blocking": ["name"], "comparisons": [NAME], "threshold": 0.9} | given)
    assert refused.value.details.what == what


def test_lists_become_tuples_and_names_default_to_columns():
    made = Resolution(blocking=["a", "b"], comparisons=[NAME], threshold=1)
    assert (made.blocking, made.comparisons[0].name, made.floor) == (("a", "b"), "name", 1)
    assert Resolution(blocking=["a"], comparisons=[NAME], threshold=0.9, review=0.5).floor == 0.5


@pytest.mark.parametrize(("left", "right", "decision"), [("a", "a", "same"), ("a", "b", "equal"), ("a", None, "same")])
def test_unfit_overrule_is_refused(left, right, decision):
    with pytest.raises(UsageError):
        Overrule(left=left, right=right, decision=decision)


@pytest.mark.parametrize("given", [{"entity": ""}, {"pair": ""}, {"scores": "name"}])
def test_unfit_names_are_refused(given):
    with pytest.raises(UsageError):
        EvidenceNames(**{"entity": "Entity", "member": "SameAs"} | given)


def test_counts_warn_of_what_was_left_out():
    none = dict.fromkeys(ResolveCounts.__dataclass_fields__, 0)
    assert ResolveCounts(**none).warnings == ()
    assert ResolveCounts(**none | {"skipped_blocks": 2, "skipped_pairs": 3000, "unknown_overrules": 1}).warnings == (
        "2 blocks were too large and skipped, with 3,000 pairs",
        "1 decisions name records that do not exist",
    )
