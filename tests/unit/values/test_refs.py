"""One text form per way of naming a state, never two meanings for one text."""

import pytest

from omnigraph.errors import ValueFormatError
from omnigraph.values.refs import AncestorRef, BranchRef, CommitRef, TagRef, TimeRef, parse_ref


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main", BranchRef),
        ("team/x", BranchRef),
        ("main~3", AncestorRef),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", CommitRef),
        ("tag:v1.0", TagRef),
        ("main@2026-01-31T10:00:00Z", TimeRef),
    ],
)
def test_each_form_is_recognised_and_prints_as_it_was_written(text, expected):
    ref = parse_ref(f" {text} ")
    assert type(ref) is expected
    assert str(ref) == text


def test_a_bare_tilde_means_the_parent():
    assert parse_ref("main~") == AncestorRef("main", 1)


def test_a_moment_is_held_in_milliseconds():
    assert parse_ref("main@1970-01-01T00:00:01Z").at_ms == 1000


@pytest.mark.parametrize(
    "text", ["", "~", "~1", "main~x", "main~1~2", "main~-1", "tag:", "@2026-01-01", "main@", "main@soon", "a b"]
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueFormatError):
        parse_ref(text)
