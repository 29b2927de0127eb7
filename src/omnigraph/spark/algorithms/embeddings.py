"""Vectors of nodes by which nodes with alike surroundings are near each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.engine.algorithms.embeddings import random_vectors
from omnigraph.spark.algorithms.found import FoundFrame, walked
from omnigraph.spark.algorithms.reading import Frames, key_hashes

if TYPE_CHECKING:
    from pyspark.sql import Column


def fast_rp(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Embed nodes by fast random projection: average the random vectors of neighbours again and again (FastRP)."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    dimension = params["dimension"]
    made = graph.nodes.mapInArrow(partial(_drawn, params["seed"], dimension), "key string, vector array<double>")
    links = walked(graph, params["direction"]).groupBy("source", "target").agg(sql.sum("weight").alias("weight"))
    totals = links.groupBy("source").agg(sql.sum("weight").alias("total")).where("total > 0").localCheckpoint()
    shares = links.join(totals, "source").select(
        "source", "target", (sql.col("weight") / sql.col("total")).alias("share")
    )
    shares = shares.localCheckpoint()
    known = made.join(totals.toDF("key", "total"), "key", "left")
    embedding = _scaled(_unit(sql.col("vector")), sql.lit(params["self_influence"]))
    scale = sql.pow(sql.coalesce("total", sql.lit(1.0)), sql.lit(params["normalization"]))
    found = known.select("key", embedding.alias("embedding"), _scaled(sql.col("vector"), scale).alias("vector"))
    found = found.localCheckpoint()
    zero = sql.array_repeat(sql.lit(0.0), dimension)
    for weight in params["weights"]:
        near = shares.join(found.select(sql.col("key").alias("target"), "vector"), "target")
        sums = [sql.sum(sql.col("share") * sql.col("vector")[place]) for place in range(dimension)]
        averages = near.groupBy(sql.col("source").alias("key")).agg(sql.array(*sums).alias("average"))
        after = found.join(averages, "key", "left").select(
            "key", "embedding", sql.coalesce("average", zero).alias("vector")
        )
        added = _scaled(_unit(sql.col("vector")), sql.lit(float(weight)))
        both = sql.zip_with("embedding", added, lambda old, new: old + new).alias("embedding")
        found = after.select("key", both, "vector").localCheckpoint()
    rows = found.select("key", sql.col("embedding").cast("array<float>").alias("embedding"))
    return FoundFrame(rows=rows, order=(("key", True),))


def _drawn(seed: int, dimension: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield nodes with their random vectors."""
    for batch in batches:
        vectors = random_vectors(key_hashes(batch.column("key").to_pylist(), seed), dimension)
        values = pa.array(vectors.astype("float64").ravel())
        offsets = pa.array(range(0, dimension * batch.num_rows + 1, dimension), pa.int32())
        lists = pa.ListArray.from_arrays(offsets, values)
        yield pa.RecordBatch.from_arrays([batch.column("key"), lists], ["key", "vector"])


def _scaled(vector: Column, factor: Column) -> Column:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    return sql.transform(vector, lambda item: item * factor)


def _unit(vector: Column) -> Column:
    """Return a vector of length one; one of length zero stays as it is."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    length = sql.sqrt(sql.aggregate(vector, sql.lit(0.0), lambda sum_, item: sum_ + item * item))
    return _scaled(vector, sql.when(length > 0, 1 / length).otherwise(1.0))
