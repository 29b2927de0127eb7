"""``omnigraph query``: reads a graph by a query."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

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
from omnigraph.cli.formats import RowFormat, choose_format, write_result
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Param, Params, ParamsFile, QueryFile, QueryText, Store
from omnigraph.cli.reads import (
    AtSnapshot,
    Memory,
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

if TYPE_CHECKING:
    from omnigraph.engine.results import Result
    from omnigraph.engine.session import GraphSession

app = new_app()


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
    form: RowFormat = None,
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
    chosen = choose_format(as_json=as_json, given=form)
    with open_graph(store, mode="read_only") as session:
        write_result(_run(session, request, spark), chosen, sys.stdout)
    return 0


def _run(session: GraphSession, request: ReadRequest, spark: SparkRequest) -> Result:
    if not choose_plainly(spark).is_spark:
        return session.query(**request.arguments())
    from omnigraph.spark import query as query_on_spark  # noqa: PLC0415 - loaded for the reads that run on it

    with open_spark(spark, is_short=True) as started:
        return query_on_spark(session, **request.arguments(), spark=started)
