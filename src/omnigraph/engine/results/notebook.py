"""Results in notebooks: an HTML table of the first rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from omnigraph.engine.results.encodings import Content, iter_cells
from omnigraph.engine.results.layout import fit, make_visible

MAX_ROWS = 50
_MAX_CELL_WIDTH = 200


def html_table(content: Content, shown: int) -> str:
    """Return the table of ``content``, which holds the first ``shown`` rows of a result."""
    return html_rows(
        content.info.headline(content.row_count), content.columns, iter_cells(content), more=content.row_count - shown
    )


def html_rows(caption: str, columns: Iterable[str], rows: Iterable[Iterable[str]], *, more: int = 0) -> str:
    """Return a table of texts; nothing in them becomes markup. ``more`` says how many rows are left out."""
    return "\n".join(_lines(caption, columns, rows, more))


def html_problem(shown: object, problem: Exception) -> str:
    """Return what stands in the place of something that cannot be shown."""
    return f"<pre>{_text(repr(shown))}\n{_text(str(problem))}</pre>"


def _lines(caption: str, columns: Iterable[str], rows: Iterable[Iterable[str]], more: int) -> Iterator[str]:
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
    return escape(fit(make_visible(text), _MAX_CELL_WIDTH, "truncate")[0])
