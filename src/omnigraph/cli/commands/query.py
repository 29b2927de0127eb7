"""``omnigraph query``: reads a graph by a query."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO, assert_never

import typer

from omnigraph.cli.commands.mutate import parameter_value, read_params, read_query, show_mutation
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
from omnigraph.cli.files import read_input, refuse_second_stdin
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.operator.config import Alias, OperatorConfig, find_named, operator_config
from omnigraph.cli.options import AsJson, Param, Params, ParamsFile, QueryFile, QueryText, Store
from omnigraph.cli.output import LineBuffer, choose_output, whole_document
from omnigraph.cli.usage import usage_error
from omnigraph.errors import WrongQueryKindError
from omnigraph.operations.reads import ExplainRequest, QueryRequest
from omnigraph.operations.writes import MutateRequest
from omnigraph.records import record
from omnigraph.values import size_of

if TYPE_CHECKING:
    from omnigraph.engine.query.options import QueryOptions
    from omnigraph.engine.results import Result, SupportsExplanation
    from omnigraph.operations.local import LocalBackend


class Traversal(StrEnum):
    """How edges are walked."""

    AUTO = "auto"
    INDEXED = "indexed"
    CSR = "csr"


QueryName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The query to run, if the source holds several.")
]
ReadBranch = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="The branch to read; main by default.")
]
AtSnapshot = Annotated[
    str | None,
    typer.Option("--snapshot", metavar="REF", help="Read an earlier state: a commit id, main~3, tag:v1 or @TIME."),
]
RowLimit = Annotated[
    int | None, typer.Option("--limit-rows", metavar="N", min=0, help="Fail if there are more rows than this.")
]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Fail if the query takes longer.")]
Memory = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="Fail if the query needs more memory, such as 256M or 2G."),
]
TraversalMode = Annotated[
    Traversal, typer.Option("--mode", help="Traverse edges by index, in memory, or whichever seems cheaper.")
]


def read_request(
    *,
    name: str | None,
    query_path: str | None,
    query_text: str | None,
    params: str | None,
    params_path: str | None,
    param: Sequence[str] | None,
    branch: str | None,
    snapshot: str | None,
    options: QueryOptions,
) -> QueryRequest:
    """Return what the options of a command ask for.

    Raises:
        UsageError: they do not go together, or one is not of its form.
        FileMissingError, FileAccessError: a file that they name cannot be read.
        QueryParameterError: the parameters are not JSON.
    """
    if branch is not None and snapshot is not None:
        raise usage_error("--branch and --snapshot cannot be combined", expected="one of them")
    refuse_second_stdin([path for path in (query_path, params_path) if path is not None])
    source = read_query(query_path, query_text, name)
    return QueryRequest(
        text=source.data,
        params=read_params(params, params_path, param or ()),
        name=name,
        params_form="strict",
        branch="main" if branch is None else branch,
        at=snapshot,
        options=options,
        source_name=source.name,
    )


def read_options(limit_rows: int | None, timeout_s: float | None, memory: str | None, mode: Traversal) -> QueryOptions:
    """Return the limits of a read.

    Raises:
        UsageError: a time or a size that is none.
    """
    from omnigraph.engine.query.options import QueryOptions  # noqa: PLC0415 - for arguments that make sense

    return QueryOptions(
        mode=mode.value,
        memory_bytes=None if memory is None else _size(memory),
        timeout_ms=None if timeout_s is None else _milliseconds(timeout_s),
        max_rows=limit_rows,
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
    """Write the rows in one of the formats.

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


@query_app.command()
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
    """Run a read query on the newest state of a branch or on an earlier one.

    --json is --format json, with errors as JSON too. Nothing is printed unless the whole read succeeds.
    A read runs on Spark only if --engine spark or a Spark setting asks for it; the rows are the same.
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
    with open_graph(store, mode="read_only") as backend:
        write_result(_run(backend, request, spark), chosen, sys.stdout)
    return 0


def _run(backend: LocalBackend, request: QueryRequest, spark: SparkRequest) -> Result:
    if not choose_plainly(spark).is_spark:
        return backend.execute(request)
    from omnigraph.spark.query import run_query  # noqa: PLC0415 - loaded for the reads that run on it

    with open_spark(spark, is_short=True) as started:
        return run_query(backend, request, started)


explain_app = new_app()


@record
class ExplainReport:
    """A plan."""

    explanation: SupportsExplanation

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return self.explanation.to_json()

    def to_lines(self) -> Iterable[str]:
        """The plan, one step per line."""
        return self.explanation.describe().splitlines()

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@explain_app.command()
def explain(  # noqa: PLR0913 - one parameter per option
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
    run: Annotated[
        bool, typer.Option("--run", help="Also run the query, and show rows, calls and time of each step.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show how a query would run, step by step, with the expected rows of each step."""
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
    with open_graph(store, mode="read_only") as backend:
        explanation = backend.execute(ExplainRequest.of(request, run=run))
    choose_output(as_json=as_json).show(ExplainReport(explanation=explanation))
    return 0


