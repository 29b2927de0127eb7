"""Walking over the steps of a plan, for rules that look at one step at a time or at neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph.engine.query.steps import QueryPlan, Step, Unless


def map_steps(plan: QueryPlan, rewrite: Callable[[Step], Step]) -> QueryPlan:
    """Return the plan with every step rewritten, the innermost ones first."""
    return map_sequences(plan, lambda steps: tuple(rewrite(step) for step in steps))


def map_sequences(plan: QueryPlan, rewrite: Callable[[tuple[Step, ...]], tuple[Step, ...]]) -> QueryPlan:
    """Return the plan with every sequence of steps rewritten, the innermost ones first."""
    return replace(plan, steps=_map(plan.steps, rewrite))


def _map(steps: tuple[Step, ...], rewrite: Callable[[tuple[Step, ...]], tuple[Step, ...]]) -> tuple[Step, ...]:
    inner = (replace(step, steps=_map(step.steps, rewrite)) if isinstance(step, Unless) else step for step in steps)
    return rewrite(tuple(inner))
