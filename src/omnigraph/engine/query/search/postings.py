"""Postings of texts as plain arrays: which row holds which term how often.

Rows are known by their *places*, counted from 0. Terms stand in order of their bytes, one after the other, so that one
is found by halving without a dictionary, and the arrays can be mapped from a file as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.search.analysis import Spellings, Vocabulary, batches, term_occurrences
from omnigraph.engine.query.search.classes import TermClasses, classes_of
from omnigraph.engine.query.search.places import Moves
from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.runtime import LRUCache

Check = Callable[[int], None]
Places = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int64]
Whole = npt.NDArray[Any]

# Bytes that one byte of text may take while it is turned into postings.
_WORKING_FACTOR = 8
# Copies of all occurrences that exist at once while they are sorted.
_SORTING_FACTOR = 4
_PLACE_BITS = 32
_PLACE_MASK = (1 << _PLACE_BITS) - 1
# A Python string beside its code points.
_SPELLING_BYTES = 150
# What rows by class may take in memory.
_CLASSES_BYTES = 64 << 20
# The length of a row that has no text.
NO_TEXT = -1


@record(slots=False, eq=False, repr=False)
class Postings:
    """Postings in CSR form: those of term ``t`` stand at ``offsets[t]:offsets[t + 1]`` of ``places`` and ``counts``.

    Args:
        term_bytes: the terms in UTF-8, ascending, without gaps.
        term_offsets: where each term begins, and where the last one ends.
        offsets: where the postings of each term begin, and where those of the last one end.
        places: which rows hold a term, ascending for each.
        counts: how often each does.
        lengths: how many terms every row has, -1 for rows without a text.
        text_count: how many rows have a text.
        term_count: how many terms all of them have together.
    """

    term_bytes: npt.NDArray[np.uint8]
    term_offsets: Numbers
    offsets: Numbers
    places: Places
    counts: Whole
    lengths: Whole
    text_count: int
    term_count: int

    @classmethod
    def of(
        cls, terms: pa.Array, keys: Numbers, lengths: Whole, weights: npt.NDArray[np.int64] | None = None
    ) -> Postings:
        """Return postings.

        Args:
            terms: distinct terms as bytes, in any order.
            keys: an occurrence each, the number of its term above the 32 bits of its place; in any order.
            lengths: how many terms every place has.
            weights: how often each key counts; once when not given, and then a key may stand several times.
        """
        order = pc.sort_indices(terms).to_numpy().astype(np.int64)
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        keys = (ranks[keys >> _PLACE_BITS] << _PLACE_BITS) | (keys & _PLACE_MASK)
        if weights is None:
            keys.sort()
            firsts = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), np.bool_), keys[1:] != keys[:-1]]))
            distinct, counts = keys[firsts], np.diff(firsts, append=len(keys))
        else:
            by_key = np.argsort(keys, kind="stable")
            distinct, counts = keys[by_key], weights[by_key]
        ordered = terms.take(pa.array(order)).cast(pa.large_binary())
        ends = np.frombuffer(ordered.buffers()[1] or bytes(8), dtype=np.int64)[: len(ordered) + 1]
        return cls(
            term_bytes=np.frombuffer(ordered.buffers()[2] or b"", dtype=np.uint8)[: int(ends[-1])],
            term_offsets=ends,
            offsets=np.searchsorted(distinct, np.arange(len(order) + 1, dtype=np.int64) << _PLACE_BITS),
            places=(distinct & _PLACE_MASK).astype(np.uint32),
            counts=_narrow(counts, np.uint8, np.uint16, np.uint32),
            lengths=_narrow(lengths, np.int8, np.int16, np.int32),
            text_count=int(np.count_nonzero(lengths >= 0)),
            term_count=int(np.sum(lengths, where=lengths >= 0, dtype=np.int64)),
        )

    def __repr__(self) -> str:
        return f"Postings(terms={self.vocabulary_size}, texts={self.text_count}, bytes={self.size_bytes})"

    @property
    def arrays(self) -> Mapping[str, Whole]:
        """What a file holds of the postings."""
        return {
            "term_bytes": self.term_bytes,
            "term_offsets": self.term_offsets,
            "offsets": self.offsets,
            "places": self.places,
            "counts": self.counts,
            "lengths": self.lengths,
        }

    @property
    def is_consistent(self) -> bool:
        """Whether the arrays have the lengths that they must have together."""
        return (
            len(self.offsets) == len(self.term_offsets) > 0
            and self.offsets[-1] == len(self.places) == len(self.counts)
            and self.term_offsets[-1] == len(self.term_bytes)
        )

    @property
    def place_count(self) -> int:
        """How many places there are, those without a text too."""
        return len(self.lengths)

    @property
    def size_bytes(self) -> int:
        """What the arrays take, wherever they are."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def made_bytes(self) -> int:
        """What was made from the arrays on first use."""
        spellings_bytes = _SPELLING_BYTES * self.vocabulary_size if "spellings" in self.__dict__ else 0
        return spellings_bytes + (self._known_classes.size if "_known_classes" in self.__dict__ else 0)

    @property
    def vocabulary_size(self) -> int:
        """How many terms there are."""
        return len(self.term_offsets) - 1

    @property
    def terms(self) -> pa.Array:
        """The terms as bytes, ascending, not copied."""
        buffers = [None, pa.py_buffer(self.term_offsets), pa.py_buffer(self.term_bytes)]
        return pa.Array.from_buffers(pa.large_binary(), self.vocabulary_size, buffers)

    @cached_property
    def spellings(self) -> Spellings:
        """The terms as edit distances are computed from them."""
        return Spellings(self.terms.cast(pa.large_string()).to_pylist())

    def find(self, term: str) -> tuple[Places, Whole]:
        """Return the places of the rows that hold a term, ascending, and how often each does."""
        number = self._number(term.encode())
        if number is None:
            return self.places[:0], self.counts[:0]
        chosen = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        return self.places[chosen], self.counts[chosen]

    def classes(self, term: str) -> TermClasses:
        """Return the rows that hold a term by class; those of terms that were asked for lately are kept."""
        found = self._known_classes.get(term)
        if found is None:
            found = classes_of(*self.find(term), self.lengths)
            self._known_classes.put(term, found)
        return found

    @cached_property
    def _known_classes(self) -> LRUCache[str, TermClasses]:
        return LRUCache(max_size=_CLASSES_BYTES, size_of=attrgetter("size_bytes"))

    def totals_without(self, gone: Numbers) -> tuple[int, int]:
        """Return how many texts there are, and how many terms they have, when the rows at some places are left out."""
        lengths = self.lengths[gone]
        return (
            self.text_count - int(np.count_nonzero(lengths >= 0)),
            self.term_count - int(np.sum(lengths, where=lengths >= 0, dtype=np.int64)),
        )

    def _number(self, wanted: bytes) -> int | None:
        data, ends = self.term_bytes.data, self.term_offsets
        low, high = 0, self.vocabulary_size
        while low < high:
            middle = (low + high) // 2
            found = bytes(data[int(ends[middle]) : int(ends[middle + 1])])
            if found == wanted:
                return middle
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return None


