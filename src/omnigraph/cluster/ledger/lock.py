"""``lock.json``: one command at a time works on the ledger of a cluster. It never expires; a person removes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger.documents import ClusterDocument, state_error
from omnigraph.cluster.ledger.place import LOCK, ClusterPlace
from omnigraph.errors import ClusterStateError, OmnigraphError


class StateLock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who works on the ledger."""

    version: int
    lock_id: str
    operation: str
    created_at: str
    pid: int


_DOCUMENT = ClusterDocument(
    StateLock,
    version_member="version",
    what="lock",
    invalid="invalid_state_lock",
    unsupported="unsupported_state_lock_version",
)


class LockFile:
    """The lock of a cluster."""

    def __init__(self, place: ClusterPlace) -> None:
        self._place = place
        self.path = place.shown(LOCK)

    def read(self) -> StateLock | None:
        """Return who has locked the ledger, None if nobody has.

        Raises:
            ClusterStateError: the lock cannot be read, or cannot be understood.
        """
        try:
            data = self._place.objects.get(LOCK)
        except OmnigraphError as problem:
            message = f"cannot read the lock: {problem.message}"
            raise state_error("state_lock_read_error", self.path, message) from problem
        return None if data is None else _DOCUMENT.decode(data, self.path)

    @contextmanager
    def held(self, operation: str, findings: Findings, *, is_enabled: bool) -> Iterator[StateLock | None]:
        """Lock the ledger while the block runs; a finding says so if locking is switched off.

        Raises:
            ClusterStateError: another command has locked it, or the lock cannot be written.
        """
        if not is_enabled:
            message = "the config switches locking off; concurrent commands can interfere with each other"
            findings.add("state_lock_disabled", self.path, message)
            yield None
            return
        lock = self._acquire(operation)
        try:
            yield lock
        finally:
            self._release(lock, findings)

    def remove(self, lock_id: str) -> StateLock:
        """Remove the lock of a command that is gone, and return it.

        Raises:
            ClusterStateError: there is no lock, it is another one, or it cannot be read or removed.
        """
        lock = self.read()
        if lock is None:
            raise state_error("state_lock_missing", self.path, "the ledger is not locked")
        if lock.lock_id != lock_id:
            message = f"the ledger is locked with id {lock.lock_id}, not with {lock_id}"
            raise state_error("state_lock_id_mismatch", self.path, message)
        try:
            self._delete()
        except OmnigraphError as problem:
            raise self._failed("remove", problem) from problem
        return lock

    def _acquire(self, operation: str) -> StateLock:
        runtime = self._place.runtime
        lock = StateLock(
            version=1,
            lock_id=str(runtime.ids.ulid()),
            operation=operation,
            created_at=self._place.now(),
            pid=os.getpid(),
        )
        try:
            is_ours = self._place.objects.create(LOCK, _DOCUMENT.encode(lock))
        except OmnigraphError as problem:
            raise self._failed("take", problem) from problem
        if not is_ours:
            raise self._held_by_another()
        return lock

    def _held_by_another(self) -> ClusterStateError:
        try:
            other = self.read()
        except ClusterStateError as problem:
            message = f"the ledger is locked, and its lock cannot be read: {problem.message}"
            return state_error("state_lock_held", self.path, message)
        if other is None:
            message = "the ledger was locked a moment ago; run the command again"
            return state_error("state_lock_held", self.path, message)
        message = (
            f"the ledger is locked by `cluster {other.operation}` since {other.created_at} (lock {other.lock_id}, "
            f"process {other.pid}); if that command is gone, run `omnigraph cluster force-unlock {other.lock_id}`"
        )
        return state_error("state_lock_held", self.path, message)

    def _release(self, lock: StateLock, findings: Findings) -> None:
        try:
            current = self.read()
            # Whoever removed the lock by force may have taken it since.
            if current is not None and current.lock_id == lock.lock_id:
                self._delete()
        except OmnigraphError as problem:
            message = f"cannot remove lock {lock.lock_id}: {problem.message}"
            findings.add("state_lock_error", self.path, message)

    def _delete(self) -> None:
        # Removes the folder too where a command that writes nothing has made it.
        self._place.objects.delete_keys([LOCK])

    def _failed(self, verb: str, problem: OmnigraphError) -> ClusterStateError:
        return state_error("state_lock_error", self.path, f"cannot {verb} the lock: {problem.message}")
