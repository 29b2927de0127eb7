"""Removing offers that nobody waits for any more."""

from __future__ import annotations

from omnigraph.txn.offers.offer import Offer
from omnigraph.txn.services import BranchServices
from omnigraph.values import Ulid
from omnigraph.values.ids import is_ulid

# An offer of a process that cannot be looked at from here is left alone for so long after its time.
_PATIENCE_MS = 3_600_000


def is_orphaned(services: BranchServices, offer: Offer) -> bool:
    """Whether the process that left an offer is gone, or has been silent for far longer than a write may wait."""
    is_local = services.stores.control.storage.is_local
    if offer.writer.is_surely_dead(is_disk_local=is_local):
        return True
    is_overdue = services.runtime.clock.now_ms() > offer.deadline_ms + _PATIENCE_MS
    return is_overdue and not offer.writer.is_of_this_host()


def is_overdue(services: BranchServices, name: str) -> bool:
    """Whether what fences the name of an offer, or cannot be read, is older than any write that waits."""
    text = name.partition(".")[0]
    return not is_ulid(text) or services.runtime.clock.now_ms() > Ulid.parse(text).timestamp_ms + _PATIENCE_MS


def sweep_offers(services: BranchServices) -> None:
    """Remove the offers of a branch whose owners are gone.

    Nobody was told anything about them, and whoever carries one in a plan looks for it before a table moves. An owner
    that is presumed gone and is not finds out, and offers its write again.
    """
    names = services.offers.names()
    found = services.offers.read(names)
    orphaned = [name for name, offer in found.items() if is_orphaned(services, offer)]
    services.offers.remove([*orphaned, *(name for name in names if name not in found and is_overdue(services, name))])
