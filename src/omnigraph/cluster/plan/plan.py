"""``make_plan``: every difference, what an apply would do about it, what it reaches, and what has to be approved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnigraph.cluster.declaration import CLUSTER, ClusterDeclaration, graph_address, schema_address
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.graphs import ClusterGraphs
from omnigraph.cluster.ledger.approvals import Approval, ApprovalBinding, select_approval
from omnigraph.cluster.ledger.draft import LedgerDraft
from omnigraph.cluster.ledger.state import StoredResource
from omnigraph.cluster.plan.changes import ChangeOperation, ResourceChange, graph_of
from omnigraph.cluster.plan.diff import desired_resources, diff_resources, is_graph_change
from omnigraph.cluster.plan.dispositions import Standing, decide
from omnigraph.errors import OmnigraphError
from omnigraph.records import record

DELETE_REASON = "deletes the graph with all its rows and its history"


@record
class ImpactedResources:
    """What depends on a resource that changes, directly or not."""

    resource: str
    affected: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"resource": self.resource, "affected": list(self.affected)}


@record
class RequiredApproval:
    """A change that is made only with an approval; ``approval`` is the one that counts, if there is one."""

    binding: ApprovalBinding
    reason: str
    approval: Approval | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        satisfied = self.approval is not None
        return {"resource": self.binding.resource, "reason": self.reason, "satisfied": satisfied}


@record
class ClusterPlan:
    """What an apply would do. Nothing of it has happened."""

    changes: tuple[ResourceChange, ...]
    impacts: tuple[ImpactedResources, ...]
    approvals: tuple[RequiredApproval, ...]
    standing: Standing

    def after(self, failed: Mapping[str, str]) -> tuple[ResourceChange, ...]:
        """Return the changes with what becomes of each when these changes of graphs have failed."""
        return decide(self.changes, replace(self.standing, failed=failed))

    def approval_of(self, graph_id: str) -> RequiredApproval | None:
        """Return what the deletion of a graph requires; None if it is not to be deleted."""
        address = graph_address(graph_id)
        return next((one for one in self.approvals if one.binding.resource == address), None)


def make_plan(
    declaration: ClusterDeclaration,
    draft: LedgerDraft,
    *,
    pending: Iterable[str],
    approvals: Sequence[Approval],
    findings: Findings,
) -> ClusterPlan:
    """Compare a config with the ledger.

    Args:
        declaration: what is declared.
        draft: the ledger, with what a recovery has found out.
        pending: the graphs with a change that broke off and was not recovered.
        approvals: all that were given.
        findings: where approvals are noted that no longer match.
    """
    desired = desired_resources(declaration)
    changes = diff_resources(desired, draft.resources)
    required = tuple(_required(changes, declaration, draft, approvals, findings))
    standing = Standing(
        applied=dict(draft.resources),
        desired=desired,
        pending=frozenset(pending),
        approved=frozenset(graph_of(one.binding.resource) or "" for one in required if one.approval is not None),
    )
    return ClusterPlan(
        changes=decide(changes, standing),
        impacts=_impacts(changes, declaration, draft.resources),
        approvals=required,
        standing=standing,
    )


def _required(
    changes: Sequence[ResourceChange],
    declaration: ClusterDeclaration,
    draft: LedgerDraft,
    approvals: Sequence[Approval],
    findings: Findings,
) -> Iterable[RequiredApproval]:
    def is_used(approval: Approval) -> bool:
        recorded = draft.approvals.get(approval.approval_id)
        return recorded is not None and recorded.consumed_at is not None

    for change in changes:
        if is_graph_change(change, ChangeOperation.DELETE):
            binding = ApprovalBinding(
                resource=change.resource,
                operation=change.operation.value,
                config_digest=declaration.config_digest,
                before_digest=change.before_digest,
                after_digest=change.after_digest,
            )
            found = select_approval(approvals, binding, is_used, findings)
            yield RequiredApproval(binding=binding, reason=DELETE_REASON, approval=found)


def _impacts(
    changes: Sequence[ResourceChange], declaration: ClusterDeclaration, applied: Mapping[str, StoredResource]
) -> tuple[ImpactedResources, ...]:
    dependents: defaultdict[str, set[str]] = defaultdict(set)
    for dependency in declaration.dependencies:
        dependents[dependency.needed].add(dependency.dependent)
    for address, resource in applied.items():
        for needed in _needed(address, resource):
            dependents[needed].add(address)
    found = []
    for change in changes:
        affected = _reached(change.resource, dependents) - {change.resource}
        if affected:
            found.append(ImpactedResources(resource=change.resource, affected=tuple(sorted(affected))))
    return tuple(found)


def _needed(address: str, resource: StoredResource) -> set[str]:
    """What an applied resource depends on, as the ledger tells it."""
    kind, graph_id = address.partition(".")[0], graph_of(address) or ""
    match kind:
        case "schema":
            return {graph_address(graph_id)}
        case "query":
            return {graph_address(graph_id), schema_address(graph_id)}
        case "graph" if resource.embedding_provider is not None:
            return {resource.embedding_provider}
        case "policy":
            return {target for target in resource.applies_to or () if target != CLUSTER}
        case _:
            return set()


def _reached(start: str, dependents: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = dependents.get(waiting.pop(), set()) - found
        found |= fresh
        waiting.extend(fresh)
    return found


def with_previews(
    plan: ClusterPlan, declaration: ClusterDeclaration, graphs: ClusterGraphs, findings: Findings
) -> ClusterPlan:
    """Return a plan whose schema updates show the steps that the live graphs would take."""
    changes = []
    for change in plan.changes:
        graph = declaration.graphs.get(change.graph_id or "")
        if change.kind != "schema" or change.operation is not ChangeOperation.UPDATE or graph is None:
            changes.append(change)
            continue
        try:
            preview = graphs.preview(graph.graph_id, graph.schema_data, source_name=graph.schema_path)
        except OmnigraphError as problem:
            message = f"the steps cannot be shown: {problem.message}"
            findings.add("schema_preview_unavailable", change.resource, message)
            changes.append(change)
        else:
            changes.append(replace(change, migration=preview))
    return replace(plan, changes=tuple(changes))
