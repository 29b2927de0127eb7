"""What the pages of Spark call the jobs of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def describing(spark: Any, text: str) -> Iterator[None]:
    """Let jobs of a block be called ``omnigraph: text``; a server of Spark Connect names jobs by itself."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(f"omnigraph: {text}")
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)
