"""What earlier runs and people decided, as frames that were checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from omnigraph.errors import BadValue, ContradictingDecisionsError, DecidedPairs, ResolveInputError
from omnigraph.records import record
from omnigraph.spark.queries.relations import translated
from omnigraph.spark.resolution.blocks import DOING, id_text
from omnigraph.spark.resolution.comparing import KEY
from omnigraph.spark.resolution.model import Overrule, Verdict
from omnigraph.values import check_instance, unfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 3
PAIR = {"left": pa.string(), "right": pa.string(), "decision": pa.string()}


@record
class DecidedFrame:
    """People's decisions, each pair once: ``left``, ``right`` (the larger), ``verdict``, ``is_reversed``.

    ``unknown`` counts those about records that are not there, which are left out.
    """

    rows: DataFrame
    unknown: int


def earlier_members(previous: DataFrame) -> DataFrame:
    """Return ``id`` and ``canonical`` of an earlier result, made once.

    Raises:
        ResolveInputError: they are not there, or a record has none or several canonical ids.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    columns = [id_text(previous, "previous", name).alias(name) for name in ("id", "canonical")]
    with translated(DOING):
        rows = previous.select(*columns).distinct().localCheckpoint()
        many = rows.groupBy("id").agg(sql.count(sql.lit(1)).alias("rows"), sql.count("canonical").alias("named"))
        found = many.where("rows > 1 or named = 0 or id is null").orderBy("id").limit(_SHOWN).collect()
    if found:
        shown = ", ".join("null" if row["id"] is None else f"'{row['id']}'" for row in found)
        details = BadValue(what="previous", value=shown, expected="one canonical id for each record")
        raise ResolveInputError(f"earlier records without a single canonical id: {shown}", details=details)
    return rows


def decided_pairs(spark: SparkSession, given: DataFrame | Sequence[Overrule], records: DataFrame) -> DecidedFrame:
    """Return what people decided about records that are there.

    Raises:
        ResolveInputError: columns are missing, a decision is not a known word, or a pair is one record.
        ContradictingDecisionsError: a pair is both the same and different.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    frame = _frame(spark, given)
    left, right = (id_text(frame, "overrules", name) for name in ("left", "right"))
    verdict = id_text(frame, "overrules", "decision")
    pairs = frame.select(
        sql.least(left, right).alias("left"),
        sql.greatest(left, right).alias("right"),
        verdict.alias("verdict"),
        sql.coalesce(left > right, sql.lit(False)).alias("is_reversed"),
        sql.coalesce(verdict.isin(*get_args(Verdict)) & (left != right), sql.lit(False)).alias("is_known"),
    )
    once = pairs.groupBy("left", "right").agg(
        sql.min("verdict").alias("verdict"),
        sql.max("verdict").alias("last"),
        sql.min("is_reversed").alias("is_reversed"),
        sql.min("is_known").alias("is_known"),
    )
    for end in ("left", "right"):
        there = records.select(sql.col(KEY).alias(end), sql.lit(True).alias(f"has_{end}"))
        once = once.join(there.hint("shuffle_hash"), end, "left")
    with translated(DOING):
        once = once.localCheckpoint()
        bad = once.where("not is_known or verdict != last").orderBy("is_known", "left", "right").limit(_SHOWN).collect()
        if bad and not bad[0]["is_known"]:
            raise _unfit_decision(bad[0]["left"], bad[0]["right"], bad[0]["verdict"])
        if bad:
            raise _torn([(row["left"], row["right"]) for row in bad])
        rows = once.where("has_left and has_right").select("left", "right", "verdict", "is_reversed")
        return DecidedFrame(rows=rows, unknown=once.where("has_left is null or has_right is null").count())


def check_overrules(given: object) -> None:
    """Refuse what cannot be people's decisions; None passes.

    Raises:
        UsageError: it is neither a DataFrame nor several overrules.
    """
    if given is None or is_frame(given):
        return
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise unfit("overrules", given, "a DataFrame, or a list of overrules")
    for one in given:
        check_instance("overrules", one, Overrule, optional=False)


def is_frame(given: object) -> bool:
    """Whether it is a DataFrame, of Spark Connect or not."""
    return callable(getattr(given, "mapInArrow", None))


def _frame(spark: SparkSession, given: DataFrame | Sequence[Overrule]) -> DataFrame:
    if isinstance(given, Sequence):
        columns = [pa.array([getattr(one, name) for one in given], kind) for name, kind in PAIR.items()]
        return spark.createDataFrame(pa.table(columns, names=list(PAIR)))
    return given


def _unfit_decision(left: str | None, right: str | None, verdict: str | None) -> ResolveInputError:
    if left is None or right is None or left == right:
        shown = f"'{left}' and '{right}'"
        details = BadValue(what="overrules", value=shown, expected="two records")
        return ResolveInputError(f"a decision about {shown} is not about two records", details=details)
    details = BadValue(what="decision", value=str(verdict), expected=" | ".join(get_args(Verdict)))
    return ResolveInputError(
        f"decision about '{left}' and '{right}' must be same or different, not '{verdict}'", details=details
    )


def _torn(pairs: list[tuple[str, str]]) -> ContradictingDecisionsError:
    shown = ", ".join(f"'{left}' and '{right}'" for left, right in pairs)
    both = tuple((left, right, verdict) for left, right in pairs for verdict in get_args(Verdict))
    return ContradictingDecisionsError(
        f"contradicting decisions, both same and different: {shown}", details=DecidedPairs(pairs=both)
    )
