"""Which nodes hang together: weakly and strongly connected components, and how deep in the graph a node stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from omnigraph.engine.algorithms.found import Found, highest_first, in_groups
from omnigraph.engine.algorithms.libraries import igraph, sparse_graphs
from omnigraph.engine.algorithms.projection import Numbers, Projection
from omnigraph.engine.query.limits import Limits

# What scipy and igraph hold of an edge while they work.
_EDGE_BYTES = 64


def connected_components(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Group nodes that a walk along edges in either direction connects."""
    del params
    return in_groups("component", _components(graph, limits, is_strong=False))


def strongly_connected_components(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Group nodes that lead to each other along edges in their direction."""
    del params
    return in_groups("component", _components(graph, limits, is_strong=True))


def _components(graph: Projection, limits: Limits, *, is_strong: bool) -> Numbers:
    if not graph.node_count:
        return np.zeros(0, dtype=np.int64)
    limits.check(_EDGE_BYTES * graph.edge_count)
    connection = "strong" if is_strong else "weak"
    # One edge of each pair: parallel ones would add up, and a sum that overflows to zero is no edge.
    matrix = graph.lightest().matrix(np.int8)
    _, labels = sparse_graphs().connected_components(matrix, directed=True, connection=connection)
    limits.check()
    return np.asarray(labels, dtype=np.int64)


def k_core(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Return for each node the largest k such that it stays when nodes with fewer than k neighbours keep leaving."""
    del params
    pairs = graph.pairs()
    limits.check(_EDGE_BYTES * len(pairs.first))
    edges: Numbers = np.column_stack([pairs.first, pairs.second])
    found = igraph().Graph(n=graph.node_count, edges=edges).coreness()
    limits.check()
    return highest_first("core", np.asarray(found, dtype=np.int64))
