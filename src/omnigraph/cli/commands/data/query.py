"""``omnigraph query`` and ``explain``: read a graph by a query, and show how it is read."""

from __future__ import annotations

import math
import shutil
import sys
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO, assert_never, cast

import typer

from omnigraph.cli.commands.data.mutate import read_params, read_query
from omnigraph.cli.engines import (
    SparkOptions,
    SparkRequest,
    choose_plainly,
    open_spark,
)
from omnigraph.cli.files import refuse_second_stdin
from omnigraph.cli.graphs import CommandBackend, graph_address, local_backend, open_graph
from omnigraph.cli.lazy import example, new_app
from omnigraph.cli.operator.config import operator_config
from omnigraph.cli.options import (
    AsJson,
    AtSnapshot,
    GraphOptions,
    Param,
    Params,
    ParamsFile,
    QueryFile,
    QueryName,
    QueryText,
    ReadBranch,
    SnapshotSchema,
    StoredFiles,
    expand_options,
    refuse_two_states,
)
from omnigraph.cli.output import LineBuffer, PlainReport, choose_output, whole_document, write_line
from omnigraph.cli.stored import QueryPlace, find_queries, refuse_unused_files
from omnigraph.cli.usage import usage_error
from omnigraph.operations.reads import ExplainRequest, QueryRequest
from omnigraph.operations.stored import InvokeReadRequest
from omnigraph.records import record
from omnigraph.values import size_of

if TYPE_CHECKING:
    from omnigraph.engine.query.options import QueryOptions
    from omnigraph.engine.results import Result


class Traversal(StrEnum):
    """How edges are walked."""

    AUTO = "auto"
    INDEXED = "indexed"
    CSR = "csr"


RowLimit = Annotated[
    int | None, typer.Option("--limit-rows", metavar="N", min=0, help="Fail if there are more rows than this.")
]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Fail if the query takes longer.")]
Memory = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="Fail if the query needs more memory, such as 256M or 2G."),
]
TraversalMode = Annotated[
    Traversal,
    typer.Option(
        "--mode", help="Follow edges through the index, in memory (csr), or by estimated cost (auto, the default)."
    ),
]


ExactVectors = Annotated[
    bool, typer.Option("--exact", help="Search vectors exactly, even where the schema has @index(ann).")
]
Probes = Annotated[
    int | None,
    typer.Option(
        "--probes",
        metavar="N",
        min=1,
        help="Partitions that an approximate vector search reads; 32 by default.",
    ),
]


@record
class ReadOptions:
    """The options of a command that reads a graph by a query."""

    query_name: QueryName = None
    query_path: QueryFile = None
    query_text: QueryText = None
    params: Params = None
    params_path: ParamsFile = None
    param: Param = None
    branch: ReadBranch = None
    snapshot: AtSnapshot = None
    snapshot_schema: SnapshotSchema = False
    limit_rows: RowLimit = None
    timeout: Timeout = None
    memory: Memory = None
    mode: TraversalMode = Traversal.AUTO
    exact: ExactVectors = False
    probes: Probes = None

    def request(self) -> QueryRequest:
        """Return what they ask for.

        Raises:
            UsageError: they do not go together, or one is not of its form.
            FileMissingError, FileAccessError: a file that they name cannot be read.
            QueryParameterError: the parameters are not JSON.
        """
        refuse_second_stdin([path for path in (self.query_path, self.params_path) if path is not None])
        source = read_query(self.query_path, self.query_text, self.query_name)
        return QueryRequest(text=source.data, name=self.query_name, source_name=source.name, **self._asked())

    @property
    def stored_name(self) -> str | None:
        """The stored query that they name; None if they give a text, or nothing."""
        return self.query_name if self.query_path is None and self.query_text is None else None

    def invocation(self, name: str) -> InvokeReadRequest:
        """Return what they ask of a stored query; raises what :meth:`request` does."""
        return InvokeReadRequest(name=name, **self._asked())

    def _asked(self) -> dict[str, Any]:
        refuse_two_states(self.branch, self.snapshot)
        return {
            "params": read_params(self.params, self.params_path, self.param or ()),
            "params_form": "strict",
            "branch": "main" if self.branch is None else self.branch,
            "at": self.snapshot,
            "options": self.limits(),
        }

    def limits(self) -> QueryOptions:
        """Return how the read is to be done, and when it is to be given up.

        Raises:
            UsageError: a time or a size that is none.
        """
        found = replace(
            query_limits(memory=self.memory, timeout=self.timeout, max_rows=self.limit_rows),
            mode=self.mode.value,
            schema="commit" if self.snapshot_schema else "current",
            nearest="exact" if self.exact else "auto",
        )
        return found if self.probes is None else replace(found, probes=self.probes)


def query_limits(*, memory: str | None, timeout: float | None, max_rows: int | None) -> QueryOptions:
    """Return what a read may cost.

    Raises:
        UsageError: a time or a size that is none.
    """
    from omnigraph.engine.query.options import QueryOptions  # noqa: PLC0415 - for arguments that make sense

    return QueryOptions(
        memory_bytes=None if memory is None else _size(memory),
        timeout_ms=None if timeout is None else _milliseconds(timeout),
        max_rows=max_rows,
    )


