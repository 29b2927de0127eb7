"""Rule: a traversal between two variables that are both known is a test, not an expansion."""

from __future__ import annotations

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.planner.rewriting import map_sequences
from omnigraph.engine.query.steps import LinkTest, QueryPlan, Step
from omnigraph.ir.model import Expand, Filter, SameEntity


def ask_links(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Replace an expansion to a private variable and the comparison that follows it by one test per row."""
    return map_sequences(plan, _fuse)


def _fuse(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    fused: list[Step] = []
    for step in steps:
        test = _link_test(fused[-1], step) if fused else None
        if test is None:
            fused.append(step)
        else:
            fused[-1] = test
    return tuple(fused)


def _link_test(before: Step, step: Step) -> LinkTest | None:
    if not (isinstance(before, Expand) and isinstance(step, Filter) and isinstance(step.predicate, SameEntity)):
        return None
    is_single = (before.min_hops, before.max_hops) == (1, 1) and before.edge_variable is None and not before.filters
    if not is_single or step.predicate.left != before.destination:
        return None
    return LinkTest(
        source=before.source, destination=step.predicate.right, edge=before.edge, direction=before.direction
    )
