"""Rule: properties are read where they are needed, for the rows that are left then."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.steps import QueryPlan


def read_late(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Do not read the properties of a variable when it is bound."""
    return replace(plan, is_late=True)
