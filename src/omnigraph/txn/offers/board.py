"""The board of a line: the names of offers that writers of one machine have made and nobody has published yet.

A file of small places of equal size, one name each. Whoever makes an offer writes its name where the name itself says;
two that fall on the same place lose one of them, which a listing then finds. Nothing is locked: a place that is read
while it is written is no name, or an old one.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

from omnigraph.txn.claims.watch import OFFER_SUFFIX
from omnigraph.values.ids import is_ulid

_PLACES, _PLACE_BYTES = 64, 64
_EMPTY = bytes(_PLACE_BYTES)


class Board:
    """One process's hand on the board of a branch. One thread at a time may use it."""

    def __init__(self, descriptor: int, mark: str) -> None:
        self._descriptor = descriptor
        # Branches may share the file.
        self._mark = mark
        self._own = ""
        self._read: tuple[bytes, tuple[str, ...]] = (b"", ())

    def announce(self, offer: str) -> None:
        """Write down an offer, in the stead of the one before."""
        if offer != self._own:
            self.clear()
            self._own = offer
            self._write(_place(offer), self._entry(offer))

    def clear(self) -> None:
        """Take back what this process has written down."""
        if self._own:
            own, self._own = self._own, ""
            self.wipe([own])

    def wipe(self, offers: Collection[str]) -> None:
        """Remove offers, whoever has written them down."""
        for offer in offers:
            place = _place(offer)
            if self._bytes(place * _PLACE_BYTES, _PLACE_BYTES) == self._entry(offer):
                self._write(place, _EMPTY)

    def announced(self) -> tuple[str, ...]:
        """Return the offers of others on this branch, oldest first."""
        data = self._bytes(0, _PLACES * _PLACE_BYTES)
        if data != self._read[0]:
            places = (data[at : at + _PLACE_BYTES] for at in range(0, len(data), _PLACE_BYTES))
            names = (self._offer_in(place) for place in places if place != _EMPTY)
            self._read = (data, tuple(sorted(name for name in names if name)))
        return tuple(name for name in self._read[1] if name != self._own)

    def close(self) -> None:
        """Take back what was written down, and close the file."""
        self.clear()
        os.close(self._descriptor)

    def _offer_in(self, place: bytes) -> str:
        mark, _, offer = place.rstrip().decode(errors="replace").partition(" ")
        is_name = offer.endswith(OFFER_SUFFIX) and is_ulid(offer.removesuffix(OFFER_SUFFIX))
        return offer if mark == self._mark and is_name else ""

    def _entry(self, offer: str) -> bytes:
        return f"{self._mark} {offer}".ljust(_PLACE_BYTES).encode()

    def _bytes(self, at: int, count: int) -> bytes:
        with suppress(OSError):
            return os.pread(self._descriptor, count, at)
        return b""

    def _write(self, place: int, data: bytes) -> None:
        with suppress(OSError):
            os.pwrite(self._descriptor, data, place * _PLACE_BYTES)


def _place(offer: str) -> int:
    # The end of a name is drawn by lot; its beginning is the time.
    return sum(offer.removesuffix(OFFER_SUFFIX).encode()[-4:]) % _PLACES
