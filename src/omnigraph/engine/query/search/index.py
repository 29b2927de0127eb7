"""The full-text index of one property at one version of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.search.analysis import analyse
from omnigraph.engine.query.search.best import FEW_ROWS, FEW_SHARE, BoundedTerm, reaching, tried_rows
from omnigraph.engine.query.search.places import Moves
from omnigraph.engine.query.search.postings import Check, Places, Postings, postings_of
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
_NO_PLACES: Places = np.zeros(0, dtype=np.uint32)


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


class Hits:
    """The rows of one part that hold a term, how often each does, and how many terms each has.

    Args:
        places: their places in the part, ascending.
        counts: how often each holds the term.
        part: the part.
        moves: where its places are in the version.
    """

    def __init__(self, places: Places, counts: npt.NDArray[Any], part: IndexPart, moves: Moves) -> None:
        self.places = places
        self.counts = counts
        self.part = part
        self._moves = moves

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def codes(self) -> Codes:
        """The codes of the rows; negative for rows that are gone."""
        return self._moves.find_ascending(self.places, self.part.start)

    @cached_property
    def lengths(self) -> npt.NDArray[Any]:
        """How many terms each row has."""
        return self.part.postings.lengths.take(self.places)

    def positions_of(self, places: Places) -> tuple[Codes, Codes]:
        """Return which of these places hold the term, and at which positions among those that do."""
        at = np.searchsorted(self.places, places)
        at[at == len(self)] = 0
        wanted = np.flatnonzero(self.places[at] == places)
        return wanted, at[wanted]

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> Hits:
        """Return some of the rows."""
        return Hits(self.places[is_kept], self.counts[is_kept], self.part, self._moves)


# By term the rows that hold it, part by part, and its rarity.
RankedTerms = Mapping[str, tuple[Sequence[Hits], float]]


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
        for found, rarity in self._ranked_terms(query).values():
            for hits in found:
                codes.append(hits.codes)
                scores.append(self.score(rarity, hits.counts.astype(np.float64), hits.lengths))
        return self._summed(codes, scores)

    def best(self, query: str, limit: int) -> tuple[Codes, Scores]:
        """Return what :meth:`scores` does of the rows that score as much as the ``limit``-th best, or of more rows."""
        terms = self._ranked_terms(query)
        hit_count = sum(len(hits) for found, _ in terms.values() for hits in found)
        if not 0 < limit <= hit_count // FEW_SHARE or hit_count <= FEW_ROWS:
            return self.scores(query)
        bounded = [self._bounded(terms, part) for part in self.parts]
        tried = [tried_rows(each, limit) if each else _NO_PLACES for each in bounded]
        _, scores = self._exact(terms, tried)
        if len(scores) < limit:
            return self.scores(query)
        floor = _at_least(scores, limit)
        codes, scores = self._exact(terms, [reaching(each, floor) if each else _NO_PLACES for each in bounded])
        is_best = scores >= _at_least(scores, limit)
        return codes[is_best], scores[is_best]

    def score(self, rarity: float, counts: Scores, lengths: npt.NDArray[Any]) -> Scores:
        """Return what a term adds to the scores of rows that hold it so often and have so many terms."""
        mean = float(self.term_count) / self.text_count
        damping = K1 * (1 - B + B * lengths.astype(np.float64) / mean)
        return np.asarray(rarity * (counts * (K1 + 1) / (counts + damping)))

    def _ranked_terms(self, query: str) -> RankedTerms:
        """Return the rows and the rarity of the terms of a query that any row holds.

        The order of terms is fixed, so that every sum is the same number, whatever the parts are.
        """
        terms: dict[str, tuple[list[Hits], float]] = {}
        for term in sorted(frozenset(analyse(query))):
            found = self._find(term)
            holding = sum(map(len, found))
            if holding:
                terms[term] = found, float(np.log1p((self.text_count - holding + 0.5) / (holding + 0.5)))
        return terms

    def _bounded(self, terms: RankedTerms, part: IndexPart) -> list[BoundedTerm]:
        return [
            BoundedTerm.of(part.postings.classes(term), rarity, self)
            for term, (found, rarity) in terms.items()
            if any(hits.part is part for hits in found)
        ]

    def _exact(self, terms: RankedTerms, chosen: Sequence[Places]) -> tuple[Codes, Scores]:
        """Return the ascending codes and the scores of rows by their places in each part; of none that is gone."""
        every_code, every_score = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for part, asked in zip(self.parts, chosen, strict=True):
            codes = (part.moves or self.moves).find_ascending(asked, part.start)
            is_live = codes >= 0
            places, codes = asked[is_live], codes[is_live]
            scores = np.zeros(len(places))
            for found, rarity in terms.values():
                for hits in found:
                    if hits.part is part:
                        wanted, at = hits.positions_of(places)
                        counts, lengths = hits.counts[at].astype(np.float64), part.postings.lengths[places[wanted]]
                        scores[wanted] += self.score(rarity, counts, lengths)
            every_code.append(codes)
            every_score.append(scores)
        codes, scores = np.concatenate(every_code), np.concatenate(every_score)
        order = np.argsort(codes, kind="stable")
        return codes[order], scores[order]

    def _find(self, term: str) -> list[Hits]:
        """Return the rows that hold a term, part by part."""
        found = []
        for part in self.parts:
            places, counts = part.postings.find(term)
            if not len(places):
                continue
            hits = Hits(places, counts, part, part.moves or self.moves)
            if self._has_gone:
                is_live = hits.codes >= 0
                if not is_live.all():
                    hits = hits.keep(is_live)
            if len(hits):
                found.append(hits)
        return found

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


def _at_least(scores: Scores, limit: int) -> float:
    """Return a score that ``limit`` of these reach."""
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
