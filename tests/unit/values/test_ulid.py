"""Ids are sorted as text in storage, so their text must sort by time."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ValueFormatError
from omnigraph.values import Ulid, is_ulid

MILLISECONDS = st.integers(0, (1 << 48) - 1)
ENTROPY = st.integers(0, (1 << 80) - 1)


@given(MILLISECONDS, ENTROPY)
def test_parts_survive_the_text_form(milliseconds, entropy):
    ulid = Ulid.parse(str(Ulid.from_parts(milliseconds, entropy)))
    assert (ulid.timestamp_ms, ulid.entropy) == (milliseconds, entropy)


@given(MILLISECONDS, ENTROPY, MILLISECONDS, ENTROPY)
def test_text_sorts_as_time_then_entropy(first_ms, first_entropy, second_ms, second_entropy):
    by_text = Ulid.from_parts(first_ms, first_entropy) < Ulid.from_parts(second_ms, second_entropy)
    assert by_text == ((first_ms, first_entropy) < (second_ms, second_entropy))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "01ARZ3NDEKTSV4RRFFQ69G5FA",
        "01ARZ3NDEKTSV4RRFFQ69G5FAVX",
        "01arz3ndektsv4rrffq69g5fav",
        "81ARZ3NDEKTSV4RRFFQ69G5FAV",
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        "01ARZ3NDEKTSV4RRFFQ69G5FA\n",
    ],
)
def test_text_that_is_no_ulid_is_refused(text):
    assert not is_ulid(text)
    with pytest.raises(ValueFormatError, match="invalid ULID"):
        Ulid.parse(text)


@pytest.mark.parametrize(("milliseconds", "entropy"), [(-1, 0), (1 << 48, 0), (0, -1), (0, 1 << 80)])
def test_parts_that_do_not_fit_are_refused(milliseconds, entropy):
    with pytest.raises(ValueFormatError, match="do not fit"):
        Ulid.from_parts(milliseconds, entropy)


def test_a_ulid_is_pickled_as_itself():
    ulid = Ulid.from_parts(5, 6)
    copy = pickle.loads(pickle.dumps(ulid))  # noqa: S301 - our own bytes
    assert copy == ulid
    assert type(copy) is Ulid
