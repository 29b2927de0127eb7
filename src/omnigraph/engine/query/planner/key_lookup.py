"""Rule: a node whose whole key is given is looked up by the id that follows from it, instead of searched for."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts, fixes_key
from omnigraph.engine.query.planner.rewriting import map_steps
from omnigraph.engine.query.steps import QueryPlan, Scan, Step
from omnigraph.ir.model import Column, Compare, Constant, ParameterRef


def look_up_keys(plan: QueryPlan, facts: Facts) -> QueryPlan:
    """Give scans the values of their key. The filters stay: they decide, the key only says where to look."""

    def rewrite(step: Step) -> Step:
        if not isinstance(step, Scan):
            return step
        node = facts.catalog.nodes[step.type_name]
        if node.key is None or not fixes_key(node, step.filters):
            return step
        return replace(step, key=tuple(_value_of(step, name) for name in node.key))

    return map_steps(plan, rewrite)


def _value_of(step: Scan, name: str) -> Constant | ParameterRef:
    for predicate in step.filters:
        if (
            isinstance(predicate, Compare)
            and predicate.op == "="
            and isinstance(predicate.left, Column)
            and predicate.left.property == name
            and isinstance(predicate.right, Constant | ParameterRef)
        ):
            return predicate.right
    message = f"no filter fixes {name}"
    raise LookupError(message)
