"""Random loads on a real Spark and in the embedded engine: same graphs, counts, errors and places.

``make spark-differential`` runs hundreds of them, ``PAIRS=500`` by default.
"""

from __future__ import annotations

import os

import pytest

from omnigraph.spark.loads import SparkLoadSettings, load
from tests.random_loads import compare_loads

# How many loads one graph sees, each on what those before it left.
LOADS = 5
PAIRS = int(os.environ.get("OMNIGRAPH_PAIRS") or 15)
# Parts of a few lines, and ranges of a few entities.
TINY = SparkLoadSettings(part_bytes=1000, merge_rows=8, flush_bytes=2000)


@pytest.mark.parametrize("seed", range(PAIRS // LOADS))
def test_random_loads_end_on_spark_as_in_the_embedded_engine(spark, seed, tmp_path):
    def load_there(graph, sources, mode, **options):
        return load(graph, sources, mode, spark=spark, settings=TINY, **options)

    assert len(compare_loads(seed, LOADS, tmp_path, load_there)) == LOADS
