"""Recovery: what became of changes of graphs that broke off, found out by looking at the graphs.

Nothing is rolled back and no graph is deleted here: the ledger is brought in line with what is there, or the sidecar
is kept and the graph waits for a person.
"""

from __future__ import annotations

import msgspec

from omnigraph.cluster.declaration import graph_address, schema_address
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.graphs import ClusterGraphs, ObservedGraph
from omnigraph.cluster.ledger.approvals import Approval
from omnigraph.cluster.ledger.draft import LedgerDraft
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.cluster.ledger.sidecars import Sidecar, SidecarStore
from omnigraph.cluster.ledger.state import GraphObservation, RecoveryRecord, StoredResource, Tombstone
from omnigraph.records import record

ROLLED_FORWARD = "rolled_forward"


@record
class SweptSidecars:
    """What a sweep has made of the sidecars.

    ``finished`` are removed once the ledger is written. ``pending`` are the graphs whose sidecars stay;
    ``has_unreadable`` says that some cannot be attributed to any graph.
    """

    finished: tuple[Sidecar, ...] = ()
    pending: frozenset[str] = frozenset()
    has_unreadable: bool = False


def pending_sidecars(place: ClusterPlace, findings: Findings) -> SweptSidecars:
    """Return the graphs with a change that broke off, with a warning for each; nothing is looked at or changed."""
    before = len(findings.items)
    sidecars = SidecarStore(place).read_all(findings)
    has_unreadable = len(findings.items) > before
    for sidecar in sidecars:
        message = f"{_told(sidecar)} was interrupted; the next apply, refresh or import determines its outcome"
        findings.add("cluster_recovery_pending", graph_address(sidecar.graph_id), message)
    # A deletion that broke off is proposed again, or turns out to be done.
    pending = frozenset(sidecar.graph_id for sidecar in sidecars if sidecar.kind != "graph_delete")
    return SweptSidecars(pending=pending, has_unreadable=has_unreadable)


def sweep_sidecars(
    place: ClusterPlace, draft: LedgerDraft, approvals: tuple[Approval, ...], findings: Findings, *, actor: str | None
) -> SweptSidecars:
    """Bring the ledger in line with what became of each change that broke off.

    Args:
        place: the cluster.
        draft: the ledger, which is changed.
        approvals: all that were given; those of deletions that turn out to be done are consumed.
        findings: where the outcome is noted.
        actor: who runs the command; who began the change if it names nobody.
    """
    before = len(findings.items)
    sidecars = SidecarStore(place).read_all(findings)
    has_unreadable = len(findings.items) > before
    sweep = _Sweep(place, draft, approvals, findings, actor)
    finished = tuple(sidecar for sidecar in sidecars if sweep.settles(sidecar))
    pending = frozenset(sidecar.graph_id for sidecar in sidecars if sidecar not in finished)
    return SweptSidecars(finished=finished, pending=pending, has_unreadable=has_unreadable)


