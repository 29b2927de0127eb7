"""Shortest paths from one node or from several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadValue, UsageError
from omnigraph.spark.algorithms.found import FoundFrame, find_key, walked
from omnigraph.spark.algorithms.reading import Frames
from omnigraph.values import unfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def shortest_paths(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Find the shortest path to each node from the nearest of the sources, or from each of them, or to one target."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    sources = sorted({find_key(graph, "source", node) for node in params["sources"]})
    target = None if params["target"] is None else find_key(graph, "target", params["target"])
    if target is not None and params["each"]:
        details = BadValue(what="each", value="True", expected="False together with a target")
        raise UsageError("a path to a target is from the nearest source", details=details)
    links = walked(graph, params["direction"]).where("source != target")
    links = links.groupBy("source", "target").agg(sql.min("weight").alias("weight")).localCheckpoint()
    of = "long" if params["weight"] is None else "double"
    distance = sql.col("way.distance").cast(of).alias("distance")
    if target is not None:
        return _path(_ways(graph, links, sources).select("key", distance, "way.previous"), target)
    groups = [[source] for source in sources] if params["each"] else [sources]
    rows: DataFrame | None = None
    for place, some in enumerate(groups):
        found = _ways(graph, links, some).select(
            sql.lit(place).alias("place"), "key", distance, sql.col("way.origin").alias("source"), "way.previous"
        )
        rows = found if rows is None else rows.unionAll(found)
    if rows is None:
        raise unfit("sources", params["sources"], "at least one node")
    return FoundFrame(rows=rows, order=(("place", True), ("distance", True), ("key", True)), hidden=("place",))


def _ways(graph: Frames, links: DataFrame, sources: Sequence[str]) -> DataFrame:
    """Return the shortest way to every node that is reached: its length, edges, last node but one, and origin."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    start = graph.nodes.where(sql.col("key").isin(sources)).select(
        "key",
        sql.struct(
            sql.lit(0.0).alias("distance"),
            sql.lit(0).cast("long").alias("hops"),
            sql.lit(None).cast("string").alias("previous"),
            sql.col("key").alias("origin"),
        ).alias("way"),
    )
    start = start.localCheckpoint()
    ways = start
    while True:
        steps = links.join(ways, links.source == ways.key).select(
            sql.col("target").alias("key"),
            sql.struct(
                (sql.col("way.distance") + sql.col("weight")).alias("distance"),
                (sql.col("way.hops") + 1).alias("hops"),
                sql.col("source").alias("previous"),
                sql.col("way.origin").alias("origin"),
            ).alias("way"),
        )
        # The least way is the shortest, then the one of fewest edges, then the one whose last node but one is first.
        after = start.unionAll(steps).groupBy("key").agg(sql.min("way").alias("way")).localCheckpoint()
        before = ways.select("key", sql.col("way").alias("before"))
        is_done = after.join(before, "key", "left").where("before is null or before != way").isEmpty()
        ways = after
        if is_done:
            return ways


def _path(ways: DataFrame, target: str) -> FoundFrame:
    """Return the nodes of the path to one node, step by step; none if it is not reached."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    chain: list[tuple[str, Any]] = []
    wanted: str | None = target
    while wanted is not None:
        found = ways.where(sql.col("key") == wanted).first()
        if found is None:
            break
        chain.append((found.key, found.distance))
        wanted = found.previous
    steps = [(number, *one) for number, one in enumerate(reversed(chain))]
    of = dict(ways.dtypes)["distance"]
    rows = ways.sparkSession.createDataFrame(steps, f"step long, key string, distance {of}")
    return FoundFrame(rows=rows, order=(("step", True),))
