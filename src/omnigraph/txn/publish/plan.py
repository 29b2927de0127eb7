"""The publish plan: the complete intent of a write, serialised before any table moves.

The live writer and crash recovery execute the same plan with the same code, so they cannot disagree. A plan is
therefore plain data with an explicit, versioned JSON form; it holds no handle and nothing that needs the process
that made it.

A sidecar may have been damaged or written by hand. Checking the types of all of it at the door keeps a bad value from
surfacing later as an error that nobody can place.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import msgspec

from omnigraph.errors import FormatMismatch, OmnigraphError, SidecarCorruptError
from omnigraph.records import record
from omnigraph.store.staging import StagedCommit
from omnigraph.txn.claims.identity import WriterIdentity
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
from omnigraph.values import BranchName, CommitId, OperationId, Ulid


class WriteKind(StrEnum):
    """Who asked for the publish; recovery reports it and the rebase rules follow from it."""

    INSERT = "insert"
    MUTATE = "mutate"
    LOAD_APPEND = "load_append"
    LOAD_MERGE = "load_merge"
    LOAD_OVERWRITE = "load_overwrite"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_MERGE = "branch_merge"
    REVERT = "revert"
    ENSURE_INDICES = "ensure_indices"
    OPTIMIZE = "optimize"
    UPGRADE = "upgrade"
    BRANCH_DELETE = "branch_delete"
    CLEANUP = "cleanup"
    REPAIR = "repair"
    RECOVERY = "recovery"


class RebaseRule(StrEnum):
    """What a writer does when a table it wrote or read has moved since its base."""

    # Validate again on the moved state, stage again what it touched, go on.
    REVALIDATE = "revalidate"
    # The caller decided on rows that are no longer current: only the caller can decide again.
    REFUSE = "refuse"
    # Content preserving: plan the same work again on the newer state.
    REPLAN = "replan"


REBASE_RULES: dict[WriteKind, RebaseRule] = {
    WriteKind.INSERT: RebaseRule.REVALIDATE,
    WriteKind.LOAD_APPEND: RebaseRule.REVALIDATE,
    WriteKind.LOAD_MERGE: RebaseRule.REVALIDATE,
    WriteKind.MUTATE: RebaseRule.REFUSE,
    WriteKind.LOAD_OVERWRITE: RebaseRule.REFUSE,
    WriteKind.SCHEMA_APPLY: RebaseRule.REFUSE,
    WriteKind.BRANCH_MERGE: RebaseRule.REFUSE,
    WriteKind.REVERT: RebaseRule.REFUSE,
    WriteKind.ENSURE_INDICES: RebaseRule.REPLAN,
    WriteKind.OPTIMIZE: RebaseRule.REPLAN,
    WriteKind.UPGRADE: RebaseRule.REPLAN,
    WriteKind.BRANCH_DELETE: RebaseRule.REFUSE,
    WriteKind.CLEANUP: RebaseRule.REPLAN,
    WriteKind.REPAIR: RebaseRule.REFUSE,
    WriteKind.RECOVERY: RebaseRule.REPLAN,
}


class ActionKind(StrEnum):
    """What a plan does to one table."""

    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    FORK = "fork"
    ADOPT = "adopt"
    REGISTER = "register"
    TOMBSTONE = "tombstone"
    ALTER = "alter"
    REWRITE = "rewrite"
    INDEX = "index"
    UNDO = "undo"


@record
class TableAction:
    """One table's part of a plan.

    ``commit`` is the staged table commit that phase B lands. It is absent where nothing named by a manifest moves:
    a fork or a new table lives at a place that only this plan knows, so it was finished while staging and becomes
    real with the publish; a tombstone and a change of name move nothing at all.
    """

    kind: ActionKind
    table_key: str
    commit: StagedCommit | None = None


@record
class PublishPlan:
    """Everything phases A to D need, and everything recovery needs to finish or undo them.

    The plan that holds a branch while it is deleted publishes nothing: it has no commit, and the tables that its
    change drops are what the branch alone owns. The plan of a cleanup publishes a version without a commit.
    """

    operation_id: OperationId
    kind: WriteKind
    actor: str | None
    branch: BranchName
    incarnation: str
    base_version: int
    base_commit: CommitId
    epoch: int
    schema_hash: str
    actions: tuple[TableAction, ...]
    change: ManifestChange
    read_set: tuple[str, ...]
    publish_uuid: str
    writer: WriterIdentity
    created_at_ms: int

    @property
    def target_version(self) -> int:
        """The manifest version this plan publishes; it names the claim."""
        return self.base_version + 1

    @property
    def commits(self) -> tuple[StagedCommit, ...]:
        """The table commits of phase B."""
        return tuple(action.commit for action in self.actions if action.commit is not None)


class WriterShape(TypedDict):
    """A writer's identity."""

    host: str
    pid: int
    started: str


class SignShape(TypedDict):
    """A sign of life: a renewal or a takeover."""

    writer: WriterShape
    at_ms: int


class PinShape(TypedDict):
    """A pin."""

    location: str
    branch: str | None
    version: int


class StagedShape(TypedDict):
    """A staged table commit; its Lance operation is checked where it is decoded."""

    before: PinShape
    after: PinShape
    kind: str
    uuid: str
    operation_id: str
    transaction: dict[str, Any]
    row_count: int
    files: list[str]


class ActionShape(TypedDict):
    """One table's part of a plan."""

    kind: str
    table_key: str
    commit: StagedShape | None


class BatchShape(TypedDict):
    """Which piece of a stream a commit holds."""

    app: str
    number: int


class CommitShape(TypedDict):
    """A graph commit."""

    id: str
    parent: str | None
    actor: str | None
    created_at_ms: int
    manifest_version: int
    operation: str
    branch: str
    merged_parent: str | None
    message: str | None
    published_at_ms: int
    touched: list[str]
    batch: NotRequired[BatchShape]


class EntryShape(TypedDict):
    """A table entry of the next manifest."""

    table_key: str
    object_id: str
    pin: PinShape
    row_count: int


class TombstoneShape(TypedDict):
    """A dropped table of the next manifest."""

    table_key: str
    object_id: str
    pin: PinShape
    dropped_by: str
    dropped_at_ms: int


class RenameShape(TypedDict):
    """A table that the next manifest has under another key."""

    old_key: str
    new_key: str


class SchemaShape(TypedDict):
    """An accepted schema."""

    source: str
    compiled: str
    hash: str


class FloorShape(TypedDict):
    """What a cleanup records."""

    floor: int
    swept: int
    forgotten: list[str]


class ChangeShape(TypedDict):
    """What the publish does to the manifest."""

    commits: list[CommitShape]
    put_tables: list[EntryShape]
    drop_tables: list[TombstoneShape]
    rename_tables: list[RenameShape]
    schema: SchemaShape | None
    raise_epoch: bool
    floor: NotRequired[FloorShape]


class PlanShape(TypedDict):
    """A publish plan."""

    format: int
    operation_id: str
    kind: str
    actor: str | None
    branch: str
    incarnation: str
    base_version: int
    base_commit: str
    epoch: int
    schema_hash: str
    actions: list[ActionShape]
    change: ChangeShape
    read_set: list[str]
    publish_uuid: str
    writer: WriterShape
    created_at_ms: int


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
