"""Where the rows of postings are at a version of their table: from places to the codes of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.records import record
from omnigraph.store.projections.coverage import Match, Offsets, Piece
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
    holes = [piece.deleted for piece in match.pieces]
    return _moves(match, holes, [firsts[piece.index] for piece in match.pieces], moves_up=True)


def to_places(match: Match, firsts: Mapping[int, int]) -> Moves:
    """Return where the places of a match are when fragments, by their index, begin at other places."""
    holes = [piece.gone for piece in match.pieces]
    return _moves(match, holes, [firsts[piece.index] for piece in match.pieces], moves_up=False)


def _moves(match: Match, holes: Sequence[Offsets], firsts: Sequence[int], *, moves_up: bool) -> Moves:
    """Return the moves of pieces to where each begins; ``moves_up`` closes the holes, whose rows are gone."""
    lost = [(start, _GONE) for start, stop in match.lost if start < stop]
    whole, broken = list[tuple[int, int]](), list[tuple[Numbers, Numbers]]()
    for piece, offsets, first in zip(match.pieces, holes, firsts, strict=True):
        if len(offsets):
            broken.append(_around(piece, offsets.astype(np.int64), first - piece.start, moves_up=moves_up))
        elif piece.count:
            whole.append((piece.start, first - piece.start))
    runs = np.array([*lost, *whole], dtype=np.int64).reshape(-1, 2)
    every = np.concatenate([runs[:, 0], *(starts for starts, _ in broken)])
    shifts = np.concatenate([runs[:, 1], *(moved for _, moved in broken)])
    if not len(every):
        return Moves.none()
    order = np.argsort(every, kind="stable")
    return Moves.of(every[order], shifts[order])


def _around(piece: Piece, holes: Numbers, shift: int, *, moves_up: bool) -> tuple[Numbers, Numbers]:
    """Return the runs of a piece: its first rows, then a hole and what is behind it, again and again."""
    behind = shift - np.arange(len(holes) + 1) * moves_up
    starts = np.concatenate([[0], np.stack([holes, holes + 1], axis=1).reshape(-1)])
    moved = np.concatenate([behind[:1], np.stack([np.full(len(holes), _GONE), behind[1:]], axis=1).reshape(-1)])
    is_inside = starts < piece.count
    return piece.start + starts[is_inside], moved[is_inside]
