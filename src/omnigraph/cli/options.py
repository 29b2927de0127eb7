"""Options that several commands share, so that they read the same everywhere.

A command that takes ``--store`` works on a graph, and gets ``--profile`` here, so that no command has to declare it.
What a command does not take of the options about graphs is refused before anything else is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from omnigraph.cli.operator.config import choose_profile, default_actor
from omnigraph.cli.usage import usage_error

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="The graph's storage: a path, file:// or s3://bucket/prefix."),
]
Uri = Annotated[str | None, typer.Argument(metavar="[URI]", help="The graph: a path, file:// or s3://bucket/prefix.")]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to work on.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="The graph with this name in the operator config.",
        callback=choose_profile,
        expose_value=False,
    ),
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="ACTOR",
        help="The actor recorded with the commit; the operator by default.",
        callback=default_actor,
    ),
]
DesiredSchema = Annotated[
    str, typer.Option("--schema", metavar="FILE", help="The schema to move to; - reads standard input.")
]
AllowDataLoss = Annotated[bool, typer.Option("--allow-data-loss", help="Make every drop hard, which cannot be undone.")]
QueryFile = Annotated[
    str | None, typer.Option("--query", metavar="FILE", help="The file that holds the query; - reads standard input.")
]
QueryText = Annotated[str | None, typer.Option("--query-string", "-e", metavar="GQ", help="The query itself.")]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters, as a JSON object.")]
ParamsFile = Annotated[
    str | None,
    typer.Option("--params-file", metavar="FILE", help="Parameters, as a JSON file; - reads standard input."),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="One parameter: JSON or plain text; may be repeated."),
]
UriOption = Annotated[
    str | None, typer.Option("--uri", metavar="URI", help="The graph: a path, file:// or s3://bucket/prefix.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not print which graph the command works on.")]
Consent = Annotated[bool, typer.Option("--yes", help="Confirm what cannot be undone, on a remote graph too.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="The maximum number to show.")]
IfCommit = Annotated[
    str | None, typer.Option("--if-commit", metavar="ID", help="Change nothing unless the branch is at this commit.")
]
Message = Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="The commit message.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Only node or edge; may be repeated.")]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.")]
Ops = Annotated[
    list[str] | None, typer.Option("--op", metavar="OP", help="Only insert, update or delete; may be repeated.")
]
Resolve = Annotated[
    str | None,
    typer.Option("--resolve", metavar="WAY", help="Resolve rows changed on both sides: ours, theirs or properties."),
]

# In the order in which they are refused; each with what it is for.
_SCOPE_FLAGS: Mapping[str, str] = {
    "--store": "--store names the storage of a graph",
    "--as": "--as names who writes",
    "--profile": "--profile names a graph by the operator config",
}


def add_profile(command: Any) -> None:
    """Give a command that takes ``--store`` the option ``--profile`` too, right behind it."""
    places = [place for place, parameter in enumerate(command.params) if "--store" in parameter.opts]
    if places:
        command.params.insert(places[0] + 1, _profile_option())


def refuse_flags(path: str, command: Any, arguments: Sequence[str]) -> None:
    """Refuse options about graphs that a command does not take.

    Args:
        path: the words that name the command, without the program's.
        command: the command itself.
        arguments: what stands behind it.

    Raises:
        UsageError: the command does not take one of them.
    """
    taken = {name for parameter in command.params for name in parameter.opts}
    given = set(_given(arguments)) - taken
    foreign = [flag for flag in _SCOPE_FLAGS if flag in given]
    if not foreign:
        return
    first = foreign[0]
    clauses = [_SCOPE_FLAGS[flag] for flag in (foreign if path == "alias" else foreign[:1])]
    do = "do" if len(clauses) > 1 else "does"
    message = f"`{path}` is a {_phrase(path, taken)} command; {', '.join(clauses)} and {do} not apply"
    raise usage_error(
        message, value=" ".join(foreign), expected="the options of the command", hint=_remedy(path, first, taken)
    )


def _given(arguments: Sequence[str]) -> Iterator[str]:
    for argument in arguments:
        if argument == "--":
            return
        if argument.startswith("--"):
            yield argument.partition("=")[0]


def _phrase(path: str, taken: set[str]) -> str:
    if path == "init":
        return "direct"
    return "graph" if "--store" in taken else "local"


def _remedy(path: str, flag: str, taken: set[str]) -> str:
    if path == "alias":
        return "the alias determines the graph; change it in the operator config"
    if path == "init":
        return "give the address of the graph by position"
    if flag == "--as" and "--store" in taken:
        return "leave it out; this command records no actor"
    return f"leave {flag} out; this command opens no graph"


def _profile_option() -> Any:
    app = typer.Typer(add_completion=False)

    @app.command()
    def declare(*, profile: Profile = None) -> None:
        del profile

    return next(parameter for parameter in get_command(app).params if "--profile" in parameter.opts)
