"""``omnigraph query``: reads a graph by a query."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, TextIO, assert_never

import typer

from omnigraph.cli.engines import (
    EngineName,
    Master,
    Remote,
    SparkConf,
    SparkRequest,
    choose_plainly,
    open_spark,
    spark_request,
)
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Params, ParamsFile, QueryFile, QueryText, Store
from omnigraph.cli.reads import (
    AtSnapshot,
    Memory,
    Param,
    QueryName,
    ReadBranch,
    ReadRequest,
    RowLimit,
    Timeout,
    Traversal,
    TraversalMode,
    read_options,
    read_request,
)
from omnigraph.engine.results import Result
from omnigraph.engine.session import GraphSession

app = new_app()


class Format(Enum):
    """How rows are written."""

    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


@app.command()
def query(  # noqa: PLR0913 - one parameter per option
    *,
    name: QueryName = None,
    query_path: QueryFile = None,
    query_text: QueryText = None,
    params: Params = None,
    params_path: ParamsFile = None,
    param: Param = None,
    store: Store = None,
    branch: ReadBranch = None,
    snapshot: AtSnapshot = None,
    limit_rows: RowLimit = None,
    timeout: Timeout = None,
    memory: Memory = None,
    mode: TraversalMode = Traversal.AUTO,
    engine: EngineName = None,
    master: Master = None,
    remote: Remote = None,
    spark_conf: SparkConf = None,
    form: Annotated[Format, typer.Option("--format", help="How to write the rows.")] = Format.TABLE,
    as_json: AsJson = False,
) -> int:
    """Read rows by a query, from the newest state of a branch or from an earlier one.

    --json is --format json, and has errors as JSON too. Nothing is written unless the read succeeds as a whole.
    A read runs on Spark only when --engine spark or a setting of Spark asks for it; its rows are the same.
    """
    spark = spark_request(engine, master, remote, spark_conf)
    request = read_request(
        name=name,
        query_path=query_path,
        query_text=query_text,
        params=params,
        params_path=params_path,
        param=param,
        branch=branch,
        snapshot=snapshot,
        options=read_options(limit_rows, timeout, memory, mode),
    )
    with open_graph(store, mode="read_only") as session:
        write_result(_run(session, request, spark), Format.JSON if as_json else form, sys.stdout)
    return 0


def write_result(result: Result, form: Format, stream: TextIO) -> None:
    """Write the rows in one of the formats."""
    match form:
        case Format.TABLE:
            result.write_table(stream)
        case Format.KV:
            result.write_kv(stream)
        case Format.CSV:
            result.write_csv(stream)
        case Format.JSONL:
            result.write_jsonl(stream)
        case Format.JSON:
            result.write_json(stream)
        case _:
            assert_never(form)


def _run(session: GraphSession, request: ReadRequest, spark: SparkRequest) -> Result:
    if not choose_plainly(spark).is_spark:
        return session.query(**request.arguments())
    from omnigraph.spark import query as query_on_spark  # noqa: PLC0415 - loaded for the reads that run on it

    with open_spark(spark, is_short=True) as started:
        return query_on_spark(session, **request.arguments(), spark=started)
