"""What runs behind an acknowledged write: removing the offers that it took along, then its claim."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from omnigraph.errors import OmnigraphError
from omnigraph.records import record
from omnigraph.runtime import Runtime, counting
from omnigraph.txn.claims.heartbeat import ClaimHeartbeat
from omnigraph.txn.services import BranchServices

_log = logging.getLogger(__name__)


@record
class _Left:
    """What is to be removed: offers, then the claim of a version if there is one."""

    version: int | None
    offers: tuple[str, ...] = ()


class Releaser:
    """Deletes claims and offers in the background.

    A failure is logged and tried again with the next one: the write is durable, and whoever opens the graph next
    consumes what is left.
    """

    def __init__(self, services: BranchServices, keeper: ClaimHeartbeat) -> None:
        self._services = services
        self._keeper = keeper
        self._world: Runtime = services.runtime
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="omnigraph-release")
        self._lock = threading.Lock()
        self._pending: list[_Left] = []
        self._last: Future[None] | None = None

    def release(self, version: int, offers: Sequence[str] = ()) -> None:
        """Delete the claim of ``version`` soon, and before it the offers of others that it has published."""
        self._leave(_Left(version=version, offers=tuple(offers)))

    def remove_offers(self, names: Sequence[str]) -> None:
        """Delete offers soon that are published or that nobody waits for."""
        if names:
            self._leave(_Left(version=None, offers=tuple(names)))

    def close(self) -> None:
        """Wait for the releases under way, and try once more what failed."""
        self._pool.shutdown(wait=True)
        self._drain()

    def _leave(self, left: _Left) -> None:
        with self._lock:
            self._pending.append(left)
        self._last = self._pool.submit(self._drain)

    def _drain(self) -> None:
        with self._lock:
            pending = tuple(self._pending)
        for left in pending:
            try:
                # The write that it belonged to is answered already: nobody is charged for it.
                with counting():
                    self._remove(left)
            except OmnigraphError as error:
                _log.warning("could not delete the sidecar of version %s: %s", left.version, error)
            else:
                with self._lock:
                    self._pending.remove(left)

    def _remove(self, left: _Left) -> None:
        hit = self._world.failpoints.hit
        if left.offers:
            hit("txn.offers.before_delete")
            self._services.offers.remove(left.offers)
            hit("txn.offers.after_delete")
        if left.version is not None:
            hit("txn.release.before_delete")
            was_renewed = self._keeper.forget(left.version)
            self._services.claims.release_own(left.version, was_renewed=was_renewed)
            hit("txn.release.after_delete")
