"""What the commands on a cluster report: one head for all of them, and what each adds to it, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from omnigraph.cluster.declaration import ClusterDeclaration
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger.approvals import Approval
from omnigraph.cluster.ledger.lock import StateLock
from omnigraph.cluster.ledger.state import LedgerState, StoredLedger
from omnigraph.cluster.plan.changes import ResourceChange
from omnigraph.cluster.plan.plan import ClusterPlan
from omnigraph.records import record
from omnigraph.txn.stored_json import to_builtins
from omnigraph.values.counts import counted


@record
class StateObservations:
    """The ledger and its lock as a command has found them.

    ``lock`` is the lock of another command; ``acquired`` the one that the command itself took and gave back.
    """

    state_path: str
    lock_path: str
    ledger: StoredLedger
    lock: StateLock | None = None
    lock_age_seconds: int | None = None
    acquired: StateLock | None = None

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON values."""
        state, lock, acquired = self.ledger.state, self.lock, self.acquired
        told = {
            "state_path": self.state_path,
            "lock_path": self.lock_path,
            "state_found": self.ledger.exists,
            "applied_config_digest": state.applied_revision.config_digest,
            "state_revision": state.state_revision,
            "state_cas": self.ledger.cas,
            "resource_count": len(state.resources),
            "locked": lock is not None,
            "lock_id": None if lock is None else lock.lock_id,
            "lock_acquired": acquired is not None,
            "acquired_lock_id": None if acquired is None else acquired.lock_id,
            "lock_operation": None if lock is None else lock.operation,
            "lock_created_at": None if lock is None else lock.created_at,
            "lock_pid": None if lock is None else lock.pid,
            "lock_age_seconds": self.lock_age_seconds,
        }
        return {name: value for name, value in told.items() if value is not None}

    def lock_line(self) -> str:
        """Return who holds the lock, as a line."""
        if self.lock is None:
            return "  not locked"
        holder = f"`cluster {self.lock.operation}` (lock {self.lock.lock_id}, process {self.lock.pid})"
        return f"  locked by {holder} since {self.lock.created_at}"


@record
class CommandReport:
    """What all commands report. ``observed`` is None where it could not be told which cluster is meant."""

    config_dir: str
    findings: Findings
    observed: StateObservations | None = None

    @property
    def is_ok(self) -> bool:
        """Whether the command did what it is for."""
        return not self.findings.has_errors

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        return self.findings.exit_code

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        head: dict[str, Any] = {
            "ok": self.is_ok,
            "config_dir": self.config_dir,
            "diagnostics": [finding.to_json() for finding in self.findings.items],
        }
        if self.observed is not None:
            head["state_observations"] = self.observed.to_json()
        return head | self.own_json()

    def own_json(self) -> dict[str, Any]:
        """Return what the command adds to the head."""
        return {}

    def to_lines(self) -> Iterable[str]:
        """Return the report as text; a command that could not do its work has none."""
        return ()

    def to_remarks(self) -> Iterable[str]:
        """Return every finding as a line."""
        return [finding.to_text() for finding in self.findings.items]

    @property
    def state(self) -> LedgerState | None:
        """What the ledger says, if it was found."""
        return None if self.observed is None else self.observed.ledger.state


@record
class PlanReport(CommandReport):
    """What an apply would do."""

    declaration: ClusterDeclaration | None = None
    plan: ClusterPlan | None = None

    def own_json(self) -> dict[str, Any]:
        """Return what the command adds to the head."""
        declared, plan = self.declaration, self.plan
        return {
            "desired_revision": _desired(declared),
            "resource_digests": {} if declared is None else declared.resource_digests,
            "dependencies": [] if declared is None else [one.to_json() for one in declared.dependencies],
            "changes": [] if plan is None else [change.to_json() for change in plan.changes],
            "blast_radius": [] if plan is None else [impact.to_json() for impact in plan.impacts],
            "approvals_required": [] if plan is None else [one.to_json() for one in plan.approvals],
        }

    def to_lines(self) -> Iterable[str]:
        """Return a line per change below one that counts them."""
        if self.plan is None:
            return
        gates = counted(len(self.plan.approvals), "approval gate")
        yield f"cluster plan: {counted(len(self.plan.changes), 'change')}, {gates}"
        for change in self.plan.changes:
            yield from change.to_lines(with_disposition=False)


