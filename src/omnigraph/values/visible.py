"""``make_visible``: text from outside as it may stand on a line of a terminal."""

from __future__ import annotations

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
