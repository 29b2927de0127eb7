"""Small random graphs, as projections and as graphs of networkx, whose nodes are the numbers of the projection."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pyarrow as pa
from tests.marks import first

from omnigraph.engine.algorithms import find_algorithm
from omnigraph.engine.algorithms.projection import NodeNames, Projection
from omnigraph.engine.algorithms.run import table_of
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.runtime import ManualClock

# The first is without any node, the second without any edge.
SEEDS = first(5, range(12))


def names_of(count, types=("Person", "Team", "Zoo")):
    """Return names of so many nodes, in about equal parts of each type."""
    parts = np.array_split(np.arange(count), len(types))
    starts = np.cumsum([0, *map(len, parts)])
    ids = tuple(pa.array([f"n{number:04}" for number in part], pa.string()) for part in parts)
    return NodeNames(types=tuple(types), starts=starts.astype(np.int64), ids=ids)


class Network:
    """A random multigraph with loops, parallel edges and nodes without any; seed 0 has no node, seed 1 no edge."""

    def __init__(self, seed, *, is_dense=False, least_weight=0):
        random = np.random.default_rng(seed)
        count = 0 if seed == 0 else int(random.integers(2, 26))
        size = 0 if seed < 2 else int(random.integers(1, count * (5 if is_dense else 2)))
        self.names = names_of(count)
        # Quarters add up without rounding, so that two orders of adding give the same.
        self.sources = random.integers(0, count, size) if size else np.zeros(0, dtype=np.int64)
        self.targets = random.integers(0, count, size) if size else np.zeros(0, dtype=np.int64)
        self.weights = random.integers(least_weight, 9, size) / 4
        self.count = count

    def projection(self, *, is_weighted=False, order=None):
        """Return the projection; ``order`` is the one in which edges are stored."""
        chosen = np.arange(len(self.sources)) if order is None else order
        weights = self.weights[chosen].astype(np.float64) if is_weighted else None
        return Projection.of(self.names, self.sources[chosen], self.targets[chosen], weights)

    def graph(self, kind=nx.MultiDiGraph):
        """Return it as a graph of networkx."""
        made = kind()
        made.add_nodes_from(range(self.count))
        for source, target, weight in zip(self.sources, self.targets, self.weights, strict=True):
            made.add_edge(int(source), int(target), weight=float(weight))
        return made

    def simple(self):
        """Return it without direction, loops and parallel edges."""
        made = nx.Graph(self.graph())
        made.remove_edges_from(list(nx.selfloop_edges(made)))
        return made

    def lightest(self, kind=nx.DiGraph):
        """Return it with the lightest of parallel edges alone, and without loops."""
        made = kind()
        made.add_nodes_from(range(self.count))
        for source, target, weight in zip(self.sources, self.targets, self.weights, strict=True):
            known = made.get_edge_data(int(source), int(target))
            if source != target and (known is None or weight < known["weight"]):
                made.add_edge(int(source), int(target), weight=float(weight))
        return made


def limits(**options):
    return Limits(QueryOptions(**options), ManualClock())


def run(name, projection, **params):
    """Return what an algorithm finds, as it is found."""
    algorithm = find_algorithm(name)
    return algorithm.run(projection, algorithm.checked(params), limits())


def values(name, projection, **params):
    """Return the column that can be written, by the number of the node."""
    found = run(name, projection, **params)
    column = found.columns[find_algorithm(name).column]
    return dict(zip(found.nodes.tolist(), column.to_pylist(), strict=True))


def rows(name, projection, **params):
    """Return the rows of the result."""
    return table_of(projection, run(name, projection, **params)).to_pylist()


def groups(labels):
    """Return the members of each group."""
    found = {}
    for node, label in labels.items():
        found.setdefault(label, set()).add(node)
    return {frozenset(members) for members in found.values()}