@record
class ApplyReport(CommandReport):
    """What an apply has done."""

    declaration: ClusterDeclaration | None = None
    actor: str | None = None
    changes: tuple[ResourceChange, ...] | None = None
    is_converged: bool = False
    is_written: bool = False

    @property
    def done_count(self) -> int:
        """How many changes were made."""
        return sum(change.disposition.is_done for change in self.changes or ())

    def own_json(self) -> dict[str, Any]:
        """Return what the command adds to the head."""
        changes = self.changes or ()
        actor = {} if self.actor is None else {"actor": self.actor}
        return {
            **actor,
            "desired_revision": _desired(self.declaration),
            "changes": [change.to_json() for change in changes],
            "applied_count": self.done_count,
            "deferred_count": len(changes) - self.done_count,
            "converged": self.is_converged,
            "state_written": self.is_written,
            "resource_statuses": _statuses(self.state),
        }

    def to_lines(self) -> Iterable[str]:
        """Return a line per change, and how the ledger is."""
        if self.changes is None:
            return
        left = len(self.changes) - self.done_count
        yield f"cluster apply: {self.done_count} applied, {left} deferred/blocked"
        for change in self.changes:
            yield from change.to_lines(with_disposition=True)
        revision = 0 if self.state is None else self.state.state_revision
        yield f"  state: revision {revision}, converged: {_word(self.is_converged)}, written: {_word(self.is_written)}"


@record
class ApproveReport(CommandReport):
    """An approval that was given."""

    approval: Approval | None = None

    def own_json(self) -> dict[str, Any]:
        """Return what the command adds to the head."""
        found = self.approval
        if found is None:
            return {}
        return {
            "approval_id": found.approval_id,
            "resource": found.resource,
            "operation": found.operation,
            "approved_by": found.approved_by,
        }

    def to_lines(self) -> Iterable[str]:
        """Return one line."""
        found = self.approval
        if found is not None:
            approved = f"approved by {found.approved_by} (approval {found.approval_id})"
            yield f"cluster approve: {found.operation} {found.resource} {approved}"


@record
class StatusReport(CommandReport):
    """The ledger as it is."""

    def own_json(self) -> dict[str, Any]:
        """Return what the command adds to the head."""
        return _told_state(self.state)

    def to_lines(self) -> Iterable[str]:
        """Return the revision, who holds the lock, and every resource that is not as it was applied."""
        if self.observed is None or self.state is None:
            return
        yield f"cluster state: {_told_revision(self.state)}"
        yield self.observed.lock_line()
        yield from _told_statuses(self.state)


@record
class ObserveReport(CommandReport):
    """The ledger after a refresh or an import; ``is_done`` says that the command got that far."""

    operation: str
    is_done: bool = False

    def own_json(self) -> dict[str, Any]:
        """Return what the command adds to the head."""
        return {"operation": self.operation, **_told_state(self.state)}

    def to_lines(self) -> Iterable[str]:
        """Return the revision and every resource that is not as it was applied."""
        if self.is_done and self.state is not None:
            yield f"cluster {self.operation}: {_told_revision(self.state)}"
            yield from _told_statuses(self.state)


@record
class UnlockReport(CommandReport):
    """A lock that was removed."""

    removed: StateLock | None = field(default=None)

    def own_json(self) -> dict[str, Any]:
        """Return what the command adds to the head."""
        return {"lock_removed": self.removed is not None}

    def to_lines(self) -> Iterable[str]:
        """Return one line."""
        lock = self.removed
        if lock is not None:
            told = f"{lock.lock_id}, `cluster {lock.operation}` of process {lock.pid} since {lock.created_at}"
            yield f"cluster force-unlock: removed lock ({told})"


def _desired(declaration: ClusterDeclaration | None) -> dict[str, Any]:
    return {} if declaration is None else {"config_digest": declaration.config_digest}


def _statuses(state: LedgerState | None) -> Mapping[str, Any]:
    return {} if state is None else dict(sorted(to_builtins(state.resource_statuses).items()))


def _told_state(state: LedgerState | None) -> dict[str, Any]:
    return {
        "resource_digests": {} if state is None else state.resource_digests,
        "resource_statuses": _statuses(state),
        "observations": {} if state is None else dict(sorted(to_builtins(state.observations).items())),
    }


def _told_revision(state: LedgerState) -> str:
    return f"revision {state.state_revision}, {counted(len(state.resources), 'resource')}"


def _told_statuses(state: LedgerState) -> Iterable[str]:
    for address, found in sorted(state.resource_statuses.items()):
        if found.status != "applied":
            conditions = ", ".join(found.conditions)
            message = "" if found.message is None else f": {found.message}"
            yield f"  {found.status} {address} [{conditions}]{message}"


def _word(value: bool) -> str:
    return "yes" if value else "no"