def _milliseconds(timeout_s: float) -> int:
    timeout_ms = timeout_s * 1000
    if not (math.isfinite(timeout_ms) and timeout_ms >= 0):
        raise usage_error(f"invalid timeout '{timeout_s}'", value=str(timeout_s), expected="seconds, such as 2.5")
    return math.ceil(timeout_ms)


def _size(text: str) -> int:
    size = size_of(text)
    if size is None:
        raise usage_error(f"invalid memory size '{text}'", value=text, expected="a size, such as 256M or 2G")
    return size


class ResultFormat(StrEnum):
    """How rows are written."""

    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


RowFormat = Annotated[
    ResultFormat | None,
    typer.Option("--format", help="The output format; a table unless the operator config says otherwise."),
]


def choose_format(*, as_json: bool, given: ResultFormat | None, alias: str | None = None) -> ResultFormat:
    """Return the format by the first that says something: ``--json``, ``--format``, an alias, the operator's defaults.

    Raises:
        ConfigError: the operator config has to be asked and is not valid.
    """
    if as_json:
        return ResultFormat.JSON
    if given is not None:
        return given
    return ResultFormat(alias or operator_config().defaults.output or ResultFormat.TABLE.value)


def write_result(result: Result, form: ResultFormat, stream: TextIO) -> None:
    """Write the rows in one of the formats; warnings go to standard error where the format has no place for them.

    Raises:
        ConfigError: it is a table, and the operator config that says how to draw it is not valid.
    """
    match form:
        case ResultFormat.TABLE:
            _write_table(result, stream)
        case ResultFormat.KV:
            result.write_kv(stream)
        case ResultFormat.CSV:
            with LineBuffer(stream, "\n") as lines:
                result.write_csv(lines)
        case ResultFormat.JSONL:
            with LineBuffer(stream, "\n") as lines:
                result.write_jsonl(lines)
        case ResultFormat.JSON:
            with whole_document(stream) as document:
                result.write_json(document)
        case _:
            assert_never(form)
    if form is not ResultFormat.JSON:
        for warning in result.warnings:
            write_line(f"warning: {warning}", sys.stderr)


def _write_table(result: Result, stream: TextIO) -> None:
    from omnigraph.engine.results.table import MAX_COLUMN_WIDTH  # noqa: PLC0415 - comes with the result

    defaults = operator_config().defaults
    result.write_table(
        stream,
        max_column_width=defaults.table_max_column_width or MAX_COLUMN_WIDTH,
        layout=defaults.table_cell_layout or "truncate",
        # Files and pipes get every column as wide as its cells: what reads them has no edge to run over.
        max_width=shutil.get_terminal_size().columns if stream.isatty() else None,
    )


query_app = new_app()


@query_app.command(epilog=example("omnigraph query crm -e 'query names() { match { $p: Person } return { $p.name } }'"))
@expand_options
def query(
    *,
    graph: GraphOptions,
    read: ReadOptions,
    queries: StoredFiles = None,
    spark_options: SparkOptions,
    form: RowFormat = None,
    as_json: AsJson = False,
) -> int:
    """Run a read query on the newest state of a branch or on an earlier one.

    Without --query and -e, NAME is a stored query of the server, or of the files that --queries names. --json means
    --format json, with errors as JSON too. Nothing is printed unless the whole read succeeds. A query runs on Spark
    only with --engine spark or a Spark setting; the rows are the same.
    """
    spark = spark_options.request()
    chosen = choose_format(as_json=as_json, given=form)
    name = read.stored_name
    if name is not None:
        asked = read.invocation(name)
        with find_queries(graph, queries, wanted=name) as place:
            write_result(_run_stored(place, asked, spark), chosen, sys.stdout)
        return 0
    refuse_unused_files(queries, has_text=not (read.query_path is None and read.query_text is None))
    request = read.request()
    with open_graph(graph_address(graph), mode="read_only") as backend:
        write_result(_run(backend, request, spark), chosen, sys.stdout)
    return 0


def _run_stored(place: QueryPlace, request: InvokeReadRequest, spark: SparkRequest) -> Result:
    if not choose_plainly(spark).is_spark:
        return place.backend.execute(request)
    return _run(place.graph, cast("QueryRequest", place.declared(request)), spark)


def _run(backend: CommandBackend, request: QueryRequest, spark: SparkRequest) -> Result:
    if not choose_plainly(spark).is_spark:
        return backend.execute(request)
    storage = local_backend(backend)
    from omnigraph.spark.queries import run_query  # noqa: PLC0415 - loaded for the reads that run on it

    with open_spark(spark, is_short=True) as started:
        return run_query(storage, request, started)


explain_app = new_app()


@explain_app.command(epilog=example("omnigraph explain crm -e 'query q() { match { $p: Person } return { $p.name } }'"))
@expand_options
def explain(
    *,
    graph: GraphOptions,
    read: ReadOptions,
    run: Annotated[
        bool, typer.Option("--run", help="Also run the query, and show the rows, calls and time of each step.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show how a query would run, step by step, with the expected rows of each step."""
    request = read.request()
    with open_graph(graph_address(graph), mode="read_only") as backend:
        explanation = backend.execute(ExplainRequest.of(request, run=run))
    report = PlainReport(document=explanation.to_json(), lines=explanation.describe().splitlines())
    choose_output(as_json=as_json).show(report)
    return 0
