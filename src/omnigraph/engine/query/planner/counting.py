"""Rule: when rows are only counted, what the last expansions reach is counted instead of listed."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.steps import QueryPlan, Step, Weigh
from omnigraph.ir.model import AggregateCall, Column, EntityRef, Expand, ReadPlan


def count_without_rows(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Turn trailing expansions whose end nobody looks at into counts, each with the counts that start at its end."""
    if not _only_counts_rows(plan.read):
        return plan
    kept = _group_variables(plan.read)
    steps, weighs = list(plan.steps), list[Weigh]()
    while steps and (expand := _countable(steps[-1], kept, steps[:-1])) is not None:
        steps.pop()
        inner = tuple(weigh for weigh in weighs if weigh.expand.source == expand.destination)
        weighs = [Weigh(expand=expand, inner=inner), *(weigh for weigh in weighs if weigh not in inner)]
    return replace(plan, steps=(*steps, *weighs))


def _only_counts_rows(read: ReadPlan) -> bool:
    if read.groups is None or read.ranking is not None:
        return False
    calls = [output.expression for output in read.outputs if isinstance(output.expression, AggregateCall)]
    return all(call.function == "count" and isinstance(call.argument, EntityRef) for call in calls)


def _group_variables(read: ReadPlan) -> frozenset[str]:
    keys = (output.expression for output in read.outputs)
    return frozenset(key.variable for key in keys if isinstance(key, Column | EntityRef))


def _countable(step: Step, kept: frozenset[str], before: list[Step]) -> Expand | None:
    if not isinstance(step, Expand) or {step.destination, step.edge_variable} & kept:
        return None
    if (step.min_hops, step.max_hops) != (1, 1):
        return None
    # Filters on the way stand behind all expansions, so what remains in front cannot look at this end but through it.
    is_source = any(isinstance(other, Expand) and other.source == step.destination for other in before)
    return None if is_source else step
