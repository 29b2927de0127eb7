"""What was applied of a cluster, for commands on it: ledger and texts are read, whatever is wrong with the graphs."""

from __future__ import annotations

from omnigraph.cluster.declaration import CLUSTER, graph_address, graph_uri, query_address
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.draft import graphs_of, queries_of
from omnigraph.cluster.ledger.payloads import Payload, PayloadStore
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.cluster.ledger.state import LedgerFile
from omnigraph.cluster.serving import find_root, read_payload
from omnigraph.ir.stored_queries import QuerySource
from omnigraph.records import record

_POLICY = "policy."


@record
class BoundPolicy:
    """A bundle as it was applied, and what it applies to: the cluster, or addresses of graphs."""

    name: str
    applies_to: tuple[str, ...]
    data: bytes

    @property
    def is_of_cluster(self) -> bool:
        """Whether it applies to the cluster as a whole."""
        return CLUSTER in self.applies_to


class AppliedCluster:
    """A cluster as it was applied.

    Args:
        where: its directory, or its storage root.

    Raises:
        ClusterStateError: there is no ledger, or it cannot be read.
    """

    def __init__(self, where: str) -> None:
        self._place = ClusterPlace(find_root(where))
        ledger = LedgerFile(self._place)
        stored = ledger.read()
        if not stored.exists:
            message = "the cluster has no ledger yet; run `omnigraph cluster import` and `omnigraph cluster apply`"
            raise state_error("cluster_state_missing", ledger.path, message)
        self._resources = stored.state.resources

    @property
    def graphs(self) -> tuple[str, ...]:
        """The ids of its graphs."""
        return tuple(graphs_of(self._resources))

    def graph_uri(self, graph_id: str) -> str:
        """Return where a graph lives.

        Raises:
            ClusterStateError: it has not been applied.
        """
        if graph_id not in self.graphs:
            there = ", ".join(self.graphs) or "none"
            message = f"graph '{graph_id}' of the cluster has not been applied; the applied ones are: {there}"
            raise state_error("graph_not_applied", graph_address(graph_id), message)
        return graph_uri(self._place.storage.root, graph_id)

    def policies(self, graph_id: str | None = None) -> tuple[BoundPolicy, ...]:
        """Return the bundles; with a graph, those that apply to it and to the cluster.

        Raises:
            ClusterStateError: the text of one is missing, or is not the one that was applied.
        """
        found = []
        for address, resource in sorted(self._resources.items()):
            targets = resource.applies_to or ()
            wanted = graph_id is None or bool({CLUSTER, graph_address(graph_id)}.intersection(targets))
            if address.startswith(_POLICY) and wanted:
                name = address.removeprefix(_POLICY)
                found.append(BoundPolicy(name=name, applies_to=targets, data=self._text(address)))
        return tuple(found)

    def queries(self, graph_id: str) -> tuple[QuerySource, ...]:
        """Return the stored queries of a graph.

        Raises:
            ClusterStateError: the text of one is missing, or is not the one that was applied.
        """
        prefix = query_address(graph_id, "")
        return tuple(
            QuerySource(
                name=f"{address.removeprefix(prefix)}.gq",
                text=self._text(address).decode(errors="surrogateescape"),
                only=frozenset({address.removeprefix(prefix)}),
            )
            for address in queries_of(self._resources, graph_id)
        )

    def _text(self, address: str) -> bytes:
        payload = Payload(address=address, digest=self._resources[address].digest)
        return read_payload(PayloadStore(self._place), payload)
