"""How important nodes are: degree, PageRank, betweenness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from omnigraph.engine.algorithms.found import Found, highest_first
from omnigraph.engine.algorithms.libraries import igraph
from omnigraph.engine.algorithms.projection import Floats, Numbers, Projection
from omnigraph.engine.algorithms.seeds import chosen_nodes
from omnigraph.engine.query.limits import Limits
from omnigraph.errors import AlgorithmInputError, BadValue
from omnigraph.values import check_number, unfit
from omnigraph.values.counts import counted

# Edges that one call to the library looks at before the limits are asked again.
_EDGES_AT_ONCE = 20_000_000
_IGRAPH_EDGE_BYTES = 96


def degree(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Count the edges of each node, or add up what they weigh; a loop counts at both its ends."""
    limits.check(16 * graph.node_count)
    ends = {"out": [graph.sources], "in": [graph.targets], "both": [graph.sources, graph.targets]}[params["direction"]]
    if graph.weights is None:
        found = sum(np.bincount(end, minlength=graph.node_count) for end in ends)
        return highest_first("degree", np.asarray(found, dtype=np.int64))
    sums = sum(np.bincount(end, weights=graph.weights, minlength=graph.node_count) for end in ends)
    return highest_first("degree", np.asarray(sums, dtype=np.float64))


def pagerank(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Follow edges by weight with probability ``damping``, or else jump: anywhere, or to one of the sources.

    Nodes without edges to follow jump always. The iteration stops when all scores together change by less than
    ``tolerance``.
    """
    count = graph.node_count
    if not count:
        return highest_first("score", np.zeros(0))
    walked = graph.towards(params["direction"])
    limits.check(40 * walked.edge_count + 48 * count)
    jump = _jump(graph, params["sources"])
    matrix = walked.matrix()
    total = np.asarray(matrix.sum(axis=1)).ravel()
    is_stuck = total == 0
    share = np.divide(1.0, total, out=np.zeros(count), where=~is_stuck)
    matrix.data *= np.repeat(share, np.diff(matrix.indptr))
    incoming = matrix.T.tocsr()
    damping, scores = params["damping"], jump
    for _ in range(params["max_iterations"]):
        limits.check()
        reached = incoming @ scores + scores[is_stuck].sum() * jump
        following = damping * reached + (1 - damping) * jump
        change, scores = float(np.abs(following - scores).sum()), following
        if change < params["tolerance"]:
            return highest_first("score", scores)
    warning = f"scores still changed by {change:.3g} after {counted(params['max_iterations'], 'iteration')}"
    return highest_first("score", scores, (warning,))


def _jump(graph: Projection, sources: Any) -> Floats:
    """Return where a jump leads, as probabilities; ``sources`` are nodes, or nodes with how much each counts."""
    count = graph.node_count
    if sources is None:
        return np.full(count, 1 / count)
    shares = sources if isinstance(sources, Mapping) else dict.fromkeys(map(_hashable, sources), 1.0)
    if not shares:
        raise unfit("sources", sources, "at least one node")
    jump = np.zeros(count)
    for node, share in shares.items():
        check_number("share of a source", share)
        jump[graph.nodes.find("source", node)] += share
    if not jump.sum():
        details = BadValue(what="sources", value="0", expected="a share above zero")
        raise AlgorithmInputError("the shares of all sources are zero", details=details)
    shared: Floats = jump / jump.sum()
    return shared


def _hashable(node: Any) -> Any:
    return tuple(node) if isinstance(node, list) else node


def betweenness(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Count for each node the shortest paths between others that lead through it, in shares where there are several.

    With ``samples``, only paths from so many nodes are counted, and the result is scaled up.
    """
    count, is_directed = graph.node_count, params["direction"] != "both"
    kept = graph.without_loops()
    if is_directed:
        kept = kept.towards(params["direction"]).lightest()
    else:
        low, high = np.minimum(kept.sources, kept.targets), np.maximum(kept.sources, kept.targets)
        kept = Projection.of(kept.nodes, low, high, kept.weights).lightest()
    limits.check(_IGRAPH_EDGE_BYTES * kept.edge_count + 64 * count)
    every = np.arange(count)
    samples = params["samples"]
    starts = every if samples is None or samples >= count else chosen_nodes(graph.nodes, samples, params["seed"])
    network = _network(kept, is_directed=is_directed)
    weights = None if kept.weights is None else kept.weights.tolist()
    found = np.zeros(count)
    step = max(1, _EDGES_AT_ONCE // max(1, kept.edge_count + count))
    for first in range(0, len(starts), step):
        limits.check()
        some = starts[first : first + step].tolist()
        found += network.betweenness(directed=is_directed, weights=weights, sources=some)
    if len(starts):
        found *= count / len(starts)
    if params["normalized"] and count > 2:
        found *= (1 if is_directed else 2) / ((count - 1) * (count - 2))
    return highest_first("score", found)


def _network(graph: Projection, *, is_directed: bool) -> Any:
    edges: Numbers = np.column_stack([graph.sources, graph.targets])
    return igraph().Graph(n=graph.node_count, edges=edges, directed=is_directed)
