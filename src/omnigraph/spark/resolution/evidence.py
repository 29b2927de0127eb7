"""Results of an entity resolution in a graph: as frames that can be loaded, and read back for the next run.

Records are nodes of a type that is there already. Entities are nodes of another type, whose key is the canonical id; an
edge leads from every record to its entity; another edge type, if there is one, leads from record to record and holds
the evidence. Edges are found again by their ends, so that both edge types need ``@key(src, dst)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.errors import BadValue, ResolveInputError
from omnigraph.records import record
from omnigraph.spark.queries import frame as query_frame
from omnigraph.spark.resolution.comparing import LEFT, RIGHT, SCORE
from omnigraph.spark.resolution.model import OVERRULES
from omnigraph.spark.resolution.run import Resolved
from omnigraph.spark.sessions.session import engine_of
from omnigraph.txn.snapshot import unknown_type
from omnigraph.values import MAIN, check_instance, check_text, unfit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from omnigraph.catalog import Catalog
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.graph.graph import Graph
    from omnigraph.operations.local import LocalBackend

_OP = "_op"


@record
class EvidenceNames:
    """What the results of an entity resolution are called in a graph.

    Args:
        entity: the node type of entities.
        key: its key, a text: the canonical id.
        member: the edge type from records to entities.
        pair: the edge type from records to records that holds the evidence; None if it is not stored.
        decision: the property of ``pair`` that says what was decided, a text.
        score: its property for the score, None if that is not stored.
        scores: its properties for the similarities of comparisons, by their names.

    Raises:
        UsageError: one of them is not a name.
    """

    entity: str
    member: str
    key: str = "canonical"
    pair: str | None = None
    decision: str = "decision"
    score: str | None = "score"
    scores: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {"entity": self.entity, "member": self.member, "key": self.key, "decision": self.decision}
        given |= {what: value for what, value in (("pair", self.pair), ("score", self.score)) if value is not None}
        for what, value in given.items():
            check_text(what, value)
            if not value:
                raise unfit(what, value, "a name")
        check_instance("scores", self.scores, Mapping, optional=False)
        for comparison, name in self.scores.items():
            check_text("scores", comparison)
            check_text("scores", name)


@record
class StoredDecisions:
    """What a graph knows of earlier runs, for the arguments of the same names.

    Args:
        previous: ``id`` and ``canonical`` of members.
        overrules: ``left``, ``right`` and ``decision`` of pairs that people decided; None if no evidence is stored.
        evidence: ``from``, ``to`` and ``decision`` of all pairs; None if none is stored.
    """

    previous: DataFrame
    overrules: DataFrame | None
    evidence: DataFrame | None


def read_decisions(
    graph: Graph | LocalBackend | OpenGraph,
    names: EvidenceNames,
    *,
    spark: SparkSession | None = None,
    branch: str = MAIN,
    at: str | None = None,
) -> StoredDecisions:
    """Return what earlier runs stored in a graph, and what people decided there.

    A pair is decided by people if its decision is ``same by overrule`` or ``different by overrule``; any other word is
    that of a run, which the next one may change.

    Raises:
        TypeMissingError: the schema has no such type.
        ResolveInputError: a type is not made for it: other ends, no such property, or no ``@key(src, dst)``.
        OmnigraphError: whatever a read raises.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    engine = engine_of(graph)
    pinned = engine.calls.run(lambda: engine.reads.pin(branch, at, "commit"))
    check_names(pinned.catalog, names)
    state = pinned.snapshot.state.head.commit if at is None else at

    def read(edge: str, wanted: str, *columns: str) -> DataFrame:
        text = f"query q() {{ match {{ $a $e:{edge[0].lower()}{edge[1:]} $b }} return {{ {wanted} }} }}"
        return query_frame(graph, text, spark=spark, branch=branch, at=str(state)).toDF(*columns)

    ends = "id($a) as one, id($b) as two"
    previous = read(names.member, ends, "id", "canonical")
    if names.pair is None:
        return StoredDecisions(previous=previous, overrules=None, evidence=None)
    evidence = read(names.pair, f"{ends}, $e.{names.decision} as word", "from", "to", "decision")
    verdict = sql.split_part("decision", sql.lit(" "), sql.lit(1))
    decided = evidence.where(sql.col("decision").isin(*OVERRULES))
    overrules = decided.select(sql.col("from").alias(LEFT), sql.col("to").alias(RIGHT), verdict.alias("decision"))
    return StoredDecisions(previous=previous, overrules=overrules, evidence=evidence)


