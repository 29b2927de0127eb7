"""Entity resolution, from records to entities with the evidence for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.records import record
from omnigraph.spark.algorithms.components import component_labels
from omnigraph.spark.algorithms.reading import Frames
from omnigraph.spark.queries.relations import FrameRelation, FrameRelations, translated
from omnigraph.spark.resolution.blocks import DOING, Blocks, compared_pairs, make_blocks, prepared_records
from omnigraph.spark.resolution.comparing import COMPARED, KEY, LEFT, RIGHT, SCORE, score_column
from omnigraph.spark.resolution.cutting import CutTask
from omnigraph.spark.resolution.decisions import DecidedFrame, check_overrules, decided_pairs, earlier_members, is_frame
from omnigraph.spark.resolution.identity import Identities, name_clusters
from omnigraph.spark.resolution.model import Overrule, Resolution, ResolveCounts
from omnigraph.spark.resolution.similarity import check_library
from omnigraph.spark.sessions.session import given_or_started
from omnigraph.values import check_instance, check_text, unfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_JOINS = ("same", "same by overrule")
_DIFFERENT = "different by overrule"


@record
class Resolved:
    """Entities, and why they are what they are. Using the frames compares nothing again.

    Args:
        resolution: what was asked for.
        members: every record in ``id``, with the id of its entity in ``canonical``.
        evidence: the pairs that were joined, or are to be looked at, or that people decided about: ``left`` and
            ``right`` (the larger id), ``decision``, ``score``, the similarity of each comparison in ``score_<name>``,
            ``joined`` whether both are the same entity, ``is_reversed`` whether people named the larger one first.
        retired: earlier entities in ``canonical`` that are none any more, with the entity they went into in ``into``.
        ended: ``id`` and ``canonical`` of earlier members that are no longer such.
        skipped: blocks that were too large: ``expression``, ``value``, ``rows``, ``pairs``.
        counts: how much there was of everything.
    """

    resolution: Resolution
    members: DataFrame
    evidence: DataFrame
    retired: DataFrame
    ended: DataFrame
    skipped: DataFrame
    counts: ResolveCounts


def resolve(
    spark: SparkSession | None,
    frame: DataFrame,
    id_column: str,
    resolution: Resolution,
    previous: DataFrame | None = None,
    overrules: DataFrame | Sequence[Overrule] | None = None,
) -> Resolved:
    """Find the records that are the same entity, and give each entity an id that later runs keep.

    Records that share a block are compared, each pair once. Pairs that reach the threshold, and those that people
    decided to be the same, are joined into clusters. A cluster with two records that people decided to be different is
    taken apart: its links are made again from the strongest to the weakest, equal ones in the order of their ids, and
    those that would bring such records together are left out. The order and the parts of the frame change nothing.

    An earlier canonical id stays with the cluster that holds the record it is named after, else with the one that holds
    most of its records, else the smallest. A cluster with several keeps the smallest id; one with none is named after
    its smallest record. Ids are compared as texts.

    Args:
        spark: the session of the frames; that of this process when None.
        frame: the records; it is evaluated once.
        id_column: the column that tells them apart.
        resolution: how to compare them.
        previous: the members of an earlier result, in columns ``id`` and ``canonical``.
        overrules: what people decided, in columns ``left``, ``right`` and ``decision`` (``same`` or ``different``).

    Raises:
        UsageError: an argument is of another kind.
        LibraryMissingError: a comparison needs a library that is not installed.
        ResolveInputError: columns, expressions or values do not fit.
        ContradictingDecisionsError: what people decided cannot be.
        SparkJobError: a job failed for a reason that is none of ours.
    """
    _check(frame, id_column, resolution, previous)
    check_overrules(overrules)
    spark = given_or_started(spark)
    for one in resolution.comparisons:
        check_library(one)
    parallelism = FrameRelations(spark=spark).parallelism
    records = prepared_records(frame, id_column, resolution)
    decided = None if overrules is None else decided_pairs(spark, overrules, records)
    before = None if previous is None else earlier_members(previous)
    blocks = make_blocks(records, resolution, parallelism)
    compared = compared_pairs(blocks, resolution)
    with translated(DOING):
        judged = _judge(compared, decided, resolution)
        clusters = _clusters(records, judged, parallelism, has_overrules=decided is not None)
        identities = _identities(spark, clusters, before)
        evidence = _evidence(judged, clusters, resolution)
        counts = _count(compared, blocks, decided, identities, evidence)
    return Resolved(
        resolution=resolution,
        members=identities.members,
        evidence=evidence,
        retired=identities.retired,
        ended=identities.ended,
        skipped=blocks.skipped,
        counts=counts,
    )


def _check(frame: object, id_column: object, resolution: object, previous: object) -> None:
    for what, one in (("frame", frame), ("previous", previous)):
        if not (what == "previous" and one is None) and not is_frame(one):
            raise unfit(what, one, "a DataFrame")
    check_text("id_column", id_column)
    check_instance("resolution", resolution, Resolution, optional=False)


def _judge(compared: DataFrame, decided: DecidedFrame | None, resolution: Resolution) -> DataFrame:
    """Return the pairs with what is decided about each by itself."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    pairs = compared.where(f"{LEFT} is not null").drop(COMPARED)
    by_score = sql.when(sql.col(SCORE) >= resolution.threshold, "same").otherwise("review")
    if decided is None:
        return pairs.withColumns({"decision": by_score, "is_reversed": sql.lit(False)})
    both = pairs.join(decided.rows.hint("shuffle_hash"), [LEFT, RIGHT], "full")
    decision = sql.when(sql.col("verdict").isNotNull(), sql.concat("verdict", sql.lit(" by overrule")))
    is_reversed = sql.coalesce("is_reversed", sql.lit(False))
    judged = both.withColumns({"decision": decision.otherwise(by_score), "is_reversed": is_reversed})
    return judged.drop("verdict").localCheckpoint()


