"""Values as Python knows them: dates, aware datetimes, lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from omnigraph.engine.results.nesting import is_nested, regroup
from omnigraph.values.temporal import format_date, format_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = _EPOCH.toordinal()


def host_rows(columns: Sequence[str], batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield each row as a dictionary; of columns that share a name the last one counts."""
    values = [host_values(column) for column in batch.columns]
    if not values:
        yield from ({} for _ in range(batch.num_rows))
    for row in zip(*values, strict=True):
        yield dict(zip(columns, row, strict=True))


def host_values(column: pa.Array) -> list[Any]:
    """Return the values of a column, None for NULL.

    A Date or DateTime outside the years 1 to 9999, which Python's calendar lacks, is its text.
    """
    of = column.type
    if is_nested(of):
        return list(regroup(column, host_values(column.flatten())))
    if pa.types.is_date32(of):
        return [None if days is None else _date(days) for days in column.view(pa.int32()).to_pylist()]
    if pa.types.is_date64(of):
        # Arrow itself would hand out the date alone and drop the time.
        return [None if instant is None else _instant(instant) for instant in column.view(pa.int64()).to_pylist()]
    found: list[Any] = column.to_pylist()
    return found


def _date(days: int) -> date | str:
    try:
        return date.fromordinal(_EPOCH_ORDINAL + days)
    except (ValueError, OverflowError):
        return format_date(days)


def _instant(instant_ms: int) -> datetime | str:
    try:
        return _EPOCH + timedelta(milliseconds=instant_ms)
    except OverflowError:
        return format_datetime(instant_ms)
