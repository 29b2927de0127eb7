"""Steps of a plan as relations: joins on ids, and the tasks that look at values."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from omnigraph.engine.query.steps import LinkTest, Scan, Step, Unless, Weigh
from omnigraph.ir.model import Expand, Filter, Predicate, SameEntity
from omnigraph.spark.query.layout import Layout
from omnigraph.spark.query.liveness import Live, live_after, uses
from omnigraph.spark.query.match import Match
from omnigraph.spark.query.reading import Reading, properties
from omnigraph.spark.query.relations import Relation
from omnigraph.spark.query.row_tasks import FilterTask
from omnigraph.spark.query.traversals import expand, link_test, weigh, without_neighbour
from omnigraph.store.table import KEY


def lower_match(reading: Reading, steps: tuple[Step, ...], last: Live) -> tuple[Relation, Layout]:
    """Return the rows of a match, with what ``last`` looks at."""
    found, relation = reading.rows(_run(reading, Match(), steps, last))
    return relation, found.layout


def _run(reading: Reading, match: Match, steps: tuple[Step, ...], last: Live) -> Match:
    for step, live in zip(steps, live_after(steps, last), strict=True):
        match = _apply(reading, match, step, live)
    return match


def _apply(reading: Reading, match: Match, step: Step, live: Live) -> Match:
    match step:
        case Scan():
            return _scan(reading, match, step, live)
        case Expand():
            return expand(reading, match, step, live)
        case Filter():
            return _filter(reading, match, step.predicate, live)
        case LinkTest():
            return link_test(reading, match, step, live)
        case Weigh():
            return weigh(reading, match, step, live)
        case Unless():
            return _unless(reading, match, step, live)
        case _:
            assert_never(step)


def _scan(reading: Reading, match: Match, step: Scan, live: Live) -> Match:
    node_rows = float(reading.facts.node_count(step.type_name))
    estimate = reading.facts.estimate(step, match.estimate)
    if match.is_unit and not step.filters and properties(step.variable, live) <= {KEY}:
        return Match(whole=step, most=node_rows, estimate=node_rows)
    nodes, layout = reading.nodes(step.variable, step.type_name, step.filters, live)
    most = 1.0 if step.key is not None else node_rows
    if match.is_unit:
        return Match(relation=nodes, layout=layout, most=most, estimate=estimate)
    match, rows = reading.rows(match)
    both = match.layout.plus(layout)
    return match.holding(rows.cross(nodes), both, live, most=match.most * most, estimate=estimate)


def _filter(reading: Reading, match: Match, predicate: Predicate, live: Live) -> Match:
    match, rows = reading.rows(match)
    if isinstance(predicate, SameEntity):
        equal = rows.where_equal(match.layout.name(predicate.left), match.layout.name(predicate.right))
        return match.holding(equal, match.layout, live, most=match.most, estimate=match.estimate)
    kept = match.layout.keeping(live)
    task = FilterTask(given=reading.given, layout=match.layout, predicates=(predicate,), kept=kept)
    return replace(match, relation=rows.map(task), layout=kept)


def _unless(reading: Reading, match: Match, step: Unless, live: Live) -> Match:
    """Find the outer rows for which the inner steps find something, told apart by ids, and drop them."""
    if step.is_existence and isinstance(step.steps[0], Expand):
        return without_neighbour(reading, match, step.steps[0], live)
    match, rows = reading.rows(match)
    used = {key: column for key, column in match.layout.columns.items() if key in uses(step)}
    variables = list(dict.fromkeys(variable for variable, _ in used))
    last = frozenset((variable, KEY) for variable in variables)
    keys = {match.layout.name(variable): match.layout.name(variable) for variable in variables}
    inner = Match()
    if variables:
        names = [name for name, _ in used.values()]
        start = rows.select({name: name for name in names}).distinct(list(keys))
        inner = replace(match, relation=start, layout=Layout(columns=used))
    _, refuted = reading.rows(_run(reading, inner, step.steps, last))
    if not variables:
        refuted = refuted.limit(1)
    build = reading.sizes.build(match.most, match.estimate, match.most if variables else 1, "anti")
    if build == "broadcast_right" and variables:
        refuted = refuted.distinct(list(keys))
    kept = rows.join(refuted.select(keys) if variables else refuted, keys, how="anti", build=build)
    return match.holding(kept, match.layout, live, most=match.most, estimate=match.estimate)
