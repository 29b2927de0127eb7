"""Merges, reverts and differences whose rows executors compare and write."""

from omnigraph.spark.history.operations import diff, merge, preview_merge, revert
from omnigraph.spark.history.ranges import SparkHistorySettings

__all__ = ["SparkHistorySettings", "diff", "merge", "preview_merge", "revert"]
