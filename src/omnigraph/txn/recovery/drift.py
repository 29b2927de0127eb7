"""Settling drift that recovery does not own: table commits of something that does not follow the publish protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from omnigraph.errors import ClaimBusyError, ClaimHeld, ExpectedVersionMismatchError, OmnigraphError, VersionMismatch
from omnigraph.records import record
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import Commit, ManifestChange, TableEntry
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.plan import ActionKind, PublishPlan, TableAction
from omnigraph.txn.publish.retention import Recover, publish_alone, publish_plan
from omnigraph.txn.recovery.classify import observe_table
from omnigraph.txn.recovery.undo import plan_undo
from omnigraph.txn.services import BranchServices
from omnigraph.values import CommitId

REPAIR_ACTOR = "omnigraph:repair"
FORCED_ACTOR = "omnigraph:repair:force"

Classification = Literal["no_drift", "unpublished", "verified_maintenance", "suspicious", "unverifiable"]
# What a compaction of Lance's own consists of; the reservation of fragment numbers has no name of its own.
_MAINTENANCE = frozenset({"Rewrite", "ReserveFragments", "BaseOperation"})


@record
class Drift:
    """A table whose head may be past what the branch says of it.

    ``unpublished``: the commits are of writes of ours that never became visible, and the next write undoes them.
    ``operations`` are the kinds of the commits past the pin; ``error`` says why one of them cannot be read.
    """

    entry: TableEntry
    head: int
    classification: Classification
    operations: tuple[str, ...] = ()
    error: str | None = None

    @property
    def head_pin(self) -> TablePin:
        """The newest version that the table has."""
        return self.entry.pin.at(self.head)


def find_drift(services: BranchServices, entry: TableEntry) -> Drift:
    """Look at what lies past the pin of a table that the branch owns."""
    seen = observe_table(entry.table_key, entry.pin, services.tables)
    if not seen.has_moved:
        return Drift(entry=entry, head=seen.head, classification="no_drift")
    operations: list[str] = []
    try:
        for version in range(entry.pin.version + 1, seen.head + 1):
            mark = services.tables.commit_mark(entry.pin.at(version))
            if mark.operation is None:
                error = f"the transaction of version {version} is missing"
                return _unverifiable(entry, seen.head, operations, error)
            operations.append(mark.operation)
    except OmnigraphError as trouble:
        return _unverifiable(entry, seen.head, operations, trouble.message)
    classification: Classification = "suspicious"
    if not seen.is_foreign:
        classification = "unpublished"
    elif set(operations) <= _MAINTENANCE:
        classification = "verified_maintenance"
    return Drift(entry=entry, head=seen.head, classification=classification, operations=tuple(operations))


def adopt_drift(
    services: BranchServices, recover: Recover, drifts: Sequence[Drift], *, is_forced: bool, message: str | None = None
) -> LoadedManifest:
    """Make the heads of tables what the branch says of them, as one commit; no row is written.

    Raises:
        ExpectedVersionMismatchError: a table has moved since it was looked at.
        ClaimBusyError: writers kept the branch busy for too long.
    """

    def make(base: LoadedManifest) -> PublishPlan:
        entries = []
        for drift in drifts:
            key, pin = drift.entry.table_key, drift.entry.pin
            found = base.state.table(key)
            head = services.tables.head(pin.location, pin.branch)
            if found is None or found.pin != pin or head != drift.head:
                raise _moved(key, drift.head, head)
            count = services.tables.open(drift.head_pin).row_count
            entries.append(msgspec.structs.replace(found, pin=drift.head_pin, row_count=count))
        return _plan(services, base, entries, actor=FORCED_ACTOR if is_forced else REPAIR_ACTOR, message=message)

    return publish_alone(services, recover, make)


def discard_drift(
    services: BranchServices, recover: Recover, drifts: Sequence[Drift], *, message: str | None = None
) -> LoadedManifest:
    """Bring tables back to what the branch says of them, as one commit that undoes what something else has done.

    Raises:
        ExpectedVersionMismatchError: a table has moved since it was looked at.
        ClaimBusyError: a writer is in the way.
    """
    base = services.load()
    plan = _undo(services, base, drifts, message or "discarded drift")
    if not services.claims.claim(plan):
        recover(plan.target_version)
        raise _busy(plan)
    if services.manifest.latest_version() != base.state.version:
        services.claims.release(plan.target_version)
        raise _busy(plan)
    # Whatever fails from here on, the claim stays, and whoever finds it ends what was begun.
    services.phases.commit_tables(plan)
    published = publish_plan(services, plan, base)
    services.claims.release(plan.target_version)
    return published


def _undo(services: BranchServices, base: LoadedManifest, drifts: Sequence[Drift], message: str) -> PublishPlan:
    observations = []
    for drift in drifts:
        key, pin = drift.entry.table_key, drift.entry.pin
        found = base.state.table(key)
        seen = observe_table(key, pin, services.tables)
        if found is None or found.pin != pin or seen.head != drift.head:
            raise _moved(key, drift.head, seen.head)
        # An undo spares what is not ours; here somebody has decided about it.
        observations.append(replace(seen, is_foreign=False))
    return plan_undo(services, base, observations, message, kind=WriteKind.REPAIR, actor=REPAIR_ACTOR)


def _busy(plan: PublishPlan) -> ClaimBusyError:
    details = ClaimHeld(branch=plan.branch, version=plan.target_version, holder="another writer", waited_s=0.0)
    return ClaimBusyError(
        f"another writer holds version {plan.target_version} of branch '{plan.branch}'", details=details
    )


def _plan(
    services: BranchServices, base: LoadedManifest, entries: Sequence[TableEntry], *, actor: str, message: str | None
) -> PublishPlan:
    state, runtime = base.state, services.runtime
    commit = Commit(
        id=CommitId(runtime.ids.ulid()),
        parent=state.head.commit,
        actor=actor,
        created_at_ms=runtime.clock.now_ms(),
        manifest_version=state.version + 1,
        operation=WriteKind.REPAIR.value,
        branch=state.head.branch,
        merged_parent=None,
        message=message,
        published_at_ms=state.next_moment(runtime.clock.now_ms()),
        touched=tuple(sorted(entry.table_key for entry in entries)),
    )
    return PublishPlan.upon(
        state,
        runtime,
        services.writer,
        kind=WriteKind.REPAIR,
        actor=actor,
        actions=tuple(TableAction(kind=ActionKind.ADOPT, table_key=entry.table_key) for entry in entries),
        change=ManifestChange(commits=(commit,), put_tables=tuple(entries)),
    )


def _unverifiable(entry: TableEntry, head: int, operations: Sequence[str], error: str) -> Drift:
    return Drift(entry=entry, head=head, classification="unverifiable", operations=tuple(operations), error=error[:200])


def _moved(table_key: str, expected: int, actual: int) -> ExpectedVersionMismatchError:
    details = VersionMismatch(table_key=table_key, expected=expected, actual=actual)
    return ExpectedVersionMismatchError(
        f"table '{table_key}' has changed since it was inspected: expected version {expected}, found {actual}",
        details=details,
    )
