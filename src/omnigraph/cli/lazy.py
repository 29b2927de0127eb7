"""Groups that import the module of a command when it is used, and not before.

Help for a group is written from its table alone, which is why a summary stands there beside each module.

A command that takes ``--store`` works on a graph, and gets ``--profile`` beside it here, so that no command has to
declare it. All that a command does not take of these options is refused before anything else is looked at.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Literal, get_args

import typer
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.graphs import Profile, quick_imports
from omnigraph.cli.operator.config import unsupported_scope
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record

# How a command reaches a graph: wherever it is, by its storage alone, or not by its arguments.
Capability = Literal["any", "direct", "local"]


@record
class Entry:
    """A command: its application as ``module:name``, one line about it, and its capability."""

    app: str
    summary: str
    capability: Capability | None = None


class HelpfulGroup(TyperGroup):
    """A group that shows its help when it is given no argument at all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments of the group itself."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name, or say which one was probably meant."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            ctx.fail(f"no such command '{name}'; {advice}")
        return super().resolve_command(ctx, args)


class LazyGroup(HelpfulGroup):
    """A group whose commands stand in ``entries``."""

    entries: ClassVar[Mapping[str, Entry]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of help."""
        del ctx
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command called ``cmd_name``; None if there is no such one."""
        del ctx
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        with quick_imports():
            module, _, name = entry.app.partition(":")
            command = get_command(getattr(import_module(module), name))
        command.name = cmd_name
        if not isinstance(command, TyperGroup):
            add_profile(command)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name, and refuse options about graphs that are not its own."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            words = [*ctx.command_path.split()[1:], command.name or ""]
            refuse_flags(" ".join(words), command, rest)
        return name, command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands without importing any of them."""
        del ctx
        # Summaries of all sections stand below each other.
        width = max(map(len, self.entries))
        for capability in (None, *get_args(Capability)):
            listed = [item for item in self.entries.items() if item[1].capability == capability]
            if listed:
                with formatter.section("Commands" if capability is None else f"Commands ({capability})"):
                    formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in listed])


def new_app(**settings: Any) -> typer.Typer:
    """Return an application with the settings all of ours share: plain help, no completion flags."""
    shared: dict[str, Any] = {
        "cls": HelpfulGroup,
        "add_completion": False,
        "rich_markup_mode": None,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    return typer.Typer(**{**shared, **settings})


# In the order in which they are refused; each with what it is for.
_SCOPE_FLAGS: Mapping[str, str] = {
    "--server": "--server names a server",
    "--cluster": "--cluster names a cluster",
    "--graph": "--graph picks a graph of a server or a cluster",
    "--store": "--store names the storage of a graph",
    "--as": "--as names who writes",
    "--profile": "--profile names a graph by the operator config",
}
_SERVED = frozenset({"--server", "--cluster", "--graph"})
_REMOVED: Mapping[str, str] = {
    "--alias": "run it with `omnigraph alias NAME`",
    "--name": "give the name of the query by position, as in `omnigraph query NAME --query FILE`",
    "--target": "name the graph with --store or --profile",
    "--config": "name the graph with --store; what the old file held belongs into config.yaml of the operator",
}
_WITH_REMOVED = frozenset({"query", "mutate"})


def add_profile(command: Any) -> None:
    """Give a command that takes ``--store`` the option ``--profile`` too, right behind it."""
    places = [place for place, parameter in enumerate(command.params) if "--store" in parameter.opts]
    if places:
        command.params.insert(places[0] + 1, _profile_option())


def refuse_flags(path: str, command: Any, arguments: Sequence[str]) -> None:
    """Refuse options about graphs that a command does not take, and those that old versions took.

    Args:
        path: the words that name the command, without the program's.
        command: the command itself.
        arguments: what stands behind it.

    Raises:
        UsageError: the command does not take one of them.
        ScopeUnsupportedError: it would, in a version that knows servers and clusters.
    """
    taken = {name for parameter in command.params for name in parameter.opts}
    given = set(_given(arguments)) - taken
    if path in _WITH_REMOVED:
        for flag in (flag for flag in _REMOVED if flag in given):
            raise _refusal(f"{flag} was removed", flag, _REMOVED[flag])
    foreign = [flag for flag in _SCOPE_FLAGS if flag in given]
    if not foreign:
        return
    first = foreign[0]
    if "--store" in taken and first in _SERVED:
        raise unsupported_scope(_SCOPE_FLAGS[first], first)
    clauses = [_SCOPE_FLAGS[flag] for flag in (foreign if path == "alias" else foreign[:1])]
    do = "do" if len(clauses) > 1 else "does"
    message = f"`{path}` is a {_phrase(path, taken)} command; {', '.join(clauses)} and {do} not apply"
    raise _refusal(message, " ".join(foreign), _remedy(path, first, taken))


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
        return "the alias says which graph is meant; change it in the operator config"
    if path == "init":
        return "give the address of the graph by position"
    if flag == "--as" and "--store" in taken:
        return "leave it out; this command keeps no author"
    return f"leave {flag} out; this command opens no graph"


def _refusal(message: str, value: str, hint: str) -> UsageError:
    details = BadValue(what="arguments", value=value, expected="the options of the command")
    return UsageError(message, details=details, hint=hint)


def _profile_option() -> Any:
    app = typer.Typer(add_completion=False)

    @app.command()
    def declare(*, profile: Profile = None) -> None:
        del profile

    return next(parameter for parameter in get_command(app).params if "--profile" in parameter.opts)
