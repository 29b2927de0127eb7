"""Where the offers of a branch lie: one object each, put once, removed by whoever has published it or by its owner."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor

from omnigraph.errors import OmnigraphError, SidecarCorruptError
from omnigraph.runtime import Runtime, side_by_side
from omnigraph.store.control import ControlObjects
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.claims.watch import OFFER_SUFFIX, OFFERS, recovery_folder
from omnigraph.txn.offers.offer import OFFER, Offer

_log = logging.getLogger(__name__)


class OfferStore:
    """The offers of one branch incarnation."""

    def __init__(self, control: ControlObjects, line: BranchIncarnation, runtime: Runtime, pool: Executor) -> None:
        self._control = control
        self._world = runtime
        self._pool = pool
        self._folder = f"{recovery_folder(line.name, line.incarnation)}/{OFFERS}"
        self._line = line

    def new_name(self) -> str:
        """Return a name that no offer ever had."""
        return f"{self._world.ids.ulid()}{OFFER_SUFFIX}"

    def put(self, name: str, offer: Offer) -> None:
        """Leave an offer.

        It need not survive a power failure: whoever waits for it does not either.
        """
        self._world.failpoints.hit("txn.offer.before_put")
        self._control.put_if_absent(self._key(name), OFFER.encode(offer))
        self._world.failpoints.hit("txn.offer.after_put")

    def names(self) -> tuple[str, ...]:
        """Return the names of all offers, oldest first. One listing."""
        return tuple(
            key.rpartition("/")[2] for key in self._control.list_keys(self._folder) if key.endswith(OFFER_SUFFIX)
        )

    def read(self, names: Sequence[str]) -> dict[str, Offer]:
        """Return those of the named offers that are there and can be understood, side by side."""
        found = side_by_side(self._pool, self._read_one, tuple(names))
        return {name: offer for name, offer in zip(names, found, strict=True) if offer is not None}

    def look(self, told: Sequence[str], own: str | None, most: int) -> tuple[tuple[str, ...], dict[str, Offer]]:
        """Return the names of all offers of others, and the oldest of those that are there and can be understood.

        Args:
            told: offers that are said to be there. They are read while the others are listed.
            own: an offer that is none of others.
            most: how many offers to read at most.
        """
        early: tuple[str | None, ...] = () if self._control.storage.is_local else tuple(told[:most])
        listed: list[tuple[str, ...]] = []

        def step(name: str | None) -> Offer | None:
            if name is not None:
                return self._read_one(name)
            listed.append(self.names())
            return None

        steps = (None, *early)
        read = side_by_side(self._pool, step, steps)
        found = {name: offer for name, offer in zip(steps, read, strict=True) if name is not None and offer is not None}
        names = sorted({*listed[0], *found} - {own})
        found |= self.read([name for name in names if name not in early][: most - len(found)])
        return tuple(names), dict(sorted(found.items()))

    def is_there(self, name: str) -> bool:
        """Whether an offer is there, at the price of one look."""
        key = self._key(name)
        return self._control.is_marked(key) if self._control.storage.is_local else self._control.exists(key)

    def fence(self, name: str) -> bool:
        """Put something in the place of an offer that cannot be taken for one; False when the offer is there."""
        return self._control.put_if_absent(self._key(name), b"")

    def remove(self, names: Sequence[str]) -> None:
        """Delete offers; harmless for those that are gone."""
        if names:
            self._control.delete_keys([self._key(name) for name in names], prune=False)

    def _read_one(self, name: str) -> Offer | None:
        key = self._key(name)
        try:
            data = self._control.get(key)
            # Nothing is what fences the name of an offer that may never come.
            offer = None if not data else OFFER.decode(data, key)
        except SidecarCorruptError as error:
            # Only its owner needs it, and that one publishes it by itself.
            _log.warning("ignoring an offer that cannot be read: %s", error)
            return None
        except OmnigraphError as error:
            _log.info("could not read an offer: %s", error)
            return None
        is_ours = offer is not None and (offer.branch, offer.incarnation) == (self._line.name, self._line.incarnation)
        return offer if is_ours else None

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"
