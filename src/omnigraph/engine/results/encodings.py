"""The encodings that are written row after row: json, jsonl, csv, kv."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import repeat
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decimals import decimal_texts
from omnigraph.engine.results.info import ReadInfo
from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.values.patterns import late_pattern
from omnigraph.values.temporal import format_date, format_datetime, parse_date, parse_datetime
from omnigraph.values.visible import make_visible

T = TypeVar("T")


def is_nested(of: pa.DataType) -> bool:
    """Whether values of this type hold items."""
    return is_vector(of) or pa.types.is_list(of) or pa.types.is_large_list(of)


def is_vector(of: pa.DataType) -> bool:
    """Whether values of this type are vectors."""
    return bool(pa.types.is_fixed_size_list(of))


def regroup(column: pa.Array, items: Sequence[T]) -> Iterator[list[T] | None]:
    """Yield the items of each row, None for NULL; ``items`` stand for those of ``column.flatten()``."""
    position = 0
    for length in pc.list_value_length(column).to_pylist():
        if length is None:
            yield None
        else:
            yield list(items[position : position + length])
            position += length


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
    if pa.types.is_struct(of):
        return _objects_of(column, is_javascript=is_javascript, margin=margin)
    if pa.types.is_integer(of) and is_javascript:
        return [NULL if value is None else _safe_integer(value) for value in column.to_pylist()]
    if pa.types.is_floating(of):
        return [NULL if value is None else _json_float(value) for value in column.cast(pa.float64()).to_pylist()]
    if pa.types.is_integer(of) or pa.types.is_boolean(of):
        return cell_texts(column)
    return [NULL if word is None else quote_json(word) for word in _words(column)]


def cell_texts(column: pa.Array) -> list[str]:
    """Return every value as a bare cell; lists, vectors and paths are compact JSON."""
    if is_nested(column.type) or pa.types.is_struct(column.type):
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
    if pa.types.is_decimal(of):
        decimals: list[str | None] = decimal_texts(column).to_pylist()
        return decimals
    if pa.types.is_floating(of):
        return [None if value is None else _float(value) for value in column.cast(pa.float64()).to_pylist()]
    if pa.types.is_date32(of):
        return _dates(column.view(pa.int32()))
    if pa.types.is_date64(of):
        return _instants(column.view(pa.int64()))
    raise InternalError(f"a result column of type {of} has no encoding")


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


def _objects_of(column: pa.Array, *, is_javascript: bool, margin: str | None) -> list[str]:
    """Return the JSON of values with named parts, as paths have."""
    inner = None if margin is None else f"{margin}  "
    start, between, end, colon = ("{", ",", "}", ":")
    if margin is not None:
        start, between, end, colon = (f"{{\n{inner}", f",\n{inner}", f"\n{margin}}}", ": ")
    parts = [
        [
            quote_json(field.name) + colon + text
            for text in json_texts(column.field(place), is_javascript=is_javascript, margin=inner)
        ]
        for place, field in enumerate(column.type)
    ]
    rows = zip(column.is_valid().to_pylist(), zip(*parts, strict=True), strict=True)
    return [start + between.join(members) + end if is_there else NULL for is_there, members in rows]


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


CellLayout = Literal["truncate", "wrap"]

_ELLIPSIS = "…"


def display_width(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes.

    >>> display_width("naïve"), display_width("グラフ")
    (5, 6)
    """
    return len(text) if text.isascii() else sum(map(_width, text))


def pad(text: str, width: int) -> str:
    """Fill ``text`` up with spaces to ``width`` columns."""
    return text + " " * (width - display_width(text))


def fit(text: str, width: int, layout: CellLayout) -> list[str]:
    """Return the lines that show ``text`` in ``width`` columns, one line if it is to be cut.

    >>> fit("abcdef", 4, "truncate"), fit("abcdef", 4, "wrap")
    (['abc…'], ['abcd', 'ef'])
    """
    if display_width(text) <= width:
        return [text]
    if layout == "truncate":
        return [_break(text, width - 1)[0] + _ELLIPSIS]
    return _break(text, width)


def _break(text: str, width: int) -> list[str]:
    lines: list[str] = []
    start = used = 0
    for place, character in enumerate(text):
        taken = _width(character)
        if used + taken > width:
            lines.append(text[start:place])
            start, used = place, 0
        used += taken
    return [*lines, text[start:]]


@cache
def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


NO_ROWS = "(no rows)"
_NEEDS_QUOTES = late_pattern('[,"\r\n]')


class TextSink(Protocol):
    """Where text goes: an open file, standard output, a buffer."""

    def write(self, text: str, /) -> object:
        """Take the text."""


@record
class Content:
    """All of a result, ready to be written."""

    info: ReadInfo
    columns: Sequence[str]
    batches: Iterable[pa.RecordBatch]
    row_count: int


