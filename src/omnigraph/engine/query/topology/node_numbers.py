"""Numbers for the nodes of a version: the places of a base, and behind them the nodes that came since."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.topology.edge_base import NODE_COLUMNS, RowRuns
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.segments import RowIdPlaces
from omnigraph.store.projections.coverage import Match, match
from omnigraph.store.projections.format import CoveredTable
from omnigraph.store.tables.row_ids import NO_ROW, RowIds

Numbers = npt.NDArray[np.int64]

_NONE: Numbers = np.zeros(0, dtype=np.int64)
# Row ids of so large a share of all numbers are worth listing those of all.
_LISTED_SHARE = 8


class NodeNumbers:
    """The nodes of one table at one version. A node that is written again keeps its row id, and so its number.

    Args:
        covered: the rows that the base has.
        row_ids: their row ids.
        branch: the branch that these were given out on.
        image: the version.
    """

    def __init__(self, covered: CoveredTable, row_ids: RowRuns, branch: str | None, image: TableImage) -> None:
        self.image = image
        self.place_count = covered.row_count
        self._covered = covered
        self._match = match(covered, image.table, NODE_COLUMNS, takes_back=True)
        # Row ids of rows in files that the version does not list mean something only on the branch that gave them out.
        self._lost = row_ids if branch == image.pin.branch else None
        self._fresh = _fresh_row_ids(image, self._match)
        at = self._find_place(self._fresh) if len(self._fresh) else _NONE
        #: Row ids of nodes that the base does not have, ascending.
        self.added: RowIds = np.sort(self._fresh[at < 0])
        gone = self._match.gone_places
        #: Numbers of nodes that the base has and the version has not, ascending.
        self.deleted: Numbers = np.setdiff1d(gone, at[at >= 0]) if len(gone) else _NONE

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return self.place_count + len(self.added)

    @property
    def is_exact(self) -> bool:
        """Whether the version has the nodes of the base and no others, and the numbers are the codes of the image."""
        return self.are_codes and not len(self.added)

    @cached_property
    def are_codes(self) -> bool:
        """Whether the numbers are the codes of the image: nodes came behind those of the base, and none has left."""
        known = len(self._match.pieces)
        if self._match.lost or self._match.uncovered != tuple(range(known, len(self.image.segments))):
            return False
        if any(len(self.image.segments[index].deleted) for index in range(known)):
            return False
        if any(len(piece.back) or len(piece.gone) for piece in self._match.pieces):
            return False
        starts = [piece.start for piece in self._match.pieces]
        is_ascending = len(self._fresh) == len(self.added) and bool((self._fresh[1:] > self._fresh[:-1]).all())
        return is_ascending and starts == self.image.starts[:known].tolist()

    def extends(self, other: NodeNumbers) -> bool:
        """Whether every number of another version is one here, of the same node."""
        if self is other:
            return True
        return (
            self._covered is other._covered
            and np.array_equal(self.added[: len(other.added)], other.added)
            and np.array_equal(self.deleted, other.deleted)
        )

    @property
    def keep_order(self) -> bool:
        """Whether nodes have the order of their numbers in the image as well."""
        starts = [piece.start for piece in self._match.pieces]
        is_moved = len(self._fresh) > len(self.added) or any(len(piece.back) for piece in self._match.pieces)
        return not is_moved and starts == sorted(starts) and self._is_behind()

    def of(self, row_ids: RowIds) -> Numbers:
        """Return the numbers of nodes of the version by row id, -1 for those that are not there."""
        if self.are_codes:
            return self.image.codes_of(row_ids)
        found = self._find_place(row_ids)
        if len(self.added):
            at = np.minimum(np.searchsorted(self.added, row_ids), len(self.added) - 1)
            found = np.where((found < 0) & (self.added[at] == row_ids), at + self.place_count, found)
        if len(self.deleted):
            found[np.isin(found, self.deleted)] = -1
        return found

    def row_ids(self, numbers: Numbers) -> RowIds:
        """Return the row ids of nodes of the version by number."""
        if self.are_codes and self.image.first_row_id is not None:
            return numbers.astype(np.uint64) + np.uint64(self.image.first_row_id)
        if self._match.lost or len(numbers) * _LISTED_SHARE > self.count or "_by_number" in self.__dict__:
            listed: RowIds = self._by_number[numbers]
            return listed
        found = np.full(len(numbers), NO_ROW)
        is_added = numbers >= self.place_count
        found[is_added] = self.added[numbers[is_added] - self.place_count]
        for piece in self._match.pieces:
            mine = np.flatnonzero((numbers >= piece.start) & (numbers < piece.start + piece.count))
            if len(mine):
                found[mine] = self.image.segments[piece.index].row_ids_at(numbers[mine] - piece.start)
        return found

    @cached_property
    def codes(self) -> Numbers:
        """The code of every number in the image, -1 for nodes that are deleted."""
        return self.image.codes_of(self._by_number)

    @cached_property
    def _by_number(self) -> RowIds:
        return np.concatenate([self._by_place, self.added])

    @cached_property
    def _by_place(self) -> RowIds:
        listed = np.full(self.place_count, NO_ROW)
        if self._lost is not None:
            for start, stop in self._match.lost:
                listed[start:stop] = self._lost.listed(start, stop)
        for piece in self._match.pieces:
            offsets = np.arange(piece.count)
            listed[piece.start : piece.start + piece.count] = self.image.segments[piece.index].row_ids_at(offsets)
        # A row that was written again before the base was made stands in it twice, and only where it is live.
        listed[self._gone_before] = NO_ROW
        return listed

    def _find_place(self, row_ids: RowIds) -> Numbers:
        """Return the places of the base that have these row ids, -1 where none has."""
        found = np.full(len(row_ids), -1, dtype=np.int64)
        for piece in self._match.pieces:
            offsets = self.image.segments[piece.index].offsets_of(row_ids)
            found = np.where(offsets >= 0, self._live(offsets + piece.start, found), found)
        if self._lost is not None and self._match.lost:
            places, numbers = self._lost_places
            at = places.find(row_ids)
            found = np.where(at >= 0, np.append(numbers, -1)[at], found)
        return found

    def _live(self, places: Numbers, otherwise: Numbers) -> Numbers:
        """Return places that the base has a row at; a row that was written again before stands there twice."""
        if not len(self._gone_before):
            return places
        at = np.minimum(np.searchsorted(self._gone_before, places), len(self._gone_before) - 1)
        return np.where(self._gone_before[at] == places, otherwise, places)

    @cached_property
    def _gone_before(self) -> Numbers:
        """The places of rows that were deleted when the base was made, ascending."""
        parts, start = [_NONE], 0
        for fragment in self._covered.fragments:
            if fragment.deleted:
                parts.append(start + np.frombuffer(fragment.deleted, dtype=np.uint32).astype(np.int64))
            start += fragment.row_count
        return np.concatenate(parts)

    @cached_property
    def _lost_places(self) -> tuple[RowIdPlaces, Numbers]:
        """Places in files that the version does not list, by row id."""
        if self._lost is None:
            return RowIdPlaces.of(np.zeros(0, dtype=np.uint64)), _NONE
        every = np.concatenate([_NONE, *(np.arange(start, stop) for start, stop in self._match.lost)])
        numbers = np.setdiff1d(every, self._gone_before, assume_unique=True)
        listed = [self._lost.listed(start, stop) for start, stop in self._match.lost]
        kept = np.concatenate(listed)[np.searchsorted(every, numbers)]
        return RowIdPlaces.of(kept), numbers

    def _is_behind(self) -> bool:
        """Whether all fragments of the base come before all that the base does not have."""
        last = max((piece.index for piece in self._match.pieces), default=-1)
        return all(index > last for index in self._match.uncovered) and (
            not len(self.added) or bool((self._fresh[1:] > self._fresh[:-1]).all())
        )


def _fresh_row_ids(image: TableImage, found: Match) -> RowIds:
    """Return the row ids of the rows that the base does not have, or has as deleted."""
    parts = [np.zeros(0, dtype=np.uint64), *(image.segments[index].row_ids for index in found.uncovered)]
    parts += [
        image.segments[piece.index].row_ids_at(piece.back.astype(np.int64)) for piece in found.pieces if len(piece.back)
    ]
    return np.concatenate(parts)
