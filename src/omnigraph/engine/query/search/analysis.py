"""From text to terms: the one analysis that stored text and query text share.

A text is split wherever a character is no letter, number or mark; what is left is case-folded, its accents are folded
to ASCII, tokens of more than 40 characters and stop words are dropped, and the rest is stemmed with the English
Snowball algorithm. Every character folds on its own, whatever stands beside it, so a text may be cut at any separator
first and gives the same terms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from Stemmer import Stemmer

MAX_TOKEN_LENGTH = 40
# The classic short list: with a longer one more words could not be found, and BM25 weighs common words low anyway.
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by for if in into is it no not of on or such "
        "that the their then there these they this to was will with",
    )
)


def analyse(text: str) -> list[str]:
    """Return the terms of a text in order, repeated ones included.

    >>> analyse("The Graphs of the Café")
    ['graph', 'cafe']
    """
    return stem(tokens(text))


def tokens(text: str) -> list[str]:
    """Return the folded tokens of a text that are neither too long nor stop words, before stemming."""
    folded = text.translate(_FOLDING)
    if not folded.isascii():
        folded = unicodedata.normalize("NFC", _LOOSE_MARKS.sub("", folded))
    return [token for token in folded.split() if is_kept(token)]


def is_kept(token: str) -> bool:
    """Whether a folded token is neither too long nor a stop word."""
    return len(token) <= MAX_TOKEN_LENGTH and token not in STOP_WORDS


def stem(words: Iterable[str]) -> list[str]:
    """Return the stems of folded tokens, one each."""
    # A stemmer is cheap to make and not safe to share between threads.
    stems: list[str] = Stemmer("english", 0).stemWords(list(words))
    return stems


class _Folding(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold(chr(code))
        return folded


_FOLDING = _Folding()
# Marks that put an accent on a letter; loose ones stand after a letter that was folded, or after no letter at all.
_LOOSE_MARKS = re.compile(r"(?:^|(?<=[\x00-\x7f]))[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
_VARIATION_SELECTORS = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_ZERO_WIDTH_SPACE = "\u200b"
_LETTER_WITH_SOMETHING = re.compile(r"LATIN SMALL LETTER ([A-Z]) WITH ")
_WRITTEN_OUT = {"æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "\u0131": "i", "ŋ": "n", "ȷ": "j"}


def _fold(character: str) -> str:
    category = unicodedata.category(character)
    # Soft hyphens, joiners and variation selectors stand inside words and mean nothing for their spelling.
    if _VARIATION_SELECTORS.match(character) or (category == "Cf" and character != _ZERO_WIDTH_SPACE):
        return ""
    if category[0] not in "LNM":
        return " "
    lower = character.casefold()
    parts = (part for part in unicodedata.normalize("NFKD", lower) if unicodedata.category(part) != "Mn")
    plain = "".join(map(_plain_letter, parts))
    return plain if plain.isascii() and plain.isalnum() else lower


def _plain_letter(letter: str) -> str:
    named = _LETTER_WITH_SOMETHING.match(unicodedata.name(letter, ""))
    return named[1].lower() if named else _WRITTEN_OUT.get(letter, letter)
