"""Kinds of writes, and what follows from the kind of one."""

from __future__ import annotations

from enum import StrEnum


class WriteKind(StrEnum):
    """Who asked for the publish; recovery reports it and the rebase rules follow from it."""

    INSERT = "insert"
    MUTATE = "mutate"
    TRANSACTION = "transaction"
    LOAD_APPEND = "load_append"
    LOAD_MERGE = "load_merge"
    LOAD_OVERWRITE = "load_overwrite"
    LOAD_APPLY = "load_apply"
    APPLY_CHANGES = "apply_changes"
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


# What a commit may say of how it came about; the first one of a graph has no writer.
OPERATIONS = ("init", *(kind.value for kind in WriteKind))


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
    # One that read anything holds values, and is treated as a mutation.
    WriteKind.TRANSACTION: RebaseRule.REVALIDATE,
    WriteKind.LOAD_OVERWRITE: RebaseRule.REFUSE,
    WriteKind.LOAD_APPLY: RebaseRule.REFUSE,
    WriteKind.APPLY_CHANGES: RebaseRule.REFUSE,
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


# Writes that end in one commit each, which a repeated request can be answered with. Doing maintenance again changes
# nothing, and a feed knows by itself what was applied.
KEYED_KINDS = frozenset(
    {
        WriteKind.INSERT,
        WriteKind.MUTATE,
        WriteKind.TRANSACTION,
        WriteKind.LOAD_APPEND,
        WriteKind.LOAD_MERGE,
        WriteKind.LOAD_OVERWRITE,
        WriteKind.LOAD_APPLY,
        WriteKind.SCHEMA_APPLY,
        WriteKind.BRANCH_MERGE,
        WriteKind.REVERT,
    }
)
