"""Rule: with an order and a limit, rows that cannot be among the first are dropped on the way."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.steps import QueryPlan


def cut_early(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Keep no more ordered rows than the limit asks for."""
    return replace(plan, cuts_early=plan.read.limit is not None and bool(plan.read.order))
