"""How important nodes are: degree, PageRank, betweenness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import AlgorithmInputError, BadValue
from omnigraph.spark.algorithms.found import FoundFrame, find_key, walked
from omnigraph.spark.algorithms.reading import Frames, key_hashes
from omnigraph.values import check_number, unfit
from omnigraph.values.counts import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


def pagerank(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Follow edges by weight with probability ``damping``, or else jump."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    order = (("score", False), ("key", True))
    base = _with_jumps(graph, params["sources"]).localCheckpoint()
    links = walked(graph, params["direction"]).groupBy("source", "target").agg(sql.sum("weight").alias("weight"))
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


def betweenness(graph: Frames, params: Mapping[str, Any]) -> FoundFrame:
    """Count for each node the shortest paths between others that lead through it, in shares where there are several.

    Paths from all starts are followed at once. Lengths, then numbers of paths, then shares are passed along edges until
    none changes, which is after as many rounds as the longest of the paths has edges.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    is_directed, count = params["direction"] != "both", graph.nodes.count()
    links = walked(graph, params["direction"]).where("source != target")
    links = links.groupBy("source", "target").agg(sql.min("weight").alias("weight")).localCheckpoint()
    starts = _starts(graph, params["samples"], params["seed"]).localCheckpoint()
    steps = _steps(links, starts).localCheckpoint()
    numbers = _path_numbers(steps, starts)
    shares = _shares(steps, numbers)
    # A path ends at its start only in name: the start is no node between others.
    through = shares.where("start != key").groupBy("key").agg(sql.sum("share").alias("through"))
    scale = count / max(1, starts.count()) / (1 if is_directed else 2)
    if params["normalized"] and count > 2:
        scale *= (1 if is_directed else 2) / ((count - 1) * (count - 2))
    score = (sql.coalesce("through", sql.lit(0.0)) * scale).alias("score")
    rows = graph.nodes.join(through, "key", "left").select("key", score)
    return FoundFrame(rows=rows, order=(("score", False), ("key", True)))


def _starts(graph: Frames, samples: int | None, seed: int) -> DataFrame:
    """Return the nodes that paths are counted from: all, or those that the engine in process draws."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    if samples is None:
        return graph.nodes.select(sql.col("key").alias("start"))
    hashed = graph.nodes.mapInArrow(partial(_hashed, seed), "start string, draw decimal(20, 0)")
    return hashed.orderBy("draw", "start").limit(samples).select("start")


def _hashed(seed: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        draws = pa.array(map(int, key_hashes(batch.column("key").to_pylist(), seed)), pa.decimal128(20, 0))
        yield pa.RecordBatch.from_arrays([batch.column("key"), draws], ["start", "draw"])


def _steps(links: DataFrame, starts: DataFrame) -> DataFrame:
    """Return the edges of all shortest paths from each start."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    own = starts.select("start", sql.col("start").alias("key"), sql.lit(0.0).alias("length"))
    lengths = own
    while True:
        further = lengths.join(links, lengths.key == links.source).select(
            "start", sql.col("target").alias("key"), (sql.col("length") + sql.col("weight")).alias("length")
        )
        after = own.unionAll(further).groupBy("start", "key").agg(sql.min("length").alias("length")).localCheckpoint()
        before = lengths.select("start", "key", sql.col("length").alias("before"))
        is_done = after.join(before, ["start", "key"], "left").where("before is null or before != length").isEmpty()
        lengths = after
        if is_done:
            break
    begins, ends = lengths.toDF("start", "source", "near"), lengths.toDF("start", "target", "far")
    # The last edge of a shortest path is one by which the distance grows exactly as it weighs.
    on_path = begins.join(links, "source").join(ends, ["start", "target"]).where("near + weight = far")
    return on_path.select("start", "source", "target")


def _path_numbers(steps: DataFrame, starts: DataFrame) -> DataFrame:
    """Return how many shortest paths lead from each start to each node."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    own = starts.select("start", sql.col("start").alias("key"), sql.lit(1.0).alias("paths"))
    numbers = own
    while True:
        along = steps.join(numbers.toDF("start", "source", "paths"), ["start", "source"])
        reached = along.groupBy("start", "target").agg(sql.sum("paths").alias("paths")).toDF("start", "key", "paths")
        after = own.unionAll(reached).localCheckpoint()
        is_done = _is_equal(after, numbers, "paths")
        numbers = after
        if is_done:
            return numbers


def _shares(steps: DataFrame, numbers: DataFrame) -> DataFrame:
    """Return for each start how many of the paths from it lead on through each node, in shares."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    begins, ends = numbers.toDF("start", "source", "near_paths"), numbers.toDF("start", "target", "far_paths")
    weighed = steps.join(begins, ["start", "source"]).join(ends, ["start", "target"])
    weighed = weighed.select("start", "source", "target", (sql.col("near_paths") / sql.col("far_paths")).alias("part"))
    weighed = weighed.localCheckpoint()
    shares = numbers.select("start", "key", sql.lit(0.0).alias("share")).localCheckpoint()
    while True:
        back = weighed.join(shares.toDF("start", "target", "share"), ["start", "target"])
        passed = (sql.col("part") * (sql.col("share") + 1)).alias("passed")
        sums = back.select("start", sql.col("source").alias("key"), passed).groupBy("start", "key")
        after = numbers.select("start", "key").join(sums.agg(sql.sum("passed").alias("sum")), ["start", "key"], "left")
        after = after.select("start", "key", sql.coalesce("sum", sql.lit(0.0)).alias("share")).localCheckpoint()
        is_done = _is_equal(after, shares, "share")
        shares = after
        if is_done:
            return shares


def _is_equal(after: DataFrame, before: DataFrame, name: str) -> bool:
    """Whether no number of a pair of start and node changed by more than sums in another order do."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    known = before.select("start", "key", sql.col(name).alias("before"))
    changed = f"before is null or abs(before - {name}) > 1e-12 * abs({name})"
    return after.join(known, ["start", "key"], "left").where(changed).isEmpty()
