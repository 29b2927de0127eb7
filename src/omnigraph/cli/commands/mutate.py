"""``omnigraph mutate``: changes a graph by a mutation query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.files import InputFile, read_input, refuse_second_stdin
from omnigraph.cli.graphs import commit_to_json, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import (
    Actor,
    AsJson,
    Branch,
    IfCommit,
    Param,
    Params,
    ParamsFile,
    QueryFile,
    QueryText,
    Store,
)
from omnigraph.cli.output import choose_output
from omnigraph.errors import BadValue, QueryParameterError, UsageError
from omnigraph.operations.writes import MutateRequest
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.engine.mutate import MutationResult


def read_params(text: str | None, path: str | None, each: Sequence[str] = ()) -> Any:
    """Return the parameters as JSON values, None when there are none; single ones win over those given together.

    Raises:
        UsageError: they are given twice, or a single one is not of its form.
        FileMissingError, FileAccessError: the file cannot be read.
        QueryParameterError: they are not JSON.
    """
    if text is not None and path is not None:
        raise _parameter_usage("--params and --params-file exclude each other", "", "one of the two")
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
        raise _parameter_usage(f"{origin} holds bytes that are no text", ascii(text), "UTF-8 text") from problem


def _with_each(given: Any, each: Sequence[str]) -> Any:
    """Put single parameters over those that were given together; what is no object is refused later, as always."""
    if not each or not (given is None or isinstance(given, dict)):
        return given
    single: dict[str, Any] = {}
    for text in each:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise _parameter_usage(f"--param is not of its form value={text}", text, "NAME=VALUE")
        if name in single:
            raise _parameter_usage(f"--param names a parameter twice name={name}", text, "each name once")
        single[name] = parameter_value(value, "--param")
    return {**(given or {}), **single}


def _parameter_usage(message: str, value: str, expected: str) -> UsageError:
    details = BadValue(what="arguments", value=value, expected=expected)
    return UsageError(message, details=details, hint=f"give {expected}")


app = new_app()


@record
class MutationReport:
    """What a mutation did, and where."""

    branch: str
    actor: str | None
    result: MutationResult

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "branch": self.branch,
            "query_name": self.result.query_name,
            "affected_nodes": self.result.affected_nodes,
            "affected_edges": self.result.affected_edges,
            "actor_id": self.actor,
            "commit": commit_to_json(self.result.commit),
        }

    def to_lines(self) -> Iterable[str]:
        """The counts, and who asked if that is known."""
        done = self.result
        yield f"changed {self.branch} via {done.query_name}: {done.affected_nodes} nodes, {done.affected_edges} edges"
        if self.actor is not None:
            yield f"actor_id: {self.actor}"

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@app.command()
def mutate(  # noqa: PLR0913 - one parameter per option
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which query of the source, if it holds several.")
    ] = None,
    query_path: QueryFile = None,
    query_text: QueryText = None,
    params: Params = None,
    params_path: ParamsFile = None,
    param: Param = None,
    store: Store = None,
    branch: Branch = "main",
    expected_head: IfCommit = None,
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """Insert, update and delete by a query; all of its statements become one commit, or nothing does.

    Exits with 4 if --if-commit names another commit than the head of the branch.
    """
    refuse_second_stdin([path for path in (query_path, params_path) if path is not None])
    source = read_query(query_path, query_text, name)
    given = read_params(params, params_path, param or ())
    with open_graph(store) as backend:
        request = MutateRequest(
            text=source.data,
            params=given,
            name=name,
            params_form="strict",
            branch=branch,
            actor=actor,
            expected_head=expected_head,
            source_name=source.name,
        )
        result = backend.execute(request)
    choose_output(as_json=as_json).show(MutationReport(branch=branch, actor=actor, result=result))
    return 0


def read_query(path: str | None, text: str | None, name: str | None) -> InputFile:
    """Return the source of a query, from a file or from the command line.

    Raises:
        UsageError: none or both are given, or the text is empty.
    """
    if path is not None and text is not None:
        raise _usage("--query and --query-string exclude each other", "one of them", hint="give one of the two")
    if path is not None:
        return read_input(path)
    if text is None:
        named = f"query '{name}'" if name else "a query"
        raise _usage(f"{named} needs its text", "--query or -e", hint="give it with --query FILE or -e TEXT")
    if not text.strip():
        raise _usage("the query text is empty", "a query", hint="write the query after -e")
    return InputFile(name="<query>", data=text.encode(errors="surrogateescape"))


def _usage(message: str, expected: str, *, hint: str) -> UsageError:
    return UsageError(message, details=BadValue(what="arguments", value="", expected=expected), hint=hint)
