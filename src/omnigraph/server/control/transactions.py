"""Transactions whose client is gone: the server ends those that nobody has used for a while.

A transaction lives in the process between its requests, with the rows that it has staged. A client that vanishes does
not say so, and what it left would stay until the server ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import AdmissionError, BadValue, LimitExceeded, OmnigraphError, TransactionEndedError
from omnigraph.operations.request import Backend
from omnigraph.operations.transactions import RollbackTransactionRequest
from omnigraph.records import record
from omnigraph.runtime import Clock
from omnigraph.server.control.settings import TransactionLimits

# So many are remembered after they were ended, to tell their clients why.
MAX_REMEMBERED = 1024
_LONGEST_SLEEP_S = 30.0
_log = logging.getLogger("omnigraph.server")


class _Open:
    """An open transaction: where, whose, since when, when it was last used, and how much it holds."""

    __slots__ = ("actor", "backend", "began_s", "in_use", "made_bytes", "sent_bytes", "used_s")

    def __init__(self, backend: Backend, actor: str | None, now_s: float) -> None:
        self.backend = backend
        self.actor = actor
        self.began_s = self.used_s = now_s
        self.in_use = 0
        self.sent_bytes = self.made_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self.sent_bytes + self.made_bytes


@record
class _Ended:
    """A transaction that the server has ended: whose it was, and why."""

    actor: str | None
    reason: str


class OpenTransactions:
    """The transactions that clients have begun and not ended. Threads may share it.

    Args:
        clock: measures how long one was not used, and how old it is.
        limits: how many there may be, how much they may hold, and for how long.
    """

    def __init__(self, clock: Clock, limits: TransactionLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}
        self._beginning: Counter[str | None] = Counter()
        self._expired: OrderedDict[str, _Ended] = OrderedDict()
        # Kept, because the loop itself does not.
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def beginning(self, actor: str | None) -> Iterator[None]:
        """Hold a place for the transaction that the block begins.

        Raises:
            AdmissionError: as many are open as may be.
        """
        limits = self._limits
        with self._lock:
            own = sum(one.actor == actor for one in self._open.values()) + self._beginning[actor] + 1
            every = len(self._open) + self._beginning.total() + 1
            _refuse("open transactions of one actor", limits.of_actor, own)
            _refuse("open transactions", limits.of_all, every)
            self._beginning[actor] += 1
        try:
            yield
        finally:
            with self._lock:
                self._beginning[actor] -= 1

    def begun(self, name: str, backend: Backend, actor: str | None) -> None:
        """Note that an actor has begun a transaction on a graph."""
        with self._lock:
            self._open[name] = _Open(backend, actor, self._clock.monotonic_s())

    def ended(self, name: str, actor: str | None) -> None:
        """Note that a transaction of an actor was committed or rolled back; that of another one stays."""
        with self._lock:
            found = self._open.get(name)
            if found is not None and found.actor == actor:
                del self._open[name]

    @contextmanager
    def using(self, name: str, actor: str | None, sent_bytes: int = 0) -> Iterator[None]:
        """Keep a transaction from expiring while the block runs, however long it takes.

        Args:
            name: the transaction.
            actor: who uses it.
            sent_bytes: how much the call brings that stays in the transaction.

        Raises:
            TransactionEndedError: it has expired.
            AdmissionError: open transactions hold too much already.
        """
        with self._lock:
            if name in self._expired and self._expired[name].actor == actor:
                details = BadValue(what="transaction", value=name, expected="an open transaction")
                raise TransactionEndedError(
                    f"transaction '{name}' {self._expired[name].reason}, so that the server has rolled it back",
                    details=details,
                    hint="begin another one and run its calls again",
                )
            found = self._open.get(name)
            if found is not None and found.actor == actor:
                self._refuse_bytes(actor, sent_bytes)
                found.sent_bytes += sent_bytes
                found.in_use += 1
            else:
                found = None
        try:
            yield
        finally:
            if found is not None:
                with self._lock:
                    found.in_use -= 1
                    found.used_s = self._clock.monotonic_s()

    def measured(self, name: str, made_bytes: int) -> None:
        """Note how much a transaction holds besides what was sent to it.

        Raises:
            AdmissionError: open transactions hold too much now; this one is to be rolled back.
        """
        with self._lock:
            found = self._open.get(name)
            if found is not None:
                found.made_bytes = made_bytes
                self._refuse_bytes(found.actor, 0)

    def _refuse_bytes(self, actor: str | None, more: int) -> None:
        held = [(one.actor, one.size_bytes) for one in self._open.values()]
        own = sum(size for owner, size in held if owner == actor) + more
        every = sum(size for _, size in held) + more
        _refuse("bytes in open transactions of one actor", self._limits.actor_bytes, own)
        _refuse("bytes in open transactions", self._limits.all_bytes, every)

    def expire(self) -> int:
        """Roll back the transactions that are too old or were not used for too long, and return how many."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            late = {name: one for name, one in self._open.items() if not one.in_use and self._reason(one, now_s)}
            for name, one in late.items():
                del self._open[name]
                self._expired[name] = _Ended(actor=one.actor, reason=self._reason(one, now_s))
            while len(self._expired) > MAX_REMEMBERED:
                self._expired.popitem(last=False)
        for name, one in late.items():
            reason = self._reason(one, now_s)
            try:
                one.backend.execute(RollbackTransactionRequest(transaction=name))
            except OmnigraphError as error:
                # It has failed, or the graph is not served any more.
                with self._lock:
                    self._expired.pop(name, None)
                _log.info("transaction '%s' had ended before it expired: %s", name, error.code)
            else:
                _log.warning("transaction '%s' %s and was rolled back", name, reason)
        return len(late)

    def _reason(self, one: _Open, now_s: float) -> str:
        """Return why a transaction is ended; an empty text while it may go on."""
        if one.used_s <= now_s - self._limits.idle_s:
            return f"was not used for {self._limits.idle_s:g} s"
        return f"was open for {self._limits.age_s:g} s" if one.began_s <= now_s - self._limits.age_s else ""

    def keep_expiring(self) -> None:
        """Expire transactions from time to time, until the event loop that runs now ends."""
        self._task = asyncio.get_running_loop().create_task(self._expire_from_time_to_time())

    async def _expire_from_time_to_time(self) -> None:
        while True:
            await asyncio.sleep(min(_LONGEST_SLEEP_S, self._limits.idle_s / 2))
            await asyncio.to_thread(self.expire)


def _refuse(resource: str, limit: int, actual: int) -> None:
    if actual > limit:
        details = LimitExceeded(resource=resource, limit=limit, actual=actual)
        hint = "commit or roll back some of them, then try again"
        raise AdmissionError(f"too many {resource}: at most {limit} at the same time", details=details, hint=hint)
