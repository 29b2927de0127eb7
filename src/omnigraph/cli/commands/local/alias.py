"""``omnigraph alias``: runs a query under the short name that the operator config gives it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from omnigraph.cli.commands.data.mutate import execute_mutation, parameter_value, read_params, show_mutation
from omnigraph.cli.commands.data.query import ResultFormat, RowFormat, choose_format, write_result
from omnigraph.cli.files import InputFile, read_input
from omnigraph.cli.graphs import ServedAddress, open_graph, scope_address
from omnigraph.cli.lazy import new_app
from omnigraph.cli.operator.config import Alias, OperatorConfig, find_named, operator_config
from omnigraph.cli.operator.scope import ServerScope, profile_scope, server_url
from omnigraph.cli.options import AsJson, Message, Param, Params, ParamsFile
from omnigraph.cli.usage import usage_error
from omnigraph.errors import WrongQueryKindError
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.stored import InvokeMutationRequest, InvokeReadRequest
from omnigraph.operations.writes import MutateRequest
from omnigraph.records import record

app = new_app()

_MAIN = "main"


@app.command()
def alias(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the alias in the operator config.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Its parameters, in the order that the alias lists: JSON or plain text."),
    ] = None,
    params: Params = None,
    params_path: ParamsFile = None,
    param: Param = None,
    form: RowFormat = None,
    message: Message = None,
    as_json: AsJson = False,
) -> int:
    """Run a query by its alias in the operator config, on the graph set there.

    An alias names a stored query of a server, or a query of a file. --params and --param override arguments, and
    arguments override the parameters of the config. A mutation runs only if the alias sets `mutation: true`.
    """
    config = operator_config()
    chosen = find_named(config, "alias", name)
    bound = _bound(config, chosen)
    given = merge_parameters(chosen, arguments or (), read_params(params, params_path, param or ()))
    if chosen.mutation:
        wants_json = _wants_json(form, as_json=as_json)
        with open_graph(bound.address) as backend:
            asked = bound.mutation(given, actor=config.actor, message=message)
            show_mutation(execute_mutation(backend, asked, as_json=wants_json), as_json=wants_json)
        return 0
    if message is not None:
        raise usage_error(
            f"alias '{name}' is a read, which makes no commit",
            value="--message",
            expected="no --message",
            hint="leave it out",
        )
    form = choose_format(as_json=as_json, given=form, alias=chosen.format)
    asked_read = bound.read(given)
    with open_graph(bound.address, mode="read_only") as backend:
        try:
            result = backend.execute(asked_read)
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


@record
class _Bound:
    """What an alias stands for: a graph, and a declaration of a file, or a stored query if there is none."""

    address: str
    name: str | None
    branch: str
    file: InputFile | None

    def read(self, params: Any) -> QueryRequest | InvokeReadRequest:
        """Return the read."""
        asked: dict[str, Any] = {"params": params, "params_form": "strict", "branch": self.branch}
        if self.file is None:
            return InvokeReadRequest(name=self.name or "", **asked)
        return QueryRequest(text=self.file.data, name=self.name, source_name=self.file.name, **asked)

    def mutation(self, params: Any, *, actor: str | None, message: str | None) -> MutateRequest | InvokeMutationRequest:
        """Return the mutation."""
        asked: dict[str, Any] = {"params": params, "params_form": "strict", "branch": self.branch}
        asked |= {"actor": actor, "message": message}
        if self.file is None:
            return InvokeMutationRequest(name=self.name or "", **asked)
        return MutateRequest(text=self.file.data, name=self.name, source_name=self.file.name, **asked)


def _bound(config: OperatorConfig, alias: Alias) -> _Bound:
    """Return what an alias stands for.

    Raises:
        ConfigError: it names no graph or several, or no query.
    """
    places = {"store": alias.store, "profile": alias.profile, "server": alias.server}
    named = [name for name, value in places.items() if value is not None]
    if len(named) != 1:
        raise alias.problem("must set exactly one of store, profile and server", expected="store, profile or server")
    if alias.graph is not None and alias.store is not None:
        raise alias.problem("names a storage, which holds one graph", expected="no graph")
    if alias.mutation and alias.format is not None:
        raise alias.problem("is a mutation, which returns no rows and has no format", expected="one of the two")
    address = _address(config, alias)
    if alias.file is None and not isinstance(address, ServedAddress):
        raise alias.problem("has no query file; only a server has stored queries", expected="file, or server")
    if alias.file is None and alias.query is None:
        raise alias.problem("names no query", expected="query, or file")
    file = None if alias.file is None else read_input(alias.file)
    return _Bound(address=address, name=alias.query, branch=alias.branch or _MAIN, file=file)


def _address(config: OperatorConfig, alias: Alias) -> str:
    if alias.store is not None:
        return alias.store
    if alias.server is not None:
        return scope_address(ServerScope(url=server_url(config, alias.server), graph_id=alias.graph))
    return scope_address(profile_scope(config, find_named(config, "profile", alias.profile or ""), alias.graph))


def _wants_json(form: ResultFormat | None, *, as_json: bool) -> bool:
    if form in {None, ResultFormat.JSON}:
        return as_json or form is ResultFormat.JSON
    raise usage_error(
        "a mutation returns no rows and has no format", value="--format", expected="--json", hint="leave out --format"
    )
