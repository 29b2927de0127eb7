"""Traversals as joins with edges: to list what is reached, to count it, or to ask whether there is anything."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.query.steps import CountExpand, LinkTest
from omnigraph.ir.model import Expand, Walk
from omnigraph.spark.queries.layout import Layout, Live, Match
from omnigraph.spark.queries.reading import NODE, Bounds, Reading, Starts, properties, reach
from omnigraph.spark.queries.relations import How, Relation
from omnigraph.spark.queries.scans import SOURCE, TARGET, columns_of
from omnigraph.spark.queries.tasks.walks import WalkTask
from omnigraph.store.tables.pinned import KEY

_UNKNOWN = float("inf")


def expand(reading: Reading, match: Match, step: Expand, live: Live) -> Match:
    """Bind the destination, and the edge when it has a name."""
    wanted = properties(step.destination, live)
    needs_nodes = bool(step.filters) or not wanted <= {KEY}
    end = Layout()
    if needs_nodes or wanted:
        node = reading.facts.catalog.nodes[step.destination_type]
        end = columns_of(node, step.destination, {KEY: reading.names.fresh()})
    if not reading.facts.catalog.edges[step.edge].is_same_type:
        # Nothing lies beyond the first hop of an edge that cannot be walked again from where it leads.
        relation, layout = _hop(reading, match, step, end, live)
        relation = relation if step.min_hops <= 1 else relation.limit(0)
    elif (step.min_hops, step.max_hops) == (1, 1):
        relation, layout = _hop(reading, match, step, end, live)
    else:
        relation, layout = _reach(reading, match, step, end)
    if needs_nodes:
        relation, layout = meet(reading, match, step, relation, layout, live)
    estimate = reading.facts.estimate(step, match.estimate)
    return match.holding(relation, layout, live, most=_most(reading, match, step), estimate=estimate)


def _most(reading: Reading, match: Match, step: Expand) -> float:
    """Return how many rows a traversal makes at most: every row with every edge, or with every node."""
    edges = reading.walked_rows(reading.facts.catalog.edges[step.edge], step.direction)
    if (step.min_hops, step.max_hops) != (1, 1):
        return match.most * reading.facts.node_count(step.destination_type)
    # Each edge is met from where it begins, once.
    return edges if match.whole is not None and match.whole.variable == step.source else match.most * edges


def _hop(reading: Reading, match: Match, step: Expand, end: Layout, live: Live) -> tuple[Relation, Layout]:
    edge = reading.facts.catalog.edges[step.edge]
    named = _edge_layout(reading, step, edge, live)
    is_start = match.whole is not None and match.whole.variable == step.source
    if step.edge_variable is None:
        edges = reading.pairs(edge, step.direction, by=reading.next_end(step.destination_type) if is_start else SOURCE)
    else:
        edges = reading.edges(edge, step.direction, named)
    found = {**{name: TARGET for name, _ in end.columns.values()}, **{name: name for name in named.names}}
    if is_start and match.whole is not None:
        node = reading.facts.catalog.nodes[match.whole.type_name]
        start = columns_of(node, step.source, {KEY: reading.names.fresh()})
        return edges.select({start.name(step.source): SOURCE, **found}), start.plus(end).plus(named)
    match, rows = reading.rows(match)
    build = reading.sizes.build(match.most, match.estimate, reading.walked_rows(edge, step.direction))
    on = {match.layout.name(step.source): SOURCE}
    joined = rows.join(edges.select({SOURCE: SOURCE, **found}), on, how="inner", build=build)
    return joined, match.layout.plus(end).plus(named)


def _edge_layout(reading: Reading, step: Expand, edge: EdgeType, live: Live) -> Layout:
    if step.edge_variable is None:
        return Layout()
    wanted = sorted(properties(step.edge_variable, live))
    return columns_of(edge, step.edge_variable, {prop: reading.names.fresh() for prop in wanted})


def _reach(reading: Reading, match: Match, step: Expand, end: Layout) -> tuple[Relation, Layout]:
    edge = reading.facts.catalog.edges[step.edge]
    match, rows = reading.rows(match)
    bounds = Bounds(min_hops=step.min_hops, max_hops=step.max_hops)
    if reading.walked_rows(edge, step.direction) <= reading.sizes.local_edges:
        edges = reading.edges_task(edge, step.direction)
        walk = WalkTask(
            edges=(edges,), bounds=bounds, layout=match.layout, source=step.source, end=end, given=reading.given
        )
        return rows.map(walk), match.layout.plus(end)
    source = match.layout.name(step.source)
    starts = Starts(rows=rows.select({source: source}).distinct([source]), node=source, keys=(source,))
    pairs = reading.pairs(edge, step.direction)
    by_hop = reading.sizes.build(_UNKNOWN, _UNKNOWN, reading.walked_rows(edge, step.direction))
    return join_reached(reading, match, rows, starts, reach(starts, pairs, bounds, by_hop), end)


def join_reached(
    reading: Reading, match: Match, rows: Relation, starts: Starts, found: Relation, end: Layout
) -> tuple[Relation, Layout]:
    """Join every row with what its start reaches."""
    found = found.select({**{name: name for name in starts.keys}, **{name: NODE for name, _ in end.columns.values()}})
    build = reading.sizes.build(match.most, match.estimate, _UNKNOWN)
    on = {name: name for name in starts.keys}
    return rows.join(found, on, how="inner", build=build, nulls=starts.nulls), match.layout.plus(end)


def meet(
    reading: Reading, match: Match, step: Expand | Walk, relation: Relation, layout: Layout, live: Live
) -> tuple[Relation, Layout]:
    """Join with the nodes that were reached: they must pass, or their properties are wanted."""
    wanted = properties(step.destination, live)
    looked_at = [(step.destination, prop) for prop in wanted | {KEY}]
    nodes, found = reading.nodes(step.destination, step.destination_type, step.filters, looked_at)
    on = {layout.name(step.destination): found.name(step.destination)}
    how: How = "semi" if wanted <= {KEY} else "inner"
    reached = match.estimate * reading.facts.fanout(step)
    build = reading.sizes.build(_UNKNOWN, reached, reading.facts.node_count(step.destination_type), how)
    joined = relation.join(nodes, on, how=how, build=build)
    more = Layout(columns={key: column for key, column in found.columns.items() if key[1] != KEY})
    return joined, layout if how == "semi" else layout.plus(more)


def link_test(reading: Reading, match: Match, step: LinkTest, live: Live) -> Match:
    """Keep the rows whose two variables are linked."""
    match, rows = reading.rows(match)
    edge = reading.facts.catalog.edges[step.edge]
    edges = reading.edges(edge, step.direction)
    if step.source == step.destination:
        edges = edges.where_equal(SOURCE, TARGET)
    # A row that asks for a link to itself has one column for both ends.
    on = {match.layout.name(step.destination): TARGET, match.layout.name(step.source): SOURCE}
    build = reading.sizes.build(match.most, match.estimate, reading.walked_rows(edge, step.direction), "semi")
    linked = rows.join(edges, on, how="semi", build=build)
    estimate = reading.facts.estimate(step, match.estimate)
    return match.holding(linked, match.layout, live, most=match.most, estimate=estimate)


def without_neighbour(reading: Reading, match: Match, step: Expand, live: Live) -> Match:
    """Keep the rows whose source has no neighbour."""
    match, rows = reading.rows(match)
    edge = reading.facts.catalog.edges[step.edge]
    on = {match.layout.name(step.source): SOURCE}
    build = reading.sizes.build(match.most, match.estimate, reading.walked_rows(edge, step.direction), "anti")
    lone = rows.join(reading.edges(edge, step.direction), on, how="anti", build=build)
    return match.holding(lone, match.layout, live, most=match.most, estimate=match.estimate)


def count_expand(reading: Reading, match: Match, step: CountExpand, live: Live) -> Match:
    """Count for every row what the expansion would reach, without listing it."""
    source = step.expand.source
    if match.whole is not None and match.whole.variable == source:
        counted, weights = _counted(reading, step)
        node = reading.facts.catalog.nodes[match.whole.type_name]
        start = columns_of(node, source, {KEY: reading.names.fresh()})
        kept = {start.name(source): SOURCE, **{name: name for name in weights}}
        layout = replace(start, weights=weights)
        return match.holding(counted.select(kept), layout, live, most=_UNKNOWN, estimate=match.estimate)
    match, rows = reading.rows(match)
    sums, weight = _sums(reading, step)
    build = reading.sizes.build(
        match.most, match.estimate, reading.facts.node_count(reading.facts.source_type(step.expand))
    )
    joined = rows.join(sums, {match.layout.name(source): SOURCE}, how="inner", build=build)
    layout = match.layout.plus(Layout(weights=(weight,)))
    return match.holding(joined, layout, live, most=match.most, estimate=match.estimate)


def _counted(reading: Reading, step: CountExpand) -> tuple[Relation, tuple[str, ...]]:
    """Return what an expansion reaches, each with the weights that further counts give it."""
    walk = step.expand
    edge = reading.facts.catalog.edges[walk.edge]
    if walk.edge_variable is None:
        is_joined = bool(step.inner or walk.filters)
        by = reading.next_end(walk.destination_type) if is_joined else SOURCE
        found = reading.pairs(edge, walk.direction, by=by)
    else:
        found = reading.edges(edge, walk.direction)
    node_rows = reading.facts.node_count(walk.destination_type)
    if walk.filters:
        nodes, layout = reading.nodes(walk.destination, walk.destination_type, walk.filters, ())
        build = reading.sizes.build(_UNKNOWN, _UNKNOWN, node_rows, "semi")
        found = found.join(nodes, {TARGET: layout.name(walk.destination)}, how="semi", build=build)
    weights: list[str] = []
    for inner in step.inner:
        sums, weight = _sums(reading, inner)
        build = reading.sizes.build(_UNKNOWN, reading.walked_rows(edge, walk.direction), node_rows)
        found = found.join(sums, {TARGET: SOURCE}, how="inner", build=build)
        weights.append(weight)
    return found, tuple(weights)


def _sums(reading: Reading, step: CountExpand) -> tuple[Relation, str]:
    """Return for every node that reaches anything how much it is."""
    counted, weights = _counted(reading, step)
    into = reading.names.fresh()
    return counted.total([SOURCE], weights, into), into
