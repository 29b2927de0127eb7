"""The postings of some rows: which term stands in which of them, and how often. Immutable, shared by index versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.search.edits import Spellings
from omnigraph.engine.query.search.tokenizing import Vocabulary, batches, term_occurrences

# Bytes that one byte of text may take while it is turned into postings.
_WORKING_FACTOR = 8
_DOC_BITS = 32
_DOC_MASK = (1 << _DOC_BITS) - 1
# A Python string with its place in a dictionary.
_TERM_BYTES = 150


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Postings in CSR form: those of term ``t`` stand at ``offsets[t]:offsets[t + 1]`` of ``rows`` and ``counts``.

    ``lengths`` holds the number of terms of every row. Rows are numbered from 0 within the segment.
    """

    terms: dict[str, int]
    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]

    @classmethod
    def build(cls, texts: pa.ChunkedArray, check: Callable[[int], None]) -> Segment:
        """Analyse texts; ``check`` is asked before each step that takes memory or time."""
        vocabulary = Vocabulary()
        keys: list[npt.NDArray[np.int64]] = []
        lengths: list[npt.NDArray[np.int64]] = []
        start = held = 0
        for batch in batches(texts):
            check(held + _WORKING_FACTOR * batch.nbytes)
            rows, terms = term_occurrences(batch, vocabulary)
            lengths.append(np.bincount(rows, minlength=len(batch)))
            keys.append((terms << _DOC_BITS) | (rows + start))
            start += len(batch)
            held += keys[-1].nbytes + lengths[-1].nbytes
        check(3 * held)
        together = np.concatenate([np.zeros(0, dtype=np.int64), *keys])
        keys.clear()
        together.sort()
        return cls._of_sorted(vocabulary.terms, together, np.concatenate([np.zeros(0, dtype=np.int64), *lengths]))

    @classmethod
    def _of_sorted(cls, terms: dict[str, int], keys: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Segment:
        firsts = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), dtype=np.bool_), keys[1:] != keys[:-1]]))
        distinct = keys[firsts]
        return cls(
            terms=terms,
            offsets=np.searchsorted(distinct, np.arange(len(terms) + 1, dtype=np.int64) << _DOC_BITS),
            rows=(distinct & _DOC_MASK).astype(np.int32),
            counts=np.diff(firsts, append=len(keys)).astype(np.int32),
            lengths=lengths.astype(np.int32),
        )

    @property
    def size_bytes(self) -> int:
        """What the segment takes in memory."""
        arrays = (self.offsets, self.rows, self.counts, self.lengths)
        return sum(array.nbytes for array in arrays) + _TERM_BYTES * len(self.terms)

    @cached_property
    def spellings(self) -> Spellings:
        """The terms as edit distances are computed from them."""
        return Spellings(self.terms)

    def postings(self, term: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the rows that hold a term, ascending, and how often each does."""
        number = self.terms.get(term)
        if number is None:
            return self.rows[:0], self.counts[:0]
        chosen = slice(self.offsets[number], self.offsets[number + 1])
        return self.rows[chosen], self.counts[chosen]
