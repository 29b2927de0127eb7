"""Refresh and import: the ledger is brought in line with the graphs and the stored texts as they are."""

from __future__ import annotations

from omnigraph.cluster.apply.apply_plan import missing_ledger
from omnigraph.cluster.declaration import ClusterDeclaration, DeclaredGraph, graph_address, schema_address
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.graphs import ClusterGraphs, ObservedGraph
from omnigraph.cluster.ledger.approvals import ApprovalStore
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.draft import LedgerDraft, check_composites
from omnigraph.cluster.ledger.payloads import Payload, PayloadState, PayloadStore, has_payload
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.cluster.ledger.sidecars import SidecarStore
from omnigraph.cluster.ledger.state import GraphObservation, LedgerFile, StoredLedger, StoredResource
from omnigraph.cluster.recovery import sweep_sidecars
from omnigraph.errors import ClusterStateError

DRIFT = {PayloadState.MISSING: "payload_missing", PayloadState.MISMATCH: "payload_mismatch"}
"""What is said of a resource whose stored text is not what its digest says."""
CODES = {PayloadState.MISSING: "catalog_payload_missing", PayloadState.MISMATCH: "catalog_payload_mismatch"}
TOLD = {PayloadState.MISSING: "its stored text is missing", PayloadState.MISMATCH: "its stored text was changed"}


def refresh_cluster(place: ClusterPlace, declaration: ClusterDeclaration, findings: Findings) -> StoredLedger:
    """Bring the ledger in line with what is there, and return it. The ledger is locked meanwhile.

    Raises:
        ClusterStateError: there is no ledger, it cannot be read or written, or somebody has edited it.
    """
    ledger = LedgerFile(place)
    stored = ledger.read()
    if not stored.exists:
        raise missing_ledger(ledger)
    check_composites(stored.state, ledger.path)
    return _Observation(place, declaration, LedgerDraft(stored), findings).run(is_import=False)


def import_cluster(place: ClusterPlace, declaration: ClusterDeclaration, findings: Findings) -> StoredLedger:
    """Make the first ledger from what is there, and return it; nothing is written if a graph cannot be read.

    Raises:
        ClusterStateError: there is a ledger already, or it cannot be written.
    """
    ledger = LedgerFile(place)
    stored = ledger.read()
    if stored.exists:
        message = "the cluster has a ledger already; `omnigraph cluster refresh` brings it in line with the graphs"
        raise state_error("state_already_exists", ledger.path, message)
    return _Observation(place, declaration, LedgerDraft(stored), findings).run(is_import=True)


class _Observation:
    def __init__(
        self, place: ClusterPlace, declaration: ClusterDeclaration, draft: LedgerDraft, findings: Findings
    ) -> None:
        self._place = place
        self._declaration = declaration
        self._draft = draft
        self._findings = findings
        self._graphs = ClusterGraphs(place)
        self._payloads = PayloadStore(place)
        self._approvals = ApprovalStore(place)

    def run(self, *, is_import: bool) -> StoredLedger:
        approvals = self._approvals.read_all(self._findings)
        swept = sweep_sidecars(self._place, self._draft, approvals, self._findings, actor=None)
        unreadable = [
            graph.graph_id
            for graph in self._declaration.graphs.values()
            if not self._observe(graph, is_pending=graph.graph_id in swept.pending)
        ]
        if is_import and unreadable:
            return self._draft.base
        for address, resource in sorted(self._draft.resources.items()):
            if has_payload(address):
                self._check_payload(address, resource)
        self._draft.hold_unguarded(self._declaration.policies.values())
        state = self._draft.finish()
        stored = self._draft.base if state is None else LedgerFile(self._place).write(state, self._draft.base)
        for sidecar in swept.finished:
            SidecarStore(self._place).remove(sidecar, self._findings)
        for approval in approvals:
            used = self._draft.approvals.get(approval.approval_id)
            if used is not None and approval.consumed_at is None:
                self._approvals.write(used)
        return stored

    def _observe(self, graph: DeclaredGraph, *, is_pending: bool) -> bool:
        """Note how a graph is; return whether that could be told."""
        found = self._graphs.observe(graph.graph_id)
        self._draft.observations[graph.address] = _observation(graph, found, self._place.now())
        addresses = (graph.address, schema_address(graph.graph_id))
        if found.problem is not None:
            # What the recovery says of a graph that was being made tells more.
            if not is_pending:
                for address in addresses:
                    self._draft.set_status(address, "error", "graph_observation_error", message=found.problem)
            self._findings.add(
                "graph_observation_error", graph.address, f"graph '{graph.graph_id}' cannot be read: {found.problem}"
            )
            return False
        if not found.exists:
            for address in addresses:
                self._draft.drop(address)
                message = f"{graph.uri} has no graph; the next apply creates an empty one"
                self._draft.set_status(address, "drifted", "graph_missing", message=message)
            return True
        self._know(graph, found.schema_digest or "", is_pending=is_pending)
        return True

    def _know(self, graph: DeclaredGraph, digest: str, *, is_pending: bool) -> None:
        if graph.address not in self._draft.resources:
            # What else belongs to it is for the next plan: nothing of it can be seen in the graph.
            self._draft.set_graph(graph.graph_id)
        self._draft.resources[schema_address(graph.graph_id)] = StoredResource(digest=digest)
        if is_pending:
            return
        for address in (graph.address, schema_address(graph.graph_id)):
            if digest == graph.schema_digest:
                self._draft.set_status(address, "applied")
            else:
                message = "the schema of the graph differs from the declared one; the next apply migrates it"
                self._draft.set_status(address, "drifted", "schema_mismatch", message=message)

    def _check_payload(self, address: str, resource: StoredResource) -> None:
        payload = Payload(address=address, digest=resource.digest)
        try:
            found = self._payloads.look(payload)
        except ClusterStateError as problem:
            self._draft.set_status(address, "error", "payload_read_error", message=problem.message)
            self._findings.add(problem.details.finding, problem.details.path, problem.message)
            return
        if found is PayloadState.WHOLE:
            status = self._draft.statuses.get(address)
            if status is not None and status.conditions == ("payload_read_error",):
                self._draft.set_status(address, "applied")
            return
        self._draft.drop(address)
        message = f"{TOLD[found]}; the next apply stores it again"
        self._draft.set_status(address, "drifted", DRIFT[found], message=message)


def _observation(graph: DeclaredGraph, found: ObservedGraph, now: str) -> GraphObservation:
    return GraphObservation(
        address=graph_address(graph.graph_id),
        graph_uri=graph.uri,
        observed_at=now,
        exists=found.exists,
        graph_manifest_version=found.manifest_version,
        schema_digest=found.schema_digest,
        desired_schema_digest=graph.schema_digest,
        schema_matches_desired=None if found.schema_digest is None else found.schema_digest == graph.schema_digest,
        error=found.problem,
    )