class _Sweep:
    def __init__(
        self,
        place: ClusterPlace,
        draft: LedgerDraft,
        approvals: tuple[Approval, ...],
        findings: Findings,
        actor: str | None,
    ) -> None:
        self._place = place
        self._graphs = ClusterGraphs(place)
        self._draft = draft
        self._approvals = approvals
        self._findings = findings
        self._actor = actor

    def settles(self, sidecar: Sidecar) -> bool:
        """Deal with one sidecar; return whether it has done its work."""
        found = self._graphs.observe(sidecar.graph_id)
        if sidecar.kind == "graph_delete":
            return self._settle_delete(sidecar, found)
        if not found.exists:
            # Of a graph that was to be made nothing is there; one that is gone has no schema to wait for.
            return sidecar.kind == "graph_create" or self._keep_missing(sidecar)
        if found.problem is not None:
            self._keep_unreadable(sidecar, found.problem, is_reachable=found.is_reachable)
            return False
        if found.schema_digest == self._draft.digest(schema_address(sidecar.graph_id)):
            return True
        if found.schema_digest == sidecar.desired_schema_digest:
            self._roll_forward(sidecar, found)
            return True
        self._keep_unknown(sidecar)
        return False

    def _roll_forward(self, sidecar: Sidecar, found: ObservedGraph) -> None:
        graph_id, draft = sidecar.graph_id, self._draft
        digest = sidecar.desired_schema_digest or ""
        if graph_address(graph_id) not in draft.resources:
            # What else belongs to it is for the next plan.
            draft.set_graph(graph_id)
        draft.resources[schema_address(graph_id)] = StoredResource(digest=digest)
        for address in (graph_address(graph_id), schema_address(graph_id)):
            draft.set_status(address, "applied")
        draft.observations[graph_address(graph_id)] = GraphObservation(
            address=graph_address(graph_id),
            graph_uri=sidecar.graph_uri,
            observed_at=self._place.now(),
            exists=True,
            graph_manifest_version=found.manifest_version,
            schema_digest=digest,
            desired_schema_digest=digest,
            schema_matches_desired=True,
        )
        self._record(sidecar)

    def _settle_delete(self, sidecar: Sidecar, found: ObservedGraph) -> bool:
        address = graph_address(sidecar.graph_id)
        if found.exists:
            message = f"{_told(sidecar)} was interrupted before the graph was deleted; it is planned again"
            self._findings.add("graph_delete_incomplete", address, message)
        elif address in self._draft.resources:
            bury_graph(self._draft, sidecar, self._approvals, self._place.now(), self._actor or sidecar.actor)
            self._record(sidecar)
        return True

    def _record(self, sidecar: Sidecar) -> None:
        self._draft.recoveries[sidecar.operation_id] = RecoveryRecord(
            kind=sidecar.kind,
            graph_id=sidecar.graph_id,
            outcome=ROLLED_FORWARD,
            recovered_at=self._place.now(),
            actor=self._actor or sidecar.actor,
        )
        message = f"{_told(sidecar)} had succeeded; the ledger has been updated"
        self._findings.add("cluster_recovery_rolled_forward", graph_address(sidecar.graph_id), message)

    def _keep_missing(self, sidecar: Sidecar) -> bool:
        address = graph_address(sidecar.graph_id)
        if address not in self._draft.resources:
            return True
        self._pending(sidecar, "the graph does not exist any more; `omnigraph cluster refresh` updates the ledger")
        return False

    def _keep_unreadable(self, sidecar: Sidecar, problem: str, *, is_reachable: bool) -> None:
        address = graph_address(sidecar.graph_id)
        # Nobody may remove what storage has only failed to show.
        if sidecar.kind == "graph_create" and is_reachable:
            message = (
                f"{_told(sidecar)} left something at {sidecar.graph_uri} that cannot be opened: {problem}; remove it "
                "and apply again"
            )
            self._draft.set_status(address, "error", "graph_create_incomplete", message=message)
            self._findings.add("graph_create_incomplete", address, message)
        else:
            self._pending(sidecar, f"the graph cannot be opened: {problem}")

    def _keep_unknown(self, sidecar: Sidecar) -> None:
        told = "the schema of the graph is neither the old nor the planned one; run `omnigraph cluster refresh`"
        for address in (graph_address(sidecar.graph_id), schema_address(sidecar.graph_id)):
            self._draft.set_status(address, "drifted", "actual_applied_state_pending", message=told)
        self._pending(sidecar, told)

    def _pending(self, sidecar: Sidecar, why: str) -> None:
        message = f"{_told(sidecar)} was interrupted and cannot be recovered yet: {why}"
        self._findings.add("cluster_recovery_pending", graph_address(sidecar.graph_id), message)


def bury_graph(
    draft: LedgerDraft, sidecar: Sidecar, approvals: tuple[Approval, ...], now: str, actor: str | None
) -> None:
    """Note in the ledger that a graph is deleted, and that the approval of that was used."""
    draft.drop_graph(sidecar.graph_id)
    draft.observations[graph_address(sidecar.graph_id)] = Tombstone(
        deleted_at=now, approval_id=sidecar.approval_id, actor=actor
    )
    for approval in approvals:
        if approval.approval_id == sidecar.approval_id:
            draft.approvals[approval.approval_id] = msgspec.structs.replace(
                approval, consumed_at=now, consumed_by_operation=sidecar.operation_id
            )


_VERBS = {"graph_create": "creating", "schema_apply": "migrating", "graph_delete": "deleting"}


def _told(sidecar: Sidecar) -> str:
    return f"{_VERBS[sidecar.kind]} graph '{sidecar.graph_id}' (operation {sidecar.operation_id})"
