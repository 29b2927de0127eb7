"""The algorithms as joins and groups of DataFrames, repeated until nothing changes.

What comes out of a round is kept (a local checkpoint), so that the next one does not make it again. Stopping rules are
those of the engine in process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.errors import AlgorithmInputError, BadValue
from omnigraph.records import record
from omnigraph.spark.algorithms.reading import SEPARATOR, Frames
from omnigraph.values import check_number, unfit
from omnigraph.values.counts import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@record
class FoundFrame:
    """Rows about nodes, by ``key`` and other columns; ``order`` sorts them as the result has them."""

    rows: DataFrame
    order: tuple[tuple[str, bool], ...]
    warnings: tuple[str, ...] = ()


Iterate = Callable[[Frames, Mapping[str, Any]], FoundFrame]


def degree(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Count the edges of each node, or add up what they weigh."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    wanted = {"out": ["source"], "in": ["target"], "both": ["source", "target"]}[params["direction"]]
    parts = [graph.edges.select(sql.col(end).alias("key"), "weight") for end in wanted]
    ends = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
    of, zero = ("long", 0) if params["weight"] is None else ("double", 0.0)
    sums = ends.groupBy("key").agg(sql.sum("weight").cast(of).alias("degree"))
    rows = graph.nodes.join(sums, "key", "left").select(
        "key", sql.coalesce("degree", sql.lit(zero).cast(of)).alias("degree")
    )
    return FoundFrame(rows=rows, order=(("degree", False), ("key", True)))


def _walked(graph: Frames, direction: str) -> DataFrame:
    """Return the edges as they are walked; ``both`` has each at both its ends, a loop once."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    back = graph.edges.select(sql.col("target").alias("source"), sql.col("source").alias("target"), "weight")
    if direction == "out":
        return graph.edges
    return back if direction == "in" else graph.edges.unionAll(back.where("source != target"))


