"""Options that several commands share, so that they read the same everywhere.

A command that takes ``--store`` works on a graph, and gets ``--profile`` here, so that no command has to declare it.
What a command does not take of the options about graphs is refused before anything else is looked at.

Options that always come together are the fields of a record. A command takes the record as one parameter and is
decorated with :func:`expand_options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.main import get_command

from omnigraph.cli.operator.config import choose_profile, default_actor
from omnigraph.cli.usage import usage_error
from omnigraph.records import record

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="The graph's storage: a path, file:// or s3://bucket/prefix."),
]
Uri = Annotated[str | None, typer.Argument(metavar="URI", help="The graph: a path, file:// or s3://bucket/prefix.")]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to work on.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Use the graph of this profile in the operator config.",
        callback=choose_profile,
        expose_value=False,
    ),
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="ACTOR",
        help="The actor to record; operator.actor of the operator config by default.",
        callback=default_actor,
    ),
]
DesiredSchema = Annotated[str, typer.Option("--schema", metavar="FILE", help="The new schema; - reads standard input.")]
AllowDataLoss = Annotated[bool, typer.Option("--allow-data-loss", help="Make drops permanent; this cannot be undone.")]
QueryName = Annotated[str | None, typer.Argument(metavar="NAME", help="The query to run, if the source holds several.")]
ReadBranch = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="The branch to read; main by default.")
]
AtSnapshot = Annotated[
    str | None,
    typer.Option("--snapshot", metavar="REF", help="Read an earlier state: a commit id, main~3, tag:v1 or @TIME."),
]
QueryFile = Annotated[
    str | None, typer.Option("--query", metavar="FILE", help="The file that holds the query; - reads standard input.")
]
QueryText = Annotated[str | None, typer.Option("--query-string", "-e", metavar="GQ", help="The text of the query.")]
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
Consent = Annotated[bool, typer.Option("--yes", help="Confirm an irreversible change to a remote graph.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Show at most N.")]
IfCommit = Annotated[
    str | None, typer.Option("--if-commit", metavar="ID", help="Change nothing unless the branch is at this commit.")
]


class ConflictRule(StrEnum):
    """What a write does when another writer changed rows that it was decided on."""

    RERUN = "rerun"
    REFUSE = "refuse"


OnConflict = Annotated[
    ConflictRule,
    typer.Option(
        "--on-conflict",
        help="If another writer changes rows this write depends on: rerun it on the new state, or refuse it.",
    ),
]
MaxAffected = Annotated[
    int | None,
    typer.Option("--max-affected", metavar="N", help="Change nothing if more than N entities would change."),
]
Message = Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="The commit message.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Only node or edge; may be repeated.")]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.")]
Ops = Annotated[
    list[str] | None, typer.Option("--op", metavar="OP", help="Only insert, update or delete; may be repeated.")
]
Resolve = Annotated[
    str | None,
    typer.Option(
        "--resolve", metavar="WAY", help="How to resolve rows changed on both sides: ours, theirs or properties."
    ),
]


@record
class ChangeFilter:
    """Which changes of entities are shown."""

    kinds: Kinds = None
    types: Types = None
    ops: Ops = None

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a request that lets only these changes through."""
        return {"kinds": self.kinds or (), "types": self.types or (), "ops": self.ops or ()}


def refuse_two_states(branch: str | None, snapshot: str | None) -> None:
    """Refuse a read of the newest state of a branch and of an earlier state at once.

    Raises:
        UsageError: both are given.
    """
    if branch is not None and snapshot is not None:
        raise usage_error("--branch and --snapshot cannot be combined", expected="one of them")


def expand_options(command: Callable[..., int]) -> Callable[..., int]:
    """Turn every parameter of a command that is a record into an option per field, in its place."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        parameters += [parameter.replace(annotation=hints[parameter.name])] if group is None else _options(group)

    @wraps(command)
    def call(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    # The argument parser reads both.
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": int}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # not known to type checkers
    return call


def _options(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )


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
