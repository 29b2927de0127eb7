"""Columns of values as text: JSON, and the bare cells of CSV, kv and tables."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.results.nesting import is_nested, is_vector, regroup
from omnigraph.errors import InternalError
from omnigraph.values.temporal import format_date, format_datetime, parse_date, parse_datetime

NULL = "null"

# The largest integer that a JavaScript number tells from its neighbours.
_MAX_SAFE = (1 << 53) - 1
# Between these Arrow writes the calendar exactly as we do, and much faster.
_FIRST_DAY, _LAST_DAY = parse_date("0001-01-01"), parse_date("9999-12-31")
_FIRST_MS, _LAST_MS = parse_datetime("0001-01-01T00:00:00Z"), parse_datetime("9999-12-31T23:59:59.999Z")

quote_json = json.JSONEncoder(ensure_ascii=False).encode


def json_texts(column: pa.Array, *, is_javascript: bool = False, margin: str | None = None) -> list[str]:
    """Return the JSON of every value.

    Args:
        column: the values.
        is_javascript: write integers that a double cannot hold as text.
        margin: what the line of the value begins with, to spread lists over lines; None keeps them on one.
    """
    of = column.type
    if is_nested(of):
        items = (
            _member_texts(column.flatten())
            if is_vector(of)
            else json_texts(column.flatten(), is_javascript=is_javascript)
        )
        return [NULL if group is None else _array(group, margin) for group in regroup(column, items)]
    if pa.types.is_integer(of) and is_javascript:
        return [NULL if value is None else _safe_integer(value) for value in column.to_pylist()]
    if pa.types.is_floating(of):
        return [NULL if value is None else _json_float(value) for value in column.cast(pa.float64()).to_pylist()]
    if pa.types.is_integer(of) or pa.types.is_boolean(of):
        return cell_texts(column)
    return [NULL if word is None else quote_json(word) for word in _words(column)]


def cell_texts(column: pa.Array) -> list[str]:
    """Return every value as a bare cell; lists and vectors are compact JSON."""
    if is_nested(column.type):
        return json_texts(column)
    return [NULL if word is None else word for word in _words(column)]


def _words(column: pa.Array) -> list[str | None]:
    of = column.type
    if pa.types.is_string(of) or pa.types.is_large_string(of):
        found: list[str | None] = column.to_pylist()
        return found
    if pa.types.is_boolean(of):
        return [None if value is None else "true" if value else "false" for value in column.to_pylist()]
    if pa.types.is_integer(of):
        return [None if value is None else str(value) for value in column.to_pylist()]
    if pa.types.is_floating(of):
        return [None if value is None else _float(value) for value in column.cast(pa.float64()).to_pylist()]
    if pa.types.is_date32(of):
        return _dates(column.view(pa.int32()))
    if pa.types.is_date64(of):
        return _instants(column.view(pa.int64()))
    raise InternalError(f"a result has a column that no encoding knows: type={of}")


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _json_float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'"{_float(value)}"'


def _member_texts(members: pa.Array) -> list[str]:
    values = members.cast(pa.float64()).to_pylist()
    return [NULL if value is None or not math.isfinite(value) else repr(value) for value in values]


def _safe_integer(value: int) -> str:
    return str(value) if -_MAX_SAFE <= value <= _MAX_SAFE else f'"{value}"'


def _array(items: list[str], margin: str | None) -> str:
    if margin is None or not items:
        return f"[{','.join(items)}]"
    inner = f",\n{margin}  ".join(items)
    return f"[\n{margin}  {inner}\n{margin}]"


def _dates(days: pa.Array) -> list[str | None]:
    if _is_within(days, _FIRST_DAY, _LAST_DAY):
        usual: list[str | None] = days.view(pa.date32()).cast(pa.string()).to_pylist()
        return usual
    return [None if value is None else format_date(value) for value in days.to_pylist()]


def _instants(instants_ms: pa.Array) -> list[str | None]:
    if _is_within(instants_ms, _FIRST_MS, _LAST_MS):
        usual = instants_ms.view(pa.timestamp("ms")).cast(pa.string()).to_pylist()
        return [None if text is None else f"{text[:10]}T{text[11:]}Z" for text in usual]
    return [None if value is None else format_datetime(value) for value in instants_ms.to_pylist()]


def _is_within(counts: pa.Array, first: int, last: int) -> bool:
    bounds = pc.min_max(counts).as_py()
    return bounds["min"] is None or (bounds["min"] >= first and bounds["max"] <= last)
