"""Bringing tables back to their pins: a plan like any other, whose table commits restore what was published."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omnigraph.store.staging import stage_undo
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import Commit, ManifestChange, TableEntry
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.plan import ActionKind, PublishPlan, TableAction
from omnigraph.txn.recovery.classify import Observation
from omnigraph.txn.services import BranchServices
from omnigraph.values import CommitId, OperationId

RECOVERY_ACTOR = "omnigraph:recovery"


def plan_undo(
    services: BranchServices,
    base: LoadedManifest,
    observations: Sequence[Observation],
    reason: str,
    *,
    kind: WriteKind = WriteKind.RECOVERY,
    actor: str = RECOVERY_ACTOR,
) -> PublishPlan:
    """Return a plan that undoes what moved without being published.

    It always publishes, even with nothing to undo: the version that an abandoned claim was for must be used up, so
    that its owner, should it wake, finds the compare-and-swap lost. The epoch rises with it.
    """
    runtime = services.runtime
    operation_id = OperationId(runtime.ids.ulid())
    staged = tuple(
        _undo_one(services, observation, operation_id)
        for observation in observations
        if observation.has_moved and not observation.is_foreign
    )
    state = base.state
    commit = Commit(
        id=CommitId(runtime.ids.ulid()),
        parent=state.head.commit,
        actor=actor,
        created_at_ms=runtime.clock.now_ms(),
        manifest_version=state.version + 1,
        operation=kind.value,
        branch=state.head.branch,
        merged_parent=None,
        message=reason,
        published_at_ms=state.next_moment(runtime.clock.now_ms()),
        touched=tuple(sorted(action.table_key for action in staged)),
    )
    entries = tuple(_moved_entry(base, action) for action in staged)
    return PublishPlan.upon(
        state,
        runtime,
        services.writer,
        operation_id=operation_id,
        kind=kind,
        actor=actor,
        actions=staged,
        change=ManifestChange(commits=(commit,), put_tables=entries, raise_epoch=True),
    )


def _undo_one(services: BranchServices, observation: Observation, operation_id: OperationId) -> TableAction:
    pinned = services.tables.open(observation.pin)
    head = services.tables.open(observation.pin.at(observation.head))
    commit = stage_undo(pinned, head, operation_id=operation_id, runtime=services.runtime)
    return TableAction(kind=ActionKind.UNDO, table_key=observation.table_key, commit=commit)


def _moved_entry(base: LoadedManifest, action: TableAction) -> TableEntry:
    entry = base.state.tables[action.table_key]
    # Undoing restores the pinned rows, so the count the manifest has stays true.
    return entry if action.commit is None else msgspec.structs.replace(entry, pin=action.commit.after)
