"""Relations that are read from tables: nodes that pass, edges as they are walked, and the row to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.predicates import storage_filter
from omnigraph.ir.model import Direction, Predicate
from omnigraph.records import record
from omnigraph.spark.queries.layout import ColumnNames, Layout, Match, Property, UnitTask
from omnigraph.spark.queries.liveness import predicate_uses
from omnigraph.spark.queries.relations import Build, How, Relation, Relations
from omnigraph.spark.queries.scans import SOURCE, TARGET, EdgesTask, NodesTask, Tables, columns_of, has_unique_ends
from omnigraph.spark.queries.tasks.rows import TaskParameters
from omnigraph.store.tables.pinned import KEY

NODE = "node"
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
    """How far a walk goes.

    Args:
        min_hops: the least number of hops.
        max_hops: the greatest.
        on_new_nodes: called with every hop beyond ``quiet_hops`` that a walk has to take; raises to stop the walk.
        quiet_hops: how many hops a walk may have to take before ``on_new_nodes`` is called; None if it never is.
    """

    min_hops: int
    max_hops: int
    on_new_nodes: Callable[[int], None] | None = None
    quiet_hops: int | None = None


@record
class Starts:
    """Where walks begin: rows that differ, with the column of the node, the columns that tell rows apart, and others.

    ``nulls`` are those among the columns in which NULL is a value like others.
    """

    rows: Relation
    node: str
    keys: tuple[str, ...]
    nulls: tuple[str, ...] = ()


def _every(found: Relation) -> Relation:
    return found


def reach(
    starts: Starts, edges: Relation, bounds: Bounds, build: Build, passing: Callable[[Relation], Relation] = _every
) -> Relation:
    """Return what every start reaches, once, in column ``node`` beside those of the start.

    Each hop but the last one runs here. What is reached says :func:`omnigraph.engine.query.topology.reach`.

    Args:
        starts: where walks begin, each once.
        edges: linked pairs, each once unless ``passing`` asks the edges.
        bounds: how far to go.
        build: how to join with the edges.
        passing: leaves those rows of a start with an edge whose edge may be walked.
    """
    own = {name: name for name in starts.rows.names}
    frontier = starts.rows.select({**own, NODE: starts.node})
    edges = edges.cut()
    keys = [*starts.keys, NODE]
    reached = list[Relation]()
    if bounds.min_hops == 1:
        looped = passing(frontier.join(edges.where_equal(SOURCE, TARGET), {NODE: SOURCE}, how="inner", build=build))
        reached.append(looped.select({**own, NODE: NODE}))
    else:
        edges = edges.where_different(SOURCE, TARGET).cut()

    def ahead(frontier: Relation) -> Relation:
        found = passing(frontier.join(edges, {NODE: SOURCE}, how="inner", build=build))
        return found.select({**own, NODE: TARGET}).distinct(keys)

    reached += _hops(starts, frontier, bounds, ahead)
    if not reached:
        return frontier.limit(0)
    every = reached[0]
    for more in reached[1:]:
        every = every.union(more)
    return every.distinct(keys)


def _hops(
    starts: Starts, frontier: Relation, bounds: Bounds, ahead: Callable[[Relation], Relation]
) -> Iterator[Relation]:
    """Yield what each hop of the range meets other than the start."""
    min_hops, same = bounds.min_hops, {name: name for name in (*starts.keys, NODE)}
    visited = frontier.select(same)
    for hop in range(1, bounds.max_hops + 1):
        frontier = ahead(frontier)
        if hop > min_hops or min_hops == 1:
            # Up to the least number of hops a frontier has all that a walk of so many edges leads to.
            frontier = frontier.join(visited, same, how="anti", build="hash_right", nulls=starts.nulls)
        is_told = bounds.quiet_hops is not None and hop > bounds.quiet_hops
        if hop < bounds.max_hops or is_told:
            frontier = frontier.cut()
        others = frontier if min_hops == 1 else frontier.where_different(starts.node, NODE)
        if hop >= min_hops:
            yield others
        if (hop < bounds.max_hops or is_told) and frontier.is_empty():
            return
        if is_told and bounds.on_new_nodes is not None and not others.is_empty():
            bounds.on_new_nodes(hop)
        if hop >= min_hops:
            visited = frontier.select(same) if hop == min_hops > 1 else visited.union(frontier.select(same))


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
        task = self.edges_task(edge, direction, kept)
        return self.relations.read(task, len(task.table.groups))

    def edges_task(self, edge: EdgeType, direction: Direction, kept: Layout | None = None) -> EdgesTask:
        """Return how edges are read as they are walked, with the properties of a named one."""
        return EdgesTask(table=self.tables.parts(edge), direction=direction, kept=kept or Layout(), type_name=edge.name)

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
            return replace(match, relation=unit, layout=layout), unit
        step = match.whole
        nodes, layout = self.nodes(step.variable, step.type_name, (), [(step.variable, KEY)])
        return replace(match, relation=nodes, layout=layout, whole=None), nodes


def properties(variable: str, live: Iterable[Property]) -> frozenset[str]:
    """Return which properties of a variable are among those looked at."""
    return frozenset(prop for of, prop in live if of == variable)
