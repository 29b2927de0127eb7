"""Where Spark looks for the data source by itself: it imports every module ``pyspark_*`` and takes its source."""

from omnigraph.spark.source.datasource import OmnigraphSource as DefaultSource

__all__ = ["DefaultSource"]
