"""The ``omnigraph`` command: which commands there are, and the way in."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NoReturn

import typer
from typer.main import get_command

from omnigraph import __version__
from omnigraph.cli.exits import run, wants_json
from omnigraph.cli.lazy import Capability, Entry, LazyGroup, new_app
from omnigraph.cli.output import choose_output, write_line

PROGRAM = "omnigraph"

# Spellings of old scripts, each with the words that replaced it.
_OLD_SPELLINGS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("check",): ("lint",),
    ("change",): ("mutate",),
    ("read",): ("query",),
    ("query", "lint"): ("lint",),
    ("query", "check"): ("lint",),
}

# Every command by its capability; its module has its name.
_COMMANDS: Mapping[Capability, Mapping[str, str]] = {
    "any": {
        "load": "Load rows from files.",
        "export": "Write all rows to files that can be loaded again.",
        "query": "Read rows by a query.",
        "explain": "Show how a query would be read.",
        "mutate": "Insert, update and delete by a query.",
        "branch": "Create, list, merge and delete branches.",
        "commit": "List and show commits, and what they changed.",
        "diff": "Show what differs between two states.",
        "changes": "Follow what is committed to a branch.",
        "tag": "Name states of a graph.",
        "revert": "Undo one commit by another.",
        "blame": "Show which commits changed an entity.",
        "snapshot": "Show what a state of the graph consists of.",
        "schema": "Show, plan and apply schemas.",
    },
    "direct": {
        "init": "Create a graph from a schema.",
        "lint": "Check a schema, and queries against it.",
        "optimize": "Compact tables and bring indexes up to date.",
        "cleanup": "Give back the storage of old states.",
        "status": "Show how a graph fares, with advice.",
        "repair": "Settle what something else did to a table.",
    },
    "local": {
        "alias": "Run a query that the operator config names.",
        "fmt": "Rewrite schema and query files in canonical form.",
        "profile": "List and show the operator's profiles.",
        "completion": "Print what completes commands in a shell.",
        "version": "Show the versions of package and storage format.",
    },
}
_LEGEND = (
    ("any", "Works on a graph; in this version by its storage."),
    ("direct", "Works on the storage of a graph; lint and schema plan also on files alone."),
    ("local", "Takes no graph; alias opens the one that the operator config names."),
    ("served, control", "Servers and clusters; no command of this version."),
)


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        name: Entry(module=f"omnigraph.cli.{name}", summary=summary, capability=capability)
        for capability, commands in _COMMANDS.items()
        for name, summary in commands.items()
    }

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write what the marks of commands mean, and what else there is to know."""
        with formatter.section("Capabilities"):
            formatter.write_dl(_LEGEND)
        super().format_epilog(ctx, formatter)


_app = new_app(
    cls=_Commands,
    epilog=(
        "Exit codes: 0 success, 2 invalid input or usage, 3 conflict, 4 another head than expected, "
        "5 not found, 9 too large, 14 not in this version, 1 a bug in omnigraph; the errors page lists them all."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        write_line(f"{PROGRAM} {__version__}", sys.stdout)
        raise typer.Exit


@_app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", "-v", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A typed property-graph database on open Lance tables."""
    del version


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command that the arguments name and end the process with its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _write_utf8(sys.stdout)
    _write_utf8(sys.stderr)
    sys.exit(run(lambda: _invoke(arguments), arguments))


def _invoke(arguments: list[str]) -> int:
    command = get_command(_app)
    # Not through ``command.main``: it decides about interrupts and closed pipes before we can.
    try:
        with command.make_context(PROGRAM, _modern(arguments)) as context:
            code = command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    return code if isinstance(code, int) else 0


def _modern(arguments: list[str]) -> list[str]:
    for old, replacement in _OLD_SPELLINGS.items():
        if tuple(arguments[: len(old)]) == old:
            message = f"`{PROGRAM} {' '.join(old)}` is deprecated; use `{PROGRAM} {' '.join(replacement)}`"
            choose_output(as_json=wants_json(arguments)).warn(message)
            return [*replacement, *arguments[len(old) :]]
    return arguments


def _write_utf8(stream: Any) -> None:
    # File names and sources may hold what the terminal's encoding cannot say; that must not become an error.
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
