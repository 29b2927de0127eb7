"""Names reach file paths and object keys, so an invalid one must be impossible to hold."""

import pytest

from omnigraph.errors import ValueFormatError
from omnigraph.values import BranchName, TagName


@pytest.mark.parametrize("text", ["main", "a", "review/2026-07", "größe", "a.b-c_d", "x/y/z", "9"])
def test_ordinary_branch_names_are_accepted(text):
    assert BranchName.parse(f"  {text}\n") == text
    assert TagName.parse(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "/a",
        "a/",
        "a//b",
        "a..b",
        "a b",
        "a\\b",
        "x.lock",
        "a~1",
        "a@b",
        "tag:x",
        "a\x00b",
        ".",
        "a/./b",
        "__schema_apply_lock__",
        "Main",
        "MAIN",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "x" * 201,
        "a�",
    ],
)
def test_names_that_break_a_rule_are_refused(text):
    with pytest.raises(ValueFormatError, match="invalid branch name"):
        BranchName.parse(text)
    with pytest.raises(ValueFormatError, match="invalid tag name"):
        TagName.parse(text)


def test_a_branch_overlaps_itself_and_what_lies_under_it():
    review = BranchName("review")
    assert review.overlaps(BranchName("review"))
    assert review.overlaps(BranchName("review/x"))
    assert BranchName("review/x").overlaps(review)
    assert not review.overlaps(BranchName("reviews"))
    assert BranchName("main").is_main
    assert not review.is_main
