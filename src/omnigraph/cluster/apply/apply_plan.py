"""``apply_cluster``: everything that a plan says is done, in an order that a crash cannot spoil, then written down.

Graphs are made, then migrated; texts are stored; approved deletions come last; one write of the ledger makes all of it
the applied revision; then what announced it is removed. After a crash anywhere the next command finds out what was
done by looking at the graphs, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.cluster.apply.moves import GraphMoves, verify_file
from omnigraph.cluster.declaration import ClusterDeclaration
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger.approvals import Approval, ApprovalStore
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.draft import LedgerDraft, check_composites
from omnigraph.cluster.ledger.payloads import Payload, PayloadStore, has_payload
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.cluster.ledger.sidecars import Sidecar, SidecarStore
from omnigraph.cluster.ledger.state import LedgerFile, StoredLedger
from omnigraph.cluster.plan.changes import ChangeOperation, Disposition, ResourceChange, graph_of
from omnigraph.cluster.plan.dispositions import DEPENDENCY, RECOVERY_PENDING, UNSUPPORTED
from omnigraph.cluster.plan.plan import ClusterPlan, make_plan
from omnigraph.cluster.recovery import sweep_sidecars
from omnigraph.errors import ClusterStateError
from omnigraph.records import record


@record
class AppliedPlan:
    """What an apply did.

    Args:
        plan: what it was to do.
        changes: what became of each change.
        ledger: the ledger as it is on storage.
        is_converged: nothing is left to do.
        is_written: the ledger was written.
    """

    plan: ClusterPlan
    changes: tuple[ResourceChange, ...]
    ledger: StoredLedger
    is_converged: bool
    is_written: bool


def apply_cluster(
    place: ClusterPlace, declaration: ClusterDeclaration, findings: Findings, *, actor: str | None
) -> AppliedPlan:
    """Bring a cluster to what its config declares, as far as nothing is in the way. The ledger is locked meanwhile.

    Raises:
        ClusterStateError: there is no ledger, it cannot be read, or somebody has edited it.
    """
    return _Application(place, declaration, findings, actor).run()


class _Application:
    def __init__(
        self, place: ClusterPlace, declaration: ClusterDeclaration, findings: Findings, actor: str | None
    ) -> None:
        self._place = place
        self._declaration = declaration
        self._findings = findings
        self._actor = actor
        self._ledger = LedgerFile(place)
        self._payloads = PayloadStore(place)
        self._approvals = ApprovalStore(place)

    def run(self) -> AppliedPlan:
        stored = self._ledger.read()
        if not stored.exists:
            raise missing_ledger(self._ledger)
        check_composites(stored.state, self._ledger.path)
        draft = LedgerDraft(stored)
        approvals = self._approvals.read_all(self._findings)
        swept = sweep_sidecars(self._place, draft, approvals, self._findings, actor=self._actor)
        plan = make_plan(self._declaration, draft, pending=swept.pending, approvals=approvals, findings=self._findings)
        moves = GraphMoves(self._place, self._declaration, draft, self._findings, actor=self._actor)
        moves.create_graphs(plan)
        moves.migrate_schemas(plan)
        try:
            self._store_payloads(plan.after(moves.failed))
        except ClusterStateError as problem:
            self._findings.add(problem.details.finding, problem.details.path, problem.message)
            return self._stopped(plan, plan.after(moves.failed), stored)
        moves.delete_graphs(plan, approvals)
        changes = plan.after(moves.failed)
        self._tell(changes)
        is_converged = all(change.disposition.is_done for change in changes) and not (
            swept.pending or swept.has_unreadable
        )
        self._complete(draft, plan, changes)
        self._set_statuses(draft, plan, changes)
        if is_converged:
            draft.config_digest = self._declaration.config_digest
        return self._write(
            draft,
            plan,
            changes,
            finished=(*swept.finished, *moves.finished),
            approvals=approvals,
            is_converged=is_converged,
        )

    def _store_payloads(self, changes: Sequence[ResourceChange]) -> None:
        for change in changes:
            is_due = change.disposition is Disposition.APPLIED and change.operation is not ChangeOperation.DELETE
            if not (is_due and has_payload(change.resource) and change.after_digest is not None):
                continue
            if change.kind == "query":
                graph = self._declaration.graphs[change.graph_id or ""]
                query = graph.queries[change.resource.split(".", 2)[2]]
                file, data = query.file, query.data
            else:
                policy = self._declaration.policies[change.resource.partition(".")[2]]
                file, data = policy.file, policy.data
            verify_file(file, change.after_digest, change.resource)
            self._payloads.write(Payload(address=change.resource, digest=change.after_digest), data)
            self._place.runtime.failpoints.hit("cluster.apply.after_payload")

    def _complete(self, draft: LedgerDraft, plan: ClusterPlan, changes: Sequence[ResourceChange]) -> None:
        """Bring the resources of the draft to what was done; those of graphs that were moved are there already."""
        desired = plan.standing.desired
        for change in changes:
            is_own = change.disposition is Disposition.APPLIED and change.kind in {"query", "policy", "provider"}
            if is_own and change.operation is ChangeOperation.DELETE:
                draft.drop(change.resource)
            elif is_own or change.disposition is Disposition.DERIVED:
                draft.resources[change.resource] = desired[change.resource]

    def _set_statuses(self, draft: LedgerDraft, plan: ClusterPlan, changes: Sequence[ResourceChange]) -> None:
        """Say of every resource that it is applied, or what it waits for; what a recovery has said of it stands."""
        standing = plan.standing
        known = {*draft.resources, *standing.desired}
        kept = {
            address: status
            for address, status in draft.statuses.items()
            if address in known and graph_of(address) in standing.pending and status.status in {"error", "drifted"}
        }
        draft.statuses = {}
        for address in draft.resources:
            draft.set_status(address, "applied")
        for change in changes:
            if change.disposition is Disposition.BLOCKED:
                draft.set_status(change.resource, "blocked", change.reason or "", message=_waits_for(change))
        draft.statuses |= kept
        draft.hold_unguarded(self._declaration.policies.values())

    def _tell(self, changes: Sequence[ResourceChange]) -> None:
        for change in changes:
            if change.reason == UNSUPPORTED:
                message = f"this version cannot {change.operation.value} it by itself; it stays unchanged"
                self._findings.add("apply_unsupported_change", change.resource, message)
            elif change.reason == DEPENDENCY:
                self._findings.add("apply_dependency_blocked", change.resource, _waits_for(change))

    def _write(
        self,
        draft: LedgerDraft,
        plan: ClusterPlan,
        changes: tuple[ResourceChange, ...],
        *,
        finished: Sequence[Sidecar],
        approvals: Sequence[Approval],
        is_converged: bool,
    ) -> AppliedPlan:
        failpoints = self._place.runtime.failpoints
        state, stored = draft.finish(), draft.base
        if state is not None:
            failpoints.hit("cluster.apply.before_state")
            try:
                stored = self._ledger.write(state, draft.base)
            except ClusterStateError as problem:
                self._findings.add(problem.details.finding, problem.details.path, problem.message)
                return self._stopped(plan, changes, self._on_storage(draft.base))
            failpoints.hit("cluster.apply.after_state")
        sidecars = SidecarStore(self._place)
        for sidecar in finished:
            sidecars.remove(sidecar, self._findings)
            failpoints.hit("cluster.apply.after_cleanup")
        self._consume(draft, approvals)
        return AppliedPlan(
            plan=plan, changes=changes, ledger=stored, is_converged=is_converged, is_written=state is not None
        )

    def _consume(self, draft: LedgerDraft, approvals: Sequence[Approval]) -> None:
        """Let approvals say that they were used, those too that an earlier apply did not come to."""
        for approval in approvals:
            used = draft.approvals.get(approval.approval_id)
            if used is None or approval.consumed_at is not None:
                continue
            try:
                self._approvals.write(used)
            except ClusterStateError as problem:
                self._findings.add(problem.details.finding, problem.details.path, problem.message)
            self._place.runtime.failpoints.hit("cluster.apply.after_approval")

    def _on_storage(self, base: StoredLedger) -> StoredLedger:
        try:
            return self._ledger.read()
        except ClusterStateError:
            return base

    @staticmethod
    def _stopped(plan: ClusterPlan, changes: tuple[ResourceChange, ...], stored: StoredLedger) -> AppliedPlan:
        return AppliedPlan(plan=plan, changes=changes, ledger=stored, is_converged=False, is_written=False)


def missing_ledger(ledger: LedgerFile) -> ClusterStateError:
    """Return the error for a cluster that has no ledger yet."""
    message = "the cluster has no ledger yet; run `omnigraph cluster import` first"
    return state_error("state_missing", ledger.path, message)


def _waits_for(change: ResourceChange) -> str:
    match change.reason:
        case "approval_required":
            graph = f"graph.{change.graph_id}"
            return f"approve the deletion of {graph} first: `omnigraph cluster approve {graph}`"
        case other if other == RECOVERY_PENDING:
            return "an earlier change of its graph was interrupted and is not recovered yet"
        case other if other == DEPENDENCY:
            return "what it depends on was not applied"
        case _:
            return "the change was not made"
