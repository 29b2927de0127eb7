"""Reads on Spark: scans, joins and shuffles are Spark's, everything that has a meaning is the embedded engine's."""

from omnigraph.spark.queries.run import frame, query, run_query

__all__ = ["frame", "query", "run_query"]
