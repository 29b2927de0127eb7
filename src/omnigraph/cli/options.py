"""Options that several commands share, so that they read the same everywhere.

A command that works on a graph takes :class:`GraphOptions` first, and gets ``--profile`` here, so that none has to
declare it. Which of its arguments is the graph is decided by :func:`place_graph` for all of them alike. What a command
does not take of the options about graphs is refused before anything else is looked at.

Options that always come together are the fields of a record. A command takes the record as one parameter and is
decorated with :func:`expand_options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.main import get_command

from omnigraph.cli.operator.scope import (
    WAYS,
    choose_actor,
    choose_cluster,
    choose_graph,
    choose_profile,
    choose_server,
    has_remembered_scope,
)
from omnigraph.cli.usage import usage_error
from omnigraph.records import record

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="The graph's storage: a path, file:// or s3://bucket/prefix."),
]
GraphArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH",
        show_default=False,
        help="The graph: a path, file:// or s3://bucket/prefix. Left out if --store, --profile, OMNIGRAPH_STORE, "
        "OMNIGRAPH_PROFILE or the operator config names it.",
    ),
]
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
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="NAME",
        help="A server: its name in the operator config, or its address.",
        callback=choose_server,
        expose_value=False,
    ),
]
ServedGraph = Annotated[
    str | None,
    typer.Option("--graph", metavar="ID", help="The graph of the server.", callback=choose_graph, expose_value=False),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="A cluster: its name in the operator config, its directory or its storage root.",
        callback=choose_cluster,
        expose_value=False,
    ),
]
ClusterGraph = Annotated[
    str | None,
    typer.Option("--graph", metavar="ID", help="The graph of the cluster.", callback=choose_graph, expose_value=False),
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="ACTOR",
        help="The actor to record; operator.actor of the operator config by default.",
        callback=choose_actor,
    ),
]
DesiredSchema = Annotated[str, typer.Option("--schema", metavar="FILE", help="The new schema; - reads standard input.")]
AllowDataLoss = Annotated[bool, typer.Option("--allow-data-loss", help="Make drops permanent; this cannot be undone.")]
QueryName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The name of the query: one of several in a source, or a stored query."),
]
ReadBranch = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="The branch to read; main by default.")
]
AtSnapshot = Annotated[
    str | None,
    typer.Option("--snapshot", metavar="REF", help="Read an earlier state: a commit id, main~3, tag:v1 or @TIME."),
]
SnapshotSchema = Annotated[
    bool,
    typer.Option("--snapshot-schema", help="Read an earlier state with the schema of that time instead of today's."),
]
QueryFile = Annotated[
    str | None, typer.Option("--query", metavar="FILE", help="The file that holds the query; - reads standard input.")
]
QueryText = Annotated[str | None, typer.Option("--query-string", "-e", metavar="GQ", help="The text of the query.")]
StoredFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--queries", metavar="PATH", help="A .gq file with stored queries, or a folder of such files; may be repeated."
    ),
]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters, as a JSON object.")]
ParamsFile = Annotated[
    str | None,
    typer.Option("--params-file", metavar="FILE", help="Parameters, as a JSON file; - reads standard input."),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="One parameter: JSON or plain text; may be repeated."),
]
UriOption = Annotated[str | None, typer.Option("--uri", metavar="URI", help="The same as --store.", hidden=True)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not print which graph the command works on.")]
Consent = Annotated[bool, typer.Option("--yes", help="Confirm an irreversible change to a remote graph.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Show at most N.")]
IfCommit = Annotated[
    str | None, typer.Option("--if-commit", metavar="ID", help="Change nothing unless the branch is at this commit.")
]


BlobBases = Annotated[
    list[str] | None,
    typer.Option(
        "--blob-base",
        metavar="URI",
        help=(
            "Allow Blobs that are addresses below this prefix, s3://bucket/prefix/ or file:///folder/; may be repeated."
        ),
    ),
]


class ConflictRule(StrEnum):
    """What a write does when another writer changed rows that it was decided on."""

    RERUN = "rerun"
    REFUSE = "refuse"


OnConflict = Annotated[
    ConflictRule,
    typer.Option(
        "--on-conflict",
        help=(
            "What to do if another writer changes rows that this write depends on: rerun it on the "
            "new state, or refuse it."
        ),
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
class GraphOptions:
    """The graph of a command, by position or by option."""

    uri: GraphArgument = None
    store: Store = None
    uri_option: UriOption = None

    @property
    def given(self) -> str | None:
        """The address that the command line names, if any.

        Raises:
            UsageError: it names two.
        """
        named = [address for address in (self.uri, self.store, self.uri_option) if address is not None]
        if len(named) > 1:
            raise usage_error(
                "the graph is named twice", value=named[0], expected="GRAPH or --store", hint="pass its address once"
            )
        return named[0] if named else None


@record
class CommitOptions:
    """What a commit says beside what it changes."""

    message: Message = None
    actor: Actor = None

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a request that makes a commit."""
        return {"message": self.message, "actor": self.actor}


