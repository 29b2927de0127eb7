"""Which nodes belong together: communities by label propagation and by modularity."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from omnigraph.engine.algorithms.found import Found, in_groups, runs, summed
from omnigraph.engine.algorithms.libraries import igraph
from omnigraph.engine.algorithms.projection import Numbers, Projection
from omnigraph.engine.query.limits import Limits
from omnigraph.runtime import SeededRandomness
from omnigraph.values.counts import counted

_VOTE_BYTES = 48
_EDGE_BYTES = 160


def label_propagation(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Let each node take the label that most of its neighbours have, all nodes at once, until nothing changes.

    A node begins with a label of its own, and its own label counts as one more neighbour of average weight: without
    that, two sides of a graph would exchange labels for ever. Of labels with equal votes the first one wins.
    """
    walked = graph.without_loops().towards("both")
    offsets = walked.offsets()
    labels = np.arange(graph.node_count)
    active = np.flatnonzero(np.diff(offsets))
    for _ in range(params["max_iterations"]):
        if not len(active):
            return in_groups("community", labels)
        limits.check(_VOTE_BYTES * (walked.edge_count + len(active)))
        chosen = _elected(walked, offsets, labels, active)
        changed = active[chosen != labels[active]]
        if not len(changed):
            return in_groups("community", labels)
        labels = labels.copy()
        labels[active] = chosen
        # Only who sees another label than before can come to another decision.
        looks_again = np.zeros(graph.node_count, dtype=np.bool_)
        looks_again[changed] = True
        looks_again[walked.targets[entries_of(offsets, changed)]] = True
        active = np.flatnonzero(looks_again)
    warning = f"labels still changed after {counted(params['max_iterations'], 'iteration')}"
    return in_groups("community", labels, (warning,))


def entries_of(offsets: Numbers, nodes: Numbers) -> Numbers:
    """Return the places of all edges of some nodes, node by node."""
    counts = offsets[nodes + 1] - offsets[nodes]
    before = np.concatenate([[0], np.cumsum(counts)[:-1]]) if len(counts) else counts
    places: Numbers = np.arange(int(counts.sum())) + np.repeat(offsets[nodes] - before, counts)
    return places


def _elected(graph: Projection, offsets: Numbers, labels: Numbers, nodes: Numbers) -> Numbers:
    """Return the label that each of some nodes gets; all of them have edges."""
    entries = entries_of(offsets, nodes)
    counts = offsets[nodes + 1] - offsets[nodes]
    places = np.arange(len(nodes))
    voters = np.concatenate([np.repeat(places, counts), places])
    votes = np.concatenate([labels[graph.targets[entries]], labels[nodes]])
    keys = voters * np.int64(graph.node_count) + votes
    if graph.weights is None:
        keys.sort()
        starts = runs(keys)
        keys, totals = keys[starts], np.diff(np.append(starts, len(keys))).astype(np.float64)
    else:
        given = graph.weights[entries]
        own = np.add.reduceat(given, np.concatenate([[0], np.cumsum(counts)[:-1]])) / counts
        order = np.argsort(keys, kind="stable")
        keys, totals = summed(keys[order], np.concatenate([given, own])[order])
    voters, votes = np.divmod(keys, np.int64(graph.node_count))
    most = np.maximum.reduceat(totals, runs(voters))
    best = np.flatnonzero(totals == most[voters])
    elected: Numbers = votes[best[runs(voters[best])]]
    return elected


# The library draws its random numbers from one place for the whole process.
_drawing = threading.Lock()


class _Draws:
    """Random numbers in the form that igraph asks for."""

    def __init__(self, seed: int) -> None:
        self._source = SeededRandomness(seed)

    def random(self) -> float:
        """Return a number in ``[0, 1)``."""
        return self._source.fraction()

    def randint(self, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``."""
        return low + int(self._source.fraction() * (high - low + 1))

    def getrandbits(self, count: int) -> int:
        """Return a number of so many bits."""
        return self._source.bits(count)

    def gauss(self, mu: float, sigma: float) -> float:
        """Return a number near ``mu``; communities ask for none."""
        return mu + sigma * self._source.fraction()


def louvain(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Group nodes so that modularity is high: many edges inside of communities, few between them (Louvain)."""
    low, high = np.minimum(graph.sources, graph.targets), np.maximum(graph.sources, graph.targets)
    joined = Projection.of(graph.nodes, low, high, graph.weight)
    keys, weights = summed(joined.sources * np.int64(max(1, graph.node_count)) + joined.targets, joined.weight)
    limits.check(_EDGE_BYTES * len(keys))
    edges: Numbers = np.column_stack(np.divmod(keys, np.int64(max(1, graph.node_count))))
    library = igraph()
    network = library.Graph(n=graph.node_count, edges=edges)
    if not weights.sum():
        return in_groups("community", np.arange(graph.node_count))
    with _drawing:
        library.set_random_number_generator(_Draws(params["seed"]))
        try:
            found = network.community_multilevel(weights=weights.tolist(), resolution=params["resolution"])
        finally:
            library.set_random_number_generator(None)
    limits.check()
    return in_groups("community", np.asarray(found.membership, dtype=np.int64))
