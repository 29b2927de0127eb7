"""``omnigraph mutate``: changes a graph by a mutation query."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.cli.files import InputFile, read_input, refuse_second_stdin
from omnigraph.cli.graphs import CommandBackend, consents, graph_address, open_graph
from omnigraph.cli.lazy import example, new_app
from omnigraph.cli.options import (
    AsJson,
    BlobBases,
    Branch,
    CommitOptions,
    ConflictRule,
    GraphOptions,
    IfCommit,
    MaxAffected,
    OnConflict,
    Param,
    Params,
    ParamsFile,
    QueryFile,
    QueryName,
    QueryText,
    StoredFiles,
    expand_options,
)
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.stored import find_queries, refuse_unused_files
from omnigraph.cli.usage import usage_error
from omnigraph.errors import AffectedLimitError, LimitExceeded, QueryParameterError
from omnigraph.operations.stored import InvokeMutationRequest
from omnigraph.operations.writes import MutateRequest

if TYPE_CHECKING:
    from omnigraph.engine.mutate import MutationResult


# A terminal is asked before more entities than this change.
_ASKED_ABOVE = 10_000


def read_params(text: str | None, path: str | None, each: Sequence[str] = ()) -> Any:
    """Return the parameters as JSON values, None when there are none; single ones win over those given together.

    Raises:
        UsageError: they are given twice, or a single one is not of its form.
        FileMissingError, FileAccessError: the file cannot be read.
        QueryParameterError: they are not JSON.
    """
    if text is not None and path is not None:
        raise usage_error("--params and --params-file cannot be combined", expected="one of the two")
    if text is None and path is None:
        return _with_each(None, each)
    from omnigraph.ir import decode_parameter_text  # noqa: PLC0415 - for calls with parameters

    data = (text or "").encode(errors="surrogateescape") if path is None else read_input(path).data
    return _with_each(decode_parameter_text(data), each)


def parameter_value(text: str, origin: str) -> Any:
    """Return the value that a text of the command line means: JSON if it is that, else the text itself.

    Raises:
        UsageError: it is neither; ``origin`` says where it stands.
    """
    from omnigraph.ir import decode_parameter_text  # noqa: PLC0415 - for calls with parameters

    try:
        return decode_parameter_text(text.encode())
    except QueryParameterError:
        return text
    except UnicodeEncodeError as problem:
        raise usage_error(f"{origin} is not valid UTF-8", value=ascii(text), expected="UTF-8 text") from problem


def _with_each(given: Any, each: Sequence[str]) -> Any:
    """Put single parameters over those that were given together; what is no object is refused later, as always."""
    if not each or not (given is None or isinstance(given, dict)):
        return given
    single: dict[str, Any] = {}
    for text in each:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise usage_error(f"invalid --param '{text}'", value=text, expected="NAME=VALUE")
        if name in single:
            raise usage_error(f"parameter '{name}' occurs twice", value=text, expected="each name once")
        single[name] = parameter_value(value, "--param")
    return {**(given or {}), **single}


app = new_app()


@app.command(epilog=example("""omnigraph mutate crm -e 'query add() { insert Person { name: "Eve" } }'"""))
@expand_options
def mutate(  # noqa: PLR0913 - one parameter per option
    *,
    graph: GraphOptions,
    query_name: QueryName = None,
    query_path: QueryFile = None,
    query_text: QueryText = None,
    params: Params = None,
    params_path: ParamsFile = None,
    param: Param = None,
    queries: StoredFiles = None,
    branch: Branch = "main",
    expected_head: IfCommit = None,
    on_conflict: OnConflict = ConflictRule.RERUN,
    max_affected: MaxAffected = None,
    blob_bases: BlobBases = None,
    commit: CommitOptions,
    as_json: AsJson = False,
) -> int:
    """Insert, update and delete rows with a query, in a single atomic commit.

    Without --query and -e, NAME is a stored query of the server, or of the files that --queries names. Exits with code
    3 if --on-conflict refuse meets a conflict, 4 if the branch is not at the commit of --if-commit, 9 if more than
    --max-affected entities would change. On a terminal, it asks before it changes more than 10,000.
    """
    asked: dict[str, Any] = {
        "params_form": "strict",
        "branch": branch,
        **commit.to_fields(),
        "expected_head": expected_head,
        "on_conflict": on_conflict.value,
        "max_affected": max_affected,
    }
    if query_name is not None and query_path is None and query_text is None:
        given = read_params(params, params_path, param or ())
        stored = InvokeMutationRequest(name=query_name, params=given, **asked)
        with find_queries(graph, queries, mode="read_write", blob_bases=blob_bases, wanted=query_name) as place:
            result = execute_mutation(place.backend, stored, as_json=as_json)
    else:
        refuse_unused_files(queries, has_text=not (query_path is None and query_text is None))
        refuse_second_stdin([path for path in (query_path, params_path) if path is not None])
        source = read_query(query_path, query_text, query_name)
        given = read_params(params, params_path, param or ())
        request = MutateRequest(text=source.data, params=given, name=query_name, source_name=source.name, **asked)
        with open_graph(graph_address(graph), blob_bases=blob_bases) as backend:
            result = execute_mutation(backend, request, as_json=as_json)
    show_mutation(result, as_json=as_json)
    return 0


def execute_mutation(
    backend: CommandBackend, request: MutateRequest | InvokeMutationRequest, *, as_json: bool
) -> MutationResult:
    """Run a mutation, of a text or a stored one; only who wants text is asked about very many entities."""
    return backend.execute(request) if as_json else execute_asking(backend.execute, request)


def execute_asking(
    execute: Callable[[Any], MutationResult], request: MutateRequest | InvokeMutationRequest
) -> MutationResult:
    """Run a mutation; on a terminal, ask before it changes very many entities, unless it says how many it may."""
    if request.max_affected is not None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return execute(request)
    try:
        return execute(replace(request, max_affected=_ASKED_ABOVE))
    except AffectedLimitError as problem:
        details = problem.details
        count = details.actual if isinstance(details, LimitExceeded) else _ASKED_ABOVE
        if not consents(f"{count:,} entities would change; continue? [y/N] "):
            raise
    return execute(request)


def show_mutation(result: MutationResult, *, as_json: bool, is_pending: bool = False) -> None:
    """Show what a mutation did, or will have done when its transaction is committed."""
    remarks = [] if as_json else [f"warning: {warning}" for warning in result.warnings]
    lines = list(result.lines())
    if is_pending:
        lines[0] = lines[0].replace("changed", "pending on", 1)
    choose_output(as_json=as_json).show(PlainReport(document=result.to_json(), lines=lines, remarks=remarks))


def read_query(path: str | None, text: str | None, name: str | None) -> InputFile:
    """Return the source of a query, from a file or from the command line.

    Raises:
        UsageError: none or both are given, or the text is empty.
    """
    if path is not None and text is not None:
        raise usage_error(
            "--query and --query-string cannot be combined", expected="one of them", hint="use one of the two"
        )
    if path is not None:
        return read_input(path)
    if text is None:
        named = f"query '{name}'" if name else "a query"
        raise usage_error(
            f"no query text for {named}", expected="--query or -e", hint="pass it with --query FILE or -e TEXT"
        )
    if not text.strip():
        raise usage_error("the query text is empty", expected="a query", hint="write the query after -e")
    return InputFile(name="<query>", data=text.encode(errors="surrogateescape"))
