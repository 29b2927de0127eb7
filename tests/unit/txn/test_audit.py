"""Every recovery leaves exactly one row, however often it is repeated and however many recover at once."""

import dataclasses

import pytest

from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.durability import DiskSync
from omnigraph.store.location import Storage
from omnigraph.txn.recovery.audit import AuditLog, AuditRow
from omnigraph.txn.settings import Syncing


@pytest.fixture
def log(tmp_path):
    storage = Storage.open(str(tmp_path / "g"))
    disk = DiskSync(storage)
    yield AuditLog(DatasetStore(storage, Runtime.system({})), Syncing(disk=disk))
    disk.close()


def _row(runtime, **changes):
    row = AuditRow(
        recovery_kind="RolledBack",
        operation_id=runtime.ids.ulid(),
        plan_id=runtime.ids.uuid(),
        writer_kind="insert",
        branch="main",
        original_actor="ann",
        commit_id=runtime.ids.ulid(),
        observations=(),
        recovered_at_ms=1,
    )
    return dataclasses.replace(row, **changes)


def test_no_recovery_no_rows(log):
    assert log.rows() == []


def test_a_recovery_that_is_repeated_is_recorded_once(log):
    row = _row(Runtime.system({}))
    for _ in range(3):
        log.record(row)
    assert [found["operation_id"] for found in log.rows()] == [row.operation_id]


def test_each_attempt_of_one_operation_has_a_row_of_its_own(log):
    runtime = Runtime.system({})
    first = _row(runtime)
    log.record(first)
    log.record(dataclasses.replace(first, plan_id=runtime.ids.uuid(), recovery_kind="RolledForward"))
    assert [row["recovery_kind"] for row in log.rows()] == ["RolledBack", "RolledForward"]
