"""What the rules know about the graph, all of it without a call: the schema, and rows per table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import NodeType
from omnigraph.engine.query.steps import (
    AntiJoinStep,
    Block,
    BlockStep,
    CountExpand,
    Intersect,
    Link,
    LinkTest,
    OptionalStep,
    QueryPlan,
    Scan,
    Step,
)
from omnigraph.ir.model import (
    Column,
    Compare,
    Expand,
    Filter,
    Narrow,
    Predicate,
    SameEntity,
    TextMatch,
    UnionScan,
    Unwind,
    Walk,
    Widen,
)
from omnigraph.records import record

# Shares of rows that pass, where nothing is known of the values.
_EQUAL, _RANGE, _WORDS, _OTHER = 0.05, 0.3, 0.02, 0.1
# Hops that are counted: beyond them a walk has met about everything.
_HOPS = 8
# Items of a list, where nothing is known of it.
_ITEMS = 5
# The share of a variable over several types that is of one type.
_NARROWED = 0.5


@record
class Facts:
    """The schema and the size of each table at the snapshot."""

    catalog: Catalog
    row_counts: Mapping[str, int]

    def node_count(self, type_name: str) -> int:
        """Return how many nodes a type has."""
        return self.row_counts.get(f"node:{type_name}", 0)

    def edge_count(self, edge: str) -> int:
        """Return how many edges a type has."""
        return self.row_counts.get(f"edge:{edge}", 0)

    def source_type(self, expand: Expand | Walk | LinkTest | Link) -> str:
        """Return the type at which a walk starts."""
        edge = self.catalog.edges[_edges(expand)[0]]
        return edge.to_type if expand.direction == "in" else edge.from_type

    def fanout(self, expand: Expand | Walk) -> float:
        """Return how many entities one row reaches on average."""
        sources = max(1, self.node_count(self.source_type(expand)))
        edge_count = sum(map(self.edge_count, _edges(expand)))
        once = edge_count / sources * (2 if expand.direction == "both" else 1)
        most = _HOPS if expand.max_hops is None else min(expand.max_hops, _HOPS)
        reached = sum(once**hop for hop in range(expand.min_hops, most + 1))
        return min(reached, float(max(1, self.node_count(expand.destination_type))))

    def degree(self, link: Link) -> float:
        """Return how many edges of a link one node has on average."""
        sources = max(1, self.node_count(self.source_type(link)))
        return self.edge_count(link.edge) / sources * (2 if link.direction == "both" else 1)

    def passing(self, type_name: str, filters: tuple[Predicate, ...]) -> float:
        """Return the share of a type's nodes that pass filters on it."""
        node = self.catalog.nodes[type_name]
        if fixes_key(node, filters):
            return 1 / max(1, self.node_count(type_name))
        share = 1.0
        for predicate in filters:
            share *= _share(predicate)
        return share

    def effort(self, step: Step, rows: float) -> float:
        """Return how many rows a step looks at to make its own."""
        return rows * self.fanout(step) if isinstance(step, Expand | Walk) else self.estimate(step, rows)

    def _common(self, step: Intersect) -> float:
        """Return how many nodes the links of one row have in common on average."""
        nodes = max(1, self.node_count(step.destination_type))
        common = float(nodes)
        for link in step.links:
            common *= min(1.0, self.degree(link) / nodes)
        return common

    def _estimate_all(self, steps: tuple[Step, ...], rows: float) -> float:
        for step in steps:
            rows = self.estimate(step, rows)
        return rows

    def estimate(self, step: Step, rows: float) -> float:
        """Return how many rows a step makes of ``rows``."""
        match step:
            case Scan():
                found = self.node_count(step.type_name) * self.passing(step.type_name, step.filters)
                return rows * (found if step.limit is None else min(found, step.limit))
            case UnionScan():
                return rows * sum(self.node_count(name) * self.passing(name, step.filters) for name in step.type_names)
            case Expand() | Walk():
                return rows * self.fanout(step) * self.passing(step.destination_type, step.filters)
            case Filter() | Narrow():
                return rows * (_NARROWED if isinstance(step, Narrow) else _share(step.predicate))
            case LinkTest():
                pairs = max(1, self.node_count(self.source_type(step))) ** 2
                return rows * min(1.0, self.edge_count(step.edge) / pairs)
            case Intersect():
                return rows * self._common(step) * self.passing(step.destination_type, step.filters)
            case Unwind():
                return rows * _ITEMS
            case CountExpand() | AntiJoinStep() | BlockStep() | Widen():
                return rows
            case OptionalStep():
                return max(rows, self._estimate_all(step.steps, rows))
            case _:
                assert_never(step)


def _edges(step: Expand | Walk | LinkTest | Link) -> tuple[str, ...]:
    return step.edges if isinstance(step, Walk) else (step.edge,)


def fixes_key(node: NodeType, filters: tuple[Predicate, ...]) -> bool:
    """Whether filters name one value for every property of the key."""
    fixed = {
        predicate.left.property
        for predicate in filters
        if isinstance(predicate, Compare)
        and predicate.op == "="
        and isinstance(predicate.left, Column)
        and not isinstance(predicate.right, Column)
    }
    return node.key is not None and set(node.key) <= fixed


def _share(predicate: Predicate) -> float:
    if isinstance(predicate, Compare):
        return {"=": _EQUAL, "!=": 1 - _EQUAL}.get(predicate.op, _RANGE)
    if isinstance(predicate, TextMatch):
        return _WORDS
    return _EQUAL if isinstance(predicate, SameEntity) else _OTHER


def map_steps(plan: QueryPlan, rewrite: Callable[[Step], Step]) -> QueryPlan:
    """Return the plan with every step rewritten, the innermost ones first."""
    return map_sequences(plan, lambda steps: tuple(rewrite(step) for step in steps))


def map_sequences(plan: QueryPlan, rewrite: Callable[[tuple[Step, ...]], tuple[Step, ...]]) -> QueryPlan:
    """Return the plan with every sequence of steps rewritten, the innermost ones first."""
    return replace(plan, steps=_map(plan.steps, rewrite))


def _map(steps: tuple[Step, ...], rewrite: Callable[[tuple[Step, ...]], tuple[Step, ...]]) -> tuple[Step, ...]:
    inner = (replace(step, steps=_map(step.steps, rewrite)) if isinstance(step, Block) else step for step in steps)
    return rewrite(tuple(inner))
