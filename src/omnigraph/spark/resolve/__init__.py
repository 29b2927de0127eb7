"""Entity resolution on Spark: records that are the same entity, with the evidence for it."""

from omnigraph.spark.resolve.model import Comparison, Overrule, Resolution, ResolveCounts
from omnigraph.spark.resolve.run import Resolved, resolve

__all__ = ["Comparison", "Overrule", "Resolution", "ResolveCounts", "Resolved", "resolve"]
