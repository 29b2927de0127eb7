"""Errors of the storage door: what Lance and the object store can do to us, in our own words."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import ExistingKeys, HeadMoved, StorageFault, TableRef, UnknownOutcome
from omnigraph.errors.kinds import Effect, Kind, Retry


class StorageUnavailableError(OmnigraphError):
    """The object store or the disk did not answer, or answered that it cannot at the moment."""

    row = Row(
        code="storage.unavailable",
        kind=Kind.UNAVAILABLE,
        details=StorageFault,
        retry=Retry.AS_IS,
        hint="ask again; if that does not help, check the address, the network and the endpoint",
    )


class StorageDeniedError(OmnigraphError, PermissionError):
    """The store knows who asks, or does not say, and refuses."""

    row = Row(
        code="storage.denied",
        kind=Kind.DENIED,
        details=StorageFault,
        hint="check the credentials and the rights on the graph's root",
    )


class StorageUnauthenticatedError(OmnigraphError, PermissionError):
    """The store does not know who asks: the credentials are missing, wrong or out of date."""

    row = Row(
        code="storage.unauthenticated",
        kind=Kind.UNAUTHENTICATED,
        details=StorageFault,
        hint="check the access key, its secret and the session token; temporary ones expire",
    )


class StorageCorruptError(OmnigraphError):
    """Stored bytes that must be there are missing or unreadable."""

    row = Row(
        code="storage.corrupt",
        kind=Kind.INTEGRITY,
        details=StorageFault,
        hint="stop writing to this graph and restore the object from a copy",
    )


class TableMissingError(OmnigraphError):
    """No dataset, or no branch of it, at that location."""

    row = Row(code="storage.table_missing", kind=Kind.NOT_FOUND, details=TableRef)


class VersionMissingError(OmnigraphError):
    """The dataset is there, the version is not: reclaimed, or never written."""

    row = Row(code="storage.version_missing", kind=Kind.GONE, details=TableRef)


class AlreadyExistsError(OmnigraphError):
    """Somebody else created the dataset or the branch first."""

    row = Row(code="storage.already_exists", kind=Kind.CONFLICT, details=TableRef, retry=Retry.AFTER_REFRESH)


class CompareAndSwapLostError(OmnigraphError):
    """Another writer replaced the dataset first; what we uploaded is referenced by nothing."""

    row = Row(
        code="storage.cas_lost",
        kind=Kind.CONFLICT,
        details=HeadMoved,
        retry=Retry.AFTER_REFRESH,
        effect=Effect.STAGED,
    )


class TableMovedError(OmnigraphError):
    """A table's head is not where the staged commit expects it; what was staged is referenced by nothing."""

    row = Row(
        code="storage.table_moved",
        kind=Kind.CONFLICT,
        details=HeadMoved,
        retry=Retry.AFTER_REFRESH,
        effect=Effect.STAGED,
    )


class ForkOccupiedError(OmnigraphError):
    """The table branch that a fork would create exists and holds other commits."""

    row = Row(
        code="storage.fork_occupied",
        kind=Kind.CONFLICT,
        details=HeadMoved,
        hint="reclaim the abandoned fork, or fork under another name",
    )


class KeyExistsError(OmnigraphError):
    """A strict insert met rows that already have one of its ids."""

    row = Row(code="storage.key_exists", kind=Kind.CONFLICT, details=ExistingKeys)


class OutcomeUnknownError(OmnigraphError):
    """A commit was sent and it could not be found out whether it landed."""

    row = Row(
        code="storage.outcome_unknown",
        kind=Kind.INDETERMINATE,
        details=UnknownOutcome,
        hint="look whether the version exists and carries the uuid before sending it again",
        retry=Retry.AFTER_RECOVERY,
        effect=Effect.UNKNOWN,
    )


class ForkedProcessError(OmnigraphError):
    """Storage was used in a process that was forked from one that had already used it."""

    row = Row(
        code="storage.forked_process",
        kind=Kind.UNSUPPORTED,
        hint="start worker processes with spawn or forkserver, or fork before anything is opened",
    )
