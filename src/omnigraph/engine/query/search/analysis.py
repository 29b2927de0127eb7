"""From text to terms: the one analysis that stored text and query text share.

A text is split wherever a character is no letter, number or mark; what is left is case-folded, its accents are folded
to ASCII, tokens of more than 40 characters and stop words are dropped, and the rest is stemmed with the English
Snowball algorithm. Every character folds on its own, whatever stands beside it, so a text may be cut at any separator
first and gives the same terms.

Bytes are split at ASCII separators with numpy, Arrow numbers the distinct words, and only those go through the
analysis, which also splits them at separators beyond ASCII.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from Stemmer import Stemmer
from Stemmer import version as stemmer_version

from omnigraph.values.patterns import late_pattern

# Raised whenever some text gives other terms than before: stored postings of another analysis are not used.
REVISION = 1
# Letters and stems are what these say.
ANALYSER = f"{REVISION}; Unicode {unicodedata.unidata_version}; Snowball {stemmer_version()}"
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
_LOOSE_MARKS = late_pattern(
    r"(?:^|(?<=[\x00-\x7f]))[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_VARIATION_SELECTORS = late_pattern(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_ZERO_WIDTH_SPACE = "\u200b"
_LETTER_WITH_SOMETHING = late_pattern(r"LATIN SMALL LETTER ([A-Z]) WITH ")
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


# Small enough that a cancelled query stops soon.
_BATCH_BYTES = 4 << 20

Numbers = npt.NDArray[np.int64]


class Vocabulary:
    """The terms met so far, numbered from 0 in order of appearance."""

    def __init__(self) -> None:
        self.terms: dict[str, int] = {}
        self._known: dict[str, tuple[int, ...]] = {}

    def number(self, words: list[str]) -> tuple[Numbers, Numbers]:
        """Return the term numbers of words one after another, and how many terms each word has."""
        self._learn([word for word in words if word not in self._known])
        found = [self._known[word] for word in words]
        counts = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
        numbers = np.fromiter((one for each in found for one in each), dtype=np.int64, count=int(counts.sum()))
        return numbers, counts

    def _learn(self, words: list[str]) -> None:
        # An ASCII word arrives folded, and there is nothing to split it at.
        split = [[word] * is_kept(word) if word.isascii() else tokens(word) for word in words]
        stems = iter(stem(token for each in split for token in each))
        for word, each in zip(words, split, strict=True):
            self._known[word] = tuple(self.terms.setdefault(next(stems), len(self.terms)) for _ in each)


def batches(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the texts in order as arrays of bounded size, NULL as the empty text."""
    for chunk in texts.chunks:
        plain = pc.fill_null(chunk.cast(pa.large_string()), "")
        ends = _offsets(plain)[1:]
        start = 0
        while start < len(plain):
            stop = int(np.searchsorted(ends, _offsets(plain)[start] + _BATCH_BYTES, side="right"))
            stop = max(stop, start + 1)
            yield plain[start:stop]
            start = stop


def term_occurrences(texts: pa.Array, vocabulary: Vocabulary) -> tuple[Numbers, Numbers]:
    """Return row and term number of every term of a batch, rows ascending."""
    offsets = _offsets(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    rows, words = _split(data, offsets - offsets[0])
    encoded = words.dictionary_encode()
    numbers, counts = vocabulary.number(encoded.dictionary.to_pylist())
    which = encoded.indices.to_numpy()
    return _spread(rows, which, numbers, counts)


def _offsets(texts: pa.Array) -> Numbers:
    if not len(texts):
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(texts.buffers()[1], dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]


def _byte_folding() -> npt.NDArray[np.uint8]:
    """Return what each byte becomes: 0 for an ASCII separator, ASCII letters in lower case, the rest as it is."""
    folding = np.arange(256, dtype=np.uint8)
    for code in range(128):
        folding[code] = ord(chr(code).lower()) if chr(code).isalnum() else 0
    return folding


_BYTE_FOLDING = _byte_folding()


def _split(data: npt.NDArray[np.uint8], offsets: Numbers) -> tuple[Numbers, pa.Array]:
    folded = _BYTE_FOLDING[data]
    inside = folded != 0
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    # A word ends with its text, even if the next text begins without a separator.
    firsts = offsets[:-1][offsets[:-1] < offsets[1:]]
    begins[firsts] = inside[firsts]
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(np.searchsorted(np.flatnonzero(begins), offsets)))
    kept = folded[inside]
    starts = np.append(np.flatnonzero(begins[inside]), len(kept)).astype(np.int64)
    words = pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(starts), pa.py_buffer(kept))
    return rows, words


def _spread(rows: Numbers, which: Numbers, numbers: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Replace each word by its terms: most have one, stop words none, words of other scripts several."""
    if not len(counts) or counts.max() <= 1:
        of_word = np.full(len(counts), -1, dtype=np.int64)
        of_word[counts == 1] = numbers
        terms = of_word[which]
        is_term = terms >= 0
        return rows[is_term], terms[is_term]
    firsts = np.cumsum(counts) - counts
    each = counts[which]
    ends = np.cumsum(each)
    within = np.arange(ends[-1]) - np.repeat(ends - each, each)
    return np.repeat(rows, each), numbers[np.repeat(firsts[which], each) + within]


# Words looked at together: few enough that the rows of the distance table stay in a processor's cache.
_BLOCK = 1 << 14


class Spellings:
    """Words grouped by length, each group a matrix of code points with one column per word."""

    def __init__(self, words: Iterable[str]) -> None:
        groups: defaultdict[int, list[str]] = defaultdict(list)
        for word in words:
            groups[len(word)].append(word)
        self._groups = {length: (found, _code_points(found)) for length, found in groups.items()}

    def within(self, word: str, max_edits: int) -> dict[str, int]:
        """Return the words within ``max_edits`` edits of ``word``, with their distance."""
        near: dict[str, int] = {}
        for length, (words, columns) in self._groups.items():
            if abs(length - len(word)) > max_edits:
                continue
            for start in range(0, len(words), _BLOCK):
                distances = _distances(word, columns[:, start : start + _BLOCK])
                for hit in np.flatnonzero(distances <= max_edits):
                    near[words[start + hit]] = int(distances[hit])
        return near


def _code_points(words: list[str]) -> npt.NDArray[np.uint32]:
    flat = np.frombuffer("".join(words).encode("utf-32-le"), dtype="<u4")
    return np.ascontiguousarray(flat.reshape(len(words), -1).T)


def _distances(word: str, columns: npt.NDArray[np.uint32]) -> npt.NDArray[np.int16]:
    """Return the distance of ``word`` to every column; one row of the classic table is kept per letter of ``word``."""
    length, count = columns.shape
    above = np.repeat(np.arange(length + 1, dtype=np.int16)[:, None], count, axis=1)
    row = np.empty_like(above)
    for index, letter in enumerate(map(ord, word), start=1):
        row[0] = index
        replaced = above[:-1] + (columns != letter)
        np.minimum(replaced, above[1:] + 1, out=row[1:])
        for place in range(1, length + 1):
            np.minimum(row[place], row[place - 1] + 1, out=row[place])
        above, row = row, above
    return above[length]
