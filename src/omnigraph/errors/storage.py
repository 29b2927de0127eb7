"""Errors of storage: failures of Lance and the object store, translated once."""

from __future__ import annotations

from omnigraph.errors.base import Effect, ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import ExistingKeys, HeadMoved, StorageFault, TableRef, UnknownOutcome


class StorageUnavailableError(OmnigraphError):
    """The object store or disk did not answer, or is temporarily unavailable."""

    row = ErrorRow(
        code="storage.unavailable",
        kind=Kind.UNAVAILABLE,
        details=StorageFault,
        retry=Retry.AS_IS,
        hint="try again; if it keeps failing, check the address, the network and the endpoint",
    )


class StorageDeniedError(OmnigraphError, PermissionError):
    """The store denied access."""

    row = ErrorRow(
        code="storage.denied",
        kind=Kind.DENIED,
        details=StorageFault,
        hint="check the credentials and their permissions on the graph's root",
    )


class StorageUnauthenticatedError(OmnigraphError, PermissionError):
    """The store did not accept the credentials: they are missing, wrong or expired."""

    row = ErrorRow(
        code="storage.unauthenticated",
        kind=Kind.UNAUTHENTICATED,
        details=StorageFault,
        hint="check the access key, its secret and the session token; temporary credentials expire",
    )


class StorageCorruptError(OmnigraphError):
    """Stored data that must exist is missing or unreadable."""

    row = ErrorRow(
        code="storage.corrupt",
        kind=Kind.INTEGRITY,
        details=StorageFault,
        hint="stop writing to this graph and restore the object from a backup",
    )


class TableMissingError(OmnigraphError):
    """The dataset, or a branch of it, does not exist at that location."""

    row = ErrorRow(code="storage.table_missing", kind=Kind.NOT_FOUND, details=TableRef)


class VersionMissingError(OmnigraphError):
    """The dataset exists but the version does not: it was reclaimed, or never written."""

    row = ErrorRow(code="storage.version_missing", kind=Kind.GONE, details=TableRef)


class AlreadyExistsError(OmnigraphError):
    """Another process created the dataset or branch first."""

    row = ErrorRow(code="storage.already_exists", kind=Kind.CONFLICT, details=TableRef, retry=Retry.AFTER_REFRESH)


class CompareAndSwapLostError(OmnigraphError):
    """Another writer replaced the dataset first; the uploaded data is unreferenced."""

    row = ErrorRow(
        code="storage.cas_lost",
        kind=Kind.CONFLICT,
        details=HeadMoved,
        retry=Retry.AFTER_REFRESH,
        effect=Effect.STAGED,
    )


class TableMovedError(OmnigraphError):
    """A table's head is not the version that the staged commit expects; the staged data is unreferenced."""

    row = ErrorRow(
        code="storage.table_moved",
        kind=Kind.CONFLICT,
        details=HeadMoved,
        retry=Retry.AFTER_REFRESH,
        effect=Effect.STAGED,
    )


class ForkOccupiedError(OmnigraphError):
    """The table branch that a fork would create already exists and holds other commits."""

    row = ErrorRow(
        code="storage.fork_occupied",
        kind=Kind.CONFLICT,
        details=HeadMoved,
        hint="reclaim the abandoned fork, or fork under another name",
    )


class KeyExistsError(OmnigraphError):
    """A strict insert found existing rows with the same ids."""

    row = ErrorRow(code="storage.key_exists", kind=Kind.CONFLICT, details=ExistingKeys)


class OutcomeUnknownError(OmnigraphError):
    """A commit was sent, but it is unknown whether it succeeded."""

    row = ErrorRow(
        code="storage.outcome_unknown",
        kind=Kind.INDETERMINATE,
        details=UnknownOutcome,
        hint="check whether the version exists and carries the uuid before trying again",
        retry=Retry.AFTER_RECOVERY,
        effect=Effect.UNKNOWN,
    )


class ForkedProcessError(OmnigraphError):
    """Storage was used in a process forked from one that had already used it."""

    row = ErrorRow(
        code="storage.forked_process",
        kind=Kind.UNSUPPORTED,
        hint="start worker processes with spawn or forkserver, or fork before opening anything",
    )
