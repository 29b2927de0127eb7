"""Lance transactions as this package uses them: their identity, and reading them back from a version."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.records import record
from omnigraph.runtime import Counters, World
from omnigraph.store.handles import apart
from omnigraph.store.metering import OPEN_STAGES, metered
from omnigraph.store.translate import translating

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


def read_mark(handle: LanceDataset, version: int, location: str, counters: Counters) -> CommitMark:
    """Return the mark of ``version`` on the branch of ``handle``."""
    with translating("read a transaction", location), metered(handle, counters, at_most=OPEN_STAGES):
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


def fresh_uuid(world: World) -> str:
    """Return a random uuid from the world's own randomness."""
    return str(uuid.UUID(int=world.randomness.bits(128), version=4))


def transaction_of(
    operation: LanceOperation.BaseOperation, *, read_version: int, identity: str, properties: Mapping[str, str]
) -> Transaction:
    """Return the transaction that commits ``operation`` on top of ``read_version``."""
    return Transaction(
        read_version=read_version, operation=operation, uuid=identity, transaction_properties=dict(properties)
    )


@dataclass
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
