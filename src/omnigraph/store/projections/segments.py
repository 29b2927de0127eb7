"""Where ids stand: sorted hashes of the ids of some fragments, each with the place of its row.

A segment says where a row *may* be. Rows may have been deleted since, and two ids may have one hash, so whoever finds a
row looks at it before it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.projections.format import CoveredFragment
from omnigraph.store.projections.hashes import Hashes
from omnigraph.store.projections.packing import PackedHashes

if TYPE_CHECKING:
    from omnigraph.store.projections.keys import KeyIndex
    from omnigraph.store.tables.pins import TablePin

Places = npt.NDArray[np.int64]

# Segments of so few rows are one; larger ones become one when the newer has at least half the rows of the older. To
# make them one costs what they hold, and each write of one row does.
_TINY_ROWS = 64
_CAPACITY_BYTES = 64 << 20
_FRAGMENT_BYTES = 400
# Whoever puts an index together looks at each of them. Beyond so many, and twice those of the version at hand, the ones
# that it does not have are dropped.
_MOST_FRAGMENTS = 256
_KEPT_INDEXES = 64
_INDEXES_BYTES = 256 << 20


@record(slots=False)
class KeySegment:
    """The ids of some fragments.

    Args:
        fragments: the fragments; with a deletion file, rows that it names are left out.
        hashes: the hashes of the ids, ascending; packed where they come from a file.
        places: for each of them its row, counted over the rows of all fragments in order.
        is_mapped: whether the arrays are part of a file, and take no memory of this process.
    """

    fragments: tuple[CoveredFragment, ...]
    hashes: Hashes | PackedHashes
    places: npt.NDArray[np.unsignedinteger]
    is_mapped: bool = False

    @cached_property
    def numbers(self) -> Mapping[tuple[str, ...], tuple[int, ...]]:
        """Where fragments stand by their files."""
        numbers: dict[tuple[str, ...], tuple[int, ...]] = {}
        for number, fragment in enumerate(self.fragments):
            numbers[fragment.files] = (*numbers.get(fragment.files, ()), number)
        return numbers

    @cached_property
    def starts(self) -> Places:
        """The place of the first row of each fragment, and behind the last the count of all."""
        return np.cumsum([0, *(fragment.row_count for fragment in self.fragments)], dtype=np.int64)

    def run_of(self, wanted: int) -> tuple[int, int]:
        """Return from where to where the rows stand whose ids may have a hash."""
        if isinstance(self.hashes, PackedHashes):
            return self.hashes.run_of(wanted)
        asked = np.uint64(wanted)
        return int(self.hashes.searchsorted(asked)), int(self.hashes.searchsorted(asked, side="right"))

    def runs_of(self, wanted: Hashes) -> tuple[Places, Places]:
        """Return for each of some hashes where the rows begin whose ids may have it, and how many they are."""
        if isinstance(self.hashes, PackedHashes):
            return self.hashes.runs_of(wanted)
        low = np.searchsorted(self.hashes, wanted, side="left")
        return low, np.searchsorted(self.hashes, wanted, side="right") - low

    @property
    def size_bytes(self) -> int:
        """What the segment takes of this process's memory."""
        arrays_bytes = 0 if self.is_mapped else self.hashes.nbytes + self.places.nbytes
        return arrays_bytes + _FRAGMENT_BYTES * len(self.fragments)


def segment_of(fragments: Sequence[CoveredFragment], hashes: Hashes, places: Places | None = None) -> KeySegment:
    """Return the segment of rows in any order, the same whoever makes it; without places, of all rows in theirs."""
    order = np.argsort(hashes)
    in_turn = hashes[order]
    if (in_turn[1:] == in_turn[:-1]).any():
        # Only where hashes are equal does the order depend on how they are sorted; a stable sort takes twice as long.
        order = np.argsort(hashes, kind="stable")
    count = sum(fragment.row_count for fragment in fragments)
    width = np.uint32 if count < 1 << 32 else np.uint64
    in_order = order if places is None else places[order]
    sorted_places: npt.NDArray[np.unsignedinteger] = in_order.astype(width)
    return KeySegment(fragments=tuple(fragments), hashes=in_turn, places=sorted_places)


def plain_hashes(segment: KeySegment) -> Hashes:
    """Return the hashes of a segment in memory."""
    if isinstance(segment.hashes, PackedHashes):
        raise InternalError("a segment of a file is not one of those in memory")
    return segment.hashes


def _merged(one: KeySegment, other: KeySegment) -> KeySegment:
    behind = one.places.astype(np.int64), other.places.astype(np.int64) + one.starts[-1]
    return segment_of(
        (*one.fragments, *other.fragments),
        np.concatenate([plain_hashes(one), plain_hashes(other)]),
        np.concatenate(behind),
    )


def _narrowed(segment: KeySegment, files: Collection[tuple[str, ...]]) -> KeySegment:
    """Return a segment without the fragments whose files are not among these."""
    keeps = np.array([fragment.files in files for fragment in segment.fragments], dtype=np.bool_)
    counts = np.array([fragment.row_count for fragment in segment.fragments], dtype=np.int64)
    new_starts = np.cumsum([0, *np.where(keeps, counts, 0)[:-1]], dtype=np.int64)
    places = segment.places.astype(np.int64)
    owners = np.searchsorted(segment.starts, places, side="right") - 1
    kept = keeps[owners]
    owners, places = owners[kept], places[kept]
    return segment_of(
        [fragment for fragment, keep in zip(segment.fragments, keeps, strict=True) if keep],
        plain_hashes(segment)[kept],
        places - segment.starts[owners] + new_starts[owners],
    )


class KeyMemory:
    """Segments of fragments that no projection covers yet, by table; least recently used out first.

    A new fragment costs what it holds, not what is there already: segments become one as they grow.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        self._lock = threading.Lock()
        self._by_table: LRUCache[str, tuple[KeySegment, ...]] = LRUCache(
            max_size=capacity_bytes, size_of=lambda segments: sum(segment.size_bytes for segment in segments)
        )
        # What was put together for versions that were asked lately.
        self.indexes: LRUCache[TablePin, KeyIndex] = LRUCache(
            _KEPT_INDEXES, max_size=_INDEXES_BYTES, size_of=attrgetter("size_bytes")
        )

    @property
    def size_bytes(self) -> int:
        """What all segments take in memory."""
        return self._by_table.size

    def segments(self, location: str) -> tuple[KeySegment, ...]:
        """Return the segments of a table, the oldest first."""
        return self._by_table.get(location) or ()

    def add(self, location: str, segment: KeySegment, live: Collection[tuple[str, ...]]) -> None:
        """Keep a segment.

        Args:
            location: the table.
            segment: what was found in fragments that no other segment has.
            live: the files of the fragments that are worth keeping when there are too many.
        """
        with self._lock:
            segments = [*self.segments(location), segment]
            if sum(len(one.fragments) for one in segments) > max(_MOST_FRAGMENTS, 2 * len(live)):
                segments = [one for one in (_narrowed(each, live) for each in segments) if one.fragments]
            while len(segments) > 1 and _belong_together(segments[-2], segments[-1]):
                newest = segments.pop()
                segments[-1] = _merged(segments[-1], newest)
            self._by_table.put(location, tuple(segments))


def _belong_together(older: KeySegment, newer: KeySegment) -> bool:
    older_rows, newer_rows = len(older.hashes), len(newer.hashes)
    return older_rows + newer_rows <= _TINY_ROWS or older_rows <= 2 * newer_rows
