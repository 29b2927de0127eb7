"""Steps of a plan as relations: joins on ids, and the tasks that look at values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from omnigraph.engine.query.steps import (
    AntiJoinStep,
    BlockStep,
    CountExpand,
    LinkTest,
    OptionalStep,
    QueryPlan,
    Scan,
    Step,
    walk,
)
from omnigraph.errors import BadValue, InternalError, SparkUnsupportedError
from omnigraph.ir.model import (
    Bm25Ranking,
    Expand,
    Filter,
    Narrow,
    NearestRanking,
    Predicate,
    Ranking,
    ReadPlan,
    RrfRanking,
    SameEntity,
    TextMatch,
    Truth,
    UnionScan,
    Unwind,
    Walk,
    Widen,
    asks_versions,
    operands_of,
)
from omnigraph.spark.query.layout import Layout, Live, Match, live_after, uses
from omnigraph.spark.query.reading import Reading, properties
from omnigraph.spark.query.relations import Relation, Task
from omnigraph.spark.query.task_rows import TaskParameters
from omnigraph.spark.query.tasks import (
    FilterTask,
    FirstGroupsTask,
    FirstRowsTask,
    GroupTask,
    MergeGroupsTask,
    OutputTask,
)
from omnigraph.spark.query.traversals import count_expand, expand, link_test, without_neighbour
from omnigraph.store.tables.pinned import KEY


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
        case CountExpand():
            return count_expand(reading, match, step, live)
        case AntiJoinStep():
            return _unless(reading, match, step, live)
        case OptionalStep() | BlockStep() | Unwind() | Walk() | UnionScan() | Narrow() | Widen():
            message = f"a step that does not run on Spark: {step}"
            raise InternalError(message)
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


def _unless(reading: Reading, match: Match, step: AntiJoinStep, live: Live) -> Match:
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


def check_lowerable(plan: QueryPlan) -> None:
    """Turn away what cannot be lowered.

    Raises:
        SparkUnsupportedError: names the construct.
    """
    found = next(_searches(plan), None)
    if found is not None:
        function, text = found
        details = BadValue(what="construct", value=function, expected="a read without text or vector search")
        raise SparkUnsupportedError(f"{function} does not run on Spark: {text}", details=details)
    if asks_versions(plan.read):
        details = BadValue(what="construct", value="version", expected="a read without versions")
        message = "version does not run on Spark: it asks the history of the graph"
        raise SparkUnsupportedError(message, details=details, hint="run it on the local engine: --engine local")
    staged = next(_staged(plan), None)
    if staged is not None:
        details = BadValue(what="construct", value=staged, expected="one match with plain columns, groups and order")
        message = f"this read does not run on Spark yet: it needs {staged}"
        raise SparkUnsupportedError(message, details=details, hint="run it on the local engine: --engine local")


def _staged(plan: QueryPlan) -> Iterator[str]:
    if plan.read.stages:
        yield "computed, distinct or staged rows"
    for step, _ in walk(plan.steps, plan.variables):
        if isinstance(step, OptionalStep | BlockStep | Unwind | Walk | UnionScan | Narrow | Widen):
            yield str(step)


def _searches(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    if plan.read.ranking is not None:
        yield _function(plan.read.ranking), str(plan.read.ranking)
    for step, _ in walk(plan.steps, plan.variables):
        predicates: tuple[Predicate, ...] = ()
        if isinstance(step, Filter):
            predicates = (step.predicate,)
        elif isinstance(step, Scan | Expand):
            predicates = step.filters
        elif isinstance(step, CountExpand):
            predicates = step.expand.filters
        yield from ((item.function, str(item)) for predicate in predicates for item in _text_matches(predicate))


def _text_matches(predicate: Predicate) -> Iterator[TextMatch]:
    if isinstance(predicate, TextMatch):
        yield predicate
    for value in operands_of(predicate):
        if isinstance(value, Truth) and isinstance(value.predicate, TextMatch):
            yield value.predicate


def _function(ranking: Ranking) -> str:
    names: dict[type[Ranking], str] = {NearestRanking: "nearest", Bm25Ranking: "bm25", RrfRanking: "rrf"}
    return names[type(ranking)]
