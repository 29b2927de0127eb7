"""Levenshtein distance from one word to many, all words of one length at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

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
