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
    """Return the ids that a walk from ``start`` emits, exactly as the language defines it, each with its hop."""
    same = walk.is_same_type
    visited = {start} if same else set()
    high = walk.high if walk.high is not None else max_hops + 1
    if not same:
        high = min(high, 1)
    frontier: list[str] = [start]
    emitted: dict[str, int] = {}
    for hop in range(1, high + 1):
        found = []
        for node in frontier:
            for other in sorted({step.node for step in steps(graph, walk, node, allows)}):
                if same and other == node:
                    if hop >= walk.low:
                        emitted.setdefault(other, hop)
                elif other not in visited or not same:
                    if walk.high is None and hop > max_hops:
                        raise Fault("hops", f"more than {max_hops} hops from {start}", is_certain=False)
                    visited.add(other)
                    found.append(other)
                    if hop >= walk.low:
                        emitted.setdefault(other, hop)
        frontier = found
    return emitted


def steps(graph: Graph, walk: Walk, node: str, allows: Allows) -> Iterator[Step]:
    """Yield each edge that leads away from a node; a self-loop once."""
    for shape in walk.shapes:
        for chosen, (source, target, _) in graph.edges[shape.name].items():
            along = walk.direction in {"out", "both"} and source == node
            against = walk.direction in {"in", "both"} and target == node
            if (along or against) and allows((shape.name, chosen)):
                yield Step(target if along else source, chosen, shape.name)


def shortest_paths(graph: Graph, walk: Walk, start: str, goal: str, hops: int, allows: Allows) -> list[dict[str, Any]]:
    """Return every path of ``hops`` edges to a node that a walk emits at that hop, least sequence of nodes first.

    No node stands twice in a path, but for the last one where a self-loop emits it.
    """
    found: list[list[Step]] = []

    def extend(node: str, seen: frozenset[str], path: list[Step]) -> None:
        if len(path) == hops:
            if node == goal:
                found.append(path)
            return
        for step in steps(graph, walk, node, allows):
            is_loop = walk.is_same_type and step.node == node
            if (is_loop and len(path) == hops - 1) or (step.node not in seen):
                extend(step.node, seen | {step.node}, [*path, step])

    extend(start, frozenset({start}) if walk.is_same_type else frozenset(), [])
    # A path that goes round is no shortest one: each of its nodes is as far from the start as it can be.
    found = [path for path in found if _is_direct(graph, walk, start, path, allows)]
    found.sort(key=lambda path: ([step.node for step in path], [(step.edge, step.edge_type) for step in path]))
    return [{"nodes": [start, *(step.node for step in path)], "edges": [step.edge for step in path]} for path in found]


def _is_direct(graph: Graph, walk: Walk, start: str, path: list[Step], allows: Allows) -> bool:
    if not walk.is_same_type:
        return True
    distance = {start: 0}
    frontier = [start]
    while frontier:
        node = frontier.pop(0)
        for step in steps(graph, walk, node, allows):
            if step.node not in distance:
                distance[step.node] = distance[node] + 1
                frontier.append(step.node)
    nodes = [start, *(step.node for step in path)]
    is_loop = len(nodes) > 1 and nodes[-1] == nodes[-2]
    straight = nodes[:-1] if is_loop else nodes
    return all(distance[node] == place for place, node in enumerate(straight))
