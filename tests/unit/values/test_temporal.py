"""Dates and instants as text."""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

import pytest

from omnigraph.errors import ValueFormatError
from omnigraph.values.temporal import (
    check_date_range,
    check_precision,
    format_date,
    format_datetime,
    parse_date,
    parse_datetime,
)


def test_dates_agree_with_the_calendar_of_the_standard_library() -> None:
    start = date(1, 1, 1)
    for offset in range(0, 3_652_000, 997):
        day = start + timedelta(days=offset)
        days = (day - date(1970, 1, 1)).days
        assert parse_date(day.isoformat()) == days
        assert format_date(days) == day.isoformat()


@pytest.mark.parametrize("days", [-(1 << 31), -800_000, -719_529, 0, 10_000_000, (1 << 31) - 1])
def test_long_years_survive_the_way_through_text(days: int) -> None:
    assert parse_date(format_date(days)) == days


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2026-1-3", 20456),
        ("20260103", 20456),
        ("-0044-03-15", -735525),
        ("+12024-01-05", 3672152),
        ("2026-01-03T00:30:00+01:00", 20455),
        ("2026-01-03t23:30:00 -0100", 20457),
        ("2024-02-29", 19782),
        ("2000-02-29", 11016),
    ],
)
def test_forms_of_a_date(text: str, days: int) -> None:
    assert parse_date(text) == days


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00z", 0),
        ("1970-01-01 00:00:00", 0),
        ("1970-01-01T000001", 1000),
        ("1970-01-01T00:00:00.9990Z", 999),
        ("1970-01-01T00:00:00.5 +00", 500),
        ("1970-01-01T01:00:00+0100", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("1970-01-01T00:00:60Z", 60_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-01-02", 86_400_000),
        ("19700102", 86_400_000),
        ("0000-01-01", -62_167_219_200_000),
    ],
)
def test_forms_of_an_instant(text: str, instant: int) -> None:
    assert parse_datetime(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-31T10:00",
        "2026-01-31T10",
        "2026-01-31T10:0000Z",
        "2026-01-31T10:00:00PST",
        "2026-01-31T24:00:00Z",
        "2026-01-31T10:60:00Z",
        "2026-01-31T10:00:61Z",
        "2026-01-31T10:00:00.Z",
        "2026-01-31T10:00:00+24:00",
        "2026-01-31T10:00:00+5",
        "2026-13-01",
        "2026-02-29",
        "2100-02-29",
        "2026-00-01",
        "2026-01-00",
        "26-01-31",
        "Jan 31, 2026",
        "2026-W05-6",
        "2026-031",
        " 2026-01-31",
        "2026-01-31\n",
        "\u0662026-01-31",
        "2026-01-31T10:00:00." + "0" * 100,
    ],
)
def test_what_is_neither_date_nor_instant(text: str) -> None:
    with pytest.raises(ValueFormatError, match="invalid DateTime literal"):
        parse_datetime(text)
    with pytest.raises(ValueFormatError, match="invalid Date literal"):
        parse_date(text)


def test_a_date_column_ends_at_32_bits() -> None:
    with pytest.raises(ValueFormatError, match="Date value out of range"):
        parse_date("+9999999-01-01")
    with pytest.raises(ValueFormatError, match="Date value out of range"):
        check_date_range(1 << 31)


def test_instants_are_written_with_three_decimals() -> None:
    assert format_datetime(-1) == "1969-12-31T23:59:59.999Z"
    assert format_datetime(parse_datetime("2026-01-31T10:00:00+01:00")) == "2026-01-31T09:00:00.000Z"


@pytest.mark.parametrize("text", ["1970-01-01T00:00:00.0001Z", "1970-01-01 01:00:00.9999 +01:00"])
def test_instant_finer_than_a_millisecond_is_cut_only_on_request(text: str) -> None:
    with pytest.raises(ValueFormatError, match="is finer than a millisecond"):
        parse_datetime(text)
    assert parse_datetime(text, truncate=True) in {0, 999}


def test_fraction_of_a_millisecond_is_shown_with_all_of_its_digits() -> None:
    assert check_precision(Fraction(2000, 1000)) == 2
    with pytest.raises(ValueFormatError, match=r"'1969-12-31T23:59:59\.999999999Z' is finer"):
        check_precision(Fraction(-1, 1_000_000))