class PostingsBuilder:
    """Takes texts in, batch by batch, and gives their postings.

    Args:
        places: the place of every text, in the order in which texts are given.
        place_count: how many places there are.
        check: asked before each step that takes memory or time.
    """

    def __init__(self, places: Numbers, place_count: int, check: Check) -> None:
        self._places = places
        self._check = check
        self._vocabulary = Vocabulary()
        self._keys: list[Numbers] = []
        self._lengths = np.full(place_count, NO_TEXT, dtype=np.int32)
        self._taken = 0
        self._held_bytes = places.nbytes + self._lengths.nbytes

    def add(self, texts: pa.ChunkedArray) -> None:
        """Analyse the next texts."""
        first = self._taken
        for batch in batches(texts):
            self._check(self._held_bytes + _WORKING_FACTOR * batch.nbytes)
            rows, terms = term_occurrences(batch, self._vocabulary)
            places = self._places[self._taken : self._taken + len(batch)]
            self._lengths[places] = np.bincount(rows, minlength=len(batch))
            self._keys.append((terms << _PLACE_BITS) | places[rows])
            self._held_bytes += self._keys[-1].nbytes
            self._taken += len(batch)
        if texts.null_count:
            is_null = np.asarray(pc.is_null(texts).to_numpy(), dtype=np.bool_)
            self._lengths[self._places[first : self._taken][is_null]] = NO_TEXT

    def finish(self) -> Postings:
        """Return the postings of all texts."""
        if self._taken != len(self._places):
            raise InternalError(f"there are {self._taken} texts for {len(self._places)} rows")
        self._check(_SORTING_FACTOR * self._held_bytes)
        together = np.concatenate([np.zeros(0, dtype=np.int64), *self._keys])
        self._keys.clear()
        terms = pa.array(list(self._vocabulary.terms), pa.large_string()).cast(pa.large_binary())
        return Postings.of(terms, together, self._lengths)


def postings_of(texts: pa.ChunkedArray, check: Check) -> Postings:
    """Return the postings of texts whose places are counted from 0."""
    builder = PostingsBuilder(np.arange(len(texts), dtype=np.int64), len(texts), check)
    builder.add(texts)
    return builder.finish()


def merged(parts: Sequence[tuple[Postings, Moves]], place_count: int, check: Check) -> Postings:
    """Return the postings of several as those of one; no text is analysed again.

    Args:
        parts: postings, and where each of their places goes; no two of them go to the same.
        place_count: how many places there are then.
        check: asked before each step that takes memory or time.
    """
    check(_SORTING_FACTOR * 16 * sum(len(postings.places) for postings, _ in parts))
    every = pa.concat_arrays([pa.array([], pa.large_binary()), *(postings.terms for postings, _ in parts)])
    terms = pc.unique(every)
    numbers = pc.index_in(every, value_set=terms).to_numpy().astype(np.int64)
    lengths = np.full(place_count, NO_TEXT, dtype=np.int32)
    moved = list(_moved(parts, numbers, lengths))
    keys = np.concatenate([np.zeros(0, dtype=np.int64), *(keys for keys, _ in moved)])
    counts = np.concatenate([np.zeros(0, dtype=np.int64), *(counts for _, counts in moved)])
    return Postings.of(terms, keys, lengths, counts)


def _moved(
    parts: Sequence[tuple[Postings, Moves]], numbers: Numbers, lengths: npt.NDArray[np.int32]
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the keys of each part's postings with their counts; fills in the lengths."""
    first = 0
    for postings, moves in parts:
        mine = numbers[first : first + postings.vocabulary_size]
        first += postings.vocabulary_size
        places = moves.find(postings.places)
        is_live = places >= 0
        terms = np.repeat(mine, np.diff(postings.offsets))
        yield (terms[is_live] << _PLACE_BITS) | places[is_live], postings.counts[is_live].astype(np.int64)
        targets = moves.find(np.arange(postings.place_count, dtype=np.int64))
        is_kept = (targets >= 0) & (postings.lengths >= 0)
        lengths[targets[is_kept]] = postings.lengths[is_kept]


def _narrow(numbers: Whole, *types: type[np.integer[Any]]) -> Whole:
    """Return whole numbers in the first type that holds them all."""
    most = int(numbers.max(initial=0))
    fitting = next(one for one in types if most <= np.iinfo(one).max)
    return numbers.astype(fitting)