@record
class ChangeFilter:
    """Which changes of entities are shown."""

    kinds: Kinds = None
    types: Types = None
    ops: Ops = None

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a request that lets only these changes through."""
        return {"kinds": self.kinds or (), "types": self.types or (), "ops": self.ops or ()}


def place_graph(parameters: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Decide whether the first argument of a command is the graph, or the first of the command's own arguments.

    With more arguments than the command has of its own, the first is the graph. Otherwise it is the graph unless an
    option, the environment or the operator config names one. The name of a query is a word, so that what is none is
    the graph of a query.

    Args:
        parameters: what the command declares; :class:`GraphOptions` comes first.
        given: the values by parameter, arguments in the order of the command line.

    Raises:
        UsageError: nothing names the graph, and there are too few arguments for one to be it.
    """
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    if len(arguments) < 2 or arguments[0].name != "uri":
        return given
    names = [argument.name for argument in arguments]
    values = [given.get(name) for name in names]
    first, last = values[0], values[-1]
    # What stands for a missing value differs from version to version.
    if not isinstance(first, str) or isinstance(last, str):
        return given
    by_option = any(
        isinstance(given.get(name), str) for name in ("store", "uri_option", "profile", "server", "cluster")
    )
    if not by_option:
        if names[1] == "query_name" and not first.isidentifier():
            return given
        if not has_remembered_scope():
            _expect_both(arguments, values)
            return given
    return given | dict(zip(names, [last, *values[:-1]], strict=True))


def _expect_both(arguments: Sequence[Any], values: Sequence[Any]) -> None:
    missing = [one for one, value in zip(arguments, values, strict=True) if one.required and not isinstance(value, str)]
    if missing:
        raise usage_error(
            f"the graph or {missing[0].metavar} is missing",
            value=" ".join(value for value in values if isinstance(value, str)),
            expected=" ".join(["GRAPH", *(str(one.metavar) for one in arguments[1:] if one.required)]),
            hint=f"pass the graph first; {WAYS}",
        )


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
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )


# In the order in which they are refused; each with what it is for.
_SCOPE_FLAGS: Mapping[str, str] = {
    "--server": "--server names a server",
    "--cluster": "--cluster names a cluster",
    "--graph": "--graph names a graph of a server or a cluster",
    "--store": "--store names the storage of a graph",
    "--as": "--as names who writes",
    "--profile": "--profile names a graph by the operator config",
}


def add_scope_options(command: Any, *, is_served: bool, is_clustered: bool = False) -> None:
    """Give a command that takes ``--store`` the other options that name a graph, right behind it.

    Args:
        command: the command.
        is_served: whether it works on graphs of servers too.
        is_clustered: whether it works on graphs of clusters too.
    """
    places = [place for place, parameter in enumerate(command.params) if "--store" in parameter.opts]
    if places:
        wanted = {"--profile", *(("--server",) if is_served else ()), *(("--cluster",) if is_clustered else ())}
        if is_served or is_clustered:
            wanted.add("--graph")
        added = [parameter for parameter in _scope_options() if wanted.intersection(parameter.opts)]
        command.params[places[0] + 1 : places[0] + 1] = added


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
    is_control = "--config" in taken or ("--cluster" in taken and "--store" not in taken)
    phrase = (
        "graph" if "--server" in taken else "direct" if "--store" in taken else "control" if is_control else "local"
    )
    message = f"`{path}` is a {phrase} command; {', '.join(clauses)} and {do} not apply"
    raise usage_error(
        message, value=" ".join(foreign), expected="the options of the command", hint=_remedy(path, first, taken)
    )


def _given(arguments: Sequence[str]) -> Iterator[str]:
    for argument in arguments:
        if argument == "--":
            return
        if argument.startswith("--"):
            yield argument.partition("=")[0]


def _remedy(path: str, flag: str, taken: set[str]) -> str:
    if path == "alias":
        return "the alias determines the graph; change it in the operator config"
    if flag == "--as" and "--store" in taken:
        return "leave it out; this command records no actor"
    if flag == "--cluster" and "--server" in taken:
        return "use --server NAME --graph ID for a server of the cluster, or --store with the storage of the graph"
    if "--config" in taken:
        return "leave it out; --config names the directory of the cluster"
    if flag in {"--server", "--graph", "--cluster"} and "--store" in taken:
        return "it needs the storage of the graph; pass its address or --store"
    return f"leave {flag} out; this command opens no graph"


def _scope_options() -> list[Any]:
    app = typer.Typer(add_completion=False)

    @app.command()
    def declare(
        *, server: Server = None, cluster: Cluster = None, graph: ServedGraph = None, profile: Profile = None
    ) -> None:
        del server, cluster, graph, profile

    return [parameter for parameter in get_command(app).params if "--help" not in parameter.opts]
