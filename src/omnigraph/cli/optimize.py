"""``omnigraph optimize``: fewer fragments, and indexes that cover every row."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.cli.counted import counted
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
from omnigraph.cli.graphs import commit_to_json, graph_address, open_graph
from omnigraph.cli.guards import echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Quiet, Store, Types, Uri
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.engine.maintenance.optimize import MANIFEST_KEY, OptimizedTable, OptimizeResult
from omnigraph.engine.session import GraphSession

app = new_app()


@app.command()
def optimize(
    *,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    types: Types = None,
    engine: EngineName = None,
    master: Master = None,
    remote: Remote = None,
    spark_conf: SparkConf = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Compact the tables of a branch and build or extend the indexes that its schema asks for.

    Runs beside writers, changes no answer and removes nothing. Tables that the branch only inherits are left to the
    branch that owns them. A second run finds nothing to do and makes no commit. With --engine spark, or a setting of
    Spark, executors do the work.
    """
    spark = spark_request(engine, master, remote, spark_conf)
    address = graph_address(uri, store)
    echo_target("optimize", address, is_quiet=quiet)
    with open_graph(address) as session:
        result = _run(session, branch, types, spark)
    document = {
        "uri": address,
        "branch": result.branch,
        "datasets": [table.to_json() for table in result.tables],
        "commits": [commit_to_json(commit) for commit in result.commits],
    }
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=list(_lines(result))))
    return 0


def _run(session: GraphSession, branch: str, types: list[str] | None, spark: SparkRequest) -> OptimizeResult:
    if not choose_plainly(spark).is_spark:
        return session.optimize(branch, types or None)
    from omnigraph.spark import optimize_on_spark  # noqa: PLC0415 - loaded for the runs that use it

    with open_spark(spark, is_short=False) as started:
        return optimize_on_spark(session, spark=started, branch=branch, types=types or None)


def _lines(result: OptimizeResult) -> Iterator[str]:
    for table in result.tables:
        if table.table_key != MANIFEST_KEY:
            yield f"{table.table_key}: {', '.join(_done(table))}"
    yield counted(len(result.commits), "commit") if result.commits else "nothing to do"


def _done(table: OptimizedTable) -> Iterator[str]:
    if table.skipped is not None:
        yield f"skipped ({table.skipped})"
        return
    if table.fragments_removed:
        before = counted(table.fragments_before, "fragment")
        same = table.fragments_before == table.fragments_after
        yield f"{before} rewritten" if same else f"{before} became {table.fragments_after}"
    made = [index for index in table.indexes if index.action != "skipped"]
    for action in ("built", "extended", "rebuilt"):
        columns = [index.column for index in made if index.action == action]
        if columns:
            indexes = counted(len(columns), "index", "indexes")
            yield f"{action} {indexes} on {', '.join(dict.fromkeys(columns))}"
    if not table.fragments_removed and not made:
        yield "up to date"
