"""Where new ids come from."""

from __future__ import annotations

import threading
from uuid import UUID

from omnigraph.runtime.clock import Clock
from omnigraph.runtime.randomness import Randomness
from omnigraph.values.ulid import ENTROPY_BITS, Ulid

# Inside one millisecond ids go up by a random stride, not by one: a forked child inherits the last id and would
# otherwise hand out the very ids that its parent does.
_STRIDE_BITS = 40
# A whole block of ids needs more room to jump, or two blocks could overlap.
_BLOCK_STRIDE_BITS = 64


class IdSource:
    """Makes ULIDs that are unique everywhere and ascending within this source."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last_entropy = 0

    def ulid(self) -> Ulid:
        """Return an id greater than every id this source gave before, also when the wall clock goes back."""
        return self._take(1, _STRIDE_BITS)

    def reserve(self, count: int) -> Ulid:
        """Return the first of ``count`` ULIDs with consecutive numbers, which this source gives to nobody else."""
        return self._take(count, _BLOCK_STRIDE_BITS)

    def uuid(self) -> str:
        """Return a random UUID, the form in which Lance wants a transaction to be named."""
        return str(UUID(int=self._randomness.bits(128), version=4))

    def _take(self, count: int, stride_bits: int) -> Ulid:
        with self._lock:
            now_ms = self._clock.now_ms()
            if now_ms > self._last_ms:
                first_ms, first = now_ms, self._randomness.bits(ENTROPY_BITS)
            else:
                first_ms, first = self._last_ms, self._last_entropy + 1 + self._randomness.bits(stride_bits)
            if first + count > 1 << ENTROPY_BITS:
                first_ms, first = first_ms + 1, self._randomness.bits(stride_bits)
            self._last_ms, self._last_entropy = first_ms, first + count - 1
            return Ulid.from_parts(first_ms, first)
