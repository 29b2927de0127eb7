"""The encodings that are written row after row: json, jsonl, csv, kv."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from omnigraph.engine.results.info import ReadInfo
from omnigraph.engine.results.layout import make_visible
from omnigraph.engine.results.texts import cell_texts, json_texts, quote_json
from omnigraph.records import record

NO_ROWS = "(no rows)"
_NEEDS_QUOTES = re.compile('[,"\r\n]')


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


def write_json(content: Content, sink: TextSink, *, is_javascript: bool) -> None:
    """Write one indented document."""
    info = content.info
    head = {"query_name": info.query_name, "target": info.target, "row_count": content.row_count}
    if content.columns:
        head["columns"] = list(content.columns)
    # The document is written around its rows, so that it never stands in memory as a whole.
    sink.write(json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}") + ',\n  "rows": [')
    separator = "\n"
    for row in _objects(content, is_javascript=is_javascript, margin="    "):
        sink.write(f"{separator}    {row}")
        separator = ",\n"
    sink.write("\n  ]" if content.row_count else "]")
    if info.commit_id is not None:
        sink.write(f',\n  "graph_commit_id": {quote_json(info.commit_id)}')
    sink.write("\n}\n")


def write_jsonl(content: Content, sink: TextSink, *, is_javascript: bool) -> None:
    """Write a line about the read, then one object per line."""
    info = content.info
    head = {
        "kind": "metadata",
        "query_name": info.query_name,
        "target": info.target,
        "row_count": content.row_count,
    }
    sink.write(json.dumps(head, ensure_ascii=False, separators=(",", ":")) + "\n")
    for row in _objects(content, is_javascript=is_javascript, margin=None):
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


def _objects(content: Content, *, is_javascript: bool, margin: str | None) -> Iterator[str]:
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
