"""Loads on Spark: executors read the input and write fragments, one commit publishes them."""

from omnigraph.spark.load.frames import load_frames
from omnigraph.spark.load.options import SparkLoadResult, SparkLoadSettings
from omnigraph.spark.load.run import load

__all__ = ["SparkLoadResult", "SparkLoadSettings", "load", "load_frames"]
