"""Walks over edges of several types, over edges that satisfy a condition, and without an upper bound."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.query.operators.walk import check_hops, most_hops
from omnigraph.ir.model import Walk
from omnigraph.spark.queries.layout import TYPE, VALUE, Layout, Live, Match
from omnigraph.spark.queries.liveness import predicate_uses, uses
from omnigraph.spark.queries.reading import NODE, Bounds, Reading, Starts, properties, reach
from omnigraph.spark.queries.relations import Relation
from omnigraph.spark.queries.scans import SOURCE, TARGET, columns_of, mixed_columns
from omnigraph.spark.queries.tasks.match import FilterTask
from omnigraph.spark.queries.tasks.rows import TaskContext, TaskParameters
from omnigraph.spark.queries.tasks.walks import WalkTask, asks_edges_alone
from omnigraph.spark.queries.traversals import join_reached, meet
from omnigraph.store.tables.pinned import KEY

_UNKNOWN = float("inf")
# What the ends of edges belong to, as if they were properties.
_ENDS = "#ends"


def walk(reading: Reading, match: Match, step: Walk, live: Live) -> Match:
    """Bind the destination to every node that a row's source reaches, and the edge when it has a name."""
    match, rows = reading.rows(match)
    wanted = properties(step.destination, live)
    needs_nodes = bool(step.filters) or not wanted <= {KEY}
    end = Layout()
    if needs_nodes or wanted:
        node = reading.facts.catalog.nodes[step.destination_type]
        end = columns_of(node, step.destination, {KEY: reading.names.fresh()})
    if step.binds_edge:
        relation, layout = _edge_rows(reading, match, rows, step, end, live)
    else:
        relation, layout = _reached(reading, match, rows, step, end)
    if needs_nodes:
        relation, layout = meet(reading, match, step, relation, layout, live)
    estimate = reading.facts.estimate(step, match.estimate)
    reached = _walked_rows(reading, step) if step.binds_edge else reading.facts.node_count(step.destination_type)
    return match.holding(relation, layout, live, most=match.most * reached, estimate=estimate)


def _edge_types(reading: Reading, step: Walk) -> list[EdgeType]:
    return [reading.facts.catalog.edges[name] for name in step.edges]


def _walked_rows(reading: Reading, step: Walk) -> int:
    return sum(reading.walked_rows(edge, step.direction) for edge in _edge_types(reading, step))


def _edges(reading: Reading, step: Walk, named: Layout) -> Relation:
    """Return the edges of all types as they are walked."""
    first, *others = (reading.edges(edge, step.direction, named) for edge in _edge_types(reading, step))
    for more in others:
        first = first.union(more)
    return first


def _named(reading: Reading, step: Walk, wanted: frozenset[str]) -> Layout:
    """Return the columns for properties of the edges."""
    if step.edge_variable is None or not wanted:
        return Layout()
    edges = _edge_types(reading, step)
    names = {prop: reading.names.fresh() for prop in sorted(wanted - {TYPE})}
    if len(edges) == 1:
        return columns_of(edges[0], step.edge_variable, names)
    return mixed_columns(edges[0], step.edge_variable, {**names, TYPE: reading.names.fresh()})


def _edge_rows(
    reading: Reading, match: Match, rows: Relation, step: Walk, end: Layout, live: Live
) -> tuple[Relation, Layout]:
    """Make a row of every edge at a row's source."""
    named = _named(reading, step, properties(str(step.edge_variable), live))
    ends = {name: TARGET for name, _ in end.columns.values()}
    edges = _edges(reading, step, named).select({SOURCE: SOURCE, **ends, **{name: name for name in named.names}})
    build = reading.sizes.build(match.most, match.estimate, _walked_rows(reading, step))
    joined = rows.join(edges, {match.layout.name(step.source): SOURCE}, how="inner", build=build)
    return joined, match.layout.plus(end).plus(named)


