"""The JSON form of a publish plan: explicit, versioned, and readable by the version that has to recover it."""

from __future__ import annotations

from typing import Any

import msgspec

from omnigraph.errors import FormatMismatch, OmnigraphError, SidecarCorruptError
from omnigraph.store.staging import StagedCommit
from omnigraph.txn.jsontext import check_seal, encode_sealed, shape_check
from omnigraph.txn.manifest.codec import (
    commit_from_json,
    commit_to_json,
    entry_from_json,
    entry_to_json,
    tombstone_from_json,
    tombstone_to_json,
)
from omnigraph.txn.manifest.rows import AcceptedSchema, FloorChange, ManifestChange, TableRename
from omnigraph.txn.plan import ActionKind, PublishPlan, TableAction, WriteKind
from omnigraph.txn.sidecar_shapes import PlanShape
from omnigraph.txn.writers import WriterIdentity
from omnigraph.values import BranchName, CommitId, OperationId, Ulid

PLAN_FORMAT = 2
# Plans of the format before have no checksum; one may still wait to be recovered.
_WITHOUT_CHECKSUM = 1

_check_shape = shape_check(PlanShape)
_WITHOUT_COMMIT = frozenset({WriteKind.BRANCH_DELETE, WriteKind.CLEANUP})


def encode_plan(plan: PublishPlan) -> bytes:
    """Return the bytes a sidecar holds."""
    return encode_sealed(_plan_to_json(plan))


def decode_plan(data: bytes, key: str) -> PublishPlan:
    """Return the plan that ``data``, read from the sidecar ``key``, describes.

    Raises:
        SidecarCorruptError: not JSON, another format, altered since it was written, or a plan that contradicts itself.
    """
    try:
        raw: dict[str, Any] = msgspec.json.decode(data)
        found = raw["format"]
        if found not in {PLAN_FORMAT, _WITHOUT_CHECKSUM}:
            raise ValueError(f"plan format {found}")  # noqa: TRY301 - one way out for every kind of damage
        check_seal(data, is_required=found == PLAN_FORMAT)
        _check_shape(raw)
        plan = _plan_from_json(raw)
        if not plan.change.commits and plan.kind not in _WITHOUT_COMMIT:
            raise ValueError("a plan without a commit")  # noqa: TRY301 - as above
    except (KeyError, TypeError, ValueError, AttributeError, OmnigraphError, msgspec.MsgspecError) as error:
        details = FormatMismatch(what=key, expected=f"a publish plan of format {PLAN_FORMAT}", found=str(error)[:200])
        raise SidecarCorruptError(f"the sidecar cannot be read key={key}", details=details) from error
    return plan


def _plan_to_json(plan: PublishPlan) -> dict[str, Any]:
    return {
        "format": PLAN_FORMAT,
        "operation_id": plan.operation_id,
        "kind": plan.kind.value,
        "actor": plan.actor,
        "branch": plan.branch,
        "incarnation": plan.incarnation,
        "base_version": plan.base_version,
        "base_commit": plan.base_commit,
        "epoch": plan.epoch,
        "schema_hash": plan.schema_hash,
        "actions": [
            {
                "kind": action.kind.value,
                "table_key": action.table_key,
                "commit": None if action.commit is None else action.commit.to_json(),
            }
            for action in plan.actions
        ],
        "change": _change_to_json(plan.change),
        "read_set": list(plan.read_set),
        "publish_uuid": plan.publish_uuid,
        "writer": plan.writer.to_json(),
        "created_at_ms": plan.created_at_ms,
    }


def _plan_from_json(raw: dict[str, Any]) -> PublishPlan:
    return PublishPlan(
        operation_id=OperationId(Ulid.parse(raw["operation_id"])),
        kind=WriteKind(raw["kind"]),
        actor=raw["actor"],
        branch=BranchName(raw["branch"]),
        incarnation=raw["incarnation"],
        base_version=raw["base_version"],
        base_commit=CommitId(Ulid.parse(raw["base_commit"])),
        epoch=raw["epoch"],
        schema_hash=raw["schema_hash"],
        actions=tuple(
            TableAction(
                kind=ActionKind(action["kind"]),
                table_key=action["table_key"],
                commit=None if action["commit"] is None else StagedCommit.from_json(action["commit"]),
            )
            for action in raw["actions"]
        ),
        change=_change_from_json(raw["change"]),
        read_set=tuple(raw["read_set"]),
        publish_uuid=raw["publish_uuid"],
        writer=WriterIdentity.from_json(raw["writer"]),
        created_at_ms=raw["created_at_ms"],
    )


def _change_to_json(change: ManifestChange) -> dict[str, Any]:
    schema, floor = change.schema, change.floor
    return {
        "commits": [commit_to_json(commit) for commit in change.commits],
        "put_tables": [entry_to_json(entry) for entry in change.put_tables],
        "drop_tables": [tombstone_to_json(stone) for stone in change.drop_tables],
        "rename_tables": [{"old_key": one.old_key, "new_key": one.new_key} for one in change.rename_tables],
        "schema": None
        if schema is None
        else {"source": schema.source, "compiled": schema.compiled, "hash": schema.hash},
        "raise_epoch": change.raise_epoch,
        **({} if floor is None else {"floor": _floor_to_json(floor)}),
    }


def _floor_to_json(floor: FloorChange) -> dict[str, Any]:
    return {"floor": floor.floor, "swept": floor.swept, "forgotten": list(floor.forgotten)}


def _change_from_json(raw: dict[str, Any]) -> ManifestChange:
    floor = raw.get("floor")
    return ManifestChange(
        commits=tuple(commit_from_json(commit) for commit in raw["commits"]),
        put_tables=tuple(entry_from_json(entry) for entry in raw["put_tables"]),
        drop_tables=tuple(tombstone_from_json(stone) for stone in raw["drop_tables"]),
        rename_tables=tuple(TableRename(**one) for one in raw["rename_tables"]),
        schema=None if raw["schema"] is None else AcceptedSchema(**raw["schema"]),
        raise_epoch=raw["raise_epoch"],
        floor=None
        if floor is None
        else FloorChange(floor=floor["floor"], swept=floor["swept"], forgotten=tuple(floor["forgotten"])),
    )
