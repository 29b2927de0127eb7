"""Decimal numbers: exact texts, digits that fit, and no rounding by anyone's context."""

from __future__ import annotations

import pickle
from decimal import Decimal, localcontext

import pytest

from omnigraph.errors import ValueFormatError
from omnigraph.values.decimals import (
    WrittenFloat,
    canonical_decimal,
    decimal_of_float,
    decimal_text,
    digits_of,
    fit_decimal,
    parse_decimal,
    round_half_away,
    scaled,
    unscaled,
)

_NINES = "9" * 38


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.50", "1.50"), ("+.5", "0.5"), ("5.", "5"), ("-2e3", "-2000"), ("1E-7", "0.0000001"), (_NINES, _NINES)],
)
def test_texts_are_read_exactly(text, expected):
    assert decimal_text(parse_decimal(text)) == expected


@pytest.mark.parametrize("text", ["", ".", "1,5", " 1", "1 ", "NaN", "inf", "1_000", "0x1", "\uff11", "1e", "9" * 500])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueFormatError, match="invalid Decimal"):
        parse_decimal(text)


def test_nothing_is_rounded_by_the_context_of_the_thread():
    with localcontext() as context:
        context.prec = 3
        assert fit_decimal(parse_decimal(_NINES), 38, 0) == Decimal(_NINES)
        assert scaled(int(_NINES), 38) == Decimal(f"0.{_NINES}")
        assert canonical_decimal(parse_decimal(f"-{_NINES}")) == f"-{_NINES}"
        assert unscaled(parse_decimal("123456.789"), 3) == 123456789


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        ("1.5", (4, 2), "1.50"),
        ("99.99", (4, 2), "99.99"),
        ("99.995", (4, 2), None),
        ("100", (4, 2), None),
        ("1e2", (5, 2), "100.00"),
        ("1e-300", (38, 38), None),
        ("1e300", (38, 0), None),
        ("0e300", (1, 0), "0"),
        ("-0.0", (2, 1), "0.0"),
        (f"0.{_NINES}", (38, 38), f"0.{_NINES}"),
    ],
)
def test_a_value_fits_exactly_or_not_at_all(value, digits, expected):
    found = fit_decimal(parse_decimal(value), *digits)
    assert (None if found is None else decimal_text(found)) == expected


def test_a_float_is_the_number_it_was_written_as_where_it_still_tells():
    assert decimal_of_float(WrittenFloat("0.1000000000000000055")) == Decimal("0.1000000000000000055")
    assert decimal_of_float(12.5) == Decimal("12.5")
    assert decimal_of_float(float("nan")) is None
    assert decimal_of_float(1 / 3) is None
    copy = pickle.loads(pickle.dumps(WrittenFloat("0.10")))  # noqa: S301 - our own bytes
    assert (copy, copy.text) == (0.1, "0.10")


def test_halves_go_away_from_zero():
    assert [round_half_away(number, 10) for number in (5, 4, -5, -4, 15, -15)] == [1, 0, -1, 0, 2, -2]
    assert round_half_away(-7, -2) == 4


def test_the_digits_of_a_literal():
    assert [digits_of(Decimal(text)) for text in ("0", "0.05", "1e3", "-12.50")] == [(1, 0), (2, 2), (4, 0), (4, 2)]
