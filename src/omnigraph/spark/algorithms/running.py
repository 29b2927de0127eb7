"""An algorithm on Spark, from its name to its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType
from omnigraph.engine.algorithms import AlgorithmCall
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.errors import BadValue, SparkUnsupportedError
from omnigraph.operations.local import LocalBackend
from omnigraph.records import record
from omnigraph.spark.algorithms.catalogue import IN_PROCESS_ONLY, ON_SPARK
from omnigraph.spark.algorithms.found import FoundFrame
from omnigraph.spark.algorithms.reading import SEPARATOR, Frames, read_frames
from omnigraph.spark.jobs import command_jobs
from omnigraph.spark.queries.relations import FrameRelations, translated
from omnigraph.spark.queries.run import watched
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.graph.graph import Graph

# Columns that hold keys of nodes, with what their two columns begin with.
_NODES = {"key": "", "other": "other_", "source": "source_", "previous": "previous_"}


def run(
    graph: Graph | LocalBackend | OpenGraph,
    algorithm: str,
    edges: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    spark: SparkSession | None = None,
    branch: str = MAIN,
    at: str | None = None,
    limit: int | None = None,
    options: QueryOptions | None = None,
) -> Result:
    """Run an algorithm on Spark and return its rows, which the driver holds.

    Rows, order and types are those of the engine in process; scores agree as far as sums of floats in another order do.
    An earlier state is read by its own schema.

    Raises:
        SparkUnsupportedError: the algorithm, or what is asked of it, runs in process only; no job was started.
        SparkJobError: a job failed for a reason that is none of ours.
        OmnigraphError: whatever the engine in process raises.
    """
    engine, prepared = engine_of(graph), prepare(graph, algorithm, edges, params, branch, at, limit, options)
    relations = FrameRelations(spark=session_for(engine.store.storage, spark))
    limits = Limits(prepared.call.options, engine.runtime.clock, "algorithm")
    with (
        command_jobs(relations.spark, "algorithm", algorithm),
        watched(relations.spark, prepared.call.options, limits),
        prepared.snapshot.reading(),
    ):
        _, found = found_frame(engine, relations, prepared)
        with translated():
            rows = found.rows.toArrow()
    limits.check(rows.nbytes)
    keys = [(name, "ascending" if ascends else "descending") for name, ascends in found.order]
    table = _shaped(rows.sort_by(keys).drop_columns(list(found.hidden)), prepared.call).slice(0, limit)
    limits.check_rows(table.num_rows)
    info = ReadInfo(
        query_name=algorithm,
        branch=branch if at is None else None,
        snapshot=at,
        commit_id=str(prepared.snapshot.state.head.commit),
        elapsed_s=limits.elapsed_s,
        warnings=found.warnings,
    )
    return Result(table.schema, table, info)


def frame(
    graph: Graph | LocalBackend | OpenGraph,
    algorithm: str,
    edges: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    spark: SparkSession | None = None,
    branch: str = MAIN,
    at: str | None = None,
) -> DataFrame:
    """Run an algorithm on Spark and return its rows as a DataFrame, in no order; see :func:`run`."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    engine, prepared = engine_of(graph), prepare(graph, algorithm, edges, params, branch, at, None, None)
    relations = FrameRelations(spark=session_for(engine.store.storage, spark))
    with command_jobs(relations.spark, "algorithm", algorithm), prepared.snapshot.reading():
        _, found = found_frame(engine, relations, prepared)
    rows = found.rows.drop(*found.hidden)
    columns = []
    for name in rows.columns:
        if name in _NODES:
            parts = sql.split(sql.col(name), SEPARATOR, 2)
            columns += [parts[0].alias(f"{_NODES[name]}type"), parts[1].alias(f"{_NODES[name]}id")]
        else:
            columns.append(sql.col(name))
    return rows.select(*columns)


@record
class Prepared:
    """A call, the state that it is about, and what it walks there."""

    call: AlgorithmCall
    snapshot: GraphSnapshot
    catalog: Catalog
    edges: tuple[EdgeType, ...]


def prepare(
    graph: Graph | LocalBackend | OpenGraph,
    algorithm: str,
    edges: str | Sequence[str] | None,
    params: Mapping[str, Any] | None,
    branch: str,
    at: str | None,
    limit: int | None,
    options: QueryOptions | None,
) -> Prepared:
    """Check everything that can be known before a job starts."""
    engine = engine_of(graph)
    call = AlgorithmCall.of(algorithm, edges, params, options, limit)
    if algorithm not in ON_SPARK:
        details = BadValue(what="algorithm", value=algorithm, expected=", ".join(ON_SPARK))
        why = IN_PROCESS_ONLY[algorithm]
        raise SparkUnsupportedError(f"{algorithm} does not run on Spark: {why}", details=details)
    pinned = engine.calls.run(lambda: engine.reads.pin(branch, at, "commit"))
    edge_types = call.edge_types(pinned.catalog)
    return Prepared(call=call, snapshot=pinned.snapshot, catalog=pinned.catalog, edges=edge_types)


def found_frame(engine: OpenGraph, relations: FrameRelations, prepared: Prepared) -> tuple[Frames, FoundFrame]:
    """Return the nodes and edges that are walked, and what the algorithm finds there."""
    call = prepared.call
    frames = read_frames(
        relations,
        engine.store.storage,
        prepared.snapshot,
        prepared.edges,
        call.params.get("weight"),
        call.algorithm.weights,
    )
    with translated():
        return frames, ON_SPARK[call.algorithm.name](frames, call.params)


def _shaped(rows: pa.Table, call: AlgorithmCall) -> pa.Table:
    """Return rows with the columns of the engine in process: keys as type and id, vectors of their length."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name in rows.column_names:
        if name in _NODES:
            parts = pc.split_pattern(rows[name], SEPARATOR, max_splits=1)
            columns[f"{_NODES[name]}type"] = pc.list_element(parts, 0)
            columns[f"{_NODES[name]}id"] = pc.list_element(parts, 1)
        elif call.algorithm.kind == "vector" and name == call.algorithm.column:
            columns[name] = rows[name].cast(pa.list_(pa.float32(), call.params["dimension"]))
        else:
            columns[name] = rows[name]
    return pa.table(columns).combine_chunks()
