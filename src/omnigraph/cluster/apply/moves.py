"""Moves: what an apply does to graphs themselves, one after the other, each announced by a sidecar.

The first one that fails after its sidecar was written stops those that would come after it: what is wrong may be wrong
with all of them. A schema that a graph cannot come to is found out before and stops only what depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from omnigraph.cluster.apply.exports import refuse_exported
from omnigraph.cluster.declaration import ClusterDeclaration, DeclaredGraph, graph_address, schema_address
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.digests import file_digest
from omnigraph.cluster.graphs import ClusterGraphs, preview_migration
from omnigraph.cluster.ledger.approvals import Approval, ApprovalStore
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.draft import LedgerDraft
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.cluster.ledger.sidecars import Sidecar, SidecarStore
from omnigraph.cluster.ledger.state import GraphObservation, MoveKind, StoredResource
from omnigraph.cluster.plan.changes import ChangeOperation, Disposition, ResourceChange
from omnigraph.cluster.plan.diff import is_graph_change, stored_policy
from omnigraph.cluster.plan.plan import ClusterPlan
from omnigraph.cluster.recovery import bury_graph
from omnigraph.errors import ClusterStateError, Effect, OmnigraphError

_FAILED: dict[MoveKind, str] = {
    "graph_create": "graph_create_failed",
    "schema_apply": "schema_apply_failed",
    "graph_delete": "graph_delete_failed",
}
_SKIPPED: dict[MoveKind, str] = {
    "graph_create": "graph_create_skipped",
    "schema_apply": "schema_apply_skipped",
    "graph_delete": "graph_delete_skipped",
}


class GraphMoves:
    """The moves of one apply. ``failed`` says what did not work out, ``finished`` are the sidecars of what did."""

    def __init__(
        self,
        place: ClusterPlace,
        declaration: ClusterDeclaration,
        draft: LedgerDraft,
        findings: Findings,
        *,
        actor: str | None,
    ) -> None:
        self._place = place
        self._declaration = declaration
        self._draft = draft
        self._findings = findings
        self._actor = actor
        self._graphs = ClusterGraphs(place)
        self._sidecars = SidecarStore(place)
        self._approvals = ApprovalStore(place)
        self._is_stopped = False
        self.failed: dict[str, str] = {}
        self.finished: list[Sidecar] = []

    def create_graphs(self, plan: ClusterPlan) -> None:
        """Make the graphs that are not there yet."""
        for change in _applied(plan):
            if is_graph_change(change, ChangeOperation.CREATE):
                graph = self._declaration.graphs[change.graph_id or ""]
                with self._attempt("graph_create", change.resource) as is_due:
                    if is_due:
                        self._create(graph)

    def migrate_schemas(self, plan: ClusterPlan) -> None:
        """Bring graphs to the schemas that are declared."""
        for change in _applied(plan):
            if change.kind == "schema" and change.operation is ChangeOperation.UPDATE:
                graph = self._declaration.graphs[change.graph_id or ""]
                with self._attempt("schema_apply", change.resource) as is_due:
                    if is_due:
                        self._migrate(graph)

    def delete_graphs(self, plan: ClusterPlan, approvals: tuple[Approval, ...]) -> None:
        """Remove the graphs whose deletion is approved."""
        for change in _applied(plan):
            if is_graph_change(change, ChangeOperation.DELETE):
                with self._attempt("graph_delete", change.resource) as is_due:
                    if is_due:
                        self._delete(plan, change.graph_id or "", approvals)

    @contextmanager
    def _attempt(self, kind: MoveKind, address: str) -> Iterator[bool]:
        """Give whether a move is due; note it when it fails, and when it is skipped for one that has failed."""
        if self._is_stopped:
            self.failed[address] = _SKIPPED[kind]
            self._findings.add(_SKIPPED[kind], address, "not attempted, since a change of another graph has failed")
            yield False
            return
        try:
            yield True
        except OmnigraphError as problem:
            self.failed[address] = _FAILED[kind]
            if isinstance(problem, ClusterStateError):
                self._findings.add(problem.details.finding, problem.details.path, problem.message)
            else:
                self._findings.add(_FAILED[kind], address, problem.message)

    def _create(self, graph: DeclaredGraph) -> None:
        if self._graphs.observe(graph.graph_id).exists:
            message = (
                f"{graph.uri} already has objects that are not in the ledger; run `omnigraph cluster "
                "refresh` to adopt them, or remove them"
            )
            raise state_error("graph_create_failed", graph.address, message)
        sidecar = self._announce("graph_create", graph.graph_id, desired=graph.schema_digest)
        with self._moving(sidecar):
            verify_file(graph.schema_file, graph.schema_digest, schema_address(graph.graph_id))
            version = self._graphs.create(
                graph.graph_id, graph.schema_data, actor=self._actor, source_name=graph.schema_path
            )
        noted = self._note(sidecar, version)
        self._draft.set_graph(
            graph.graph_id, provider=graph.provider, external_blobs=stored_policy(graph.external_blobs)
        )
        self._know_schema(graph, version)
        self.finished.append(noted)

    def _migrate(self, graph: DeclaredGraph) -> None:
        address, text = schema_address(graph.graph_id), graph.schema_data
        with self._graphs.opened(graph.graph_id, "read_write") as opened:
            verify_file(graph.schema_file, graph.schema_digest, address)
            preview = preview_migration(opened, text, source_name=graph.schema_path)
            if not preview.supported:
                message = f"graph '{graph.graph_id}' cannot come to this schema: {preview.refusal}"
                raise state_error("schema_apply_failed", address, message)
            version = opened.snapshot().state.version
            sidecar = self._announce("schema_apply", graph.graph_id, desired=graph.schema_digest, observed=version)
            with self._moving(sidecar):
                done = self._graphs.migrate(opened, text, actor=self._actor, source_name=graph.schema_path)
            noted = self._note(sidecar, done.manifest_version)
        self._know_schema(graph, done.manifest_version)
        self.finished.append(noted)

    def _delete(self, plan: ClusterPlan, graph_id: str, approvals: tuple[Approval, ...]) -> None:
        address, required = graph_address(graph_id), plan.approval_of(graph_id)
        approval = None if required is None else required.approval
        current = None if approval is None else self._approvals.find(approval.approval_id)
        if required is None or current is None or current.consumed_at or not required.binding.matches(current):
            message = "the approval of this deletion was removed or used; nothing was deleted"
            raise state_error("apply_approval_invariant_violation", address, message)
        refuse_exported(self._place, graph_id)
        observed = self._graphs.observe(graph_id).manifest_version
        sidecar = self._announce("graph_delete", graph_id, observed=observed, approval_id=current.approval_id)
        with self._moving(sidecar):
            self._graphs.remove(graph_id)
        noted = self._note(sidecar, None)
        bury_graph(self._draft, sidecar, approvals, self._place.now(), self._actor)
        self.finished.append(noted)

    def _announce(
        self,
        kind: MoveKind,
        graph_id: str,
        *,
        desired: str | None = None,
        observed: int | None = None,
        approval_id: str | None = None,
    ) -> Sidecar:
        self._place.runtime.failpoints.hit("cluster.apply.before_sidecar")
        sidecar = Sidecar(
            schema_version=1,
            operation_id=str(self._place.runtime.ids.ulid()),
            started_at=self._place.now(),
            actor=self._actor,
            kind=kind,
            graph_id=graph_id,
            graph_uri=self._place.graph_storage(graph_id).root,
            observed_manifest_version=observed,
            desired_schema_digest=desired,
            state_cas_base=self._draft.base.cas,
            approval_id=approval_id,
        )
        self._sidecars.write(sidecar)
        return sidecar

    @contextmanager
    def _moving(self, sidecar: Sidecar) -> Iterator[None]:
        """Move a graph. A failure stops the moves that follow; the sidecar stays unless surely nothing has happened."""
        try:
            self._place.runtime.failpoints.hit("cluster.apply.after_sidecar")
            yield
            self._place.runtime.failpoints.hit("cluster.apply.after_move")
        except OmnigraphError as problem:
            self._is_stopped = True
            if isinstance(problem, ClusterStateError) or problem.effect is Effect.NONE:
                self._forget_unless_moved(sidecar)
            raise

    def _forget_unless_moved(self, sidecar: Sidecar) -> None:
        """Remove the sidecar of a move that was refused, if its graph is what it was."""
        found = self._graphs.observe(sidecar.graph_id)
        is_same = found.problem is None and found.manifest_version == sidecar.observed_manifest_version
        if is_same and found.exists == (sidecar.kind != "graph_create"):
            self._sidecars.remove(sidecar, self._findings)

    def _note(self, sidecar: Sidecar, version: int | None) -> Sidecar:
        """Keep how a move ended, and return the sidecar that says so; the ledger is what makes it stand."""
        noted = msgspec.structs.replace(sidecar, expected_manifest_version=version)
        try:
            self._sidecars.write(noted)
        except OmnigraphError:
            self._is_stopped = True
            raise
        self._place.runtime.failpoints.hit("cluster.apply.after_note")
        return noted

    def _know_schema(self, graph: DeclaredGraph, version: int) -> None:
        self._draft.resources[schema_address(graph.graph_id)] = StoredResource(digest=graph.schema_digest)
        self._draft.observations[graph.address] = GraphObservation(
            address=graph.address,
            graph_uri=graph.uri,
            observed_at=self._place.now(),
            exists=True,
            graph_manifest_version=version,
            schema_digest=graph.schema_digest,
            desired_schema_digest=graph.schema_digest,
            schema_matches_desired=True,
        )


def verify_file(file: Path, digest: str, address: str) -> None:
    """Return if a file still has the digest that was planned with.

    Raises:
        ClusterStateError: ``resource_content_changed``.
    """
    try:
        data = file.read_bytes()
    except OSError as problem:
        why = (problem.strerror or "unreadable").lower()
        raise state_error("resource_content_changed", address, f"cannot read '{file}' again: {why}") from problem
    if file_digest(data) != digest:
        message = f"'{file}' has changed since the plan was made; apply again"
        raise state_error("resource_content_changed", address, message)


def _applied(plan: ClusterPlan) -> list[ResourceChange]:
    return [change for change in plan.changes if change.disposition is Disposition.APPLIED]
