"""Lance transactions as this package uses them: their identity, and reading them back from a version."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping

from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError

from omnigraph.errors import (
    Effect,
    OmnigraphError,
    OutcomeUnknownError,
    TableMissingError,
    UnknownOutcome,
    VersionMissingError,
)
from omnigraph.records import record
from omnigraph.runtime import Runtime, current_counters
from omnigraph.store.handles import OPEN_STAGES, Handles, apart, metered
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.translate import FaultKind, fault_of, is_foreign, to_omnigraph_error, translating

OPERATION_ID = "omnigraph:operation_id"


@record
class CommitMark:
    """Who made a version: the transaction's uuid, our operation id if it was ours, and the version it was built on.

    ``operation`` is what Lance calls the kind of change; None when the transaction cannot be told any more.
    """

    uuid: str
    operation_id: str | None
    read_version: int
    properties: Mapping[str, str]
    operation: str | None = None


def read_mark(handle: LanceDataset, version: int, location: str) -> CommitMark:
    """Return the mark of ``version`` on the branch of ``handle``."""
    with translating("read a transaction", location), metered(handle, at_most=OPEN_STAGES):
        transaction = apart(handle).read_transaction(version)
    if transaction is None:
        return CommitMark(uuid="", operation_id=None, read_version=max(0, version - 1), properties={})
    properties = dict(transaction.transaction_properties or {})
    return CommitMark(
        uuid=transaction.uuid,
        operation_id=properties.get(OPERATION_ID),
        read_version=transaction.read_version,
        properties=properties,
        operation=type(transaction.operation).__name__,
    )


def fresh_uuid(runtime: Runtime) -> str:
    """Return a random uuid from the runtime's own randomness."""
    return str(uuid.UUID(int=runtime.randomness.bits(128), version=4))


def transaction_of(
    operation: LanceOperation.BaseOperation, *, read_version: int, identity: str, properties: Mapping[str, str]
) -> Transaction:
    """Return the transaction that commits ``operation`` on top of ``read_version``."""
    return Transaction(
        read_version=read_version, operation=operation, uuid=identity, transaction_properties=dict(properties)
    )


@record(frozen=False, kw_only=False)
class _RewrittenIndex:
    """What Lance builds with two arguments where its own class demands five."""

    old_id: str
    new_id: str
    new_details_type_url: str = ""
    new_details_value: bytes = b""
    new_index_version: int = 0


def _repair_rewritten_index() -> None:
    # Without defaults Lance cannot read back the transaction of any compaction of an indexed table.
    fields = dataclasses.fields(LanceOperation.RewrittenIndex)
    if any(field.default is dataclasses.MISSING for field in fields if field.name.startswith("new_details")):
        setattr(LanceOperation, LanceOperation.RewrittenIndex.__name__, _RewrittenIndex)


_repair_rewritten_index()


# A commit looks for the newest version, puts its transaction and then its manifest; a strict overwrite need not look.
_COMMIT_STAGES = 3
_OVERWRITE_STAGES = 2

# After these nothing is under way that could still land.
_REFUSALS = {FaultKind.DENIED, FaultKind.UNAUTHENTICATED, FaultKind.INVALID, FaultKind.DAMAGED, FaultKind.BAD_ADDRESS}


def land(handles: Handles, base: TablePin, transaction: Transaction) -> LanceDataset | None:
    """Commit ``transaction`` on top of ``base``, or find that it already is there.

    Returns:
        The handle of the version it made, which is another than the one after ``base`` only for an operation that
        Lance does not hold to be strict; ``None`` when another writer made that version.

    Raises:
        OutcomeUnknownError: storage did not say whether it landed, and looking did not tell either.
        StorageDeniedError: the store refused; nothing landed.
    """
    handle = handles.open(base)
    target = TablePin(location=base.location, branch=base.branch, version=base.version + 1)
    stages = _OVERWRITE_STAGES if isinstance(transaction.operation, LanceOperation.Overwrite) else _COMMIT_STAGES
    try:
        with metered(handle, stages=stages):
            landed = LanceDataset.commit(handle, transaction, max_retries=0)
    except CommitConflictError:
        return find_landed(handles, target, transaction.uuid)
    except BaseException as error:
        if not is_foreign(error):
            raise
        return _after_doubtful_commit(handles, target, transaction.uuid, error)
    return handles.remember(TablePin(location=base.location, branch=base.branch, version=landed.version), landed)


def land_creation(handles: Handles, location: str, transaction: Transaction) -> bool:
    """Commit version 1 of a dataset unless there is one; return whether this call did.

    Raises:
        OutcomeUnknownError: storage did not say whether it landed.
        StorageDeniedError: the store refused; nothing landed.
    """
    handles.check_process()
    # Two listings, the transaction and the manifest; a dataset that does not exist keeps no statistics.
    current_counters().add_calls("lance.read", 2)
    current_counters().add_calls("lance.write", 2)
    current_counters().add_serial_stages(4)
    try:
        LanceDataset.commit(
            handles.uri(location, None),
            transaction,
            max_retries=0,
            enable_stable_row_ids=True,
            storage_options=handles.options or None,
        )
    except BaseException as error:
        if not is_foreign(error):
            raise
        match fault_of(error):
            # When version 1 exists, Lance looks for the version 0 that it would build on, and nobody writes one.
            case FaultKind.EXISTS | FaultKind.CONFLICT | FaultKind.MISSING:
                return False
            case fault if fault in _REFUSALS:
                raise to_omnigraph_error(
                    error, doing="create a dataset", location=location, effect=Effect.STAGED
                ) from error
            case _:
                target = TablePin(location=location, branch=None, version=1)
                raise unknown_outcome(target, transaction.uuid) from error
    return True


def find_landed(handles: Handles, target: TablePin, uuid: str) -> LanceDataset | None:
    """Return the handle of ``target`` when the transaction ``uuid`` made it, ``None`` when another one did."""
    try:
        handle = handles.open(target)
    except (VersionMissingError, TableMissingError):
        return None
    return handle if read_mark(handle, target.version, target.location).uuid == uuid else None


def unknown_outcome(target: TablePin, uuid: str) -> OutcomeUnknownError:
    """Return the error of a commit that may or may not have made ``target``."""
    return OutcomeUnknownError(
        f"storage did not report whether version {target.version} of '{target.location}' was committed",
        details=UnknownOutcome(location=target.location, branch=target.branch, version=target.version, uuid=uuid),
    )


def _after_doubtful_commit(handles: Handles, target: TablePin, uuid: str, error: BaseException) -> LanceDataset | None:
    try:
        handle = handles.open(target)
        return handle if read_mark(handle, target.version, target.location).uuid == uuid else None
    except VersionMissingError:
        if fault_of(error) in _REFUSALS:
            raise to_omnigraph_error(error, doing="commit", location=target.location, effect=Effect.STAGED) from error
        # Absent at this moment proves nothing: a request that is still under way could yet create it.
        raise unknown_outcome(target, uuid) from error
    except OmnigraphError:
        raise unknown_outcome(target, uuid) from error
