"""How densely the surroundings of nodes are knit, and whose surroundings are alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.spark.algorithms.found import FoundFrame, walked
from omnigraph.spark.algorithms.reading import Frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def triangle_count(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Count the triangles that each node is a corner of."""
    del params
    _, rows = _triangles(graph)
    return FoundFrame(rows=rows.select("key", "triangles"), order=(("triangles", False), ("key", True)))


def clustering_coefficient(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Return for each node the share of pairs of its neighbours that are linked; 0 with fewer than two neighbours."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    del params
    sizes, rows = _triangles(graph)
    possible = sql.col("size") * (sql.col("size") - 1) / 2
    share = sql.when(sql.col("size") > 1, sql.col("triangles") / possible).otherwise(0.0).alias("coefficient")
    found = rows.join(sizes, "key", "left").select("key", share)
    return FoundFrame(rows=found, order=(("coefficient", False), ("key", True)))


def _triangles(graph: Frames) -> tuple[DataFrame, DataFrame]:
    """Return how many neighbours nodes have that have any, and how many triangles each node is a corner of."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    low, high = sql.least("source", "target").alias("a"), sql.greatest("source", "target").alias("b")
    pairs = graph.edges.where("source != target").select(low, high).distinct().localCheckpoint()
    ends = pairs.select(sql.col("a").alias("key")).unionAll(pairs.select(sql.col("b").alias("key")))
    sizes = ends.groupBy("key").agg(sql.count("key").alias("size")).localCheckpoint()
    ranked = pairs.join(sizes.toDF("a", "size_a"), "a").join(sizes.toDF("b", "size_b"), "b")
    # From the node with fewer neighbours to the one with more, so that few pairs leave any node.
    is_up = sql.struct("size_a", "a") < sql.struct("size_b", "b")
    up = ranked.select(
        sql.when(is_up, sql.col("a")).otherwise(sql.col("b")).alias("x"),
        sql.when(is_up, sql.col("b")).otherwise(sql.col("a")).alias("y"),
    ).localCheckpoint()
    paths = up.join(up.toDF("y", "z"), "y")
    closed = paths.join(up.toDF("x", "z"), ["x", "z"]).select("x", "y", "z").localCheckpoint()
    corners = [closed.select(sql.col(name).alias("key")) for name in ("x", "y", "z")]
    counts = corners[0].unionAll(corners[1]).unionAll(corners[2]).groupBy("key").agg(sql.count("key").alias("found"))
    triangles = sql.coalesce("found", sql.lit(0).cast("long")).alias("triangles")
    return sizes, graph.nodes.join(counts, "key", "left").select("key", triangles)


def node_similarity(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Compare nodes by the neighbours that they share (Jaccard), and return the ``top`` most alike of each node."""
    from pyspark.sql import Window  # noqa: PLC0415 - see above
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    lists = walked(graph, params["direction"]).select(sql.col("source").alias("key"), "target").distinct()
    lists = lists.localCheckpoint()
    sizes = lists.groupBy("key").agg(sql.count("target").alias("size")).localCheckpoint()
    pairs = lists.join(lists.toDF("other", "target"), "target").where("key != other")
    common = pairs.groupBy("key", "other").agg(sql.count("target").alias("common"))
    both = common.join(sizes, "key").join(sizes.toDF("other", "other_size"), "other")
    alike = (sql.col("common") / (sql.col("size") + sql.col("other_size") - sql.col("common"))).alias("similarity")
    best = Window.partitionBy("key").orderBy(sql.desc("similarity"), sql.asc("other"))
    rows = both.select("key", "other", alike).where(sql.col("similarity") >= params["min_similarity"])
    rows = rows.withColumn("place", sql.row_number().over(best)).where(sql.col("place") <= params["top"])
    order = (("similarity", False), ("key", True), ("other", True))
    return FoundFrame(rows=rows.select("key", "other", "similarity"), order=order)
