"""A staged commit: everything a table's next version needs, on storage and invisible, described as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
from lance import LanceOperation, Transaction

from omnigraph.errors import HeadMoved, TableMovedError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.staging.codec import operation_from_json, operation_to_json
from omnigraph.store.tables.pins import FragmentRef, TablePin
from omnigraph.store.tables.table import Table
from omnigraph.store.transactions import OPERATION_ID, fresh_uuid, transaction_of
from omnigraph.store.versions import dataset_folder

DELETIONS = "_deletions"


class StagedCommit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A table commit that has moved no head yet.

    ``before`` is the version it builds on (0 for a table that does not exist), ``after`` the only one it may make.
    ``transaction`` is the Lance operation as JSON; ``files`` are the paths it uploaded, below the graph's root.
    """

    before: TablePin
    after: TablePin
    kind: str
    uuid: str
    operation_id: str
    transaction: Mapping[str, Any]
    row_count: int
    files: tuple[str, ...]

    @cached_property
    def operation(self) -> LanceOperation.BaseOperation:
        """The operation as Lance takes it.

        Raises:
            StorageCorruptError: ``transaction`` describes none of ours.
        """
        return operation_from_json(self.transaction)

    @property
    def shrunk_fragments(self) -> tuple[int, ...]:
        """The fragments that lose rows in this commit and stay: each got a deletion file named after it."""
        names = (file.rpartition(f"/{DELETIONS}/")[2] for file in self.files if f"/{DELETIONS}/" in file)
        return tuple(int(name.partition("-")[0]) for name in names)

    def lance_transaction(self) -> Transaction:
        """Return the transaction as Lance takes it."""
        return transaction_of(
            self.operation,
            read_version=self.before.version,
            identity=self.uuid,
            properties={OPERATION_ID: self.operation_id},
        )


@record
class Origin:
    """What every staging call is told: whose operation it belongs to, and the runtime it runs in."""

    operation_id: str
    runtime: Runtime


def staged_on(
    table: Table,
    operation: LanceOperation.BaseOperation,
    *,
    kind: str,
    origin: Origin,
    row_count: int,
    files: tuple[str, ...],
) -> StagedCommit:
    """Return the record of an operation staged on top of ``table``."""
    return staged_at(
        table.pin,
        operation,
        kind=kind,
        origin=origin,
        row_count=row_count,
        files=tuple(f"{dataset_folder(table.pin)}/{file}" for file in files),
    )


def staged_at(
    before: TablePin,
    operation: LanceOperation.BaseOperation,
    *,
    kind: str,
    origin: Origin,
    row_count: int,
    files: tuple[str, ...],
) -> StagedCommit:
    """Return the record of an operation staged on top of a pin."""
    staged = StagedCommit(
        before=before,
        after=before.at(before.version + 1),
        kind=kind,
        uuid=fresh_uuid(origin.runtime),
        operation_id=origin.operation_id,
        transaction=operation_to_json(operation),
        row_count=row_count,
        files=files,
    )
    # It has just been described, and need not be read back.
    vars(staged)["operation"] = operation
    return staged


def moved_since(base: TablePin, table: Table, what: str) -> TableMovedError:
    """Return the error for work on ``base`` that ``table``, a later version, has no use for."""
    details = HeadMoved(location=base.location, branch=base.branch, expected=base.version, actual=table.pin.version)
    return TableMovedError(f"{what}: '{base.location}', version {base.version}", details=details)


def data_files(fragments: list[Any]) -> tuple[str, ...]:
    """Return the data files of fragments, relative to their dataset."""
    return tuple(f"data/{file}" for fragment in fragments for file in FragmentRef.of(fragment).files)
