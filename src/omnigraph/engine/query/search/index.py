"""The full-text index of one property at one version of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.search.analysis import Spellings, Vocabulary, analyse, batches, term_occurrences
from omnigraph.records import record
from omnigraph.store.tables.pins import TablePin

# Bytes that one byte of text may take while it is turned into postings.
_WORKING_FACTOR = 8
_DOC_BITS = 32
_DOC_MASK = (1 << _DOC_BITS) - 1
# A Python string with its place in a dictionary.
_TERM_BYTES = 150


@dataclass(frozen=True, kw_only=True)
class PostingSegment:
    """Postings in CSR form: those of term ``t`` stand at ``offsets[t]:offsets[t + 1]`` of ``rows`` and ``counts``.

    ``lengths`` holds the number of terms of every row. Rows are numbered from 0 within the segment.
    """

    terms: dict[str, int]
    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]

    @classmethod
    def build(cls, texts: pa.ChunkedArray, check: Callable[[int], None]) -> PostingSegment:
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
    def _of_sorted(
        cls, terms: dict[str, int], keys: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> PostingSegment:
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


K1 = 1.2
B = 0.75
MAX_EXPANSIONS = 50

Codes = npt.NDArray[np.int64]


class SupportsTexts(Protocol):
    """One version of a table whose rows are known by codes, counted from 0."""

    @property
    def pin(self) -> TablePin:
        """Which version this is."""
        ...

    @property
    def row_count(self) -> int:
        """How many codes there are."""
        ...

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        """The stable row id of every code."""
        ...

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a whole column by code."""
        ...

    def codes_of(self, row_ids: npt.NDArray[np.uint64]) -> Codes:
        """Return the codes of row ids, -1 for a row that this version does not have."""
        ...


@record
class Part:
    """A segment and the code that each of its rows has in this version, -1 for rows that are gone or changed."""

    segment: PostingSegment
    codes: Codes

    @property
    def live_count(self) -> int:
        """How many rows of the segment this version still has."""
        return int(np.count_nonzero(self.codes >= 0))

    def postings(self, term: str) -> tuple[Codes, npt.NDArray[np.int32]]:
        """Return the codes of the live rows that hold a term, and how often each does."""
        rows, counts = self.segment.postings(term)
        codes = self.codes[rows]
        is_live = codes >= 0
        return (codes, counts) if is_live.all() else (codes[is_live], counts[is_live])


