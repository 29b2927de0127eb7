"""The graphs of a server: opened side by side when it starts, each ready or blocked for a reason."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from omnigraph.engine.accepted import catalog_of
from omnigraph.engine.embedding.settings import EmbeddingSettings
from omnigraph.errors import BadValue, GraphBlockedError, OmnigraphError, UsageError
from omnigraph.graph.graph import open as open_graph
from omnigraph.ir.stored_queries import StoredQueries
from omnigraph.operations.reads import ReadStateRequest
from omnigraph.operations.request import Backend
from omnigraph.policy.policy import Policy
from omnigraph.records import record
from omnigraph.server.access.decisions import graph_missing, load_graph_policy
from omnigraph.server.config import BlockedGraph, ServedGraph, ServerSettings, is_graph_id

_OPENS_AT_ONCE = 4


@record
class ReadyGraph:
    """A graph that is being served."""

    graph_id: str
    uri: str
    backend: Backend
    queries: StoredQueries
    policy: Policy | None = None
    # As the configuration has them.
    address: str = ""
    blob_bases: tuple[str, ...] = ()
    embedding: EmbeddingSettings | None = None


class Graphs:
    """The graphs that a server opened."""

    def __init__(self, ready: Mapping[str, ReadyGraph], blocked: Mapping[str, BlockedGraph]) -> None:
        self.ready = MappingProxyType(dict(sorted(ready.items())))
        self.blocked = MappingProxyType(dict(sorted(blocked.items())))

    @classmethod
    def open(cls, settings: ServerSettings, before: Graphs | None = None) -> Graphs:
        """Open every graph, a few at a time. One that fails is set aside; one that ``before`` has open stays open.

        Raises:
            GraphBlockedError: no graph can be served, or one cannot and all are required.
            UsageError: two graphs have the same id or live at the same place.
        """
        _refuse_doubles(settings.graphs)
        ready: dict[str, ReadyGraph] = {}
        blocked = {graph.graph_id: graph for graph in settings.blocked}
        with ThreadPoolExecutor(_OPENS_AT_ONCE, "omnigraph-open") as threads:
            for outcome in threads.map(lambda served: _open(served, before), settings.graphs):
                if isinstance(outcome, ReadyGraph):
                    ready[outcome.graph_id] = outcome
                else:
                    blocked[outcome.graph_id] = outcome
        found = cls(ready, blocked)
        if not ready or (blocked and settings.requires_all_graphs):
            found.close(but=before)
            reasons = "; ".join(f"{item.graph_id}: {item.reason}" for item in blocked.values())
            details = BadValue(what="graphs", value=", ".join(blocked) or "none", expected="graphs that can be served")
            raise GraphBlockedError(f"cannot serve: {reasons or 'no graph is configured'}", details=details)
        return found

    @property
    def policies(self) -> dict[str, Policy]:
        """The policy of each graph that has one."""
        return {graph.graph_id: graph.policy for graph in self.ready.values() if graph.policy is not None}

    def get(self, graph_id: str, *, tells_blocked: bool = False) -> ReadyGraph:
        """Return a graph that is being served.

        Args:
            graph_id: its id.
            tells_blocked: whether a blocked one is told from one that does not exist.

        Raises:
            UsageError: nothing can have that id.
            GraphMissingError: no graph has that id.
            GraphBlockedError: it is blocked, and the caller is told so.
        """
        if not is_graph_id(graph_id):
            wrong = BadValue(what="graph id", value=graph_id, expected="1 to 64 letters, digits and dashes")
            raise UsageError(f"invalid graph id '{graph_id}'", details=wrong)
        found = self.ready.get(graph_id)
        if found is None and tells_blocked and graph_id in self.blocked:
            # Why is told to those who may list the graphs.
            blocked = BadValue(what="graph", value=graph_id, expected="a graph that is served")
            raise GraphBlockedError(f"graph '{graph_id}' is blocked", details=blocked)
        if found is None:
            raise graph_missing(graph_id)
        return found

    def close(self, but: Graphs | None = None) -> None:
        """Finish what is under way on every graph and let go of all of them, ``but`` for those that others have."""
        kept = () if but is None else tuple(graph.backend for graph in but.ready.values())
        for graph in self.ready.values():
            if not any(graph.backend is backend for backend in kept):
                graph.backend.close()


def _open(served: ServedGraph, before: Graphs | None) -> ReadyGraph | BlockedGraph:
    if not is_graph_id(served.graph_id):
        reason = "the id does not consist of 1 to 64 letters, digits and dashes"
        return BlockedGraph(graph_id=served.graph_id, uri=served.uri, reason=reason)
    known = () if before is None else before.ready.values()
    same = (served.uri, served.blob_bases, served.embedding)
    kept = next((graph.backend for graph in known if (graph.address, graph.blob_bases, graph.embedding) == same), None)
    is_kept = kept is not None
    try:
        policy = load_graph_policy(served)
        backend = kept or _backend(served)
    except OmnigraphError as error:
        return BlockedGraph(graph_id=served.graph_id, uri=served.uri, reason=error.message)
    try:
        state = backend.execute(ReadStateRequest()).state
        queries = StoredQueries.check(served.queries, catalog_of(state.schema))
    except OmnigraphError as error:
        if not is_kept:
            backend.close()
        return BlockedGraph(graph_id=served.graph_id, uri=served.uri, reason=error.message)
    return ReadyGraph(
        graph_id=served.graph_id,
        uri=backend.uri,
        backend=backend,
        queries=queries,
        policy=policy,
        address=served.uri,
        blob_bases=served.blob_bases,
        embedding=served.embedding,
    )


def _backend(served: ServedGraph) -> Backend:
    return open_graph(served.uri, external_blobs=served.blob_bases or None, embedding=served.embedding).backend


def _refuse_doubles(graphs: tuple[ServedGraph, ...]) -> None:
    for attribute, what in (("graph_id", "id"), ("uri", "storage")):
        seen: set[str] = set()
        for graph in graphs:
            value = getattr(graph, attribute).rstrip("/")
            if value in seen:
                details = BadValue(what="graph", value=value, expected=f"one graph for each {what}")
                raise UsageError(f"two graphs have the {what} '{value}'", details=details)
            seen.add(value)
