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
    return "\n".join(_lines(content, shown))


def _lines(content: Content, shown: int) -> Iterator[str]:
    yield '<table class="omnigraph-result">'
    yield f"<caption>{_text(content.info.headline(content.row_count))}</caption>"
    yield f"<thead>{_row('th', content.columns)}</thead>"
    yield "<tbody>"
    yield from (_row("td", cells) for cells in iter_cells(content))
    yield "</tbody>"
    yield "</table>"
    if content.row_count > shown:
        yield f"<p>… and {content.row_count - shown} more rows</p>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _text(text: str) -> str:
    return escape(fit(make_visible(text), _MAX_CELL_WIDTH, "truncate")[0])
