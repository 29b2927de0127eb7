"""Shortest paths from one node or from several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.engine.algorithms.communities import entries_of
from omnigraph.engine.algorithms.found import Found, runs
from omnigraph.engine.algorithms.libraries import sparse, sparse_graphs
from omnigraph.engine.algorithms.projection import Floats, Numbers, Projection
from omnigraph.engine.query.limits import Limits
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.values import unfit

_EDGE_BYTES = 64
_NODE_BYTES = 64


@record
class _Tree:
    """A shortest path to every node that is reached: its length, and for each node the one before it."""

    distances: Any
    previous: Numbers
    origins: Numbers

    def reached(self) -> Numbers:
        """Return the nodes that are reached, the nearest first."""
        nodes = np.flatnonzero(self.origins >= 0)
        return nodes[np.argsort(self.distances[nodes], kind="stable")]


def shortest_paths(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Find the shortest path to each node from the nearest of the sources, or from each of them, or to one target.

    Of several shortest paths the one with the fewest edges counts, and of these the one whose last node but one comes
    first by type and id.
    """
    sources = _sources(graph, params["sources"])
    target = None if params["target"] is None else graph.nodes.find("target", params["target"])
    if target is not None and params["each"]:
        details = BadValue(what="each", value="True", expected="False together with a target")
        raise UsageError("a path to a target is from the nearest source", details=details)
    limits.check(_EDGE_BYTES * graph.edge_count + _NODE_BYTES * graph.node_count)
    walked = graph.without_loops().towards(params["direction"]).lightest()
    if target is not None:
        return _path(_tree(walked, sources, limits), target)
    parts = []
    for some in ([source] for source in sources) if params["each"] else [sources]:
        tree = _tree(walked, some, limits)
        nodes = tree.reached()
        parts.append((nodes, tree.distances[nodes], tree.origins[nodes], tree.previous[nodes]))
        limits.hold(4 * nodes.nbytes)
    nodes, distances, origins, previous = (np.concatenate(some) for some in zip(*parts, strict=True))
    columns = {
        "distance": pa.array(distances),
        **graph.nodes.columns(origins, "source_"),
        **graph.nodes.columns(previous, "previous_"),
    }
    return Found(nodes=nodes, columns=columns)


def _sources(graph: Projection, given: Any) -> Numbers:
    nodes: Sequence[Any] = [given] if isinstance(given, str) else given
    if not isinstance(nodes, list | tuple | set | frozenset) or not nodes:
        raise unfit("sources", given, "at least one node")
    return np.unique([graph.nodes.find("source", node) for node in nodes])


def _tree(graph: Projection, sources: Numbers | list[Any], limits: Limits) -> _Tree:
    """Return the shortest paths from the nearest of the sources."""
    starts = np.asarray(sources, dtype=np.int64)
    offsets, targets = graph.offsets(), graph.targets
    lengths: Floats | None = None
    if graph.weights is not None:
        shape = (graph.node_count, graph.node_count)
        matrix = sparse().csr_array((graph.weights, targets, offsets), shape=shape)
        lengths = sparse_graphs().dijkstra(matrix, indices=starts, min_only=True)
        limits.check()
        # The last edge of a shortest path is one by which the distance grows exactly as it weighs.
        is_last = np.isfinite(lengths[graph.sources]) & (lengths[graph.sources] + graph.weights == lengths[targets])
        targets = targets[is_last]
        offsets = np.concatenate([[0], np.cumsum(is_last)])[offsets]
    hops = np.full(graph.node_count, -1, dtype=np.int64)
    previous, origins = hops.copy(), hops.copy()
    hops[starts], origins[starts] = 0, starts
    frontier, far = starts, 0
    while len(frontier):
        limits.check()
        far += 1
        entries = entries_of(offsets, frontier)
        ends, begins = targets[entries], np.repeat(frontier, offsets[frontier + 1] - offsets[frontier])
        fresh = hops[ends] < 0
        ends, begins = ends[fresh], begins[fresh]
        order = np.lexsort((begins, ends))
        ends, begins = ends[order], begins[order]
        firsts = runs(ends)
        frontier = ends[firsts]
        hops[frontier], previous[frontier] = far, begins[firsts]
        origins[frontier] = origins[previous[frontier]]
    return _Tree(distances=hops if lengths is None else lengths, previous=previous, origins=origins)


def _path(tree: _Tree, target: int) -> Found:
    """Return the nodes of the path to one node, in order; none if it is not reached."""
    nodes = [target] if tree.origins[target] >= 0 else []
    while nodes and tree.previous[nodes[-1]] >= 0:
        nodes.append(int(tree.previous[nodes[-1]]))
    found = np.array(nodes[::-1], dtype=np.int64)
    return Found(
        nodes=found,
        leading={"step": pa.array(np.arange(len(found)))},
        columns={"distance": pa.array(tree.distances[found])},
    )
