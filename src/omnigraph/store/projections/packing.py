"""Sorted hashes in half of their bytes: the first bits of a hash follow from where it stands.

Hashes are spread evenly, so that about as many begin with each combination of bits. Those that begin alike stand
together in a *bucket*; what is stored of each are the 32 bits behind the ones that its bucket has in common. What is
left out makes two hashes look alike once in many billion times; whoever finds a row looks at it before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.records import record
from omnigraph.store.projections.hashes import Hashes

_BUCKETS, _RESTS = "buckets", "rests"
NAMES = frozenset({_BUCKETS, _RESTS})
_BITS = 64
_REST_BITS = 32
# About so many hashes are in a bucket.
_BUCKET_ROWS = 32
_MOST_BITS = 24


@record
class PackedHashes:
    """Hashes, ascending as far as they are stored.

    Args:
        buckets: where the hashes of each bucket begin, and where those of the last one end.
        rests: 32 bits of each hash.
    """

    buckets: npt.NDArray[np.integer[Any]]
    rests: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, hashes: Hashes) -> PackedHashes:
        """Return ascending hashes, packed."""
        bits = min(_MOST_BITS, max(1, (len(hashes) // _BUCKET_ROWS).bit_length()))
        starts = np.searchsorted(hashes, np.arange(1 << bits, dtype=np.uint64) << np.uint64(_BITS - bits))
        width = np.uint32 if len(hashes) < 1 << 32 else np.uint64
        buckets: npt.NDArray[np.integer[Any]] = np.append(starts, len(hashes)).astype(width)
        return cls(buckets=buckets, rests=_rests(hashes, bits))

    @classmethod
    def unpack(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> PackedHashes:
        """Return the hashes that a file holds."""
        return cls(buckets=arrays[_BUCKETS], rests=arrays[_RESTS])

    def pack(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that a file holds."""
        return {_BUCKETS: self.buckets, _RESTS: self.rests}

    def __len__(self) -> int:
        return len(self.rests)

    @property
    def nbytes(self) -> int:
        """What the arrays take."""
        return self.buckets.nbytes + self.rests.nbytes

    @property
    def _bits(self) -> int:
        return (len(self.buckets) - 1).bit_length() - 1

    def run_of(self, wanted: int) -> tuple[int, int]:
        """Return from where to where hashes stand that look like one."""
        bits = self._bits
        bucket = wanted >> (_BITS - bits)
        start, stop = int(self.buckets[bucket]), int(self.buckets[bucket + 1])
        rest = np.uint32((wanted >> (_BITS - bits - _REST_BITS)) & 0xFFFFFFFF)
        inside = self.rests[start:stop]
        return start + int(inside.searchsorted(rest)), start + int(inside.searchsorted(rest, side="right"))

    def runs_of(self, wanted: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return for each of some hashes where those begin that look like it, and how many they are."""
        bits = self._bits
        buckets = (wanted >> np.uint64(_BITS - bits)).astype(np.intp)
        starts, stops = self.buckets.take(buckets).astype(np.int64), self.buckets.take(buckets + 1).astype(np.int64)
        rests = _rests(wanted, bits)
        low = self._halved(starts, stops, rests, is_behind=False)
        return low, self._halved(low, stops, rests, is_behind=True) - low

    def _halved(
        self,
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
        rests: npt.NDArray[np.uint32],
        *,
        is_behind: bool,
    ) -> npt.NDArray[np.int64]:
        """Return where each rest belongs between two places, before those that equal it or behind them."""
        low, high = starts.copy(), stops.copy()
        while (is_open := low < high).any():
            middle = (low + high) >> 1
            found = self.rests.take(np.minimum(middle, len(self.rests) - 1))
            is_right = (found <= rests if is_behind else found < rests) & is_open
            low = np.where(is_right, middle + 1, low)
            high = np.where(is_open & ~is_right, middle, high)
        return low


def _rests(hashes: Hashes, bits: int) -> npt.NDArray[np.uint32]:
    return (hashes >> np.uint64(_BITS - bits - _REST_BITS)).astype(np.uint32)
