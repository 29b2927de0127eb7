"""Transactions whose client is gone: the server ends those that nobody has used for a while.

A transaction lives in the process between its requests, with the rows that it has staged. A client that vanishes does
not say so, and what it left would stay until the server ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import BadValue, OmnigraphError, TransactionEndedError
from omnigraph.operations.request import Backend
from omnigraph.operations.transactions import RollbackTransactionRequest
from omnigraph.runtime import Clock

# So many are remembered after they were ended, to tell their clients why.
MAX_REMEMBERED = 1024
_LONGEST_SLEEP_S = 30.0
_log = logging.getLogger("omnigraph.server")


class _Open:
    """An open transaction: where, whose, and when it was last used."""

    __slots__ = ("actor", "backend", "in_use", "used_s")

    def __init__(self, backend: Backend, actor: str | None, used_s: float) -> None:
        self.backend = backend
        self.actor = actor
        self.used_s = used_s
        self.in_use = 0


class OpenTransactions:
    """The transactions that clients have begun and not ended. Threads may share it.

    Args:
        clock: measures how long one was not used.
        idle_s: for how long one may not be used.
    """

    def __init__(self, clock: Clock, idle_s: float) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}
        self._expired: OrderedDict[str, str | None] = OrderedDict()
        # Kept, because the loop itself does not.
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def begun(self, name: str, backend: Backend, actor: str | None) -> None:
        """Note that an actor has begun a transaction on a graph."""
        with self._lock:
            self._open[name] = _Open(backend, actor, self._clock.monotonic_s())

    def ended(self, name: str) -> None:
        """Note that a transaction was committed or rolled back."""
        with self._lock:
            self._open.pop(name, None)

    @contextmanager
    def using(self, name: str, actor: str | None) -> Iterator[None]:
        """Keep a transaction from expiring while the block runs, however long it takes.

        Raises:
            TransactionEndedError: it has expired.
        """
        with self._lock:
            if name in self._expired and self._expired[name] == actor:
                details = BadValue(what="transaction", value=name, expected="one that is open")
                raise TransactionEndedError(
                    f"transaction '{name}' was not used for {self._idle_s:g} s, so that the server has rolled it back",
                    details=details,
                    hint="begin another one and run its calls again",
                )
            found = self._open.get(name)
            if found is not None:
                found.in_use += 1
        try:
            yield
        finally:
            if found is not None:
                with self._lock:
                    found.in_use -= 1
                    found.used_s = self._clock.monotonic_s()

    def expire(self) -> int:
        """Roll back the transactions that nobody has used for too long, and return how many."""
        latest_s = self._clock.monotonic_s() - self._idle_s
        with self._lock:
            late = {name: one for name, one in self._open.items() if not one.in_use and one.used_s <= latest_s}
            for name, one in late.items():
                del self._open[name]
                self._expired[name] = one.actor
            while len(self._expired) > MAX_REMEMBERED:
                self._expired.popitem(last=False)
        for name, one in late.items():
            try:
                one.backend.execute(RollbackTransactionRequest(transaction=name))
            except OmnigraphError as error:
                # It has failed, or the graph is not served any more.
                with self._lock:
                    self._expired.pop(name, None)
                _log.info("transaction '%s' had ended before it expired: %s", name, error.code)
            else:
                _log.warning("transaction '%s' was not used for %g s and was rolled back", name, self._idle_s)
        return len(late)

    def keep_expiring(self) -> None:
        """Expire transactions from time to time, until the event loop that runs now ends."""
        self._task = asyncio.get_running_loop().create_task(self._expire_from_time_to_time())

    async def _expire_from_time_to_time(self) -> None:
        while True:
            await asyncio.sleep(min(_LONGEST_SLEEP_S, self._idle_s / 2))
            await asyncio.to_thread(self.expire)
