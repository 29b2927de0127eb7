"""The full-text index of one property at one version of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.search.analysis import analyse
from omnigraph.engine.query.search.places import Moves
from omnigraph.engine.query.search.postings import Check, Postings, postings_of
from omnigraph.records import record
from omnigraph.store.projections.files import Projection
from omnigraph.store.projections.format import CoveredFragment

K1 = 1.2
B = 0.75
MAX_EXPANSIONS = 50

Codes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]

# Sorting so few hits beats an array with a slot for every row.
_SPARSE_SHARE = 16
_SUMMED_SHARE = 2


@record
class Hits:
    """The rows of one part that hold a term, how often each does, and how many terms each has."""

    codes: Codes
    counts: npt.NDArray[Any]
    lengths: npt.NDArray[Any]


@record
class IndexPart:
    """Postings of some fragments.

    Args:
        postings: those of all rows that the fragments had.
        fragments: what they are made from.
        projection: the file that they are mapped from.
        start: which place of the index their first one is.
        moves: where their rows are, if the places of the index do not tell: rows of one version that are in no others.
    """

    postings: Postings
    fragments: tuple[CoveredFragment, ...] = ()
    projection: Projection | None = None
    start: int = 0
    moves: Moves | None = None

    @property
    def private_bytes(self) -> int:
        """What they take in the memory of this process."""
        arrays = self.postings.size_bytes if self.projection is None else self.projection.private_bytes
        return arrays + self.postings.made_bytes


class TextIndex:
    """Postings of every row of one version, in parts that other versions share. Immutable, safe to share.

    Args:
        parts: the postings; every row with a text is in exactly one of them.
        moves: the code in this version of every place of the index.
        row_count: how many codes there are.
        text_count: how many rows have a text.
        term_count: how many terms all of them have together.
    """

    def __init__(
        self, parts: Sequence[IndexPart], moves: Moves, *, row_count: int, text_count: int, term_count: int
    ) -> None:
        self.parts = tuple(parts)
        self.moves = moves
        self.row_count = row_count
        self.text_count = text_count
        self.term_count = term_count
        self._has_gone = moves.has_gone

    @classmethod
    def build(cls, texts: pa.ChunkedArray, check: Check) -> TextIndex:
        """Index texts, whose codes are their places; ``check`` is asked before each step that takes memory or time."""
        postings = postings_of(texts, check)
        return cls(
            [IndexPart(postings=postings)],
            Moves.none(),
            row_count=len(texts),
            text_count=postings.text_count,
            term_count=postings.term_count,
        )

    @property
    def private_bytes(self) -> int:
        """What the index takes in the memory of this process, parts that it shares with others included."""
        return self.moves.size_bytes + sum(part.private_bytes for part in self.parts)

    def matches(self, query: str) -> Codes:
        """Return the codes of the rows that hold any term of the query, ascending."""
        return self._holding(frozenset(analyse(query)))

    def fuzzy(self, query: str, max_edits: int) -> Codes:
        """Return the codes of the rows that hold a term within ``max_edits`` edits of a query term, ascending.

        A query term stands for at most 50 indexed terms, itself included: the nearest ones, and among equally near
        ones the first in alphabetical order. A negative number of edits allows none.
        """
        terms = frozenset(analyse(query))
        return self._holding(frozenset(near for term in terms for near in self._expand(term, max(max_edits, 0))))

    def scores(self, query: str) -> tuple[Codes, Scores]:
        """Return the codes of the rows that hold any term of the query, ascending, and their BM25 scores.

        With N rows whose text is not NULL, n of them holding term t, f occurrences of t among the d terms of the row
        and m terms per row on average, the score is the sum over the distinct terms of the query of
        ``ln(1 + (N - n + 0.5) / (n + 0.5)) * f * (k1 + 1) / (f + k1 * (1 - b + b * d / m))``, k1 = 1.2 and b = 0.75.
        """
        codes, scores = list[Codes](), list[Scores]()
        # A fixed order of terms makes every sum the same number, whatever the parts are.
        for term in sorted(frozenset(analyse(query))):
            found = self._find(term)
            holding = sum(len(hits.codes) for hits in found)
            rarity = float(np.log1p((self.text_count - holding + 0.5) / (holding + 0.5)))
            for hits in found:
                counts = hits.counts.astype(np.float64)
                codes.append(hits.codes)
                scores.append(rarity * (counts * (K1 + 1) / (counts + self._damping(hits.lengths))))
        return self._summed(codes, scores)

    def _find(self, term: str) -> list[Hits]:
        """Return the rows that hold a term, part by part."""
        found = []
        for part in self.parts:
            places, counts = part.postings.find(term)
            if not len(places):
                continue
            codes = (part.moves or self.moves).find_ascending(places, part.start)
            lengths = part.postings.lengths[places]
            if self._has_gone:
                is_live = codes >= 0
                if not is_live.all():
                    codes, counts, lengths = codes[is_live], counts[is_live], lengths[is_live]
            if len(codes):
                found.append(Hits(codes=codes, counts=counts, lengths=lengths))
        return found

    def _damping(self, lengths: npt.NDArray[Any]) -> Scores:
        """Return what the length of rows that hold a term adds below the fraction of their score."""
        mean = float(self.term_count) / self.text_count
        return np.asarray(K1 * (1 - B + B * lengths.astype(np.float64) / mean))

    def _holding(self, terms: Iterable[str]) -> Codes:
        found = [hits.codes for term in terms for hits in self._find(term)]
        if len(found) == 1 and self.moves.is_ascending:
            return found[0]
        if sum(map(len, found)) * _SPARSE_SHARE < self.row_count:
            return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *found]))
        is_hit = np.zeros(self.row_count, dtype=np.bool_)
        for codes in found:
            is_hit[codes] = True
        return np.flatnonzero(is_hit)

    def _summed(self, codes: Sequence[Codes], scores: Sequence[Scores]) -> tuple[Codes, Scores]:
        """Add up the scores of each code, in the order in which they are given."""
        if len(codes) == 1 and self.moves.is_ascending:
            return codes[0], scores[0]
        every = np.concatenate([np.zeros(0, dtype=np.int64), *codes])
        weights = np.concatenate([np.zeros(0), *scores])
        if not len(every):
            return every, weights
        if len(every) * _SUMMED_SHARE < self.row_count:
            # What is given is in runs that ascend, which this sort makes use of.
            order = np.argsort(every, kind="stable")
            ascending = every[order]
            is_first = np.ones(len(order), dtype=np.bool_)
            np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
            sums = np.bincount(np.cumsum(is_first) - 1, weights[order])
            return ascending[is_first], np.asarray(sums, dtype=np.float64)
        totals = np.asarray(np.bincount(every, weights, minlength=self.row_count), dtype=np.float64)
        # Every score is above zero.
        found = np.flatnonzero(totals)
        return found, totals[found]

    def _expand(self, term: str, max_edits: int) -> Iterable[str]:
        near: dict[str, int] = {}
        for part in self.parts:
            near.update(part.postings.spellings.within(term, max_edits))
        # Terms whose rows are all gone must not take the place of others.
        ranked = sorted(near, key=lambda found: (near[found], found))
        live = (found for found in ranked if self._find(found))
        return [found for found, _ in zip(live, range(MAX_EXPANSIONS), strict=False)]