def _clusters(records: DataFrame, judged: DataFrame, parallelism: int, *, has_overrules: bool) -> DataFrame:
    """Return every record as ``key``, with the smallest record of its cluster as ``label``."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    links = judged.where(sql.col("decision").isin(*_JOINS))
    ends = [links.select(sql.col(end).alias(KEY)) for end in (LEFT, RIGHT)]
    edges = links.select(sql.col(LEFT).alias("source"), sql.col(RIGHT).alias("target"), sql.lit(1.0).alias("weight"))
    labels = component_labels(Frames(nodes=ends[0].unionByName(ends[1]).distinct(), edges=edges))
    if has_overrules:
        labels = _cut(labels, judged, parallelism)
    every = records.select(KEY).join(labels.hint("shuffle_hash"), KEY, "left")
    return every.select(KEY, sql.coalesce("label", KEY).alias("label")).localCheckpoint()


def _cut(labels: DataFrame, judged: DataFrame, parallelism: int) -> DataFrame:
    """Return the labels after clusters were taken apart that hold records decided to be different."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    verdict = sql.when(sql.col("decision") != "same", sql.split_part("decision", sql.lit(" "), sql.lit(1)))
    deciding = judged.where(sql.col("decision").isin(*_JOINS, _DIFFERENT))
    links = _with_labels(deciding, labels).where("label = label_right")
    links = links.select("label", LEFT, RIGHT, SCORE, verdict.alias("verdict")).localCheckpoint()
    torn = links.where("verdict = 'different'").select("label").distinct()
    if torn.isEmpty():
        return labels
    rows = links.join(torn.hint("shuffle_hash"), "label", "left_semi")
    rows = rows.repartition(parallelism, "label").sortWithinPartitions("label")
    parts = FrameRelation(frame=rows, names=tuple(rows.columns)).map(CutTask()).made().localCheckpoint()
    cut = labels.join(parts.hint("shuffle_hash"), KEY, "left")
    return cut.select(KEY, sql.coalesce("part", "label").alias("label"))


def _with_labels(pairs: DataFrame, labels: DataFrame) -> DataFrame:
    """Return pairs with the clusters of both records, in ``label`` and ``label_right``."""
    left, right = labels.toDF(LEFT, "label"), labels.toDF(RIGHT, "label_right")
    return pairs.join(left.hint("shuffle_hash"), LEFT).join(right.hint("shuffle_hash"), RIGHT)


def _identities(spark: SparkSession, clusters: DataFrame, before: DataFrame | None) -> Identities:
    if before is not None:
        return name_clusters(clusters, before)
    return Identities(
        members=clusters.toDF("id", "canonical"),
        retired=spark.createDataFrame([], "canonical string, into string"),
        ended=spark.createDataFrame([], "id string, canonical string"),
        is_first=True,
    )


def _evidence(judged: DataFrame, clusters: DataFrame, resolution: Resolution) -> DataFrame:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    is_joined = sql.col("label") == sql.col("label_right")
    is_cut = (sql.col("decision") == "same") & ~is_joined
    decision = sql.when(is_cut, "cut by overrule").otherwise(sql.col("decision"))
    scores = [
        sql.col(score_column(number)).alias(f"score_{one.name}") for number, one in enumerate(resolution.comparisons)
    ]
    rows = _with_labels(judged, clusters).select(
        LEFT, RIGHT, decision.alias("decision"), SCORE, *scores, is_joined.alias("joined"), "is_reversed"
    )
    return rows.localCheckpoint()


def _count(
    compared: DataFrame, blocks: Blocks, decided: DecidedFrame | None, identities: Identities, evidence: DataFrame
) -> ResolveCounts:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    by_decision = {row["decision"]: row["count"] for row in evidence.groupBy("decision").count().collect()}
    sums = identities.members.agg(sql.count("id"), sql.count_distinct("canonical")).collect()[0]
    return ResolveCounts(
        records=sums[0],
        blocks=blocks.count,
        skipped_blocks=blocks.skipped_count,
        skipped_pairs=blocks.skipped_pairs,
        compared=compared.agg(sql.coalesce(sql.sum(COMPARED), sql.lit(0))).collect()[0][0],
        same=by_decision.get("same", 0),
        review=by_decision.get("review", 0),
        same_by_overrule=by_decision.get("same by overrule", 0),
        different_by_overrule=by_decision.get(_DIFFERENT, 0),
        cut_by_overrule=by_decision.get("cut by overrule", 0),
        unknown_overrules=0 if decided is None else decided.unknown,
        entities=sums[1],
        retired=0 if identities.is_first else identities.retired.count(),
    )