def evidence_frames(
    resolved: Resolved, names: EvidenceNames, stored: StoredDecisions | None = None
) -> dict[str, DataFrame]:
    """Return a result as frames by type, for ``load_frames`` with the mode ``apply``.

    Entities get their key and keep their other properties; retired ones are deleted, with their edges. Edges from
    records to entities are written, those that hold no more are deleted. So is the evidence, where it is stored: what
    ``stored`` has and the result has not is deleted, unless people decided it.

    Raises:
        ResolveInputError: a name in ``scores`` is not that of a comparison.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    members, retired = resolved.members, resolved.retired
    entities = members.select(sql.col("canonical").alias(names.key)).distinct().withColumn(_OP, sql.lit("patch"))
    gone = retired.select(sql.col("canonical").alias(names.key), sql.lit("delete").alias(_OP))
    links = members.select(sql.col("id").alias("from"), sql.col("canonical").alias("to"), sql.lit("upsert").alias(_OP))
    ended = resolved.ended.select(
        sql.col("id").alias("from"), sql.col("canonical").alias("to"), sql.lit("delete").alias(_OP)
    )
    frames = {names.entity: entities.unionByName(gone), names.member: links.unionByName(ended)}
    if names.pair is not None:
        frames[names.pair] = _pair_rows(resolved, names, stored)
    return frames


def _pair_rows(resolved: Resolved, names: EvidenceNames, stored: StoredDecisions | None) -> DataFrame:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    pairs = resolved.evidence.select(*_ends(), *_properties(resolved, names), sql.lit("upsert").alias(_OP))
    if stored is None or stored.evidence is None:
        return pairs
    # A decision stays where people wrote it, so that it ends when they remove it.
    runs = stored.evidence.where(~sql.coalesce(sql.col("decision").isin(*OVERRULES), sql.lit(False)))
    stale = runs.join(pairs.select("from", "to").hint("shuffle_hash"), ["from", "to"], "left_anti")
    deleted = stale.select("from", "to", sql.lit("delete").alias(_OP))
    return pairs.unionByName(deleted, allowMissingColumns=True)


def _ends() -> list[Column]:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    left, right, is_reversed = sql.col(LEFT), sql.col(RIGHT), sql.col("is_reversed")
    return [
        sql.when(is_reversed, right).otherwise(left).alias("from"),
        sql.when(is_reversed, left).otherwise(right).alias("to"),
    ]


def _properties(resolved: Resolved, names: EvidenceNames) -> list[Column]:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    columns = [sql.col("decision").alias(names.decision)]
    if names.score is not None:
        columns.append(sql.col(SCORE).alias(names.score))
    known = [one.name for one in resolved.resolution.comparisons]
    for comparison, name in names.scores.items():
        if comparison not in known:
            details = BadValue(what="scores", value=comparison, expected=", ".join(known))
            raise ResolveInputError(f"comparison '{comparison}' does not exist", details=details)
        columns.append(sql.col(f"`score_{comparison.replace('`', '``')}`").alias(name))
    return columns


def check_names(catalog: Catalog, names: EvidenceNames) -> None:
    """Make sure that a schema has what the results of an entity resolution are written to.

    Raises:
        TypeMissingError: it has no such type.
        ResolveInputError: a type is not made for it.
    """
    entity = catalog.node(names.entity)
    if entity is None:
        raise unknown_type(names.entity, (one.table_key for one in catalog.nodes.values()))
    if entity.key != (names.key,):
        raise _misfit(entity, f"needs the key '{names.key}'", str(entity.key), f"@key on {names.key}")
    member = _edge(catalog, names.member)
    if member.to_type != entity.name:
        raise _misfit(member, f"must lead to '{entity.name}'", member.to_type, entity.name)
    if names.pair is None:
        return
    pair = _edge(catalog, names.pair)
    if (pair.from_type, pair.to_type) != (member.from_type, member.from_type):
        wanted = f"{member.from_type} -> {member.from_type}"
        raise _misfit(
            pair, f"must lead from '{member.from_type}' to itself", f"{pair.from_type} -> {pair.to_type}", wanted
        )
    properties = [names.decision, *(() if names.score is None else (names.score,)), *names.scores.values()]
    for name in properties:
        if pair.get(name) is None:
            raise _misfit(pair, f"has no property '{name}'", name, ", ".join(one.name for one in pair.properties))


def _edge(catalog: Catalog, name: str) -> EdgeType:
    edge = catalog.edge(name)
    if edge is None:
        raise unknown_type(name, (one.table_key for one in catalog.edges.values()))
    if edge.key != ("src", "dst"):
        raise _misfit(edge, "needs @key(src, dst)", str(edge.key), "@key(src, dst)")
    return edge


def _misfit(owner: NodeType | EdgeType, text: str, value: str, expected: str) -> ResolveInputError:
    details = BadValue(what=owner.name, value=value, expected=expected)
    return ResolveInputError(f"type '{owner.name}' {text}", details=details)
