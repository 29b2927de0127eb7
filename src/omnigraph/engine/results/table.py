"""Tables for people: columns side by side on a terminal, and HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from omnigraph.engine.results.encodings import (
    NO_ROWS,
    CellLayout,
    Content,
    TextSink,
    display_width,
    fit,
    iter_cells,
    pad,
)
from omnigraph.values.visible import make_visible

MAX_COLUMN_WIDTH = 80
_LEAST_CAP = 8
_BETWEEN = 3
# Enough for a sign, a few digits, or the first letters of a word and the mark that it was cut.
_LEAST_SQUEEZED = 4


def write_table(
    content: Content, sink: TextSink, *, max_column_width: int, layout: CellLayout, max_width: int | None = None
) -> None:
    """Write a headline, the column names, a rule, and every row; columns shrink until lines fit ``max_width``."""
    sink.write(f"{content.info.headline(content.row_count)}\n")
    if not content.columns:
        sink.write(f"{NO_ROWS}\n")
        return
    cap = max(max_column_width, _LEAST_CAP)
    names = [make_visible(name) for name in content.columns]
    # A column is as wide as its widest cell, so the last row has to be seen before the first is written.
    rows = [[make_visible(cell) for cell in cells] for cells in iter_cells(content)]
    widths = [min(cap, max(map(display_width, cells))) for cells in zip(names, *rows, strict=True)]
    if max_width is not None:
        widths = _squeeze(widths, max_width - _BETWEEN * (len(widths) - 1))
    for line in _lines(names, widths, layout):
        sink.write(line)
    sink.write("-+-".join("-" * width for width in widths) + "\n")
    for row in rows:
        for line in _lines(row, widths, layout):
            sink.write(line)


def _squeeze(widths: Sequence[int], room: int) -> list[int]:
    """Cut the widest columns to one common width, as large as the room allows; narrower ones stay as they are."""
    least, most = _LEAST_SQUEEZED, max(widths)
    while least < most:
        tried = (least + most + 1) // 2
        if sum(min(width, tried) for width in widths) <= room:
            least = tried
        else:
            most = tried - 1
    return [min(width, least) for width in widths]


def _lines(cells: Sequence[str], widths: Sequence[int], layout: CellLayout) -> Iterator[str]:
    pairs = list(zip(cells, widths, strict=True))
    # Nearly every row is plain and fits, and measuring characters one by one is what would take the time.
    if all(len(cell) <= width and cell.isascii() for cell, width in pairs):
        yield " | ".join([cell.ljust(width) for cell, width in pairs]) + "\n"
        return
    for line in zip_longest(*(fit(cell, width, layout) for cell, width in pairs), fillvalue=""):
        yield " | ".join(pad(part, width) for part, width in zip(line, widths, strict=True)) + "\n"


MAX_ROWS = 50
_MAX_CELL_WIDTH = 200


def html_table(content: Content, shown: int) -> str:
    """Return the table of ``content``, which holds the first ``shown`` rows of a result."""
    return html_rows(
        content.info.headline(content.row_count), content.columns, iter_cells(content), more=content.row_count - shown
    )


def html_rows(caption: str, columns: Iterable[str], rows: Iterable[Iterable[str]], *, more: int = 0) -> str:
    """Return a table of texts; nothing in them becomes markup. ``more`` says how many rows are left out."""
    return "\n".join(_html_lines(caption, columns, rows, more))


def html_problem(shown: object, problem: Exception) -> str:
    """Return what stands in the place of something that cannot be shown."""
    return f"<pre>{_text(repr(shown))}\n{_text(str(problem))}</pre>"


def _html_lines(caption: str, columns: Iterable[str], rows: Iterable[Iterable[str]], more: int) -> Iterator[str]:
    yield '<table class="omnigraph-result">'
    yield f"<caption>{_text(caption)}</caption>"
    yield f"<thead>{_row('th', columns)}</thead>"
    yield "<tbody>"
    yield from (_row("td", cells) for cells in rows)
    yield "</tbody>"
    yield "</table>"
    if more > 0:
        yield f"<p>… and {more} more rows</p>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _text(text: str) -> str:
    from html import escape  # noqa: PLC0415 - for notebooks alone

    return escape(fit(make_visible(text), _MAX_CELL_WIDTH, "truncate")[0])
