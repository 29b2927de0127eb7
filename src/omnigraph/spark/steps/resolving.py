"""Records of a step with the id of the entity that each of them means, and what a graph keeps of that.

What earlier runs decided and what people decided since is read from the state that the run begins with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omnigraph.records import record
from omnigraph.spark.queries import frame as query_frame
from omnigraph.spark.resolution import (
    EvidenceNames,
    Resolution,
    ResolveCounts,
    StoredDecisions,
    evidence_frames,
    read_decisions,
    resolve,
)
from omnigraph.spark.steps.rows import RETIRED, with_set

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.catalog.model import NodeType
    from omnigraph.engine.open_graph import OpenGraph

CANONICAL = "canonical_id"
_MEMBER = "__og_member"
_ACCEPTED = "__og_accepted"


@record
class KeptEntities:
    """Where a graph keeps the entities of a resolution.

    Args:
        names: what types and properties are called.
        records: the node type of records.
        branch: the branch of the state that the run begins with.
        commit: the commit of that state.
        adds_stored: the frame has what is new alone, so that stored records are added to it.
        accepts: a condition for records that become nodes; others mean no entity.
        adds: what the condition sees beside the columns of records, as expressions.
        keeps_others: others stay in the frame, without a ``canonical_id``.
    """

    names: EvidenceNames
    records: NodeType
    branch: str
    commit: str
    adds_stored: bool = False
    accepts: str | None = None
    adds: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    keeps_others: bool = False


@record
class ResolvedRecords:
    """What a resolution gives.

    Args:
        frame: the records, with the ids of their entities in ``canonical_id``.
        counts: how much there was of everything.
        rows: rows that say what is to be done with them, by table; empty when the graph keeps nothing.
        retired: the ids of entities that are none any more, in ``__og_retired``; None when there is none.
        cached: frames to let go of in the end.
    """

    frame: DataFrame
    counts: ResolveCounts
    rows: Mapping[str, DataFrame] = field(default_factory=lambda: MappingProxyType({}))
    retired: DataFrame | None = None
    cached: tuple[DataFrame, ...] = ()


def resolve_records(
    engine: OpenGraph, frame: DataFrame, id_column: str, resolution: Resolution, kept: KeptEntities | None
) -> ResolvedRecords:
    """Return records with the ids of the entities that they mean.

    Without ``kept`` an entity is called by the smallest id of its records; with it ids are those of earlier runs.

    Raises:
        OmnigraphError: whatever :func:`omnigraph.spark.resolution.resolve` and
            :func:`omnigraph.spark.resolution.read_decisions` do.
    """
    # It is compared, and joined with what is found.
    whole = frame.cache()
    cached = [whole]
    spark = frame.sparkSession
    frame, others = whole, None
    stored: StoredDecisions | None = None
    if kept is not None:
        frame, others = _accepted(whole, kept)
        if kept.adds_stored:
            frame = _with_stored(engine, frame, id_column, kept).cache()
            cached.append(frame)
        stored = read_decisions(engine, kept.names, spark=spark, branch=kept.branch, at=kept.commit)
    found = resolve(
        spark,
        frame,
        id_column,
        resolution,
        None if stored is None else stored.previous,
        None if stored is None else stored.overrules,
    )
    rows: dict[str, DataFrame] = {}
    retired = None
    if kept is not None:
        names = kept.names
        kinds = {names.entity: "node", names.member: "edge", names.pair: "edge"}
        made = evidence_frames(found, names, stored)
        rows = {f"{kinds[name]}:{name}": one for name, one in made.items()}
        if found.counts.retired:
            retired = found.retired.select(found.retired.canonical.alias(RETIRED))
    joined = _joined(frame, id_column, found.members)
    return ResolvedRecords(
        frame=joined if others is None else joined.unionByName(others, allowMissingColumns=True),
        counts=found.counts,
        rows=rows,
        retired=retired,
        cached=tuple(cached),
    )


def _accepted(frame: DataFrame, kept: KeptEntities) -> tuple[DataFrame, DataFrame | None]:
    """Return the records that mean entities, and the others if they are to stay."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    if kept.accepts is None:
        return frame, None
    is_good = fn.coalesce(fn.expr(kept.accepts).cast("boolean"), fn.lit(False))
    judged = with_set(frame, kept.adds).withColumn(_ACCEPTED, is_good)
    good = judged.where(_ACCEPTED).select(*frame.columns)
    return good, judged.where(f"NOT {_ACCEPTED}").select(*frame.columns) if kept.keeps_others else None


def _joined(frame: DataFrame, id_column: str, members: DataFrame) -> DataFrame:
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    named = members.select(fn.col("id").alias(_MEMBER), fn.col("canonical").alias(CANONICAL))
    return frame.join(named, _column(id_column).cast("string") == fn.col(_MEMBER), "left").drop(_MEMBER)


def _with_stored(engine: OpenGraph, frame: DataFrame, id_column: str, kept: KeptEntities) -> DataFrame:
    """Return records with those that are stored and not among them."""
    node = kept.records
    columns = [name for name in frame.columns if name != id_column and node.get(name) is not None]
    wanted = ["id($r) as c0", *(f"$r.{name} as c{number}" for number, name in enumerate(columns, 1))]
    text = f"query q() {{ match {{ $r: {node.name} }} return {{ {', '.join(wanted)} }} }}"
    read = query_frame(engine, text, spark=frame.sparkSession, branch=kept.branch, at=kept.commit)
    kinds: dict[str, Any] = {at.name: at.dataType for at in frame.schema.fields}
    stored = read.toDF(id_column, *columns)
    stored = stored.select(*(_column(name).cast(kinds[name]).alias(name) for name in stored.columns))
    new = frame.select(_column(id_column)).distinct()
    others = stored.join(new.hint("shuffle_hash"), id_column, "left_anti")
    return frame.unionByName(others, allowMissingColumns=True)


def _column(name: str) -> Any:
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    return fn.col("`" + name.replace("`", "``") + "`")
