"""Lowering: checked queries to plans."""

from omnigraph.ir.lower.query import lower_query

__all__ = ["lower_query"]