def _reached(reading: Reading, match: Match, rows: Relation, step: Walk, end: Layout) -> tuple[Relation, Layout]:
    """Join every row with the nodes that it reaches, each once."""
    asked = frozenset() if step.condition is None else predicate_uses(step.condition)
    of_edges = frozenset() if step.edge_variable is None else properties(step.edge_variable, asked)
    named = _named(reading, step, of_edges)
    is_same_type = _edge_types(reading, step)[0].is_same_type
    context = TaskContext(reading.given)
    bounds = Bounds(
        min_hops=step.min_hops,
        max_hops=most_hops(context, step) if is_same_type else 1,
        on_new_nodes=partial(_check_hops, reading.given, step) if step.max_hops is None else None,
        quiet_hops=reading.given.max_hops if step.max_hops is None else None,
    )
    if _walked_rows(reading, step) <= reading.sizes.local_edges:
        task = WalkTask(
            edges=tuple(reading.edges_task(edge, step.direction, named) for edge in _edge_types(reading, step)),
            bounds=bounds,
            layout=match.layout,
            source=step.source,
            end=end,
            given=reading.given,
            conditioned=None if step.condition is None else step,
            is_same_type=is_same_type,
        )
        return rows.map(task), match.layout.plus(end)
    by_hop = reading.sizes.build(_UNKNOWN, _UNKNOWN, _walked_rows(reading, step))
    edges = _edges(reading, step, named)
    if asks_edges_alone(step):
        pairs = _passing_pairs(reading, step, edges, named)
        source = match.layout.name(step.source)
        starts = Starts(rows=rows.select({source: source}).distinct([source]), node=source, keys=(source,))
        return join_reached(reading, match, rows, starts, reach(starts, pairs, bounds, by_hop), end)
    starts, layout = _asking_starts(match, rows, step)
    ends = {(_ENDS, name): (name, pa.string()) for name in (NODE, TARGET)}
    met = layout.plus(Layout(columns=ends)).plus(named)

    def passing(found: Relation) -> Relation:
        assert step.condition is not None  # noqa: S101 - else nothing is asked of rows
        kept = Layout(columns={**layout.columns, **ends})
        return found.map(FilterTask(given=reading.given, layout=met, predicates=(step.condition,), kept=kept))

    return join_reached(reading, match, rows, starts, reach(starts, edges, bounds, by_hop, passing), end)


def _check_hops(given: TaskParameters, step: Walk, hop: int) -> None:
    check_hops(TaskContext(given), step, hop)


def _passing_pairs(reading: Reading, step: Walk, edges: Relation, named: Layout) -> Relation:
    """Return the pairs that are linked by an edge that satisfies the condition, each once."""
    if step.condition is not None:
        ends = Layout(columns={(_ENDS, name): (name, pa.string()) for name in (SOURCE, TARGET)})
        task = FilterTask(given=reading.given, layout=ends.plus(named), predicates=(step.condition,), kept=ends)
        edges = edges.map(task)
    return edges.distinct([SOURCE, TARGET])


def _asking_starts(match: Match, rows: Relation, step: Walk) -> tuple[Starts, Layout]:
    """Return the rows that differ in what a walk and its condition look at."""
    used = match.layout.only(uses(step))
    entities = tuple(dict.fromkeys(variable for variable, _ in used.columns if variable != VALUE))
    nulls = tuple(name for (variable, _), (name, _) in used.columns.items() if variable == VALUE)
    identity = tuple(name for variable in entities for name in match.layout.identity(variable))
    used = Layout(columns=used.columns, types=match.layout.types)
    keys = (*identity, *nulls)
    # An entity that is missing is one of those that a condition may look at.
    others = tuple(name for name in identity if name != match.layout.name(step.source))
    begun = rows.select({name: name for name in used.names}).distinct(keys)
    starts = Starts(rows=begun, node=match.layout.name(step.source), keys=keys, nulls=(*others, *nulls))
    return starts, used
