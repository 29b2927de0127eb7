"""The way to the data source that loads Spark only when it is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("omnigraph")`` and its writers known to a session.

    Sessions find the data source by themselves where they look for ``pyspark_*`` packages; this is for all others.
    """
    from omnigraph.spark.source.datasource import register as register_source  # noqa: PLC0415 - it loads Spark

    register_source(spark)
