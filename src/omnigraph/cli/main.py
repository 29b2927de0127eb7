"""The ``omnigraph`` command: which commands there are, and the way in."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NoReturn

import typer
from typer.main import get_command

from omnigraph import __version__
from omnigraph.cli.exits import run, wants_json
from omnigraph.cli.lazy import Entry, LazyGroup, new_app
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


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        "init": Entry(module="omnigraph.cli.init", summary="Create a graph from a schema."),
        "load": Entry(module="omnigraph.cli.load", summary="Load rows from files."),
        "export": Entry(module="omnigraph.cli.export", summary="Write all rows to files that can be loaded again."),
        "query": Entry(module="omnigraph.cli.query", summary="Read rows by a query."),
        "explain": Entry(module="omnigraph.cli.explain", summary="Show how a query would be read."),
        "mutate": Entry(module="omnigraph.cli.mutate", summary="Insert, update and delete by a query."),
        "alias": Entry(module="omnigraph.cli.alias", summary="Run a query that the operator config names."),
        "branch": Entry(module="omnigraph.cli.branch", summary="Create, list, merge and delete branches."),
        "commit": Entry(module="omnigraph.cli.commit", summary="List and show commits, and what they changed."),
        "diff": Entry(module="omnigraph.cli.diff", summary="Show what differs between two states."),
        "changes": Entry(module="omnigraph.cli.changes", summary="Follow what is committed to a branch."),
        "tag": Entry(module="omnigraph.cli.tag", summary="Name states of a graph."),
        "revert": Entry(module="omnigraph.cli.revert", summary="Undo one commit by another."),
        "blame": Entry(module="omnigraph.cli.blame", summary="Show which commits changed an entity."),
        "snapshot": Entry(module="omnigraph.cli.snapshot", summary="Show what a state of the graph consists of."),
        "lint": Entry(module="omnigraph.cli.lint", summary="Check a schema, and queries against it."),
        "fmt": Entry(module="omnigraph.cli.fmt", summary="Rewrite schema and query files in canonical form."),
        "schema": Entry(module="omnigraph.cli.schema", summary="Show, plan and apply schemas."),
        "optimize": Entry(module="omnigraph.cli.optimize", summary="Compact tables and bring indexes up to date."),
        "cleanup": Entry(module="omnigraph.cli.cleanup", summary="Give back the storage of old states."),
        "status": Entry(module="omnigraph.cli.status", summary="Show how a graph fares, with advice."),
        "repair": Entry(module="omnigraph.cli.repair", summary="Settle what something else did to a table."),
        "profile": Entry(module="omnigraph.cli.profile", summary="List and show the operator's profiles."),
        "completion": Entry(module="omnigraph.cli.completion", summary="Print what completes commands in a shell."),
        "version": Entry(module="omnigraph.cli.version", summary="Show the versions of package and storage format."),
    }


_app = new_app(
    cls=_Commands,
    epilog=(
        "lint, fmt, schema plan --from, profile, completion and version open no graph. "
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