class TextIndex:
    """Postings of every row of one version, in parts that later versions share. Immutable, safe to share."""

    def __init__(self, row_ids: npt.NDArray[np.uint64], texts: pa.ChunkedArray, parts: tuple[Part, ...]) -> None:
        self.row_ids = row_ids
        self.texts = texts
        self.parts = parts

    @classmethod
    def build(cls, image: SupportsTexts, texts: pa.ChunkedArray, check: Callable[[int], None]) -> TextIndex:
        """Index every row."""
        return cls(image.row_ids, texts, _parts_over((), np.arange(image.row_count), texts, check))

    def extend(self, image: SupportsTexts, texts: pa.ChunkedArray, check: Callable[[int], None]) -> TextIndex:
        """Return the index of another version of the table; only rows that this one does not have are analysed.

        A row is the same when its row id and its text are, so it does not matter how the two versions are related.
        """
        check(texts.nbytes)
        moved = image.codes_of(self.row_ids)
        moved = np.where(_is_same(self.texts, texts, moved), moved, -1)
        parts = [Part(segment=part.segment, codes=_compose(part.codes, moved)) for part in self.parts]
        kept = _worth_keeping(parts)
        is_fresh = np.ones(image.row_count, dtype=np.bool_)
        for part in kept:
            is_fresh[part.codes[part.codes >= 0]] = False
        return TextIndex(image.row_ids, texts, _parts_over(kept, np.flatnonzero(is_fresh), texts, check))

    @cached_property
    def size_bytes(self) -> int:
        """What the index keeps in memory, the texts and the segments it shares with others included."""
        parts = sum(part.segment.size_bytes + part.codes.nbytes for part in self.parts)
        return int(parts + self.row_ids.nbytes + self.texts.nbytes + self._damping.nbytes)

    def matches(self, query: str) -> Codes:
        """Return the codes of the rows that hold any term of the query, ascending."""
        return self._holding(analyse(query))

    def fuzzy(self, query: str, max_edits: int) -> Codes:
        """Return the codes of the rows that hold a term within ``max_edits`` edits of a query term, ascending.

        A query term stands for at most 50 indexed terms, itself included: the nearest ones, and among equally near
        ones the first in alphabetical order. A negative number of edits allows none.
        """
        terms = frozenset(analyse(query))
        return self._holding(near for term in terms for near in self._expand(term, max(max_edits, 0)))

    def scores(self, query: str) -> tuple[Codes, npt.NDArray[np.float64]]:
        """Return the codes of the rows that hold any term of the query, ascending, and their BM25 scores.

        With N rows whose text is not NULL, n of them holding term t, f occurrences of t among the d terms of the row
        and m terms per row on average, the score is the sum over the distinct terms of the query of
        ``ln(1 + (N - n + 0.5) / (n + 0.5)) * f * (k1 + 1) / (f + k1 * (1 - b + b * d / m))``, k1 = 1.2 and b = 0.75.
        """
        totals = np.zeros(len(self.row_ids))
        is_hit = np.zeros(len(self.row_ids), dtype=np.bool_)
        # A fixed order of terms makes every sum the same number, whatever the parts are.
        for term in sorted(frozenset(analyse(query))):
            found = [part.postings(term) for part in self.parts]
            holding = sum(len(codes) for codes, _ in found)
            rarity = np.log1p((self._text_count - holding + 0.5) / (holding + 0.5))
            for codes, counts in found:
                totals[codes] += rarity * (counts * (K1 + 1) / (counts + self._damping[codes]))
                is_hit[codes] = True
        hits = np.flatnonzero(is_hit)
        return hits, totals[hits]

    @property
    def _text_count(self) -> int:
        return len(self.texts) - int(self.texts.null_count)

    @cached_property
    def _damping(self) -> npt.NDArray[np.float64]:
        """What a row's length adds below the fraction of its score, by code."""
        lengths = np.zeros(len(self.row_ids))
        for part in self.parts:
            is_live = part.codes >= 0
            lengths[part.codes[is_live]] = part.segment.lengths[is_live]
        total = float(lengths.sum())
        if total == 0:
            return lengths
        mean = total / self._text_count
        return np.asarray(K1 * (1 - B + B * lengths / mean))

    def _holding(self, terms: Iterable[str]) -> Codes:
        is_hit = np.zeros(len(self.row_ids), dtype=np.bool_)
        for term in terms:
            for part in self.parts:
                is_hit[part.postings(term)[0]] = True
        return np.flatnonzero(is_hit)

    def _expand(self, term: str, max_edits: int) -> Iterable[str]:
        near: dict[str, int] = {}
        for part in self.parts:
            near.update(part.segment.spellings.within(term, max_edits))
        # Terms whose rows are all gone must not take the place of others.
        ranked = sorted(near, key=lambda found: (near[found], found))
        live = (found for found in ranked if any(len(part.postings(found)[0]) for part in self.parts))
        return [found for found, _ in zip(live, range(MAX_EXPANSIONS), strict=False)]


def _parts_over(
    kept: tuple[Part, ...], fresh: Codes, texts: pa.ChunkedArray, check: Callable[[int], None]
) -> tuple[Part, ...]:
    """Add a part for the fresh rows, taking in kept parts that are not at least twice its size.

    So each part is at least twice as large as the next, there are few of them, and a row is seldom analysed again.
    """
    parts = list(kept)
    while parts and parts[-1].live_count < 2 * len(fresh):
        codes = parts.pop().codes
        fresh = np.concatenate([fresh, codes[codes >= 0]])
    if not len(fresh):
        return tuple(parts)
    fresh = np.sort(fresh)
    chosen = texts if len(fresh) == len(texts) else texts.take(pa.array(fresh))
    return (*parts, Part(segment=PostingSegment.build(chosen, check), codes=fresh))


def _worth_keeping(parts: list[Part]) -> tuple[Part, ...]:
    """Return the parts, largest first, of whose rows at least half are still there."""
    alive = [part for part in parts if 2 * part.live_count >= len(part.codes)]
    return tuple(sorted(alive, key=lambda part: part.live_count, reverse=True))


def _compose(codes: Codes, moved: Codes) -> Codes:
    return np.where(codes >= 0, moved[codes], -1)


def _is_same(old: pa.ChunkedArray, texts: pa.ChunkedArray, moved: Codes) -> npt.NDArray[np.bool_]:
    """Tell which of the old rows have an unchanged text at the code they moved to."""
    where = pa.array(moved, mask=moved < 0)
    there = texts.cast(pa.large_string()).take(where)
    here = old.cast(pa.large_string())
    same = pc.if_else(pc.is_null(here), pc.is_null(there), pc.fill_null(pc.equal(here, there), fill_value=False))
    return np.asarray(same.to_numpy(), dtype=np.bool_)
