"""The audit: one row per recovery action, in a table that any Lance reader can open."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pyarrow as pa

from omnigraph.errors import AlreadyExistsError, CompareAndSwapLostError, OmnigraphError, TableMissingError
from omnigraph.records import record
from omnigraph.store.datasets import DatasetStore, ReplaceableDataset
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.recovery.classify import Observation, TableClass
from omnigraph.txn.settings import Syncing
from omnigraph.txn.stored_json import encode_json
from omnigraph.values import CommitId, OperationId

_log = logging.getLogger(__name__)

LOCATION = "_graph_commit_recoveries.lance"

_SCHEMA = pa.schema(
    [
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("operation_id", pa.string(), nullable=False),
        pa.field("plan_id", pa.string(), nullable=False),
        pa.field("writer_kind", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("original_actor", pa.string()),
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("tables", pa.string(), nullable=False),
        pa.field("recovered_at_ms", pa.int64(), nullable=False),
    ]
)


@record
class AuditRow:
    """What one recovery did: to whose write, on which tables, and the commit that ended it."""

    recovery_kind: str
    operation_id: OperationId
    plan_id: str
    writer_kind: str
    branch: str
    original_actor: str | None
    commit_id: CommitId
    observations: tuple[Observation, ...]
    recovered_at_ms: int


class AuditLog:
    """The rows of one graph.

    They are appended with the compare-and-swap that the manifest uses, so that recoverers of different branches
    cannot lose each other's rows.
    """

    def __init__(self, datasets: DatasetStore, syncing: Syncing) -> None:
        self._datasets = datasets
        self._syncing = syncing

    def record(self, row: AuditRow) -> None:
        """Append ``row`` unless its plan already has one: a recovery that is repeated is recorded once.

        An operation may have several, because each attempt of a write is a plan of its own.
        """
        rows = pa.Table.from_pylist([_to_record(row)], schema=_SCHEMA)
        while True:
            dataset = self._open()
            if dataset is None:
                try:
                    made = self._datasets.create(
                        LOCATION, _SCHEMA, [rows], {}, before_landing=self._syncing.before_publish
                    )
                except AlreadyExistsError:
                    continue
                self._syncing.after_publish(made)
                return
            if row.plan_id in self._datasets.read(dataset, None, ["plan_id"])[0].to_pylist():
                return
            fragment = self._datasets.stage_fragment(dataset, rows)
            self._syncing.before_publish(dataset.pin, [fragment])
            fragments = (*dataset.fragments, fragment)
            try:
                # The swap is idempotent by this id: an answer that was lost cannot append the row a second time.
                made = self._datasets.replace(dataset, fragments, _SCHEMA, {}, row.plan_id)
            except CompareAndSwapLostError:
                continue
            self._syncing.after_publish(made)
            return

    def rows(self) -> list[dict[str, Any]]:
        """Return every row, oldest first, with the tables decoded."""
        dataset = self._open()
        if dataset is None:
            return []
        records: list[dict[str, Any]] = self._datasets.read(dataset, None, None).to_pylist()
        return [{**record, "tables": msgspec.json.decode(record["tables"])} for record in records]

    def _open(self) -> ReplaceableDataset | None:
        try:
            return self._datasets.open_latest(LOCATION, None)
        except TableMissingError:
            return None
        except OmnigraphError:
            if not self._put_torn_aside():
                raise
            return self._open()

    def _put_torn_aside(self) -> bool:
        """Move the newest version away if it is torn; return whether it was.

        A claim stays until its row is on the disk, so that whoever resolves the claim writes the row again.
        """
        versions = self._datasets.versions
        newest = versions.newest(LOCATION, None)
        if newest is None:
            return False
        aside = versions.put_aside(TablePin(location=LOCATION, branch=None, version=newest))
        if aside is not None:
            _log.warning("moved a torn version of the recovery audit aside: version=%s kept=%s", newest, aside)
        return aside is not None


class AuditedTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of an audit row: how it was found, from its pin to its head."""

    table_key: str
    klass: TableClass = msgspec.field(name="class")
    pinned: int = msgspec.field(name="from")
    head: int = msgspec.field(name="to")


def _to_record(row: AuditRow) -> dict[str, Any]:
    tables = [
        AuditedTable(table_key=seen.table_key, klass=seen.klass, pinned=seen.pin.version, head=seen.head)
        for seen in row.observations
    ]
    return {
        "recovery_kind": row.recovery_kind,
        "operation_id": row.operation_id,
        "plan_id": row.plan_id,
        "writer_kind": row.writer_kind,
        "branch": row.branch,
        "original_actor": row.original_actor,
        "commit_id": row.commit_id,
        "tables": encode_json(tables).decode(),
        "recovered_at_ms": row.recovered_at_ms,
    }
