"""What does not run on Spark: it is found in the plan, before any job is started."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.engine.query.planner.plan import output_values
from omnigraph.engine.query.runner import PreparedRead
from omnigraph.engine.query.steps import CountExpand, Intersect, QueryPlan, Scan, Step, walk
from omnigraph.errors import BadValue, SparkUnsupportedError
from omnigraph.ir.model import (
    AggregateCall,
    Bm25Ranking,
    Expand,
    Filter,
    NearestRanking,
    Predicate,
    Ranking,
    RankingValue,
    RrfRanking,
    Scalarlike,
    TextMatch,
    Truth,
    UnionScan,
    Unwind,
    Walk,
    asks_versions,
    inner_values,
    operands_of,
)


def check_lowerable(prepared: PreparedRead) -> None:
    """Turn away what cannot be lowered.

    Raises:
        SparkUnsupportedError: names the construct.
    """
    if prepared.is_renamed:
        details = BadValue(what="schema", value="current", expected="commit")
        raise SparkUnsupportedError(
            "a state from before a schema change cannot be read on Spark with today's schema",
            details=details,
            hint="use the schema of that state with QueryOptions(schema='commit'), or run without Spark",
        )
    for construct, text in _refused(prepared.plan):
        details = BadValue(
            what="construct", value=construct, expected="a read without search, ranking, path or version"
        )
        raise SparkUnsupportedError(f"{construct} does not run on Spark: {text}", details=details)


def _refused(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    """Yield every construct that does not run, with its text."""
    if asks_versions(plan.read):
        yield "version", "it reads the history of the graph"
    ranks = (stage.output.rank for stages in plan.stages for stage in stages)
    for ranking in (plan.read.ranking, *(rank.ranking for rank in ranks if rank is not None)):
        if ranking is not None:
            yield _function(ranking), str(ranking)
    for step, _ in walk(plan.steps, plan.variables):
        if isinstance(step, Walk) and step.path is not None:
            yield "path", str(step)
        for predicate in _predicates(step):
            yield from _searches([predicate], operands_of(predicate))
        if isinstance(step, Unwind):
            yield from _searches([], inner_values(step.items))
    for value in _values(plan):
        yield from _searches([], inner_values(value))


def _predicates(step: Step) -> tuple[Predicate, ...]:
    if isinstance(step, Filter):
        return (step.predicate,)
    if isinstance(step, CountExpand):
        return step.expand.filters
    if isinstance(step, Walk):
        return step.filters if step.condition is None else (*step.filters, step.condition)
    return step.filters if isinstance(step, Scan | UnionScan | Expand | Intersect) else ()


def _values(plan: QueryPlan) -> Iterator[Scalarlike]:
    """Yield everything that is computed of the rows of matches."""
    for stages in plan.stages:
        for stage in stages:
            yield from output_values(stage.output)
    for output in plan.read.outputs:
        value = output.expression
        argument = value.argument if isinstance(value, AggregateCall) else value
        if argument is not None and not isinstance(argument, RankingValue):
            yield argument


def _searches(predicates: list[Predicate], values: Iterator[Scalarlike]) -> Iterator[tuple[str, str]]:
    inside = (value.predicate for value in values if isinstance(value, Truth))
    for predicate in (*predicates, *inside):
        if isinstance(predicate, TextMatch):
            yield predicate.function, str(predicate)


def _function(ranking: Ranking) -> str:
    names: dict[type[Ranking], str] = {NearestRanking: "nearest", Bm25Ranking: "bm25", RrfRanking: "rrf"}
    return names[type(ranking)]
