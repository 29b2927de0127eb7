"""Which nodes hang together: weakly and strongly connected components, communities, and how deep a node stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.spark.algorithms.found import FoundFrame, in_groups, walked
from omnigraph.spark.algorithms.reading import Frames
from omnigraph.values.counts import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def connected_components(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Group nodes that edges connect."""
    del params
    return in_groups(component_labels(graph), "component")


def component_labels(graph: Frames) -> DataFrame:
    """Return nodes as ``key``, with the first key of their component as ``label``.

    Each takes the first label in sight, and the label of that, until nothing changes.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    both = walked(graph, "both").where("source != target").select("source", "target").distinct().localCheckpoint()
    labels = graph.nodes.select("key", sql.col("key").alias("label")).localCheckpoint()
    while True:
        seen = both.join(labels, both.target == labels.key).groupBy("source").agg(sql.min("label").alias("seen"))
        near = labels.join(seen, labels.key == seen.source, "left").select(
            "key", "label", sql.least("label", sql.coalesce("seen", "label")).alias("near")
        )
        # Labels are names of nodes, so that a label leads to another one at once instead of step by step.
        further = near.select(sql.col("key").alias("via"), sql.col("near").alias("far"))
        after = near.join(further, near.near == further.via).select("key", "label", "far").localCheckpoint()
        is_done = after.where("label != far").isEmpty()
        labels = after.select("key", sql.col("far").alias("label"))
        if is_done:
            return labels


def label_propagation(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Let each node take the label that most of its neighbours have, all nodes at once."""
    from pyspark.sql import Window  # noqa: PLC0415 - see above
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    both = walked(graph, "both").where("source != target").localCheckpoint()
    own = both.groupBy(sql.col("source").alias("key")).agg(sql.avg("weight").alias("weight")).localCheckpoint()
    labels = graph.nodes.select("key", sql.col("key").alias("label")).localCheckpoint()
    best = Window.partitionBy("key").orderBy(sql.desc("total"), sql.asc("label"))
    for _ in range(params["max_iterations"]):
        votes = both.join(labels, both.target == labels.key).select(sql.col("source").alias("key"), "label", "weight")
        mine = own.join(labels, "key").select("key", "label", "weight")
        totals = votes.unionAll(mine).groupBy("key", "label").agg(sql.sum("weight").alias("total"))
        chosen = totals.withColumn("place", sql.row_number().over(best)).where("place = 1")
        chosen = chosen.select("key", sql.col("label").alias("chosen"))
        after = labels.join(chosen, "key", "left").select(
            "key", "label", sql.coalesce("chosen", "label").alias("after")
        )
        after = after.localCheckpoint()
        is_done = after.where("label != after").isEmpty()
        labels = after.select("key", sql.col("after").alias("label"))
        if is_done:
            return in_groups(labels, "community")
    warning = f"labels still changed after {counted(params['max_iterations'], 'iteration')}"
    return in_groups(labels, "community", (warning,))


def strongly_connected_components(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Group nodes that lead to each other along edges in their direction.

    Every node takes the first name that leads to it, until none changes. Whoever leads back to the node of that name,
    among those that took it, is in its group. Groups that are found leave, and the rest starts again.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    del params
    rest = graph.nodes.select("key").localCheckpoint()
    links = graph.edges.where("source != target").select("source", "target").distinct().localCheckpoint()
    labels: DataFrame | None = None
    while not rest.isEmpty():
        colours = _first_to_reach(rest, links)
        roots = colours.where("key = colour")
        found = _leading_back(roots, colours, links)
        labels = found if labels is None else labels.unionAll(found).localCheckpoint()
        rest = rest.join(found.select("key"), "key", "left_anti").localCheckpoint()
        # What crosses from one colour to another is on no circle, and groups that left take their edges along.
        near = colours.join(rest, "key")
        begins, ends = near.toDF("source", "from_colour"), near.toDF("target", "to_colour")
        links = links.join(begins, "source").join(ends, "target").where("from_colour = to_colour")
        links = links.select("source", "target").localCheckpoint()
    if labels is None:
        labels = graph.nodes.select("key", sql.col("key").alias("label"))
    return in_groups(labels, "component")


def _first_to_reach(nodes: DataFrame, links: DataFrame) -> DataFrame:
    """Return for each node the first name among all that lead to it, itself included, as its colour."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    colours = nodes.select("key", sql.col("key").alias("colour"))
    while True:
        seen = links.join(colours.toDF("source", "seen"), "source").groupBy("target").agg(sql.min("seen").alias("seen"))
        after = colours.join(seen, colours.key == seen.target, "left").select(
            "key", "colour", sql.least("colour", sql.coalesce("seen", "colour")).alias("after")
        )
        after = after.localCheckpoint()
        is_done = after.where("colour != after").isEmpty()
        colours = after.select("key", sql.col("after").alias("colour"))
        if is_done:
            return colours


def _leading_back(roots: DataFrame, colours: DataFrame, links: DataFrame) -> DataFrame:
    """Return the nodes that lead to the node whose name they have as colour, with that name as label."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    found = roots.select("key", sql.col("colour").alias("label")).localCheckpoint()
    frontier = found
    while not frontier.isEmpty():
        before = links.join(frontier.toDF("target", "label"), "target").select(sql.col("source").alias("key"), "label")
        mine = before.distinct().join(colours, "key").where("colour = label").select("key", "label")
        frontier = mine.join(found, "key", "left_anti").localCheckpoint()
        found = found.unionAll(frontier).localCheckpoint()
    return found


def k_core(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Return for each node the largest k such that it stays when nodes with fewer than k neighbours keep leaving.

    A node's number is at first how many neighbours it has, then the largest n such that n of its neighbours have at
    least n, again and again. What does not change any more is the depth of its core.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    del params
    both = walked(graph, "both").where("source != target").select("source", "target").distinct().localCheckpoint()
    cores = both.groupBy(sql.col("source").alias("key")).agg(sql.count("target").alias("core")).localCheckpoint()
    while True:
        near = both.join(cores.toDF("target", "near"), "target").groupBy(sql.col("source").alias("key"))
        falling = near.agg(sql.sort_array(sql.collect_list("near"), asc=False).alias("near"))
        deep = sql.size(sql.filter("near", lambda depth, place: depth > place)).cast("long").alias("after")
        after = cores.join(falling.select("key", deep), "key").localCheckpoint()
        is_done = after.where("core != after").isEmpty()
        cores = after.select("key", sql.col("after").alias("core"))
        if is_done:
            break
    core = sql.coalesce("core", sql.lit(0).cast("long")).alias("core")
    rows = graph.nodes.join(cores, "key", "left").select("key", core)
    return FoundFrame(rows=rows, order=(("core", False), ("key", True)))