alias_app = new_app()

_MAIN = "main"


@alias_app.command()
def alias(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the alias in the operator config.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="Its parameters, in the order of its args: JSON or plain text."),
    ] = None,
    params: Params = None,
    params_path: ParamsFile = None,
    param: Param = None,
    form: RowFormat = None,
    as_json: AsJson = False,
) -> int:
    """Run a query that the operator config gives a short name, on the graph given there.

    --params and --param override arguments, and arguments override the parameters of the config. A mutation runs only
    if the alias sets `mutation: true`.
    """
    config = operator_config()
    chosen = find_named(config, "alias", name)
    store, file = _bound(config, chosen)
    given = merge_parameters(chosen, arguments or (), read_params(params, params_path, param or ()))
    if chosen.mutation:
        return _mutate(config, chosen, store, file, given, as_json=_wants_json(form, as_json=as_json))
    source = read_input(file)
    form = choose_format(as_json=as_json, given=form, alias=chosen.format)
    with open_graph(store, mode="read_only") as backend:
        try:
            request = QueryRequest(
                text=source.data,
                params=given,
                name=chosen.query,
                params_form="strict",
                branch=chosen.branch or _MAIN,
                source_name=source.name,
            )
            result = backend.execute(request)
        except WrongQueryKindError as problem:
            hint = f"set mutation: true under aliases.{name} in {config.path} to let it write"
            raise WrongQueryKindError(problem.message, details=problem.details, hint=hint) from problem
        write_result(result, form, sys.stdout)
    return 0


def merge_parameters(alias: Alias, arguments: Sequence[str], given: Any) -> Any:
    """Return the parameters of a call: those given by name over those by position over those of the alias.

    Raises:
        UsageError: there are more arguments than the alias has names for, or one is no text.
    """
    if len(arguments) > len(alias.args):
        names = ", ".join(alias.args)
        raise usage_error(
            f"too many arguments for alias '{alias.name}': {len(arguments)} instead of at most {len(alias.args)}",
            value=arguments[len(alias.args)],
            expected=names or "no arguments",
            hint=f"its arguments are {names}" if names else "it takes none; pass parameters with --params",
        )
    if not (given is None or isinstance(given, dict)):
        # Parameters that are no object are refused with everybody else's, where the query is known.
        return given
    positional = {name: parameter_value(text, "an argument") for name, text in zip(alias.args, arguments, strict=False)}
    merged: Mapping[str, Any] = {**alias.params, **positional, **(given or {})}
    return merged or None


def _bound(config: OperatorConfig, alias: Alias) -> tuple[str, str]:
    """Return the storage and the file of an alias."""
    if (alias.store is None) == (alias.profile is None):
        raise alias.problem("must set exactly one of store and profile", expected="store or profile")
    if alias.file is None:
        raise alias.problem("has no query file", expected="file")
    if alias.mutation and alias.format is not None:
        raise alias.problem("is a mutation, which returns no rows and has no format", expected="one of the two")
    if alias.store is not None:
        return alias.store, alias.file
    return find_named(config, "profile", alias.profile or "").storage(), alias.file


def _mutate(config: OperatorConfig, alias: Alias, store: str, file: str, given: Any, *, as_json: bool) -> int:
    source, branch = read_input(file), alias.branch or _MAIN
    with open_graph(store) as backend:
        request = MutateRequest(
            text=source.data,
            params=given,
            name=alias.query,
            params_form="strict",
            branch=branch,
            actor=config.actor,
            source_name=source.name,
        )
        result = backend.execute(request)
    show_mutation(result, as_json=as_json)
    return 0


def _wants_json(form: ResultFormat | None, *, as_json: bool) -> bool:
    if form in {None, ResultFormat.JSON}:
        return as_json or form is ResultFormat.JSON
    raise usage_error(
        "a mutation returns no rows and has no format", value="--format", expected="--json", hint="leave out --format"
    )
