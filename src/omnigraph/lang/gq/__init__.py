"""The query language: ``.gq`` text to tree and back."""

from omnigraph.lang.gq.format import format_queries
from omnigraph.lang.gq.parser import parse_queries, select_query

__all__ = ["format_queries", "parse_queries", "select_query"]
