"""The publish plan: the complete intent of a write, serialised before any table moves.

The live writer and crash recovery execute the same plan with the same code, so they cannot disagree. A plan is
therefore plain data with an explicit, versioned JSON form; it holds no handle and nothing that needs the process
that made it.

A sidecar may have been damaged or written by hand. Checking the types of all of it at the door keeps a bad value from
surfacing later as an error that nobody can place.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

import msgspec

from omnigraph.errors import SidecarCorruptError
from omnigraph.runtime import Runtime
from omnigraph.store.staging import StagedCommit
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.txn.manifest.rows import ManifestChange, ManifestState
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.stored_json import SealedCodec
from omnigraph.values import BranchName, CommitId, OperationId


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


class TableAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table's part of a plan.

    ``commit`` is the staged table commit that phase B lands. It is absent where nothing named by a manifest moves:
    a fork or a new table lives at a place that only this plan knows, so it was finished while staging and becomes
    real with the publish; a tombstone and a change of name move nothing at all.
    """

    kind: ActionKind
    table_key: str
    commit: StagedCommit | None = None


PLAN_FORMAT: Final = 2
# Plans of the format before have no checksum; one may still wait to be recovered.
_WITHOUT_CHECKSUM = 1
_WITHOUT_COMMIT = frozenset({WriteKind.BRANCH_DELETE, WriteKind.CLEANUP})


class PublishPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything phases A to D need, and everything recovery needs to finish or undo them.

    The plan that holds a branch while it is deleted publishes nothing: it has no commit, and the tables that its
    change drops are what the branch alone owns. The plan of a cleanup publishes a version without a commit.
    """

    format: Literal[1, 2] = PLAN_FORMAT
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

    def __post_init__(self) -> None:
        if not self.change.commits and self.kind not in _WITHOUT_COMMIT:
            msg = "a plan without a commit"
            raise ValueError(msg)

    @classmethod
    def upon(
        cls,
        state: ManifestState,
        runtime: Runtime,
        writer: WriterIdentity,
        *,
        kind: WriteKind,
        actor: str | None,
        change: ManifestChange,
        actions: tuple[TableAction, ...] = (),
        read_set: tuple[str, ...] = (),
        operation_id: OperationId | None = None,
    ) -> PublishPlan:
        """Return the plan of ``writer`` that makes the version after ``state``.

        Args:
            state: what it was decided on.
            runtime: gives its ids and the time.
            writer: who will hold its claim.
            kind: who asks for it.
            actor: on whose behalf.
            change: what it does to the manifest.
            actions: what it does to tables.
            read_set: the tables it was decided on.
            operation_id: what its files were uploaded under; a new one when there are none.
        """
        return cls(
            operation_id=OperationId(runtime.ids.ulid()) if operation_id is None else operation_id,
            kind=kind,
            actor=actor,
            branch=state.head.branch,
            incarnation=state.head.incarnation,
            base_version=state.version,
            base_commit=state.head.commit,
            epoch=state.head.epoch,
            schema_hash=state.schema.hash,
            actions=actions,
            change=change,
            read_set=read_set,
            publish_uuid=runtime.ids.uuid(),
            writer=writer,
            created_at_ms=runtime.clock.now_ms(),
        )

    @property
    def target_version(self) -> int:
        """The manifest version this plan publishes; it names the claim."""
        return self.base_version + 1

    @property
    def commits(self) -> tuple[StagedCommit, ...]:
        """The table commits of phase B."""
        return tuple(action.commit for action in self.actions if action.commit is not None)

    @property
    def chains(self) -> Mapping[str, tuple[StagedCommit, ...]]:
        """The table commits of phase B by the key of their table, in the order in which they follow one another."""
        found: dict[str, tuple[StagedCommit, ...]] = {}
        for action in self.actions:
            if action.commit is not None:
                found[action.table_key] = (*found.get(action.table_key, ()), action.commit)
        return found


PLAN = SealedCodec(
    PublishPlan,
    subject="sidecar",
    expected=f"a publish plan of format {PLAN_FORMAT}",
    error=SidecarCorruptError,
    needs_seal=lambda plan: plan.format != _WITHOUT_CHECKSUM,
)
