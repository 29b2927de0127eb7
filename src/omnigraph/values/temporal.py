"""Calendar text: dates as days and instants as milliseconds since 1970-01-01 UTC.

The standard library's calendar ends at year 9999 and starts at year 1; a Date column holds more, so the civil
calendar is computed here.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.values.patterns import late_pattern

if TYPE_CHECKING:
    from fractions import Fraction

MS_PER_DAY = 86_400_000
_MIN_DAYS, _MAX_DAYS = -(1 << 31), (1 << 31) - 1
# No legal text is longer; the bound keeps a hostile fraction from being scanned at all.
_MAX_TEXT = 64

_DATE = r"(?P<year>[0-9]{4}|[+-][0-9]{4,7})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_TIME = r"(?P<hour>[0-9]{2})(?P<colon>:?)(?P<minute>[0-9]{2})(?P=colon)(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?"
_ZONE = r" *(?:[Zz]|(?P<sign>[+-])(?P<zone_hour>[0-9]{2})(?::?(?P<zone_minute>[0-9]{2}))?)"
_DASHED = late_pattern(_DATE)
_COMPACT = late_pattern(r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})")
_TIMESTAMP = late_pattern(f"{_DATE}[Tt ]{_TIME}(?:{_ZONE})?")
_FINER = late_pattern(r"\.[0-9]{3}[0-9]*[1-9]")


def parse_date(text: str) -> int:
    """Return the days since the epoch that ``text`` names; a timestamp is cut to its UTC date.

    Raises:
        ValueFormatError: not a date in any accepted form, or outside the 32-bit range.

    >>> parse_date("1970-01-02"), parse_date("2026-01-31T23:30:00-01:00") - parse_date("20260131")
    (1, 1)
    """
    days = _bare_date(text)
    if days is None:
        instant = _timestamp(text)
        days = None if instant is None else instant // MS_PER_DAY
    if days is None:
        raise _malformed("Date", text, "YYYY-MM-DD")
    return check_date_range(days)


def check_date_range(days: int) -> int:
    """Return ``days`` if a Date column can hold it.

    Raises:
        ValueFormatError: outside the 32-bit range.
    """
    if not _MIN_DAYS <= days <= _MAX_DAYS:
        details = BadValue(what="Date", value=str(days), expected="days since 1970-01-01 in 32 bits")
        raise ValueFormatError(f"Date value out of range: {days} days", details=details)
    return days


def parse_datetime(text: str, *, truncate: bool = False) -> int:
    """Return the milliseconds since the epoch that ``text`` names; text without a zone is UTC.

    Args:
        text: an instant.
        truncate: cut digits finer than a millisecond; otherwise only zeros may stand there.

    Raises:
        ValueFormatError: not an instant in any accepted form, or finer than a millisecond.

    >>> parse_datetime("1970-01-01T01:00:00.0010+01:00"), parse_datetime("1970-01-02")
    (1, 86400000)
    >>> parse_datetime("1970-01-01T00:00:00.0019Z", truncate=True)
    1
    """
    instant = _timestamp(text)
    if instant is None:
        days = _bare_date(text) if not text.startswith(("+", "-")) else None
        instant = None if days is None else days * MS_PER_DAY
    if instant is None:
        raise _malformed("DateTime", text, "YYYY-MM-DDTHH:MM:SSZ")
    if not truncate and _FINER.search(text) is not None:
        raise finer_than_kept(text)
    return instant


PRECISION = "precision"
"""What the details of an error call a value that is finer than its column keeps."""


def check_precision(instant_ms: Fraction, *, truncate: bool = False) -> int:
    """Return an instant in whole milliseconds.

    Raises:
        ValueFormatError: it is finer, and ``truncate`` does not allow to cut it.

    >>> from fractions import Fraction
    >>> check_precision(Fraction(-1, 1000), truncate=True)
    -1
    """
    kept = math.floor(instant_ms)
    if not truncate and kept != instant_ms:
        nanos = int((instant_ms - kept) * 1_000_000)
        finer = f"{nanos:06d}".rstrip("0")
        raise finer_than_kept(f"{format_datetime(kept)[:-1]}{finer}Z")
    return kept


def finer_than_kept(text: str) -> ValueFormatError:
    """Return the error for an instant that cannot be kept without loss."""
    details = BadValue(what=PRECISION, value=text, expected="at most three decimals of a second")
    return ValueFormatError(f"{text!r} is finer than a millisecond, which DateTime keeps", details=details)


def format_date(days: int) -> str:
    """Write days since the epoch as ``YYYY-MM-DD``; years outside 0000 to 9999 carry a sign.

    >>> format_date(20484), format_date(-735525)
    ('2026-01-31', '-0044-03-15')
    """
    year, month, day = _civil_from_days(days)
    head = f"{year:04d}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):04d}"
    return f"{head}-{month:02d}-{day:02d}"


def format_datetime(instant_ms: int) -> str:
    """Write milliseconds since the epoch as UTC text with three decimals.

    >>> format_datetime(1769853600000)
    '2026-01-31T10:00:00.000Z'
    """
    days, rest = divmod(instant_ms, MS_PER_DAY)
    seconds, millis = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{format_date(days)}T{hour:02d}:{minute:02d}:{second:02d}.{millis:03d}Z"


def _bare_date(text: str) -> int | None:
    match = _fullmatch(_DASHED, text) or _fullmatch(_COMPACT, text)
    return None if match is None else _days(match)


def _timestamp(text: str) -> int | None:
    match = _fullmatch(_TIMESTAMP, text)
    if match is None or match["year"][0] in "+-":
        return None
    days = _days(match)
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
    # Second 60 is a leap second; the calendar below lets it run over into the next one.
    if days is None or hour > 23 or minute > 59 or second > 60:
        return None
    millis = int(((match["fraction"] or "") + "000")[:3])
    offset = _offset_minutes(match)
    if offset is None:
        return None
    return days * MS_PER_DAY + ((hour * 60 + minute - offset) * 60 + second) * 1000 + millis


def _offset_minutes(match: re.Match[str]) -> int | None:
    if match["sign"] is None:
        return 0
    hours, minutes = int(match["zone_hour"]), int(match["zone_minute"] or "0")
    if hours > 23 or minutes > 59:
        return None
    total = hours * 60 + minutes
    return -total if match["sign"] == "-" else total


def _fullmatch(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return pattern.fullmatch(text) if len(text) <= _MAX_TEXT else None


def _days(match: re.Match[str]) -> int | None:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if not 1 <= month <= 12 or not 1 <= day <= _month_length(year, month):
        return None
    return _days_from_civil(year, month, day)


def _month_length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in {4, 6, 9, 11} else 31


# Years are counted from March, so that the leap day is the last day of a year, in cycles of 400 years.
_DAYS_PER_CYCLE = 146_097
_EPOCH_DAY = 719_468


def _days_from_civil(year: int, month: int, day: int) -> int:
    cycle, year_of_cycle = divmod(year if month > 2 else year - 1, 400)
    day_of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    day_of_cycle = year_of_cycle * 365 + year_of_cycle // 4 - year_of_cycle // 100 + day_of_year
    return cycle * _DAYS_PER_CYCLE + day_of_cycle - _EPOCH_DAY


def _civil_from_days(days: int) -> tuple[int, int, int]:
    cycle, day_of_cycle = divmod(days + _EPOCH_DAY, _DAYS_PER_CYCLE)
    year_of_cycle = (day_of_cycle - day_of_cycle // 1460 + day_of_cycle // 36_524 - day_of_cycle // 146_096) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return cycle * 400 + year_of_cycle + (month <= 2), month, day


def _malformed(what: str, text: str, form: str) -> ValueFormatError:
    shown = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
    details = BadValue(what=what, value=shown, expected=form)
    return ValueFormatError(f"invalid {what} literal {shown!r}", details=details)
