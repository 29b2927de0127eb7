"""Steps of a plan as relations: joins on ids, and the tasks that look at values."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from omnigraph.engine.query.steps import (
    AntiJoinStep,
    Block,
    BlockStep,
    CountExpand,
    Intersect,
    LinkTest,
    OptionalStep,
    Scan,
    Step,
)
from omnigraph.ir.model import (
    Expand,
    Filter,
    Narrow,
    Predicate,
    ReadPlan,
    SameEntity,
    UnionScan,
    Unwind,
    Walk,
    Widen,
)
from omnigraph.spark.queries.blocks import block_value, narrow, optional, union_scan, unless, unwind, widen
from omnigraph.spark.queries.layout import TYPE, Layout, Live, Match
from omnigraph.spark.queries.liveness import live_after
from omnigraph.spark.queries.reading import Reading, properties
from omnigraph.spark.queries.relations import Relation, Task
from omnigraph.spark.queries.tasks.groups import FirstGroupsTask, GroupTask, MergeGroupsTask
from omnigraph.spark.queries.tasks.match import FilterTask, FirstRowsTask, OutputTask
from omnigraph.spark.queries.tasks.rows import TaskParameters
from omnigraph.spark.queries.traversals import count_expand, expand, link_test, without_neighbour
from omnigraph.spark.queries.walks import walk
from omnigraph.store.tables.pinned import KEY


def lower_match(reading: Reading, steps: tuple[Step, ...], last: Live) -> tuple[Relation, Layout]:
    """Return the rows of a match, with what ``last`` looks at."""
    found, relation = reading.rows(run_steps(reading, Match(), steps, last))
    return relation, found.layout


def run_steps(reading: Reading, match: Match, steps: tuple[Step, ...], last: Live) -> Match:
    """Return the rows that come out of the last step, with what ``last`` looks at."""
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
        case Intersect():
            # Joins of Spark do without lists of neighbours.
            return run_steps(reading, match, step.parts, live)
        case CountExpand():
            return count_expand(reading, match, step, live)
        case AntiJoinStep() | OptionalStep() | BlockStep():
            return _block(reading, match, step, live)
        case Walk():
            return walk(reading, match, step, live)
        case Unwind() | UnionScan() | Narrow() | Widen():
            return _bind(reading, match, step, live)
        case _:
            assert_never(step)


def _bind(reading: Reading, match: Match, step: Unwind | UnionScan | Narrow | Widen, live: Live) -> Match:
    match step:
        case Unwind():
            return unwind(reading, match, step, live)
        case UnionScan():
            return union_scan(reading, match, step, live)
        case Narrow():
            return narrow(reading, match, step, live)
        case Widen():
            return widen(reading, match, step, live)
        case _:
            assert_never(step)


def _block(reading: Reading, match: Match, step: Block, live: Live) -> Match:
    match step:
        case AntiJoinStep():
            if step.is_existence and isinstance(step.steps[0], Expand):
                return without_neighbour(reading, match, step.steps[0], live)
            return unless(reading, match, step, live, run_steps)
        case OptionalStep():
            return optional(reading, match, step, live, run_steps)
        case BlockStep():
            return block_value(reading, match, step, live, run_steps)
        case _:
            assert_never(step)


def _scan(reading: Reading, match: Match, step: Scan, live: Live) -> Match:
    node_rows = float(reading.facts.node_count(step.type_name))
    estimate = reading.facts.estimate(step, match.estimate)
    if match.is_unit and not step.filters and properties(step.variable, live) <= {KEY}:
        return replace(match, whole=step, most=node_rows, estimate=node_rows)
    nodes, layout = reading.nodes(step.variable, step.type_name, step.filters, live)
    most = 1.0 if step.key is not None else node_rows
    if match.is_unit:
        return replace(match, relation=nodes, layout=layout, most=most, estimate=estimate)
    match, rows = reading.rows(match)
    both = match.layout.plus(layout)
    return match.holding(rows.cross(nodes), both, live, most=match.most * most, estimate=estimate)


def _filter(reading: Reading, match: Match, predicate: Predicate, live: Live) -> Match:
    match, rows = reading.rows(match)
    if isinstance(predicate, SameEntity) and not _is_mixed(match.layout, predicate):
        equal = rows.where_equal(match.layout.name(predicate.left), match.layout.name(predicate.right))
        return match.holding(equal, match.layout, live, most=match.most, estimate=match.estimate)
    kept = match.layout.keeping(live)
    task = FilterTask(given=reading.given, layout=match.layout, predicates=(predicate,), kept=kept)
    return replace(match, relation=rows.map(task), layout=kept)


def _is_mixed(layout: Layout, predicate: SameEntity) -> bool:
    return any((name, TYPE) in layout.columns for name in (predicate.left, predicate.right))


def lower_output(read: ReadPlan, given: TaskParameters, rows: Relation, layout: Layout) -> tuple[Relation, Task | None]:
    """Return what is made of the rows of a match, and the task that makes the result of it in one place, if any."""
    if read.groups is not None:
        return _groups(read, given, rows, layout)
    if read.order:
        if read.limit is not None:
            rows = rows.map(FirstRowsTask(given=given, layout=layout, read=read))
        return rows, OutputTask(given=given, layout=layout, read=read, is_last=True)
    shown = rows.map(OutputTask(given=given, layout=layout, read=read))
    return (shown if read.limit is None else shown.limit(read.limit)), None


def _groups(read: ReadPlan, given: TaskParameters, rows: Relation, layout: Layout) -> tuple[Relation, Task | None]:
    grouping = GroupTask(given=given, layout=layout, read=read)
    partial = rows.map(grouping)
    if not grouping.keys:
        return partial, MergeGroupsTask(grouping=grouping)
    whole = partial.spread(grouping.keys).map(MergeGroupsTask(grouping=grouping))
    return whole, (FirstGroupsTask(read=read) if read.order or read.limit is not None else None)