def pagerank(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Follow edges by weight with probability ``damping``, or else jump."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    order = (("score", False), ("key", True))
    base = _with_jumps(graph, params["sources"]).localCheckpoint()
    links = _walked(graph, params["direction"]).groupBy("source", "target").agg(sql.sum("weight").alias("weight"))
    totals = links.groupBy("source").agg(sql.sum("weight").alias("total")).where("total > 0")
    shares = links.join(totals, "source").select(
        "source", "target", (sql.col("weight") / sql.col("total")).alias("share")
    )
    shares = shares.localCheckpoint()
    stuck = sql.col("total").isNull().alias("is_stuck")
    base = base.join(totals, base.key == totals.source, "left").select("key", "jump", stuck).localCheckpoint()
    damping = params["damping"]
    scores, change = base.select("key", sql.col("jump").alias("score")), 0.0
    missing = _sum(base.where("is_stuck").agg(sql.sum("jump")))
    for _ in range(params["max_iterations"]):
        flowing = shares.join(scores, shares.source == scores.key)
        reached = flowing.groupBy("target").agg(sql.sum(sql.col("share") * sql.col("score")).alias("reached"))
        following = (sql.coalesce("reached", sql.lit(0.0)) + sql.lit(missing) * sql.col("jump")) * damping
        after = base.join(reached, base.key == reached.target, "left").select(
            "key", "is_stuck", (following + (1 - damping) * sql.col("jump")).alias("after")
        )
        both = after.join(scores, "key").localCheckpoint()
        change = _sum(both.agg(sql.sum(sql.abs(sql.col("after") - sql.col("score")))))
        missing = _sum(both.where("is_stuck").agg(sql.sum("after")))
        scores = both.select("key", sql.col("after").alias("score"))
        if change < params["tolerance"]:
            return FoundFrame(rows=scores, order=order)
    warning = f"scores still changed by {change:.3g} after {counted(params['max_iterations'], 'iteration')}"
    return FoundFrame(rows=scores, order=order, warnings=(warning,))


def _sum(frame: DataFrame) -> float:
    """Return the one number of a frame; the sum of no rows is zero."""
    found = frame.first()
    return 0.0 if found is None or found[0] is None else float(found[0])


def _with_jumps(graph: Frames, sources: Any) -> DataFrame:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    if sources is None:
        count = max(1, graph.nodes.count())
        return graph.nodes.select("key", sql.lit(1 / count).alias("jump"))
    shares = (
        sources
        if isinstance(sources, Mapping)
        else dict.fromkeys((tuple(one) if isinstance(one, list) else one for one in sources), 1.0)
    )
    if not shares:
        raise unfit("sources", sources, "at least one node")
    jumps: dict[str, float] = {}
    for node, share in shares.items():
        check_number("share of a source", share)
        key = find_key(graph, "source", node)
        jumps[key] = jumps.get(key, 0.0) + share
    total = sum(jumps.values())
    if not total:
        details = BadValue(what="sources", value="0", expected="a share above zero")
        raise AlgorithmInputError("the shares of all sources are zero", details=details)
    chosen = sql.lit(0.0)
    for key, share in jumps.items():
        chosen = sql.when(sql.col("key") == key, sql.lit(share / total)).otherwise(chosen)
    return graph.nodes.select("key", chosen.alias("jump"))


def find_key(graph: Frames, what: str, node: object) -> str:
    """Return the key of a node, given as its id, as ``Type:id``, or as a pair of type and id.

    Raises:
        UsageError: it is none of these.
        AlgorithmInputError: there is no such node, or several types have one of that id.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    match node:
        case str():
            wanted = [sql.col("key").endswith(SEPARATOR + node), sql.col("key") == node.replace(":", SEPARATOR, 1)]
        case [str() as type_name, str() as node_id]:
            wanted = [sql.col("key") == type_name + SEPARATOR + node_id]
        case _:
            raise unfit(what, node, "an id, Type:id, or a pair of type and id")
    shown = node if isinstance(node, str) else ":".join(node)
    for condition in reversed(wanted):
        found = sorted(row.key for row in graph.nodes.where(condition).limit(3).collect())
        if len(found) == 1:
            return str(found[0])
        if found:
            owners = " and ".join(key.partition(SEPARATOR)[0] for key in found)
            first = found[0].replace(SEPARATOR, ":")
            details = BadValue(what=what, value=shown, expected="a node of one type")
            raise AlgorithmInputError(
                f"{what} '{shown}' is an id of {owners}", details=details, hint=f"write '{first}'"
            )
    details = BadValue(what=what, value=shown, expected="a node at the ends of these edges")
    raise AlgorithmInputError(f"{what} '{shown}' was not found", details=details)


def connected_components(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Group nodes that edges connect: each takes the first label in sight, and the label of that."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    del params
    both = _walked(graph, "both").where("source != target").select("source", "target").distinct().localCheckpoint()
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
            return _groups(labels, "component")


def label_propagation(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Let each node take the label that most of its neighbours have, all nodes at once."""
    from pyspark.sql import Window  # noqa: PLC0415 - see above
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    both = _walked(graph, "both").where("source != target").localCheckpoint()
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
            return _groups(labels, "community")
    warning = f"labels still changed after {counted(params['max_iterations'], 'iteration')}"
    return _groups(labels, "community", (warning,))


def _groups(labels: DataFrame, name: str, warnings: tuple[str, ...] = ()) -> FoundFrame:
    """Return nodes with the number of their group, by its first member, and its size."""
    from pyspark.sql import Window  # noqa: PLC0415 - see above
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    groups = labels.groupBy("label").agg(sql.min("key").alias("first"), sql.count("key").alias("size"))
    # One row for each group passes through one task here. Spark Connect warns of a window that does not say so.
    window = Window.partitionBy(sql.lit(0)).orderBy("first")
    number = (sql.row_number().over(window) - 1).cast("long").alias(name)
    rows = labels.join(groups.select("label", number, "size"), "label").select("key", name, "size")
    return FoundFrame(rows=rows, order=((name, True), ("key", True)), warnings=warnings)


def triangle_count(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Count the triangles that each node is a corner of."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    del params
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
    rows = graph.nodes.join(counts, "key", "left").select("key", triangles)
    return FoundFrame(rows=rows, order=(("triangles", False), ("key", True)))


def shortest_paths(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Find the shortest path to each node from the nearest of the sources, edge by edge."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    sources = sorted({find_key(graph, "source", node) for node in params["sources"]})
    walked = _walked(graph, params["direction"]).where("source != target")
    links = walked.groupBy("source", "target").agg(sql.min("weight").alias("weight")).localCheckpoint()
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
            break
    of = "long" if params["weight"] is None else "double"
    rows = ways.select(
        "key", sql.col("way.distance").cast(of).alias("distance"), sql.col("way.origin").alias("source"), "way.previous"
    )
    return FoundFrame(rows=rows, order=(("distance", True), ("key", True)))


ITERATIONS: Mapping[str, Iterate] = {
    "connected_components": connected_components,
    "degree": degree,
    "label_propagation": label_propagation,
    "pagerank": pagerank,
    "shortest_paths": shortest_paths,
    "triangle_count": triangle_count,
}
