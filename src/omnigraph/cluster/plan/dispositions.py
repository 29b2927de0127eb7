"""What an apply does about each change: the table of dispositions, and what the failure of one means for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from omnigraph.cluster.declaration import graph_address, schema_address
from omnigraph.cluster.ledger.state import StoredResource
from omnigraph.cluster.plan.changes import ChangeOperation, Disposition, ResourceChange, graph_of
from omnigraph.records import record

RECOVERY_PENDING = "cluster_recovery_pending"
APPROVAL_REQUIRED = "approval_required"
DEPENDENCY = "dependency_not_applied"
UNSUPPORTED = "apply_unsupported_kind"

_Decided = tuple[Disposition, str | None]
_APPLIED: _Decided = (Disposition.APPLIED, None)


@record
class Standing:
    """What the dispositions of changes depend on.

    Args:
        applied: the resources of the ledger.
        desired: the resources that are declared.
        pending: the graphs with a change that broke off and was not recovered.
        approved: the graphs whose deletion is approved.
        failed: changes of graphs and schemas that did not work out, by address, with the reason.
    """

    applied: Mapping[str, StoredResource]
    desired: Mapping[str, StoredResource]
    pending: frozenset[str] = frozenset()
    approved: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


def decide(changes: Sequence[ResourceChange], standing: Standing) -> tuple[ResourceChange, ...]:
    """Return the changes with what an apply does about each of them."""
    table = _Table(changes, standing)
    return tuple(_decided(change, *table.decide(change)) for change in changes)


def _decided(change: ResourceChange, disposition: Disposition, reason: str | None) -> ResourceChange:
    return replace(change, disposition=disposition, reason=reason)


class _Table:
    """The changes of one plan by address: most dispositions depend on those of other resources."""

    def __init__(self, changes: Sequence[ResourceChange], standing: Standing) -> None:
        self._changes = {change.resource: change for change in changes}
        self._standing = standing
        self._stuck = self._stuck_policies()

    def decide(self, change: ResourceChange) -> _Decided:
        match change.kind:
            case "graph":
                return self._graph(change)
            case "schema":
                return self._schema(change)
            case "query":
                return self._query(change)
            case "policy":
                return self._policy(change)
            case "provider":
                return self._provider(change)
            case _:
                return Disposition.DEFERRED, UNSUPPORTED

    def _graph(self, change: ResourceChange) -> _Decided:
        graph_id = change.graph_id or ""
        if change.operation is ChangeOperation.UPDATE:
            return (
                (Disposition.DEFERRED, DEPENDENCY) if self._has_stuck_schema(graph_id) else (Disposition.DERIVED, None)
            )
        reason = self._standing.failed.get(change.resource)
        if reason is not None:
            return Disposition.BLOCKED, reason
        if change.operation is ChangeOperation.DELETE:
            is_approved = graph_id in self._standing.approved
            return _APPLIED if is_approved else (Disposition.BLOCKED, APPROVAL_REQUIRED)
        return (Disposition.BLOCKED, RECOVERY_PENDING) if graph_id in self._standing.pending else _APPLIED

    def _schema(self, change: ResourceChange) -> _Decided:
        graph_id = change.graph_id or ""
        graph = self._changes.get(graph_address(graph_id))
        if graph is not None and graph.operation is change.operation is not ChangeOperation.UPDATE:
            # It is made and deleted with its graph.
            return self._graph(graph)
        if change.operation is ChangeOperation.DELETE:
            return Disposition.DEFERRED, UNSUPPORTED
        reason = self._standing.failed.get(change.resource)
        if reason is not None:
            return Disposition.BLOCKED, reason
        if change.operation is ChangeOperation.CREATE or graph_id in self._standing.pending:
            # A graph that is known without its schema is one whose ledger has to be refreshed.
            return Disposition.BLOCKED, RECOVERY_PENDING
        return _APPLIED

    def _query(self, change: ResourceChange) -> _Decided:
        graph_id = change.graph_id or ""
        graph = self._changes.get(graph_address(graph_id))
        if change.operation is ChangeOperation.DELETE:
            is_with_graph = graph is not None and graph.operation is ChangeOperation.DELETE
            return self._graph(graph) if graph is not None and is_with_graph else _APPLIED
        return (Disposition.BLOCKED, DEPENDENCY) if self._has_stuck_schema(graph_id) else _APPLIED

    def _policy(self, change: ResourceChange) -> _Decided:
        alone = self._policy_alone(change)
        return (Disposition.BLOCKED, DEPENDENCY) if change.resource in self._stuck and alone[0].is_done else alone

    def _policy_alone(self, change: ResourceChange) -> _Decided:
        """What the graphs that a policy applies to mean for it, whatever becomes of other policies."""
        bound = {graph_of(target) for target in self._targets(change)}
        if bound & self._standing.pending:
            return Disposition.BLOCKED, RECOVERY_PENDING
        is_waiting = any(graph_id is not None and self._is_waiting(graph_id) for graph_id in bound)
        return (Disposition.BLOCKED, DEPENDENCY) if is_waiting else _APPLIED

    def _stuck_policies(self) -> frozenset[str]:
        """The policies that stay as they were applied: what they apply to has no room for another one."""
        changes = [change for change in self._changes.values() if change.kind == "policy"]
        stuck = {change.resource for change in changes if not self._policy_alone(change)[0].is_done}
        while True:
            taken = {target for address in stuck for target in _bindings(self._standing.applied.get(address))}
            more = {
                change.resource
                for change in changes
                if change.resource not in stuck
                and taken.intersection(_bindings(self._standing.desired.get(change.resource)))
            }
            if not more:
                return frozenset(stuck)
            stuck |= more

    def _targets(self, change: ResourceChange) -> set[str]:
        """What a policy applies to, and what it would no longer apply to."""
        found = (self._standing.desired.get(change.resource), self._standing.applied.get(change.resource))
        return {target for resource in found for target in _bindings(resource)}

    def _provider(self, change: ResourceChange) -> _Decided:
        if change.operation is not ChangeOperation.DELETE:
            return _APPLIED
        users = [
            graph_of(address)
            for address, resource in self._standing.applied.items()
            if resource.embedding_provider == change.resource
        ]
        is_used = any(graph_id is not None and self._keeps_parts(graph_id) for graph_id in users)
        return (Disposition.BLOCKED, DEPENDENCY) if is_used else _APPLIED

    def _is_waiting(self, graph_id: str) -> bool:
        """Whether a graph cannot be made, or is still served because nobody has approved its deletion."""
        graph = self._changes.get(graph_address(graph_id))
        return graph is not None and not self._graph(graph)[0].is_done and graph.operation is not ChangeOperation.UPDATE

    def _keeps_parts(self, graph_id: str) -> bool:
        """Whether a graph of the ledger stays as it was recorded."""
        graph = self._changes.get(graph_address(graph_id))
        return graph is not None and not self._graph(graph)[0].is_done

    def _has_stuck_schema(self, graph_id: str) -> bool:
        """Whether a graph does not come to the schema that is declared."""
        schema = self._changes.get(schema_address(graph_id))
        if schema is not None and not self._schema(schema)[0].is_done:
            return True
        graph = self._changes.get(graph_address(graph_id))
        is_made = graph is not None and graph.operation is ChangeOperation.CREATE
        return graph is not None and is_made and not self._graph(graph)[0].is_done


def _bindings(policy: StoredResource | None) -> tuple[str, ...]:
    return () if policy is None else policy.applies_to or ()
