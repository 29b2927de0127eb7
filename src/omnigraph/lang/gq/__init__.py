"""The query language: ``.gq`` text to tree, and back by ``omnigraph.lang.gq.format``."""

from omnigraph.lang.gq.parser import parse_queries, select_query

__all__ = ["parse_queries", "select_query"]
