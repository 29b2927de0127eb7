"""Dates as days, instants as milliseconds, both since 1970, and intervals; texts of all three."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from tests.query_oracle.faults import Fault

DAY_MS = 86_400_000
DATE_UNITS = ("year", "quarter", "month", "week", "day")
UNITS = (*DATE_UNITS, "hour", "minute", "second")
_UNIT_MS = {"hour": 3_600_000, "minute": 60_000, "second": 1_000}
_EPOCH = date(1970, 1, 1)
_EPOCH_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Interval:
    """Months, which have no fixed length, and milliseconds, which have one."""

    months: int
    ms: int

    @property
    def size(self) -> int:
        """Milliseconds for comparisons: a month counts as thirty days."""
        return self.months * 30 * DAY_MS + self.ms

    def __neg__(self) -> Interval:
        return Interval(-self.months, -self.ms)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.months + other.months, self.ms + other.ms)

    def count(self, unit_ms: int) -> float:
        """Return how many units the interval is."""
        return float(Fraction(self.size, unit_ms))


def shift_date(days: int, by: Interval) -> int:
    """Return a date moved by an interval: months first, then the time from midnight, then the date of that instant."""
    return shift_instant(days * DAY_MS, by) // DAY_MS


def shift_instant(ms: int, by: Interval) -> int:
    """Return an instant moved by an interval: months first, to the last day of the month if need be."""
    days, rest = divmod(ms, DAY_MS)
    moved = _shift_months(days, by.months) * DAY_MS + rest + by.ms
    _day(moved // DAY_MS)
    return moved


def _shift_months(days: int, months: int) -> int:
    start = _day(days)
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise Fault("overflow", f"year {year}")
    last = calendar.monthrange(year, month + 1)[1]
    return (date(year, month + 1, min(start.day, last)) - _EPOCH).days


def _day(days: int) -> date:
    try:
        return _EPOCH + timedelta(days=days)
    except OverflowError as error:
        raise Fault("overflow", f"day {days}") from error


def date_part(part: str, days: int) -> int:
    """Return the year, month, day or weekday of a date; Monday is 1."""
    found = _day(days)
    return found.isoweekday() if part == "weekday" else getattr(found, part)


def time_part(part: str, ms: int) -> int:
    """Return the hour or minute of an instant."""
    of_day = ms % DAY_MS
    return of_day // 3_600_000 if part == "hour" else of_day // 60_000 % 60


def trunc_date(unit: str, days: int) -> int:
    """Return the first day of the year, quarter, month or week that holds the date."""
    found = _day(days)
    match unit:
        case "year":
            found = found.replace(month=1, day=1)
        case "quarter":
            found = found.replace(month=found.month - (found.month - 1) % 3, day=1)
        case "month":
            found = found.replace(day=1)
        case "week":
            return days - found.weekday()
    return (found - _EPOCH).days


def trunc_instant(unit: str, ms: int) -> int:
    """Return the first instant of the unit that holds the instant."""
    if unit in _UNIT_MS:
        return ms - ms % _UNIT_MS[unit]
    return trunc_date(unit, ms // DAY_MS) * DAY_MS


def read_date(text: str) -> int | None:
    """Return the days of ``YYYY-MM-DD``, or of the UTC date of a longer text; None if it is neither."""
    if not _DATE.fullmatch(text):
        instant = read_instant(text)
        return None if instant is None else instant // DAY_MS
    try:
        return (date.fromisoformat(text) - _EPOCH).days
    except ValueError:
        return None


def read_instant(text: str) -> int | None:
    """Return the milliseconds of an ISO 8601 text, cut below a millisecond; None if it is none."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    day, hour, minute, second, fraction, zone = found.groups()
    padded = f"{fraction or '':0<3}"[:3]
    zone = "+00:00" if zone in {None, "Z"} else zone
    try:
        instant = datetime.fromisoformat(f"{day}T{hour or '00'}:{minute or '00'}:{second or '00'}.{padded}{zone}")
    except ValueError:
        return None
    return (instant - _EPOCH_INSTANT) // timedelta(milliseconds=1)


def write_date(days: int) -> str:
    """Return ``YYYY-MM-DD``."""
    return _day(days).isoformat()


def write_instant(ms: int) -> str:
    """Return the text of an instant in UTC, with its milliseconds."""
    instant = _EPOCH_INSTANT + timedelta(milliseconds=ms)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
