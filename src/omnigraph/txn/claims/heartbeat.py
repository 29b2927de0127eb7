"""Keeping a claim alive: a long phase B says from time to time that its writer still works on it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import OmnigraphError
from omnigraph.runtime import start_thread
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.txn.claims.store import ClaimStore

_log = logging.getLogger(__name__)


class ClaimHeartbeat:
    """Renews the claim that is held, three times per grace period, from one thread that costs a write nothing."""

    def __init__(self, claims: ClaimStore, writer: WriterIdentity, grace_s: float) -> None:
        self._claims = claims
        self._writer = writer
        self._interval_s = grace_s / 3
        # Entered as a plain lock: an interrupt can leave a condition locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._held: int | None = None
        self._renewing: int | None = None
        self._renewed: set[int] = set()
        self._is_started = False
        self._is_closed = False

    @contextmanager
    def holding(self, version: int) -> Iterator[None]:
        """Keep the claim of ``version`` alive while the block runs."""
        with self._lock:
            self._held = version
            if not self._is_started:
                self._is_started = True
                start_thread("claim-keeper", self._run)
        try:
            yield
        finally:
            with self._lock:
                self._held = None

    def forget(self, version: int) -> bool:
        """Return whether the claim was ever renewed, so that its release knows what to delete.

        A renewal under way is waited for: it would otherwise land behind its own deletion.
        """
        with self._lock:
            self._changed.wait_for(lambda: self._renewing != version)
            was_renewed = version in self._renewed
            self._renewed.discard(version)
            return was_renewed

    def close(self) -> None:
        """Stop the thread."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        seen: int | None = None
        while True:
            with self._lock:
                if self._changed.wait_for(lambda: self._is_closed, self._interval_s):
                    return
                held = self._held
                # Only a claim that outlived a whole interval is worth a call.
                due = held is not None and held == seen
                if due and held is not None:
                    self._renewed.add(held)
                    self._renewing = held
                seen = held
            if due and held is not None:
                self._renew(held)

    def _renew(self, version: int) -> None:
        try:
            self._claims.renew(version, self._writer)
        except OmnigraphError as error:
            # At worst somebody presumes this writer dead and it loses its attempt.
            _log.warning("could not renew the claim on version %s: %s", version, error)
        finally:
            with self._lock:
                self._renewing = None
                self._changed.notify_all()
