"""Loads on Spark: executors read the input and write fragments, one commit publishes them."""

from omnigraph.spark.loads.load_files import load, load_frames
from omnigraph.spark.loads.options import SparkLoadResult, SparkLoadSettings

__all__ = ["SparkLoadResult", "SparkLoadSettings", "load", "load_frames"]
