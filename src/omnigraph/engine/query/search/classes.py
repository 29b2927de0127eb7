"""The rows of a term by what a ranking can give them for it.

What a term adds to the score of a row follows from two small numbers, how often the row holds the term and how many
terms the row has, and is the more the larger the first and the smaller the second. Rows that have both in common are a
*class*. Where there are too many of these numbers, neighbouring ones share a class, whose best row stands for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.records import record

Places = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]

# Lengths share a class when there are more of them than this; so do all counts from the last one on.
_LENGTHS = 256
_COUNTS = 256
# How often a row of the last class holds the term, for all that a score can tell.
_ENDLESS = 2.0**60
# A slot for every place is worth its memory when so large a share of them holds the term.
_DENSE_SHARE = 16
# Bytes of a class beside its rows, and of the arrays themselves.
_CLASS_BYTES = 24
_ARRAY_BYTES = 512


@record
class TermClasses:
    """The rows of one part that hold a term, by class.

    Args:
        places: their places, class by class and ascending in each.
        starts: where each class begins, and where the last one ends.
        counts: how often rows of each class hold the term, at the most.
        lengths: how many terms rows of each class have, at the least.
        ascending: the places again, ascending.
        numbers: the class of each of those, from 1; of every place of the part, 0 without the term, if they are many.
    """

    places: Places
    starts: Numbers
    counts: Scores
    lengths: Numbers
    ascending: Places
    numbers: npt.NDArray[Any]
    is_dense: bool

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return _ARRAY_BYTES + _CLASS_BYTES * len(self.counts) + self.places.nbytes + self.numbers.nbytes

    @property
    def sizes(self) -> Numbers:
        """How many rows each class has."""
        return np.diff(self.starts)

    def rows(self, is_chosen: npt.NDArray[np.bool_]) -> tuple[Places, Numbers]:
        """Return the places of the rows of some classes, and the class of each, from 0."""
        chosen = np.flatnonzero(is_chosen)
        pieces = [self.places[self.starts[number] : self.starts[number + 1]] for number in chosen.tolist()]
        found = np.concatenate([self.places[:0], *pieces])
        return found, np.repeat(chosen, self.sizes[chosen])

    def find(self, places: Places) -> npt.NDArray[Any]:
        """Return the class of places, from 1; 0 for those that do not hold the term."""
        if self.is_dense:
            return self.numbers.take(places)
        at = np.searchsorted(self.ascending, places)
        at[at == len(self.ascending)] = 0
        return np.where(self.ascending[at] == places, self.numbers[at], 0)


def classes_of(places: Places, counts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> TermClasses:
    """Return the classes of the rows that hold a term.

    Args:
        places: their places, ascending.
        counts: how often each holds it.
        lengths: how many terms every place of the part has.
    """
    # Taking is twice as quick as indexing, and quicker still by numbers of the size of an address.
    wide = places.astype(np.intp)
    own = lengths.take(wide)
    often = (counts if counts.dtype == np.uint8 else np.minimum(counts, _COUNTS - 1)).astype(np.uint16)
    longest = int(own.max(initial=0))
    shift = max(0, longest.bit_length() - (_LENGTHS - 1).bit_length())
    while True:
        width = (longest >> shift) + 1
        raw = often * np.uint16(width)
        raw += (own >> shift if shift else own).astype(np.uint16)
        sizes = np.bincount(raw, minlength=1)
        used = np.flatnonzero(sizes)
        # One byte for each place is worth bounds that are a little higher.
        if len(used) < np.iinfo(np.uint8).max or width == 1:
            break
        shift += 1
    kind = np.uint8 if len(used) < np.iinfo(np.uint8).max else np.uint16
    shortened = np.zeros(len(sizes), dtype=kind)
    shortened[used] = np.arange(1, len(used) + 1)
    numbers = shortened.take(raw)
    order = np.argsort(numbers, kind="stable")
    held = (used // width).astype(np.float64)
    held[used // width == _COUNTS - 1] = _ENDLESS
    is_dense = len(places) * _DENSE_SHARE >= len(lengths)
    if is_dense:
        every = np.zeros(len(lengths), dtype=kind)
        every[wide] = numbers
        numbers = every
    return TermClasses(
        places=places.take(order),
        starts=np.concatenate([[0], np.cumsum(sizes[used])]),
        counts=held,
        lengths=(used % width) << shift,
        ascending=places,
        numbers=numbers,
        is_dense=is_dense,
    )
