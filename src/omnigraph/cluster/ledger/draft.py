"""The next state of the ledger while a command makes it, and the digests of graphs that follow from their parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from omnigraph.cluster.declaration import DeclaredPolicy, graph_address, query_address, schema_address
from omnigraph.cluster.digests import graph_digest
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.state import (
    AppliedRevision,
    LedgerState,
    ResourceStatus,
    StatusWord,
    StoredBlobPolicy,
    StoredLedger,
    StoredResource,
)
from omnigraph.errors import ClusterStateError

_GRAPH, _POLICY = "graph.", "policy."
UNGUARDED = "policy_not_applied"
"""The condition of a graph whose declared policy bundle has not been applied: no server serves it without."""


class LedgerDraft:
    """A ledger that is being changed; what it began with stays as it was."""

    def __init__(self, base: StoredLedger) -> None:
        state = base.state
        self.base = base
        self.resources = dict(state.resources)
        self.statuses = dict(state.resource_statuses)
        self.approvals = dict(state.approval_records)
        self.recoveries = dict(state.recovery_records)
        self.observations = dict(state.observations)
        self.config_digest = state.applied_revision.config_digest

    def digest(self, address: str) -> str | None:
        """Return the digest of a resource, None if the ledger does not have it."""
        found = self.resources.get(address)
        return None if found is None else found.digest

    def set_status(self, address: str, status: StatusWord, *conditions: str, message: str | None = None) -> None:
        """Say how a resource is."""
        self.statuses[address] = ResourceStatus(status=status, conditions=conditions, message=message)

    def drop(self, address: str) -> None:
        """Forget a resource and how it is."""
        self.resources.pop(address, None)
        self.statuses.pop(address, None)

    def set_graph(
        self, graph_id: str, *, provider: str | None = None, external_blobs: StoredBlobPolicy | None = None
    ) -> None:
        """Say what belongs to a graph beside its schema and queries; the digest follows when the draft is finished."""
        self.resources[graph_address(graph_id)] = StoredResource(
            digest="", embedding_provider=provider, external_blob_policy=external_blobs
        )

    def drop_graph(self, graph_id: str) -> None:
        """Forget a graph with its schema and queries."""
        for address in [graph_address(graph_id), schema_address(graph_id), *queries_of(self.resources, graph_id)]:
            self.drop(address)

    def hold_unguarded(self, declared: Iterable[DeclaredPolicy]) -> None:
        """Mark every graph that a declared bundle applies to and an applied one does not: it waits for its bundle."""
        bound = {
            target
            for address, resource in self.resources.items()
            if address.startswith(_POLICY)
            for target in resource.applies_to or ()
        }
        for policy in declared:
            for target in policy.applies_to:
                if target in self.resources and target not in bound:
                    message = f"{policy.address} has not been applied to it; `omnigraph cluster apply` does that"
                    self.set_status(target, "blocked", UNGUARDED, message=message)

    def seal_graphs(self) -> None:
        """Bring the digests of all graphs in line with what belongs to them."""
        for graph_id in graphs_of(self.resources):
            address = graph_address(graph_id)
            found = composite_of(self.resources, graph_id)
            if found is None:
                found = self.base.state.resource_digests.get(address, "")
            self.resources[address] = msgspec.structs.replace(self.resources[address], digest=found)

    def finish(self) -> LedgerState | None:
        """Return the next state, None if it says what the ledger says already."""
        self.seal_graphs()
        before = self.base.state
        after = LedgerState(
            version=before.version,
            state_revision=before.state_revision,
            applied_revision=AppliedRevision(config_digest=self.config_digest, resources=self.resources),
            resource_statuses=self.statuses,
            approval_records=self.approvals,
            recovery_records=self.recoveries,
            observations=self.observations,
        )
        if after == before and self.base.exists:
            return None
        return msgspec.structs.replace(after, state_revision=before.state_revision + 1)


def graphs_of(resources: Mapping[str, StoredResource]) -> list[str]:
    """Return the ids of the graphs among resources, sorted."""
    return sorted(address.removeprefix(_GRAPH) for address in resources if address.startswith(_GRAPH))


def queries_of(resources: Mapping[str, StoredResource], graph_id: str) -> list[str]:
    """Return the addresses of the queries of a graph, sorted."""
    prefix = query_address(graph_id, "")
    return sorted(address for address in resources if address.startswith(prefix))


def composite_of(resources: Mapping[str, StoredResource], graph_id: str) -> str | None:
    """Return the digest of a graph that follows from its parts, None if its schema is not among the resources."""
    graph, schema = resources[graph_address(graph_id)], resources.get(schema_address(graph_id))
    if schema is None:
        return None
    provider: tuple[str, str] | None = None
    if graph.embedding_provider is not None:
        found = resources.get(graph.embedding_provider)
        provider = (graph.embedding_provider, "" if found is None else found.digest)
    prefix = query_address(graph_id, "")
    policy = graph.external_blob_policy
    return graph_digest(
        graph_id,
        schema=schema.digest,
        queries={
            address.removeprefix(prefix): resources[address].digest for address in queries_of(resources, graph_id)
        },
        provider=provider,
        external_blobs=None if policy is None else msgspec.to_builtins(policy),
    )


def check_composites(state: LedgerState, path: str) -> None:
    """Return if the digest of every graph of a ledger follows from its parts.

    A graph whose schema the ledger has lost is left to a refresh.

    Raises:
        ClusterStateError: ``external_blob_policy_digest_mismatch``: somebody has edited the ledger.
    """
    for problem in composite_problems(state, path):
        raise problem


def composite_problems(state: LedgerState, path: str) -> Iterator[ClusterStateError]:
    """Yield an error for every graph whose digest does not follow from its parts."""
    for graph_id in graphs_of(state.resources):
        found = composite_of(state.resources, graph_id)
        if found is not None and found != state.resources[graph_address(graph_id)].digest:
            message = (
                f"the digest of {graph_address(graph_id)} does not follow from its schema, queries, provider and "
                "external blobs; restore the ledger from a backup, or remove it and run `omnigraph cluster import`"
            )
            yield state_error("external_blob_policy_digest_mismatch", path, message)
