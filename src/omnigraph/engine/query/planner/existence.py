"""Rule: where any neighbour at all refutes a row, asking for one replaces running the inner steps."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.planner.rewriting import map_steps
from omnigraph.engine.query.steps import QueryPlan, Step, Unless
from omnigraph.ir.model import Expand


def ask_existence(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Mark anti-joins whose inner steps are one plain hop from an outer variable."""

    def rewrite(step: Step) -> Step:
        return replace(step, is_existence=True) if isinstance(step, Unless) and _is_one_hop(step) else step

    return map_steps(plan, rewrite)


def _is_one_hop(step: Unless) -> bool:
    if len(step.steps) != 1:
        return False
    only = step.steps[0]
    return (
        isinstance(only, Expand)
        and only.source in step.outer
        and (only.min_hops, only.max_hops) == (1, 1)
        and not only.filters
    )
