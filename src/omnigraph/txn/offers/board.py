"""The board of a line: the names of offers that writers of one machine have made and that are not published yet.

A file of slots of equal size, one name each; the slot follows from the name. If two names share a slot, the later one
stays and a listing finds the other. Nothing is locked: a slot that is read while it is written gives an old name or
none.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

from omnigraph.txn.claims.watch import OFFER_SUFFIX
from omnigraph.values.ids import is_ulid

_SLOTS, _SLOT_BYTES = 64, 64
_EMPTY = bytes(_SLOT_BYTES)


class Board:
    """One process's hand on the board of a branch. One thread at a time may use it."""

    def __init__(self, descriptor: int, mark: str) -> None:
        self._descriptor = descriptor
        # Branches may share the file.
        self._mark = mark
        self._own = ""
        self._read: tuple[bytes, tuple[str, ...]] = (b"", ())

    def announce(self, offer: str) -> None:
        """Write the name of an offer, and remove the one that this process wrote before."""
        if offer != self._own:
            self.clear()
            self._own = offer
            self._write(_slot_of(offer), self._entry(offer))

    def clear(self) -> None:
        """Remove the name that this process has written."""
        if self._own:
            own, self._own = self._own, ""
            self.wipe([own])

    def wipe(self, offers: Collection[str]) -> None:
        """Remove names, also those that other processes have written."""
        for offer in offers:
            slot = _slot_of(offer)
            if self._bytes(slot * _SLOT_BYTES, _SLOT_BYTES) == self._entry(offer):
                self._write(slot, _EMPTY)

    def announced(self) -> tuple[str, ...]:
        """Return the offers of others on this branch, oldest first."""
        data = self._bytes(0, _SLOTS * _SLOT_BYTES)
        if data != self._read[0]:
            slots = (data[at : at + _SLOT_BYTES] for at in range(0, len(data), _SLOT_BYTES))
            names = (self._offer_in(slot) for slot in slots if slot != _EMPTY)
            self._read = (data, tuple(sorted(name for name in names if name)))
        return tuple(name for name in self._read[1] if name != self._own)

    def close(self) -> None:
        """Remove the own name, and close the file."""
        self.clear()
        os.close(self._descriptor)

    def _offer_in(self, slot: bytes) -> str:
        mark, _, offer = slot.rstrip().decode(errors="replace").partition(" ")
        is_name = offer.endswith(OFFER_SUFFIX) and is_ulid(offer.removesuffix(OFFER_SUFFIX))
        return offer if mark == self._mark and is_name else ""

    def _entry(self, offer: str) -> bytes:
        return f"{self._mark} {offer}".ljust(_SLOT_BYTES).encode()

    def _bytes(self, at: int, count: int) -> bytes:
        with suppress(OSError):
            return os.pread(self._descriptor, count, at)
        return b""

    def _write(self, slot: int, data: bytes) -> None:
        with suppress(OSError):
            os.pwrite(self._descriptor, data, slot * _SLOT_BYTES)


def _slot_of(offer: str) -> int:
    # The end of a name is random; its beginning is the time.
    return sum(offer.removesuffix(OFFER_SUFFIX).encode()[-4:]) % _SLOTS
