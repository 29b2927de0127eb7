"""The type checker of queries."""

from omnigraph.ir.check.query import check_query
from omnigraph.ir.check.scope import RULES
from omnigraph.ir.check.tree import CheckedMutation, CheckedQuery, CheckedRead

__all__ = ["RULES", "CheckedMutation", "CheckedQuery", "CheckedRead", "check_query"]
