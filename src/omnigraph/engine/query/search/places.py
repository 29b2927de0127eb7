"""Where the rows of postings are at a version of their table: from places to the codes of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.records import record
from omnigraph.store.projections.coverage import Match
from omnigraph.store.tables.pinned import PinnedTable

Numbers = npt.NDArray[np.int64]

# Takes any place below zero.
_GONE = -(1 << 62)


@record
class Moves:
    """Runs of places that move alike: from ``starts[i]`` on, by ``shifts[i]``. Immutable, a few numbers per change.

    Args:
        starts: ascending, the first is 0.
        shifts: what is added to a place; so much less for rows that are gone that nothing else is below zero.
        is_ascending: whether rows keep their order.
    """

    starts: Numbers
    shifts: Numbers
    is_ascending: bool

    @classmethod
    def of(cls, starts: Numbers, shifts: Numbers) -> Moves:
        """Return the moves of runs, the last of several that start together counting."""
        is_used = np.append(starts[1:] != starts[:-1], [True])
        starts, shifts = starts[is_used], shifts[is_used]
        is_new = np.insert(shifts[1:] != shifts[:-1], 0, [True])
        starts, shifts = starts[is_new], shifts[is_new]
        is_live = shifts != _GONE
        begins, ends = (starts + shifts)[is_live], (np.append(starts[1:], starts[-1]) + shifts)[is_live]
        return cls(starts=starts, shifts=shifts, is_ascending=bool((begins[1:] >= ends[:-1]).all()))

    @classmethod
    def none(cls) -> Moves:
        """Return moves that leave everything where it is."""
        return cls(starts=np.zeros(1, dtype=np.int64), shifts=np.zeros(1, dtype=np.int64), is_ascending=True)

    @property
    def has_gone(self) -> bool:
        """Whether there are places whose rows are gone."""
        return bool((self.shifts == _GONE).any())

    @property
    def size_bytes(self) -> int:
        """What the runs take in memory."""
        return self.starts.nbytes + self.shifts.nbytes

    def find(self, places: npt.NDArray[Any]) -> Numbers:
        """Return where places are, a negative number for those that are gone; in any order."""
        if len(self.starts) == 1:
            return np.asarray(places + self.shifts[0])
        return np.asarray(places + self.shifts[np.searchsorted(self.starts, places, side="right") - 1])

    def find_ascending(self, places: npt.NDArray[Any], start: int) -> Numbers:
        """Return the same for ascending places that are counted from ``start``; few runs cost next to nothing."""
        if len(self.starts) == 1:
            return np.asarray(places + (self.shifts[0] + start))
        if len(self.starts) > len(places):
            return self.find(places + np.int64(start))
        cuts = np.searchsorted(places, np.maximum(self.starts - start, 0).astype(places.dtype))
        return np.asarray(places + np.repeat(self.shifts + start, np.diff(cuts, append=len(places))))


def to_codes(match: Match, table: PinnedTable) -> Moves:
    """Return where the places of a match are among the live rows of a version, in stored order."""
    firsts = list(accumulate((fragment.row_count for fragment in table.fragments), initial=0))
    deleted = [piece.deleted.astype(np.int64) for piece in match.pieces]
    # Behind each deleted row all others move up by one.
    shifts = [
        firsts[piece.index] - piece.start - np.arange(len(offsets) + 1)
        for piece, offsets in zip(match.pieces, deleted, strict=True)
    ]
    return _moves(match, deleted, shifts)


def to_places(match: Match, firsts: Mapping[int, int]) -> Moves:
    """Return where the places of a match are when fragments, by their index, begin at other places."""
    gone = [piece.gone.astype(np.int64) for piece in match.pieces]
    shifts = [
        np.full(len(offsets) + 1, firsts[piece.index] - piece.start)
        for piece, offsets in zip(match.pieces, gone, strict=True)
    ]
    return _moves(match, gone, shifts)


def _moves(match: Match, holes: Sequence[Numbers], shifts: Sequence[Numbers]) -> Moves:
    """Return the moves of pieces whose rows at ``holes`` are gone, with the shift of what is before and behind each."""
    lost = [start for start, stop in match.lost if start < stop]
    starts, moved = [np.array(lost, dtype=np.int64)], [np.full(len(lost), _GONE, dtype=np.int64)]
    for piece, offsets, after in zip(match.pieces, holes, shifts, strict=True):
        # The first row, then a hole and what is behind it, again and again.
        where = np.concatenate([[0], np.repeat(offsets, 2) + np.tile([0, 1], len(offsets))])
        by = np.concatenate([after[:1], np.stack([np.full(len(offsets), _GONE), after[1:]], axis=1).reshape(-1)])
        is_inside = where < piece.count
        starts.append(piece.start + where[is_inside])
        moved.append(by[is_inside])
    every, shift = np.concatenate(starts), np.concatenate(moved)
    if not len(every):
        return Moves.none()
    order = np.argsort(every, kind="stable")
    return Moves.of(every[order], shift[order])
