"""What a server boots from: the applied revision of a cluster, read at once, without a lock and without a repair.

What is wrong with the cluster as a whole is an error. What is wrong with one graph sets that graph aside.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

from omnigraph.cluster.config.reading import read_storage_root
from omnigraph.cluster.declaration import (
    CLUSTER,
    BlobScope,
    EmbeddingProfile,
    graph_address,
    graph_uri,
    query_address,
    schema_address,
)
from omnigraph.cluster.diagnostics import ClusterFinding, Findings
from omnigraph.cluster.digests import file_digest, provider_digest
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.draft import UNGUARDED, check_composites, graphs_of, queries_of
from omnigraph.cluster.ledger.payloads import Payload, PayloadStore, has_payload
from omnigraph.cluster.ledger.place import STATE, ClusterPlace
from omnigraph.cluster.ledger.sidecars import SUFFIX, Sidecar, SidecarStore
from omnigraph.cluster.ledger.state import LedgerFile, LedgerState
from omnigraph.cluster.provider_keys import resolve_profile
from omnigraph.engine.embedding.settings import EmbeddingSettings
from omnigraph.errors import ClusterStateError, EmbeddingSettingsError
from omnigraph.ir.stored_queries import QuerySource
from omnigraph.records import record
from omnigraph.runtime import side_by_side
from omnigraph.txn.stored_json import to_builtins

_log = logging.getLogger(__name__)

_READS_AT_ONCE = 16
_POLICY = "policy."
_SERVED_SCOPES = frozenset({BlobScope.SERVER_SAFE.value})


@record
class AppliedPolicy:
    """A policy bundle as it was applied."""

    name: str
    data: bytes = field(repr=False)


@record
class AppliedGraph:
    """A graph as it was applied: where it lives, and everything that a server needs to serve it.

    ``blob_bases`` are the bases of external blobs that a server may take in. Without ``embedding`` the environment
    says who embeds.
    """

    graph_id: str
    uri: str
    queries: tuple[QuerySource, ...] = ()
    policy: AppliedPolicy | None = None
    embedding: EmbeddingSettings | None = None
    blob_bases: tuple[str, ...] = ()


@record
class QuarantinedGraph:
    """A graph that cannot be served before something is put right."""

    graph_id: str
    uri: str
    finding: ClusterFinding


@record
class ServingSnapshot:
    """The applied revision of a cluster.

    Args:
        storage_root: where the cluster lives.
        stamp: tells whether the ledger is still the one that was read.
        revision: the number of the revision.
        graphs: the graphs to serve.
        quarantined: those that were set aside.
        policy: the bundle of the cluster, if there is one.
        texts: the payloads, by address and digest; they never change.
    """

    storage_root: str
    stamp: str | None
    revision: int
    graphs: tuple[AppliedGraph, ...]
    quarantined: tuple[QuarantinedGraph, ...] = ()
    policy: AppliedPolicy | None = None
    texts: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)


def find_root(place: str) -> str:
    """Return the storage root of a cluster: of its directory, or the one that is named itself.

    Raises:
        ClusterStateError: the config of the directory does not tell it.
    """
    if "://" in place:
        return place
    reading = read_storage_root(place)
    if reading.declaration is None or reading.findings.has_errors:
        first = reading.findings.errors[0]
        raise state_error(first.code, first.path, first.message)
    return reading.declaration.storage_root


def ledger_stamp(place: ClusterPlace) -> str | None:
    """Return what changes whenever the ledger is replaced, by one cheap call; None without a ledger.

    Raises:
        OmnigraphError: storage does not answer.
    """
    return place.objects.stamp(STATE)


def read_serving(
    place: ClusterPlace, environment: Mapping[str, str], known: ServingSnapshot | None = None
) -> ServingSnapshot:
    """Read the applied revision.

    Args:
        place: the storage root of the cluster.
        environment: holds the keys that profiles of providers refer to.
        known: an earlier one, whose texts need not be read again.

    Raises:
        ClusterStateError: nothing can be served of it; ``details.finding`` is the code of the reason.
    """
    # Before the ledger, so that one that is replaced meanwhile is noticed.
    stamp = ledger_stamp(place)
    ledger = LedgerFile(place)
    stored = ledger.read()
    state = stored.state
    if not stored.exists:
        message = "the cluster has no ledger yet; run `omnigraph cluster import` and `omnigraph cluster apply`"
        raise state_error("cluster_state_missing", ledger.path, message)
    check_composites(state, ledger.path)
    graphs = graphs_of(state.resources)
    if not graphs:
        message = "no graph of the cluster has been applied; run `omnigraph cluster apply`"
        raise state_error("cluster_empty", ledger.path, message)
    pending = _pending(place, state)
    texts = _texts(place, state, {} if known is None else known.texts)
    policies = _policies(state, ledger.path, texts)
    reader = _GraphReader(place=place, state=state, environment=environment, texts=texts, policies=policies)
    found = [reader.read(graph_id, pending.get(graph_id)) for graph_id in graphs]
    healthy = tuple(graph for graph in found if isinstance(graph, AppliedGraph))
    quarantined = tuple(graph for graph in found if isinstance(graph, QuarantinedGraph))
    if not healthy:
        reasons = "; ".join(f"{graph.graph_id}: {graph.finding.message}" for graph in quarantined)
        raise state_error("cluster_no_healthy_graphs", ledger.path, f"no graph of the cluster can be served: {reasons}")
    return ServingSnapshot(
        storage_root=place.storage.root,
        stamp=stamp,
        revision=state.state_revision,
        graphs=healthy,
        quarantined=quarantined,
        policy=policies.get(CLUSTER),
        texts=texts,
    )


def _pending(place: ClusterPlace, state: LedgerState) -> dict[str, Sidecar]:
    """Return the sidecars of graphs whose change the ledger does not know yet.

    A command writes the ledger before it removes its sidecars, so that one that agrees with the ledger is done.
    """
    findings = Findings()
    store = SidecarStore(place)
    found = {}
    for sidecar in store.read_all(findings):
        if not sidecar.graph_id:
            message = "a recovery sidecar does not name its graph; run `omnigraph cluster status`"
            raise state_error("cluster_recovery_unattributed", store.path(sidecar), message)
        applied = state.resource_digests.get(schema_address(sidecar.graph_id))
        if sidecar.kind == "graph_delete" or applied != sidecar.desired_schema_digest:
            found[sidecar.graph_id] = sidecar
    for problem in findings.items:
        if problem.path.endswith(SUFFIX):
            raise state_error(problem.code, problem.path, problem.message)
        _log.warning("%s", problem.message)
    return found


def _texts(
    place: ClusterPlace, state: LedgerState, known: Mapping[tuple[str, str], bytes]
) -> dict[tuple[str, str], bytes]:
    wanted = [(address, digest) for address, digest in state.resource_digests.items() if has_payload(address)]
    store = PayloadStore(place)

    def read(key: tuple[str, str]) -> bytes:
        return known[key] if key in known else read_payload(store, Payload(address=key[0], digest=key[1]))

    with ThreadPoolExecutor(_READS_AT_ONCE, "omnigraph-payloads") as threads:
        return dict(zip(wanted, side_by_side(threads, read, wanted), strict=True))


def read_payload(store: PayloadStore, payload: Payload) -> bytes:
    """Return the text of a query or a policy as it was applied.

    Raises:
        ClusterStateError: it is missing, is another one, or cannot be read.
    """
    data = store.read(payload)
    advice = "run `omnigraph cluster refresh` and `omnigraph cluster apply`"
    if data is None:
        message = f"the text of {payload.address} is missing; {advice}"
        raise state_error("catalog_payload_missing", store.path(payload), message)
    if file_digest(data) != payload.digest:
        message = f"the stored text of {payload.address} differs from the applied one; {advice}"
        raise state_error("catalog_payload_digest_mismatch", store.path(payload), message)
    return data


def _policies(state: LedgerState, path: str, texts: Mapping[tuple[str, str], bytes]) -> dict[str, AppliedPolicy]:
    """Return the bundles by what they apply to: the cluster, or the address of a graph."""
    found: dict[str, AppliedPolicy] = {}
    for address, resource in sorted(state.resources.items()):
        if not address.startswith(_POLICY):
            continue
        if not resource.applies_to:
            message = f"the ledger has no targets for {address}; run `omnigraph cluster apply`"
            raise state_error("policy_bindings_missing", path, message)
        policy = AppliedPolicy(name=address.removeprefix(_POLICY), data=texts[address, resource.digest])
        for target in resource.applies_to:
            if target in found:
                message = f"policies '{found[target].name}' and '{policy.name}' both apply to {target}"
                raise state_error("duplicate_policy_binding", path, message)
            found[target] = policy
    return found


@record
class _GraphReader:
    """Reads graphs of one revision."""

    place: ClusterPlace
    state: LedgerState
    environment: Mapping[str, str]
    texts: Mapping[tuple[str, str], bytes]
    policies: Mapping[str, AppliedPolicy]

    def read(self, graph_id: str, pending: Sidecar | None) -> AppliedGraph | QuarantinedGraph:
        """Return a graph to serve, or why it is set aside.

        Raises:
            ClusterStateError: the profile of its provider is missing, or is not the one that was applied.
        """
        resource = self.state.resources[graph_address(graph_id)]
        profile = None if resource.embedding_provider is None else self._profile(resource.embedding_provider)
        findings = Findings()
        self._note_problems(graph_id, pending, findings)
        embedding = None
        try:
            embedding = None if profile is None else resolve_profile(profile, self.environment)
        except EmbeddingSettingsError as problem:
            findings.add("embedding_api_key_unset", graph_address(graph_id), problem.message)
        uri = graph_uri(self.place.storage.root, graph_id)
        if findings.items:
            return QuarantinedGraph(graph_id=graph_id, uri=uri, finding=findings.items[0])
        policy = resource.external_blob_policy
        return AppliedGraph(
            graph_id=graph_id,
            uri=uri,
            queries=tuple(self._queries(graph_id)),
            policy=self.policies.get(graph_address(graph_id)),
            embedding=embedding,
            blob_bases=() if policy is None else tuple(one.uri for one in policy.bases if one.scope in _SERVED_SCOPES),
        )

    def _note_problems(self, graph_id: str, pending: Sidecar | None, findings: Findings) -> None:
        if pending is not None:
            message = (
                f"a change of the graph ({pending.kind}) is in progress or was interrupted; "
                "`omnigraph cluster apply` completes it"
            )
            findings.add("cluster_recovery_pending", SidecarStore(self.place).path(pending), message)
        if schema_address(graph_id) not in self.state.resources:
            message = (
                "the ledger has no schema of the graph; run `omnigraph cluster refresh` and `omnigraph cluster apply`"
            )
            findings.add("graph_not_applied", graph_address(graph_id), message)
        status = self.state.resource_statuses.get(graph_address(graph_id))
        if status is not None and UNGUARDED in status.conditions:
            message = f"its policy has not been applied: {status.message}"
            findings.add("graph_not_applied", graph_address(graph_id), message)

    def _profile(self, address: str) -> EmbeddingProfile:
        path = LedgerFile(self.place).path
        resource = self.state.resources.get(address)
        if resource is None or resource.embedding_profile is None:
            message = f"the ledger has no profile of {address}; run `omnigraph cluster apply`"
            raise state_error("embedding_profile_missing", path, message)
        document = to_builtins(resource.embedding_profile)
        profile = EmbeddingProfile.from_json(document)
        if provider_digest(profile.to_json()) != resource.digest:
            message = f"the profile of {address} differs from the applied one; restore the ledger from a backup"
            raise state_error("embedding_profile_digest_mismatch", path, message)
        return profile

    def _queries(self, graph_id: str) -> Iterator[QuerySource]:
        prefix = query_address(graph_id, "")
        for address in queries_of(self.state.resources, graph_id):
            name = address.removeprefix(prefix)
            text = self.texts[address, self.state.resources[address].digest].decode(errors="surrogateescape")
            yield QuerySource(name=f"{name}.gq", text=text, only=frozenset({name}))


def pending_graphs(snapshot: ServingSnapshot) -> frozenset[str]:
    """Return the graphs that were set aside because a change of them is under way."""
    return frozenset(
        graph.graph_id for graph in snapshot.quarantined if graph.finding.code == "cluster_recovery_pending"
    )


def unsettled(graph_id: str, root: str) -> ClusterStateError:
    """Return the error for a revision that is not taken over while a graph that is served is being changed."""
    message = f"graph '{graph_id}' is being changed"
    return state_error("cluster_recovery_pending", root, message)
