"""Phase D: sidecars of published writes are deleted behind the acknowledgement."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from omnigraph.errors import OmnigraphError
from omnigraph.runtime import Counters, World
from omnigraph.txn.claims import ClaimBook
from omnigraph.txn.keeper import ClaimKeeper

_log = logging.getLogger(__name__)


class Releaser:
    """Deletes claims in the background.

    A failure is logged and tried again with the next one: the write is durable, and whoever opens the graph next
    consumes what is left.
    """

    def __init__(self, claims: ClaimBook, keeper: ClaimKeeper, world: World) -> None:
        self._claims = claims
        self._keeper = keeper
        self._world = world
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="omnigraph-release")
        self._lock = threading.Lock()
        self._pending: list[int] = []
        self._last: Future[None] | None = None

    def release(self, version: int) -> None:
        """Delete the claim of ``version`` soon."""
        with self._lock:
            self._pending.append(version)
        self._last = self._pool.submit(self._drain)

    def close(self) -> None:
        """Wait for the releases under way, and try once more what failed."""
        self._pool.shutdown(wait=True)
        self._drain()

    def _drain(self) -> None:
        with self._lock:
            versions = tuple(self._pending)
        for version in versions:
            try:
                self._world.failpoints.hit("txn.release.before_delete")
                was_renewed = self._keeper.forget(version)
                self._claims.release_own(version, was_renewed=was_renewed, counters=Counters())
                self._world.failpoints.hit("txn.release.after_delete")
            except OmnigraphError as error:
                _log.warning("a sidecar could not be deleted version=%s: %s", version, error)
            else:
                with self._lock:
                    self._pending.remove(version)
