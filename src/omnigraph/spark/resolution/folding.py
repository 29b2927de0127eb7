"""Texts without what people write in different ways: accents, letter case, punctuation, spaces."""

from __future__ import annotations

import re
import unicodedata

# Marks above and below a letter. Those of lower classes, of Japanese and Indic scripts say, make it another letter.
_ACCENT_CLASS = 200
# Marks that are written inside of words, as in "O'Brien".
_APOSTROPHES = frozenset("'`\u00b4\u2018\u2019\u02bc\u02b9\uff07")
_ASCII_INSIDE = re.compile(r"['`\x00-\x08\x0e-\x1b\x7f]")
_ASCII_BETWEEN = re.compile(r"[!-#%&(-*,-/:;?@\[-\]_{}\s\x1c-\x1f]+")


def fold(text: str) -> str:
    """Return a text without accents, letter case, punctuation and more than one space in a row.

    Apostrophes and characters that nobody sees vanish, other punctuation separates words. Symbols stay.

    >>> fold("  Renée O'BRIEN-Löwe, Jr. "), fold("Straße #12"), fold("C++ / ガ")
    ('renee obrien lowe jr', 'strasse 12', 'c++ ガ')
    """
    if text.isascii():
        return _ASCII_BETWEEN.sub(" ", _ASCII_INSIDE.sub("", text).lower()).strip()
    plain = unicodedata.normalize("NFKD", _without_apostrophes(text)).casefold()
    kept = [_folded(one) for one in unicodedata.normalize("NFKD", plain)]
    return unicodedata.normalize("NFC", " ".join("".join(kept).split()))


def tokens(text: str) -> list[str]:
    """Return the words of a text, each once, in their order as texts.

    >>> tokens("to be or not to be")
    ['be', 'not', 'or', 'to']
    """
    return sorted(set(text.split()))


def _without_apostrophes(text: str) -> str:
    # Some of them decompose into a space and a mark, and would become a space.
    return "".join(one for one in text if one not in _APOSTROPHES)


def _folded(one: str) -> str:
    if unicodedata.combining(one) >= _ACCENT_CLASS or one in _APOSTROPHES:
        return ""
    if one.isspace():
        return " "
    category = unicodedata.category(one)
    if category in {"Cc", "Cf"}:
        return ""
    return " " if category[0] == "P" else one
