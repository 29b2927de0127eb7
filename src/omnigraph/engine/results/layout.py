"""Text for a terminal: what cannot be seen is made visible, and cells are measured, cut and broken."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Literal

CellLayout = Literal["truncate", "wrap"]

_ELLIPSIS = "…"
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Controls move the cursor or run commands of the terminal; the others reorder or break the line around them.
_HIDDEN = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE = {code: _NAMED.get(chr(code), f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}") for code in _HIDDEN}


def make_visible(text: str) -> str:
    r"""Return ``text`` with every character spelled out that would act on the line instead of standing in it.

    >>> make_visible("a\nb\x1b[1m")
    'a\\nb\\x1b[1m'
    """
    return text if text.isprintable() else text.translate(_VISIBLE)


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
