"""``omnigraph alias``: runs a query under the short name that the operator config gives it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from omnigraph.cli.commands.data.mutate import execute_asking, parameter_value, read_params, show_mutation
from omnigraph.cli.commands.data.query import ResultFormat, RowFormat, choose_format, write_result
from omnigraph.cli.files import read_input
from omnigraph.cli.graphs import open_graph, scope_address
from omnigraph.cli.lazy import new_app
from omnigraph.cli.operator.config import Alias, OperatorConfig, find_named, operator_config
from omnigraph.cli.operator.scope import profile_scope
from omnigraph.cli.options import AsJson, Message, Param, Params, ParamsFile
from omnigraph.cli.usage import usage_error
from omnigraph.errors import WrongQueryKindError
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.writes import MutateRequest

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
    """Run a query by the short name that it has in the operator config, on the graph set there.

    --params and --param override arguments, and arguments override the parameters of the config. A mutation runs only
    if the alias sets `mutation: true`.
    """
    config = operator_config()
    chosen = find_named(config, "alias", name)
    store, file = _bound(config, chosen)
    given = merge_parameters(chosen, arguments or (), read_params(params, params_path, param or ()))
    if chosen.mutation:
        return _mutate(config, chosen, store, file, given, message=message, as_json=_wants_json(form, as_json=as_json))
    if message is not None:
        raise usage_error(
            f"alias '{name}' reads and makes no commit", value="--message", expected="no --message", hint="leave it out"
        )
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
    return scope_address(profile_scope(config, find_named(config, "profile", alias.profile or ""))), alias.file


def _mutate(
    config: OperatorConfig, alias: Alias, store: str, file: str, given: Any, *, message: str | None, as_json: bool
) -> int:
    source, branch = read_input(file), alias.branch or _MAIN
    with open_graph(store) as backend:
        request = MutateRequest(
            text=source.data,
            params=given,
            name=alias.query,
            params_form="strict",
            branch=branch,
            actor=config.actor,
            message=message,
            source_name=source.name,
        )
        result = backend.execute(request) if as_json else execute_asking(backend.execute, request)
    show_mutation(result, as_json=as_json)
    return 0


def _wants_json(form: ResultFormat | None, *, as_json: bool) -> bool:
    if form in {None, ResultFormat.JSON}:
        return as_json or form is ResultFormat.JSON
    raise usage_error(
        "a mutation returns no rows and has no format", value="--format", expected="--json", hint="leave out --format"
    )
