"""What an algorithm found on Spark, written as a property of its nodes by executors: one commit, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.engine.algorithms.writing import target_properties
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.results.info import WrittenProperty
from omnigraph.errors import PreconditionFailedError
from omnigraph.operations.local import LocalBackend
from omnigraph.spark.algorithms.reading import SEPARATOR, read_nodes
from omnigraph.spark.algorithms.running import found_frame, prepare
from omnigraph.spark.loads import load_frames
from omnigraph.spark.queries.relations import FrameRelations
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.txn.transaction import OnConflict
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.graph import Graph

_ATTEMPTS = 8


def write(
    graph: Graph | LocalBackend | OpenGraph,
    algorithm: str,
    property_name: str,
    edges: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    spark: SparkSession | None = None,
    branch: str = MAIN,
    actor: str | None = None,
    message: str | None = None,
    on_conflict: OnConflict = "rerun",
) -> WrittenProperty:
    """Run an algorithm on the newest state of a branch, and write what it found as a property of the nodes.

    Only nodes whose value changes are written; the driver holds none of them. If the branch moves meanwhile, it is run
    again on the newer state.

    Args:
        graph: the open graph.
        algorithm: its name.
        property_name: the property, which every node type at the ends of the edges must have; ``Person.score`` writes
            it for one type alone.
        edges: the edge types to walk; all when None.
        params: what the algorithm takes.
        spark: the session to work with; that of this process, or one that is started, when None.
        branch: where to read and to write.
        actor: who asks for it.
        message: what the commit says.
        on_conflict: ``refuse`` raises when another writer was first, instead of running it again.

    Raises:
        AlgorithmInputError: a type has no such property, or its type does not hold what the algorithm finds.
        PreconditionFailedError: the branch moved, and running again is refused or did not help.
        OmnigraphError: whatever running it raises, and what any load does.
    """
    session = session_for(engine_of(graph).store.storage, spark)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _write_once(graph, algorithm, property_name, edges, params, session, branch, actor, message)
        except PreconditionFailedError:
            if on_conflict != "rerun" or attempt == _ATTEMPTS:
                raise
    raise AssertionError(attempt)


def _write_once(
    graph: Graph | LocalBackend | OpenGraph,
    algorithm: str,
    property_name: str,
    edges: str | Sequence[str] | None,
    params: Mapping[str, Any] | None,
    session: SparkSession,
    branch: str,
    actor: str | None,
    message: str | None,
) -> WrittenProperty:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    engine, prepared = engine_of(graph), prepare(graph, algorithm, edges, params, branch, None, None, None)
    targets = target_properties(prepared.catalog, prepared.call, property_name)
    column = str(prepared.call.algorithm.column)
    relations, storage = FrameRelations(spark=session), engine.store.storage
    with prepared.snapshot.reading():
        _, found = found_frame(engine, relations, prepared)
    values = found.rows.select("key", sql.col(column).alias("_value")).localCheckpoint()
    patches = {}
    for type_name, target in targets.items():
        owner = prepared.catalog.nodes[type_name]
        # A patch names its entity by id, and by its key where the type has one.
        keys = tuple(arrow_schema(owner).field(name) for name in owner.key or ())
        nodes = read_nodes(relations, storage, prepared.snapshot, type_name, keys)
        # Nodes that the algorithm says nothing about lose what an earlier run said.
        rows = nodes.join(values, "key", "left")
        patches[f"node:{type_name}"] = rows.select(
            sql.split(sql.col("key"), SEPARATOR, 2)[1].alias("id"),
            *(sql.col(field.name) for field in keys),
            sql.col("_value").alias(target.name),
            sql.lit("patch").alias("_op"),
        )
    head = str(prepared.snapshot.state.head.commit)
    done = load_frames(
        graph, patches, "apply", spark=session, branch=branch, actor=actor, message=message, expected_head=head
    )
    counts = done.changes
    return WrittenProperty(
        property=property_name,
        commit_id=None if done.commit is None else str(done.commit.id),
        updated=0 if counts is None else counts.written,
        unchanged=0 if counts is None else counts.unchanged,
    )
