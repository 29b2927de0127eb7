"""Canonical ids of clusters, which survive later runs.

1. An earlier id stays with the cluster that holds the record it is named after; if that record is gone, with the one
   that holds most of its records, and among equals with the one that holds the smallest.
2. A cluster with which several earlier ids stay keeps the smallest of them. The others are retired.
3. Any other cluster is named after its smallest record; if an earlier cluster had that name, ``~2`` follows, or ``~3``,
   and so on.

Ids are texts, ordered by their characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.records import record
from omnigraph.spark.resolution.comparing import KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@record
class Identities:
    """What clusters are called.

    Args:
        members: ``id`` and ``canonical`` of every record.
        retired: earlier ids in ``canonical`` that no cluster has, with the id of the cluster that they went into in
            ``into``, null if all their records are gone.
        ended: rows of the earlier ``members`` that hold no more.
        is_first: whether there was no earlier result.
    """

    members: DataFrame
    retired: DataFrame
    ended: DataFrame
    is_first: bool = False


def name_clusters(clusters: DataFrame, previous: DataFrame) -> Identities:
    """Return the ids of clusters, which are given as ``key`` and ``label``, the smallest record of the cluster.

    Args:
        clusters: every record.
        previous: ``id`` and ``canonical`` of earlier records, each once.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    still = previous.join(clusters.hint("shuffle_hash"), previous.id == clusters.key)
    shares = still.groupBy("canonical", "label").agg(
        sql.max(sql.expr("id = canonical")).alias("is_named"), sql.count(KEY).alias("size"), sql.min(KEY).alias("first")
    )
    rank = sql.struct((~sql.col("is_named")).alias("a"), (-sql.col("size")).alias("b"), "first", "label")
    stays = shares.groupBy("canonical").agg(sql.min(rank).alias("best")).select("canonical", "best.label")
    stays = stays.localCheckpoint()
    kept = stays.groupBy("label").agg(sql.min("canonical").alias("name"))
    labels = clusters.select("label").distinct()
    others = labels.join(kept.hint("shuffle_hash"), "label", "left_anti")
    earlier = previous.select(sql.col("canonical").alias("name")).distinct()
    names = kept.unionByName(_new_names(others, earlier)).localCheckpoint()
    members = clusters.join(names.hint("shuffle_hash"), "label")
    members = members.select(sql.col(KEY).alias("id"), sql.col("name").alias("canonical")).localCheckpoint()
    into = stays.join(names.hint("shuffle_hash"), "label").select("canonical", sql.col("name").alias("into"))
    every = previous.select("canonical").distinct().join(into.hint("shuffle_hash"), "canonical", "left")
    retired = every.where("into is null or into != canonical")
    ended = previous.join(members.hint("shuffle_hash"), ["id", "canonical"], "left_anti")
    return Identities(members=members, retired=retired, ended=ended)


def _new_names(labels: DataFrame, taken: DataFrame) -> DataFrame:
    """Return names for clusters by ``label``: the first in the row of names of each that is not taken."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    number, found, waiting = 1, None, labels
    while True:
        name = sql.col("label") if number == 1 else sql.concat("label", sql.lit(f"~{number}"))
        known = taken.withColumn("is_taken", sql.lit(True)).hint("shuffle_hash")
        tried = waiting.select("label", name.alias("name")).join(known, "name", "left").localCheckpoint()
        free = tried.where("is_taken is null").select("label", "name")
        found = free if found is None else found.unionByName(free)
        waiting = tried.where("is_taken").select("label")
        if waiting.isEmpty():
            return found
        taken, number = taken.unionByName(free.select("name")), number + 1
