"""Rule: a scan stops early when its rows are the answer as they come."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.steps import QueryPlan, Scan


def limit_scan(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Give the limit of the read to its only step."""
    read, limit = plan.read, plan.read.limit
    if limit is None or read.order or read.ranking is not None or read.groups is not None or len(plan.steps) != 1:
        return plan
    only = plan.steps[0]
    if not isinstance(only, Scan) or only.filters:
        return plan
    return replace(plan, steps=(replace(only, limit=limit),))
