"""``omnigraph alias``: runs a query that the operator config gives a short name."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from omnigraph.cli.files import read_input
from omnigraph.cli.formats import Format, RowFormat, choose_format, write_result
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.mutate import MutationReport
from omnigraph.cli.operator.config import Alias, OperatorConfig, unsupported_scope
from omnigraph.cli.operator.loading import operator_config
from omnigraph.cli.operator.names import find_named
from omnigraph.cli.options import AsJson, Param, Params, ParamsFile
from omnigraph.cli.output import choose_output
from omnigraph.cli.parameters import parameter_value, read_params
from omnigraph.errors import BadValue, QueryLaneError, UsageError

app = new_app()

_MAIN = "main"


@app.command()
def alias(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The alias, as the operator config calls it.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="Its parameters, in the order of its args: JSON, or else text."),
    ] = None,
    params: Params = None,
    params_path: ParamsFile = None,
    param: Param = None,
    form: RowFormat = None,
    as_json: AsJson = False,
) -> int:
    """Run a query that the operator config gives a short name, on the graph that stands there.

    --params and --param win over arguments, and arguments over the parameters of the config. A mutation runs only if
    the alias says `mutation: true`.
    """
    config = operator_config()
    chosen = find_named(config, "alias", name)
    store, file = _bound(config, chosen)
    given = merge_parameters(chosen, arguments or (), read_params(params, params_path, param or ()))
    if chosen.mutation:
        return _mutate(config, chosen, store, file, given, as_json=_wants_json(form, as_json=as_json))
    source = read_input(file)
    form = choose_format(as_json=as_json, given=form, alias=chosen.format)
    with open_graph(store, mode="read_only") as session:
        try:
            result = session.query(
                source.data,
                given,
                chosen.query,
                params_form="strict",
                branch=chosen.branch or _MAIN,
                source_name=source.name,
            )
        except QueryLaneError as problem:
            hint = f"say mutation: true under aliases.{name} in {config.path} to let it write"
            raise QueryLaneError(problem.message, details=problem.details, hint=hint) from problem
        write_result(result, form, sys.stdout)
    return 0


def merge_parameters(alias: Alias, arguments: Sequence[str], given: Any) -> Any:
    """Return the parameters of a call: those given by name over those by position over those of the alias.

    Raises:
        UsageError: there are more arguments than the alias has names for, or one is no text.
    """
    if len(arguments) > len(alias.args):
        names = ", ".join(alias.args)
        raise UsageError(
            f"alias '{alias.name}' is given too many arguments most={len(alias.args)} actual={len(arguments)}",
            details=BadValue(what="arguments", value=arguments[len(alias.args)], expected=names or "no arguments"),
            hint=f"its arguments are {names}" if names else "it takes none; parameters can be given with --params",
        )
    if not (given is None or isinstance(given, dict)):
        # Parameters that are no object are refused with everybody else's, where the query is known.
        return given
    positional = {name: parameter_value(text, "an argument") for name, text in zip(alias.args, arguments, strict=False)}
    merged: Mapping[str, Any] = {**alias.params, **positional, **(given or {})}
    return merged or None


def _bound(config: OperatorConfig, alias: Alias) -> tuple[str, str]:
    """Return the storage and the file of an alias."""
    if alias.server is not None:
        raise unsupported_scope(f"alias '{alias.name}' leads to server '{alias.server}'", alias.server)
    if (alias.store is None) == (alias.profile is None):
        raise alias.problem("does not bind exactly one of store and profile", expected="store or profile")
    if alias.graph is not None:
        raise alias.problem("has a graph, which only a server has several of", expected="store or profile alone")
    if alias.file is None:
        raise alias.problem("names no file that holds its query", expected="file")
    if alias.mutation and alias.format is not None:
        raise alias.problem("is a mutation, which writes no rows and has no format", expected="one of the two")
    if alias.store is not None:
        return alias.store, alias.file
    return find_named(config, "profile", alias.profile or "").scope().storage(), alias.file


def _mutate(config: OperatorConfig, alias: Alias, store: str, file: str, given: Any, *, as_json: bool) -> int:
    source, branch = read_input(file), alias.branch or _MAIN
    with open_graph(store) as session:
        result = session.mutate(
            source.data,
            given,
            alias.query,
            params_form="strict",
            branch=branch,
            actor=config.actor,
            source_name=source.name,
        )
    choose_output(as_json=as_json).show(MutationReport(branch=branch, actor=config.actor, result=result))
    return 0


def _wants_json(form: Format | None, *, as_json: bool) -> bool:
    if form in {None, Format.JSON}:
        return as_json or form is Format.JSON
    details = BadValue(what="arguments", value="--format", expected="--json")
    raise UsageError("a mutation writes no rows and has no format", details=details, hint="leave --format out")