def write_json(content: Content, sink: TextSink, *, is_javascript: bool, is_compact: bool = False) -> None:
    """Write one document, indented or on one line."""
    info = content.info
    head = {"query_name": info.query_name, "target": info.target, "row_count": content.row_count}
    if content.columns:
        head["columns"] = list(content.columns)
    if info.written is not None:
        head["written"] = info.written.to_json()
    # The document is written around its rows, so that it never stands in memory as a whole.
    if is_compact:
        _write_compact(content, head, sink, is_javascript=is_javascript)
        return
    sink.write(json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}") + ',\n  "rows": [')
    separator = "\n"
    for row in json_rows(content, is_javascript=is_javascript, margin="    "):
        sink.write(f"{separator}    {row}")
        separator = ",\n"
    sink.write("\n  ]" if content.row_count else "]")
    if info.commit_id is not None:
        sink.write(f',\n  "graph_commit_id": {quote_json(info.commit_id)}')
    if info.warnings:
        listed = ",\n    ".join(map(quote_json, info.warnings))
        sink.write(f',\n  "warnings": [\n    {listed}\n  ]')
    sink.write("\n}\n")


def _write_compact(content: Content, head: dict[str, Any], sink: TextSink, *, is_javascript: bool) -> None:
    info = content.info
    sink.write(json.dumps(head, ensure_ascii=False, separators=(",", ":")).removesuffix("}") + ',"rows":[')
    separator = ""
    for row in json_rows(content, is_javascript=is_javascript, margin=None):
        sink.write(separator + row)
        separator = ","
    sink.write("]")
    if info.commit_id is not None:
        sink.write(f',"graph_commit_id":{quote_json(info.commit_id)}')
    if info.warnings:
        sink.write(f',"warnings":[{",".join(map(quote_json, info.warnings))}]')
    sink.write("}")


def write_jsonl(content: Content, sink: TextSink, *, is_javascript: bool) -> None:
    """Write a line about the read, then one object per line."""
    info = content.info
    head = {
        "kind": "metadata",
        "query_name": info.query_name,
        "target": info.target,
        "row_count": content.row_count,
    }
    if info.written is not None:
        head["written"] = info.written.to_json()
    sink.write(json.dumps(head, ensure_ascii=False, separators=(",", ":")) + "\n")
    for row in json_rows(content, is_javascript=is_javascript, margin=None):
        sink.write(f"{row}\n")


def write_csv(content: Content, sink: TextSink) -> None:
    """Write a header and one line per row."""
    sink.write(",".join(map(_field, content.columns)) + "\n")
    for cells in iter_cells(content):
        sink.write(",".join(map(_field, cells)) + "\n")


def write_kv(content: Content, sink: TextSink) -> None:
    """Write a headline and one line per value."""
    sink.write(f"{content.info.headline(content.row_count)}\n")
    if not content.row_count:
        sink.write(f"{NO_ROWS}\n")
    for number, cells in enumerate(iter_cells(content), start=1):
        gap = "\n" if number > 1 else ""
        lines = [f"{name}: {make_visible(cell)}\n" for name, cell in zip(content.columns, cells, strict=True)]
        sink.write(f"{gap}row {number}\n{''.join(lines)}")


def iter_cells(content: Content) -> Iterator[Sequence[str]]:
    """Yield the cells of each row."""
    for batch in content.batches:
        if batch.num_columns:
            yield from zip(*(cell_texts(column) for column in batch.columns), strict=True)
        else:
            yield from (() for _ in range(batch.num_rows))


def json_rows(content: Content, *, is_javascript: bool, margin: str | None) -> Iterator[str]:
    """Yield each row as a JSON object; of columns that share a name the last one counts."""
    places = {name: place for place, name in enumerate(content.columns)}
    inner = None if margin is None else f"{margin}  "
    start, between, end, colon = ("{", ",", "}", ":")
    if margin is not None and places:
        start, between, end, colon = (f"{{\n{inner}", f",\n{inner}", f"\n{margin}}}", ": ")
    for batch in content.batches:
        members: list[list[str]] = []
        for name, place in places.items():
            key = quote_json(name) + colon
            texts = json_texts(batch.column(place), is_javascript=is_javascript, margin=inner)
            members.append([key + text for text in texts])
        rows = zip(*members, strict=True) if members else (() for _ in range(batch.num_rows))
        for row in rows:
            yield start + between.join(row) + end


def _field(text: str) -> str:
    if _NEEDS_QUOTES.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = _EPOCH.toordinal()


# Types whose values Arrow hands out as something else than we do.
_CONVERTED = frozenset(
    kind.id
    for kind in (pa.date32(), pa.date64(), pa.list_(pa.null()), pa.large_list(pa.null()), pa.list_(pa.null(), 1))
)


def host_rows(columns: Sequence[str], batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Return each row as a dictionary, made when it is drawn; of columns that share a name the last one counts."""
    values = [host_values(column) for column in batch.columns]
    if not values:
        return ({} for _ in range(batch.num_rows))
    if len(values) == 1:
        name = columns[0]
        return iter([{name: value} for value in values[0]])
    # There is a value for every name, whatever the rows are.
    return map(dict, map(zip, repeat(columns), zip(*values, strict=True)))


def host_values(column: pa.Array) -> list[Any]:
    """Return the values of a column, None for NULL.

    A Date or DateTime outside the years 1 to 9999, which Python's calendar lacks, is its text.
    """
    of = column.type
    if of.id not in _CONVERTED:
        found: list[Any] = column.to_pylist()
        return found
    if is_nested(of):
        return list(regroup(column, host_values(column.flatten())))
    if pa.types.is_date32(of):
        return [None if days is None else _date(days) for days in column.view(pa.int32()).to_pylist()]
    # Arrow itself would hand out the date alone and drop the time.
    return [None if instant is None else _instant(instant) for instant in column.view(pa.int64()).to_pylist()]


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
