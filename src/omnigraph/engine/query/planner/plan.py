"""From the compiled read to the plan that runs: every rule in turn, each of which can be left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from omnigraph.engine.query.planner.columns import all_columns, prune_columns
from omnigraph.engine.query.planner.counting import count_without_rows
from omnigraph.engine.query.planner.existence import ask_existence
from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.planner.filter_pushdown import push_filters
from omnigraph.engine.query.planner.join_order import order_joins
from omnigraph.engine.query.planner.key_lookup import look_up_keys
from omnigraph.engine.query.planner.late_reading import read_late
from omnigraph.engine.query.planner.link_test import ask_links
from omnigraph.engine.query.planner.literals import fit_literals
from omnigraph.engine.query.planner.scan_limit import limit_scan
from omnigraph.engine.query.planner.top_rows import cut_early
from omnigraph.engine.query.steps import QueryPlan, Scan, Step, Unless
from omnigraph.errors import BadValue, UsageError
from omnigraph.ir.model import AntiJoin, Expand, NodeScan, Operator, ReadPlan
from omnigraph.values import meant

Rule = Callable[[QueryPlan, Facts], QueryPlan]

# In this order: later rules look at what earlier ones made of the steps.
RULES: Mapping[str, Rule] = {
    "join_order": order_joins,
    "key_lookup": look_up_keys,
    "link_test": ask_links,
    "existence": ask_existence,
    "count_rows": count_without_rows,
    "limit_scan": limit_scan,
    "push_filters": push_filters,
    "fit_literals": fit_literals,
    "prune_columns": prune_columns,
    "read_late": read_late,
    "cut_early": cut_early,
}


def plan_read(read: ReadPlan, facts: Facts, rules_off: frozenset[str] = frozenset()) -> QueryPlan:
    """Apply every rule that is not switched off.

    Raises:
        UsageError: no rule has such a name.
    """
    for name in sorted(rules_off - RULES.keys()):
        details = BadValue(what="rewrite rule", value=name, expected=" | ".join(RULES))
        raise UsageError(f"no rewrite rule is called '{name}'", details=details, hint=meant(name, RULES))
    variables = _variables(read.operators, {})
    steps = _translate(read.operators, variables)
    plan = QueryPlan(read=read, steps=steps, variables=variables, columns=all_columns(facts))
    for name, rule in RULES.items():
        if name not in rules_off:
            plan = replace(rule(plan, facts), rules=(*plan.rules, name))
    return plan


def _translate(operators: tuple[Operator, ...], variables: Mapping[str, str]) -> tuple[Step, ...]:
    return tuple(_step(operator, variables) for operator in operators)


def _step(operator: Operator, variables: Mapping[str, str]) -> Step:
    if isinstance(operator, NodeScan):
        return Scan(variable=operator.variable, type_name=operator.type_name, filters=operator.filters)
    if isinstance(operator, AntiJoin):
        inner = _variables(operator.inner, variables)
        return Unless(outer=operator.outer, steps=_translate(operator.inner, inner), variables=inner)
    return operator


def _variables(operators: tuple[Operator, ...], outer: Mapping[str, str]) -> dict[str, str]:
    """Return the table of every variable that stands in these operators or outside of them."""
    tables = dict(outer)
    for operator in operators:
        if isinstance(operator, NodeScan):
            tables[operator.variable] = f"node:{operator.type_name}"
        elif isinstance(operator, Expand):
            tables[operator.destination] = f"node:{operator.destination_type}"
            if operator.edge_variable is not None:
                tables[operator.edge_variable] = f"edge:{operator.edge}"
    return tables
