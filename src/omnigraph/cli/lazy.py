"""Groups that import the module of a command when it is used, and not before.

Help for a group is written from its table alone, which is why a summary stands there beside each module.
"""

from __future__ import annotations

import difflib
import gc
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar, Literal, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from omnigraph.records import record

# How a command reaches a graph: wherever it is, by its storage alone, as a part of a cluster, or not by its arguments.
Capability = Literal["any", "served", "direct", "control", "local"]
_HEADINGS: Mapping[Capability | None, str] = {
    None: "Commands",
    "any": "Commands on a graph (any)",
    "served": "Commands on a server (served)",
    "direct": "Commands on the storage of a graph (direct)",
    "control": "Commands on a cluster (control)",
    "local": "Commands without a graph (local)",
}


@record
class Entry:
    """A command: its application as ``module:name``, one line about it, and its capability.

    ``is_clustered`` says that it works on graphs of clusters, too.
    """

    app: str
    summary: str
    capability: Capability | None = None
    is_clustered: bool = False

    def load(self) -> Any:
        """Import the command."""
        module, _, name = self.app.partition(":")
        return get_command(getattr(import_module(module), name))


# Options that may stand before the command too, and whether a value follows them. They mean what they mean behind it.
_LEADING: Mapping[str, bool] = {
    "--server": True,
    "--cluster": True,
    "--graph": True,
    "--store": True,
    "--profile": True,
    "--as": True,
    "--yes": False,
    "--quiet": False,
    "--json": False,
}
_HELD = "omnigraph.leading_options"
_FEW_COMMANDS = 12


def split_leading(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options that stand before the name of the command, and what follows them.

    >>> split_leading(["--store", "g", "--json", "query", "--as", "me"])
    (['--store', 'g', '--json'], ['query', '--as', 'me'])
    """
    place = 0
    while place < len(arguments):
        flag, equals, _ = arguments[place].partition("=")
        if flag not in _LEADING:
            break
        place += 2 if _LEADING[flag] and not equals else 1
    return list(arguments[:place]), list(arguments[place:])


class HelpfulGroup(TyperGroup):
    """A group that shows its help when it is given no argument at all.

    ``foreign`` are words of other tools, with what to write here instead.
    """

    foreign: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments of the group itself."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name, or say which one was probably meant."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            if name in self.foreign:
                ctx.fail(f"no such command '{name}'; {self.foreign[name]}")
            near = difflib.get_close_matches(name, known, n=1)
            listed = f"; the commands are {', '.join(known)}" if len(known) <= _FEW_COMMANDS else ""
            ctx.fail(f"no such command '{name}'" + (f"; did you mean '{near[0]}'?" if near else listed))
        return super().resolve_command(ctx, args)


class LazyGroup(HelpfulGroup):
    """A group whose commands stand in ``entries``."""

    entries: ClassVar[Mapping[str, Entry]] = {}
    # What its commands are, unless they say otherwise themselves.
    capability: Capability | None = None
    is_clustered = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments of the group itself; options that stand before the command are kept for the command."""
        leading, rest = split_leading(args)
        ctx.meta[_HELD] = [*ctx.meta.get(_HELD, ()), *leading]
        return super().parse_args(ctx, rest)

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
            command = entry.load()
        command.name = cmd_name
        capability = entry.capability or self.capability
        is_clustered = entry.is_clustered or self.is_clustered
        if isinstance(command, LazyGroup):
            command.capability, command.is_clustered = capability, is_clustered
        elif not isinstance(command, TyperGroup):
            from omnigraph.cli.options import add_scope_options  # noqa: PLC0415 - the help of a group needs none of it

            add_scope_options(command, is_served=capability == "any", is_clustered=is_clustered)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name, and refuse options about graphs that are not its own."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            from omnigraph.cli.options import refuse_flags  # noqa: PLC0415 - the help of a group needs none of it

            rest = [*ctx.meta.get(_HELD, ()), *rest]
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
                with formatter.section(_HEADINGS[capability]):
                    formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in listed])


_PYTHON_TYPE = re.compile(r" <(?:list\[)?(?:str|int|float|bool|path|file|directory)(?: range)?\]?>")


class GraphCommand(TyperCommand):
    """A command whose first argument is the graph, unless something else names it."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, optional ones in brackets."""
        pieces = [str(self.options_metavar)]
        for argument in (one for one in self.get_params(ctx) if one.param_type_name == "argument"):
            name = str(argument.metavar or argument.name).upper()
            pieces.append(name if argument.required or name.startswith("[") else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the list of arguments and options without the names that Python has for their types."""
        write = formatter.write_dl
        formatter.write_dl = lambda rows, *given, **named: write(
            [(_PYTHON_TYPE.sub("", name), text) for name, text in rows], *given, **named
        )
        super().format_options(ctx, formatter)

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser of the arguments, which knows which of them is the graph."""
        from omnigraph.cli.options import place_graph  # noqa: PLC0415 - the help of a group needs none of it

        parser: Any = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_placed(args: list[str]) -> Any:
            given, rest, order = parse(args)
            return place_graph(self.params, given), rest, order

        parser.parse_args = parse_placed
        return parser


class _App(typer.Typer):
    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, **{"cls": GraphCommand, **settings})


def new_app(**settings: Any) -> typer.Typer:
    """Return an application with the settings all of ours share: plain help, no completion flags."""
    shared: dict[str, Any] = {
        "cls": HelpfulGroup,
        "add_completion": False,
        "rich_markup_mode": None,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    return _App(**{**shared, **settings})


def example(line: str) -> str:
    """Return the end of a help page that shows a command line as it is; a test runs all of them."""
    return f"\b\nExample:\n  {line}"


def new_group(about: str, entries: Mapping[str, Entry], kind: type[LazyGroup] = LazyGroup) -> typer.Typer:
    """Return an application of several commands, with ``about`` as its help."""
    app = new_app(cls=type(kind.__name__, (kind,), {"entries": entries}))

    @app.callback(help=about)
    def group() -> None:
        pass

    return app


class _Process:
    is_ours = False


_process = _Process()


def own_process() -> None:
    """Say that this process runs one command and ends: nothing that it has loaded need ever be collected.

    A command that a program runs inside itself leaves the program's heap alone: libraries report frozen objects as
    leaks when the program ends.
    """
    _process.is_ours = True


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what is imported inside as quickly as possible.

    pyarrow finds out whether pandas is installed by importing it, at the first value that it makes; that takes as long
    as pyarrow and Lance together. Inside, it finds none; :func:`show_pandas` tells it otherwise.
    """
    hiding = _HidesPandas()
    sys.meta_path.insert(0, hiding)
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(hiding)
        if was_collecting:
            if _process.is_ours:
                # Modules stay to the end: going through all of them once more would cost what was saved.
                gc.freeze()
            gc.enable()


def show_pandas() -> None:
    """Let pyarrow find pandas, for libraries that hand its frames over."""
    import pyarrow as pa  # noqa: PLC0415 - for those who have loaded it already

    with suppress(ImportError):
        pa.nulls(0).to_pandas()


class _HidesPandas:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name == "pandas":
            msg = f"{name} is left alone while a command starts"
            raise ModuleNotFoundError(msg, name=name)
        return None
