"""Relations that are read from tables: nodes that pass, edges as they are walked, and the row to begin with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.predicates import storage_filter
from omnigraph.ir.model import Direction, Predicate
from omnigraph.records import record
from omnigraph.spark.query.layout import ColumnNames, Layout, Match, Property, UnitTask, predicate_uses
from omnigraph.spark.query.relations import Build, How, Relation, Relations
from omnigraph.spark.query.scans import SOURCE, TARGET, EdgesTask, NodesTask, Tables, columns_of, has_unique_ends
from omnigraph.spark.query.task_rows import TaskParameters
from omnigraph.store.tables.pinned import KEY

START, NODE = "start", "node"
# Beyond so many rows on both sides, sorting them is safer than a hash table in memory.
_HASHED_ROWS = 200_000_000


@record
class Sizes:
    """How much a worker may hold of what it needs whole.

    Args:
        broadcast_rows: a side of a join.
        local_edges: edges for walks of many hops, counted once for each way they are walked.
    """

    broadcast_rows: int = 1 << 18
    local_edges: int = 1 << 22

    def build(self, left_most: float, left_estimate: float, right_rows: float, how: How = "inner") -> Build:
        """Return how to join, given that the left side has ``left_most`` rows at most, and about ``left_estimate``."""
        if right_rows <= self.broadcast_rows:
            return "broadcast_right"
        if how == "inner" and left_most <= self.broadcast_rows:
            return "broadcast_left"
        if min(left_estimate, right_rows) > _HASHED_ROWS:
            return "merge"
        return "hash_left" if how == "inner" and left_estimate < right_rows else "hash_right"


@record
class Bounds:
    """How far a walk goes. ``is_backward``: it begins at the written destination, whose own self-loop counts then."""

    min_hops: int
    max_hops: int
    is_backward: bool


def reach(starts: Relation, pairs: Relation, bounds: Bounds, build: Build) -> Relation:
    """Return what every start reaches, once, as pairs of start and node; each hop but the last one runs here.

    A node is reached at its distance. Besides, one with an edge to itself is reached one hop after its distance; the
    start has distance zero and is reached in that way only.

    Args:
        starts: the nodes where walks begin, each once, in column ``start``.
        pairs: every linked pair once.
        bounds: how far to go.
        build: how to join with the pairs.
    """
    if bounds.min_hops > bounds.max_hops:
        return starts.select({START: START, NODE: START}).limit(0)
    pairs = pairs.cut()
    loops = pairs.where_equal(SOURCE, TARGET).select({SOURCE: SOURCE})
    frontier = starts.select({START: START, NODE: START})
    visited, reached = frontier, list[Relation]()
    for hop in range(1, bounds.max_hops + 1):
        if hop >= bounds.min_hops:
            at = START if bounds.is_backward else NODE
            reached.append(frontier.join(loops, {at: SOURCE}, how="semi", build=build))
        found = frontier.join(pairs, {NODE: SOURCE}, how="inner", build=build)
        found = found.select({START: START, NODE: TARGET}).distinct([START, NODE])
        frontier = found.join(visited, {START: START, NODE: NODE}, how="anti", build="hash_right")
        if hop < bounds.max_hops:
            frontier = frontier.cut()
        if hop >= bounds.min_hops:
            reached.append(frontier)
        if hop < bounds.max_hops and frontier.is_empty():
            break
        visited = visited.union(frontier)
    every = reached[0] if reached else frontier
    for more in reached[1:]:
        every = every.union(more)
    return every.distinct([START, NODE])


@record
class Reading:
    """What the lowering of one read begins with: tables, what the request brought, and how much a worker may hold."""

    relations: Relations
    tables: Tables
    given: TaskParameters
    sizes: Sizes
    names: ColumnNames = field(default_factory=ColumnNames)
    _pairs: dict[tuple[str, Direction, str], Relation] = field(default_factory=dict)

    @property
    def facts(self) -> Facts:
        """The schema and the size of each table."""
        return self.tables.facts

    def nodes(
        self, variable: str, type_name: str, filters: tuple[Predicate, ...], live: Iterable[Property]
    ) -> tuple[Relation, Layout]:
        """Return the nodes of a type that pass, with the properties of the variable that are looked at later."""
        owner = self.facts.catalog.nodes[type_name]
        asked = {prop for item in filters for prop in properties(variable, predicate_uses(item))}
        kept = properties(variable, live) or frozenset({KEY})
        layout = columns_of(owner, variable, {prop: self.names.fresh() for prop in sorted(asked | kept)})
        table = self.tables.parts(owner)
        task = NodesTask(
            table=table,
            given=self.given,
            layout=layout,
            kept=layout.keeping((variable, prop) for prop in kept),
            predicates=filters,
            asked=storage_filter(filters, self.given.value),
        )
        return self.relations.read(task, len(table.groups)), task.kept

    def edges(self, edge: EdgeType, direction: Direction, kept: Layout | None = None) -> Relation:
        """Return every edge as it is walked, with the properties of a named one."""
        table = self.tables.parts(edge)
        task = EdgesTask(table=table, direction=direction, kept=kept or Layout())
        return self.relations.read(task, len(table.groups))

    def pairs(self, edge: EdgeType, direction: Direction, *, by: str = SOURCE) -> Relation:
        """Return every linked pair once, those that are equal in column ``by`` together.

        Many are moved by the end on which they are joined next, so that nothing is moved twice; few come from one task.
        The same pairs are one relation, which lets Spark make them once for all who use them.
        """
        key = (edge.name, direction, by)
        known = self._pairs.get(key)
        if known is None:
            known = self._pairs[key] = self._read_pairs(edge, direction, by)
        return known

    def _read_pairs(self, edge: EdgeType, direction: Direction, by: str) -> Relation:
        if has_unique_ends(edge) and direction != "both":
            return self.edges(edge, direction)
        if self.walked_rows(edge, direction) > self.sizes.broadcast_rows:
            return self.edges(edge, direction).spread([by]).distinct([SOURCE, TARGET])
        table = self.tables.parts(edge).whole()
        task = EdgesTask(table=table, direction=direction, kept=Layout(), is_distinct=True)
        return self.relations.read(task, len(table.groups))

    def next_end(self, type_name: str) -> str:
        """Return by which end to bring pairs together whose targets of a type are joined next.

        Where that type is small enough to be everywhere, pairs need not be together by their targets.
        """
        return SOURCE if self.facts.node_count(type_name) <= self.sizes.broadcast_rows else TARGET

    def walked_rows(self, edge: EdgeType, direction: Direction) -> int:
        """Return how many entries the edges of a type have in a direction, at most."""
        return self.facts.edge_count(edge.name) * (2 if direction == "both" else 1)

    def rows(self, match: Match) -> tuple[Match, Relation]:
        """Return the match with rows, also if they were left to whoever would need them."""
        if match.relation is not None:
            return match, match.relation
        if match.whole is None:
            layout = Layout(weights=(self.names.fresh(),))
            unit = self.relations.read(UnitTask(weight=layout.weights[0]), 1)
            return Match(relation=unit, layout=layout), unit
        step = match.whole
        nodes, layout = self.nodes(step.variable, step.type_name, (), [(step.variable, KEY)])
        return replace(match, relation=nodes, layout=layout, whole=None), nodes


def properties(variable: str, live: Iterable[Property]) -> frozenset[str]:
    """Return which properties of a variable are among those looked at."""
    return frozenset(prop for of, prop in live if of == variable)
