"""The planner: rewrite rules that make a read cheaper and never change its rows."""

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.planner.plan import RULES, plan_read

__all__ = ["RULES", "Facts", "plan_read"]
