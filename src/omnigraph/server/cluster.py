"""The cluster that a server serves: its applied revision as settings, and whether there is another one by now.

The directory is asked only for the storage root. What is edited there is served once it was applied.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from omnigraph.cluster.codes import CODES
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.cluster.serving import (
    AppliedGraph,
    AppliedPolicy,
    ServingSnapshot,
    find_root,
    ledger_stamp,
    pending_graphs,
    read_serving,
    unsettled,
)
from omnigraph.errors import ClusterStateError, Kind, OmnigraphError
from omnigraph.server.config import BlockedGraph, PolicyText, ServedGraph, ServerSettings


class ServedCluster:
    """The cluster of a server. One thread at a time asks it.

    Args:
        place: its directory, or its storage root.
        environment: holds the keys of embedding providers; that of the process when None.
    """

    def __init__(self, place: str, environment: Mapping[str, str] | None = None) -> None:
        self._where = place
        self._environment = os.environ if environment is None else environment
        self._known: ServingSnapshot | None = None
        self._place: ClusterPlace | None = None
        # The ledger that was last looked at, whatever came of it.
        self._stamp: str | None = None

    def load(self) -> ServerSettings:
        """Return what to serve of the applied revision.

        Raises:
            ClusterStateError: nothing can be served of it, or a graph that is served is being changed right now.
        """
        root = find_root(self._where)
        place = self._place = ClusterPlace(root)
        self._stamp = ledger_stamp(place)
        found = read_serving(place, self._environment, self._known)
        served = frozenset(graph.graph_id for graph in (() if self._known is None else self._known.graphs))
        for graph_id in sorted(pending_graphs(found) & served):
            raise unsettled(graph_id, root)
        self._known = found
        self._stamp = found.stamp
        return ServerSettings(
            graphs=tuple(map(_served, found.graphs)),
            blocked=tuple(
                BlockedGraph(graph_id=one.graph_id, uri=one.uri, reason=one.finding.message)
                for one in found.quarantined
            ),
            is_cluster=True,
            policy=_policy(found.policy),
        )

    def has_changed(self) -> bool:
        """Whether the ledger is another one than the one that was last looked at; costs one call.

        Raises:
            OmnigraphError: storage does not answer.
        """
        return self._place is not None and ledger_stamp(self._place) != self._stamp

    def look_again(self) -> None:
        """Take the ledger for changed, after something that may pass."""
        self._stamp = None


def may_pass(error: BaseException) -> bool:
    """Whether loading the same revision again can succeed: storage did not answer, or a command is still at work."""
    if isinstance(error, ClusterStateError):
        return CODES[error.details.finding].kind is Kind.UNAVAILABLE
    return isinstance(error, OmnigraphError) and error.kind is Kind.UNAVAILABLE


def cluster_settings(place: str) -> ServerSettings:
    """Return what to serve of a cluster, once.

    Raises:
        ClusterStateError: nothing can be served of it.
    """
    return ServedCluster(place).load()


def _served(graph: AppliedGraph) -> ServedGraph:
    return ServedGraph(
        graph_id=graph.graph_id,
        uri=graph.uri,
        queries=graph.queries,
        policy=_policy(graph.policy),
        blob_bases=graph.blob_bases,
        embedding=graph.embedding,
    )


def _policy(policy: AppliedPolicy | None) -> PolicyText | None:
    return None if policy is None else PolicyText(name=f"{policy.name}.yaml", data=policy.data)
