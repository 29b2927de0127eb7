"""Rule: literals are brought to the type of the column they are compared with, where that loses nothing."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.steps import QueryPlan


def fit_literals(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Compare in the column's own type instead of a wider one."""
    return replace(plan, fits_literals=True)
