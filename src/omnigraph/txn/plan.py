"""The publish plan: the complete intent of a write, serialised before any table moves.

The live writer and crash recovery execute the same plan with the same code, so they cannot disagree. A plan is
therefore plain data with an explicit, versioned JSON form; it holds no handle and nothing that needs the process
that made it.
"""

from __future__ import annotations

from enum import Enum

from omnigraph.records import record
from omnigraph.store.staging import StagedCommit
from omnigraph.txn.manifest.rows import ManifestChange
from omnigraph.txn.writers import WriterIdentity
from omnigraph.values import BranchName, CommitId, OperationId


class WriteKind(Enum):
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


class RebaseRule(Enum):
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


class ActionKind(Enum):
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
