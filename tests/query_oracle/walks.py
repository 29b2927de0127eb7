"""Walks along edges: which nodes a walk emits, and by which shortest paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.query_oracle.faults import Fault
from tests.query_oracle.schema import EdgeShape
from tests.query_oracle.values import Entity, Graph

# Whether a walk may use an edge.
Allows = Callable[[Entity], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A traversal with its orientation: ``direction`` is seen from the written source. No ``high`` is no bound."""

    source: str
    destination: str
    shapes: tuple[EdgeShape, ...]
    direction: str
    low: int
    high: int | None

    @property
    def is_same_type(self) -> bool:
        return self.shapes[0].is_same_type

    @property
    def ends(self) -> tuple[str, str]:
        """The node types at the written source and destination."""
        shape = self.shapes[0]
        return (shape.target, shape.source) if self.direction == "in" else (shape.source, shape.target)


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One edge of a walk and the node behind it; steps are ordered by node, then by edge."""

    node: str
    edge: str
    edge_type: str


def reach(graph: Graph, walk: Walk, start: str, allows: Allows, max_hops: int) -> dict[str, int]:
    """Return the ids that a range of hops has from ``start``, each with the least number of hops of the range.

    A node is in it if a walk of so many edges leads there, whatever shorter walks there are. No edge from a node to
    itself is part of a longer walk, and the start is in it by such an edge of its own only.
    """
    if not walk.is_same_type:
        return {step.node: 1 for step in steps(graph, walk, start, allows) if walk.low == 1}
    nodes = len(graph.nodes[walk.ends[0]])
    # A shortest walk beyond the least number of hops passes no node twice.
    high = min(walk.low + nodes, walk.high or walk.low + nodes)
    ends, found = {start}, dict[str, int]()
    if walk.low == 1 and any(step.node == start for step in steps(graph, walk, start, allows)):
        found[start] = 1
    for hop in range(1, high + 1):
        ends = {step.node for node in ends for step in steps(graph, walk, node, allows) if step.node != node}
        if hop >= walk.low:
            for end in ends - {start}:
                found.setdefault(end, hop)
    if walk.high is None and max(found.values(), default=0) > max_hops:
        raise Fault("hops", f"more than {max_hops} hops from {start}", is_certain=False)
    return found


def steps(graph: Graph, walk: Walk, node: str, allows: Allows) -> Iterator[Step]:
    """Yield each edge that leads away from a node; a self-loop once."""
    for shape in walk.shapes:
        for chosen, (source, target, _) in graph.edges[shape.name].items():
            along = walk.direction in {"out", "both"} and source == node
            against = walk.direction in {"in", "both"} and target == node
            if (along or against) and allows((shape.name, chosen)):
                yield Step(target if along else source, chosen, shape.name)


def shortest_paths(graph: Graph, walk: Walk, start: str, goal: str, hops: int, allows: Allows) -> list[dict[str, Any]]:
    """Return every walk of ``hops`` edges to a node that a range has at that hop, least sequence of nodes first."""
    found: list[list[Step]] = []

    def extend(node: str, path: list[Step]) -> None:
        if len(path) == hops:
            if node == goal:
                found.append(path)
            return
        for step in steps(graph, walk, node, allows):
            if not walk.is_same_type or step.node != node or start == goal:
                extend(step.node, [*path, step])

    extend(start, [])
    found.sort(key=lambda path: ([step.node for step in path], [(step.edge, step.edge_type) for step in path]))
    return [{"nodes": [start, *(step.node for step in path)], "edges": [step.edge for step in path]} for path in found]
