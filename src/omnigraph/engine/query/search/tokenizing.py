"""Whole columns of text to terms, without a Python step per row.

Bytes are split at ASCII separators with numpy, Arrow numbers the distinct words, and only those go through the
analysis, which also splits them at separators beyond ASCII.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.search.analysis import is_kept, stem, tokens

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
