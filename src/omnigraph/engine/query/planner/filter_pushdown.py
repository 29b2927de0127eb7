"""Rule: storage filters what a scan reads, as far as it can be asked."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.planner.rewriting import map_steps
from omnigraph.engine.query.steps import QueryPlan, Scan


def push_filters(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Let storage filter what a scan reads."""
    return map_steps(plan, lambda step: replace(step, is_pushed=True) if isinstance(step, Scan) else step)
