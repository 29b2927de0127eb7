"""The ``omnigraph`` command: which commands there are, and the way in.

Every outcome of a command passes through :func:`run`. An error of ours exits with the code of its kind, a mistake in
the arguments is one of them (``invalid``, 2), an interrupt is 130 and a reader that went away is 141. What is none of
these is a bug of ours: it is reported as an internal error in one line, with the traceback only on request.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from io import UnsupportedOperation
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn, Protocol, cast

import typer
from typer.main import get_command

from omnigraph.cli.lazy import Capability, Entry, LazyGroup, new_app, own_process
from omnigraph.cli.output import Output, choose_output, write_interrupt, write_line
from omnigraph.cli.usage import usage_error
from omnigraph.distribution import VERSION
from omnigraph.errors import BadValue, FileAccessError, InternalError, OmnigraphError, UsageError

INTERRUPTED = 130
BROKEN_PIPE = 141
DEBUG_VARIABLE = "OMNIGRAPH_DEBUG"

# The parent of this class is what all argument errors share; it has a public name of its own only here.
_ARGUMENT_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
# Phrases of the library that people should not have to read, with what they mean.
_PHRASES = {
    r": Value error, ": ": ",
    r": Input should": ": it should",
    r"got unexpected extra arguments?(?:\(s\))? \((.*)\)": r"unexpected argument \1",
    r"\. Choose from:\s*": "; choose from ",
    r",\s*\n\s*": ", ",
}
# What scripts of earlier versions say, and what takes its place.
_EARLIER_OPTIONS = {
    "--alias": "use `omnigraph alias NAME`",
    "--config": "name the graph by --server, --store or --cluster; a saved one by --profile NAME",
    "--name": "pass the name of the query as the first argument: `omnigraph query NAME`",
    "--target": "name the graph by --server, --store or --cluster; a saved one by --profile NAME",
}
# What whoever takes our output may run into; the troubles of storage are errors of ours before they come here.
_OF_OUTPUT = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def run(command: Callable[[], int], argv: Sequence[str]) -> int:
    """Run ``command`` and return the exit code of the process; ``argv`` tells in which form errors are wanted."""
    # In a context of its own: a later command of the same process must not tell the commits of this one.
    return copy_context().run(_run, command, choose_output(as_json=wants_json(argv)))


def _run(command: Callable[[], int], output: Output) -> int:
    _replace_closed_streams()
    try:
        code = _attempt(command, output)
        # What is buffered must meet a closed pipe here, not while the interpreter shuts down.
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        from omnigraph.runtime.context import last_commit  # noqa: PLC0415 - help needs none of it

        write_interrupt(interrupt, last_commit())
        # A reader that is slow enough to be interrupted must not be waited for.
        _forget_stdout()
        return INTERRUPTED
    except OSError as problem:
        _forget_stdout()
        if isinstance(problem, BrokenPipeError):
            return BROKEN_PIPE
        return _fail(_output_error(problem), choose_output(as_json=False))
    return code


def wants_json(argv: Sequence[str]) -> bool:
    """Whether the arguments ask for JSON, even if they cannot be understood otherwise.

    >>> wants_json(["fmt", "--json", "a.pg"]), wants_json(["fmt", "--", "--json"])
    (True, False)
    """
    options = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in options


def _attempt(command: Callable[[], int], output: Output) -> int:
    try:
        return command()
    except OmnigraphError as error:
        return _fail(error, output)
    except _ARGUMENT_ERROR as mistake:
        return _fail(_usage_error(cast("_ArgumentError", mistake)), output)
    except Exception as bug:
        # Nothing may leave the outermost frame but what ends all output: trouble with it, and people.
        if isinstance(bug, typer.Abort) or (isinstance(bug, OSError) and bug.errno in _OF_OUTPUT):
            raise
        if os.environ.get(DEBUG_VARIABLE) == "1":
            traceback.print_exception(bug)
        return _fail(_internal_error(bug), output)


def _replace_closed_streams() -> None:
    # A stream that the caller has closed (``>&-``) is missing altogether, and every write would be a bug of ours.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process lives
            setattr(sys, name, nowhere)


def _forget_stdout() -> None:
    # Whatever the interpreter still wants to flush goes nowhere, instead of into another error. A program that runs
    # a command inside itself may have put something else in the stream's place.
    with suppress(UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output_error(problem: OSError) -> FileAccessError:
    why = (problem.strerror or str(problem)).lower()
    details = BadValue(what="file", value="<stdout>", expected="a writable destination")
    return FileAccessError(f"cannot write the output: {why}", details=details, hint="free some space and try again")


def _fail(error: OmnigraphError, output: Output) -> int:
    output.show_error(error)
    return error.kind.exit_code


class _ArgumentError(Protocol):
    """What an argument error offers in every version of the library."""

    message: str

    def format_message(self) -> str: ...


def _usage_error(mistake: _ArgumentError) -> UsageError:
    context = getattr(mistake, "ctx", None)
    path = context.command_path if context is not None else "omnigraph"
    message = mistake.format_message().rstrip(".")
    told = message[:1].lower() + message[1:]
    for phrase, meaning in _PHRASES.items():
        told = re.sub(phrase, meaning, told)
    hint = _EARLIER_OPTIONS.get(getattr(mistake, "option_name", "")) or f"see `{path} --help`"
    if told.startswith("unexpected argument") and path.endswith(" load"):
        hint = "name files with --data FILE, and files with rows of one type with --table TYPE=FILE"
    return usage_error(told, value=message, expected="the arguments of the command", hint=hint)


def _internal_error(bug: Exception) -> InternalError:
    first_line = (str(bug).splitlines() or [""])[0]
    return InternalError(
        f"unexpected {type(bug).__name__}: {first_line}",
        hint=f"this is a bug in omnigraph; report it with the traceback that {DEBUG_VARIABLE}=1 shows",
    )


PROGRAM = "omnigraph"

# Every command by its capability.
_COMMANDS: Mapping[Capability, Mapping[str, tuple[str, str]]] = {
    "any": {
        "load": ("data.load:app", "Load rows from files."),
        "export": ("data.export:app", "Write all rows to files that can be loaded again."),
        "query": ("data.query:query_app", "Run a read query."),
        "explain": ("data.query:explain_app", "Show how a query would run."),
        "mutate": ("data.mutate:app", "Insert, update and delete rows with a query."),
        "queries": ("data.queries:app", "List and check stored queries."),
        "embed": ("data.embed:app", "Compute vectors whose texts have changed."),
        "blob": ("data.blob:app", "Read the content of Blobs."),
        "algorithm": ("data.algorithm:app", "Run graph algorithms."),
        "shell": ("data.shell:app", "Query and change a graph interactively."),
        "branch": ("history.branch:app", "Create, list, merge and delete branches."),
        "proposal": ("history.proposal:app", "Propose, check, discuss and merge branches."),
        "commit": ("history.commit:app", "List and show commits, and what they changed."),
        "diff": ("history.commit:diff_app", "Show the differences between two states."),
        "changes": ("history.changes:app", "Follow the commits of a branch."),
        "tag": ("history.tag:app", "Create, list and delete tags, which name states."),
        "revert": ("history.commit:revert_app", "Undo one commit with a new one."),
        "blame": ("history.commit:blame_app", "Show which commits changed an entity."),
        "snapshot": ("history.commit:snapshot_app", "Show the commit and tables of a state."),
        "schema": ("graph.schema:app", "Show, propose, plan and apply schemas."),
        "mcp": ("graph.agents:app", "Serve a graph to AI agents over MCP."),
    },
    "served": {
        "graphs": ("local.servers:graphs_app", "List the graphs of a server."),
    },
    "direct": {
        "init": ("graph.init:init_app", "Create a graph from a schema."),
        "lint": ("graph.lint:lint_app", "Check a schema, and queries against it."),
        "serve": ("graph.serve:app", "Serve a graph over HTTP."),
        "pipeline": ("pipeline.group:app", "Declare, check and run pipelines that fill a graph."),
        "optimize": ("graph.maintenance:optimize_app", "Compact tables and bring indexes and projections up to date."),
        "cleanup": ("graph.maintenance:cleanup_app", "Reclaim the storage of old states."),
        "status": ("graph.maintenance:status_app", "Show the health of a graph, with advice."),
        "repair": ("graph.maintenance:repair_app", "Adopt or discard changes that other programs made to tables."),
        "migrate": ("graph.maintenance:migrate_app", "Upgrade the storage format of a graph."),
    },
    "control": {
        "cluster": ("cluster.group:app", "Declare clusters as code, and apply them."),
        "policy": ("local.policy:app", "Check, test and explain policy bundles."),
    },
    "local": {
        "alias": ("local.alias:app", "Run a named query from the operator config."),
        "fmt": ("local.fmt:fmt_app", "Rewrite schema and query files in canonical form."),
        "login": ("local.servers:login_app", "Store the token of a server."),
        "logout": ("local.servers:logout_app", "Remove the token of a server."),
        "profile": ("local.profile:app", "List and show the operator's profiles."),
        "completion": ("local.completion:app", "Print a shell completion script."),
        "version": ("local.version:version_app", "Show the package and storage format versions."),
    },
}
# Those that work on graphs of clusters by --cluster, too.
_ON_CLUSTERS = frozenset({"lint", "optimize", "cleanup", "status", "repair", "migrate", "queries"})
_LEGEND = (
    ("any", "These work on a graph, by its storage or through a server."),
    ("served", "These call a server."),
    ("direct", "These need direct access to a graph's storage; lint and schema plan also work on files."),
    ("control", "These work on a cluster: its directory, or the storage that it names; policy also works on files."),
    ("local", "These take no graph; alias uses the one set in the operator config."),
)


# What people who know Git, SQL or earlier versions try first.
_NO_WORKTREE = "a graph has no working copy: load and mutate commit at once"
_NO_REMOTE = "a graph has no remote copy: every command works on the graph that GRAPH, --store or --server names"
_FOREIGN: Mapping[str, str] = {
    "add": _NO_WORKTREE,
    "stage": _NO_WORKTREE,
    "stash": _NO_WORKTREE,
    "reset": "use `revert` to undo a commit",
    "restore": "use `revert` to undo a commit",
    "undo": "use `revert` to undo a commit",
    "checkout": "commands name their branch with --branch; use `branch create` for a new one",
    "switch": "commands name their branch with --branch; use `branch create` for a new one",
    "log": "use `commit list`",
    "history": "use `commit list`",
    "show": "use `commit show`, or `snapshot` for a state",
    "merge": "use `branch merge`, or `proposal merge`",
    "pr": "use `proposal`",
    "review": "use `proposal show` and `proposal check`",
    "approve": "use `proposal approve`",
    "rebase": "use `branch merge`",
    "cherry-pick": "use `branch merge`, or `diff` and `mutate` for a part of it",
    "push": _NO_REMOTE,
    "pull": _NO_REMOTE,
    "fetch": _NO_REMOTE,
    **dict.fromkeys(("backup", "clone", "copy", "dump"), "use `export`, then `init` and `load`, to copy a graph"),
    **dict.fromkeys(("describe", "info", "stats", "tables"), "use `status`, `snapshot` or `schema show`"),
    **dict.fromkeys(
        ("drop", "rm", "remove"),
        "use `branch delete` for a branch, `schema apply` for a type",
    ),
    **dict.fromkeys(("sql", "cypher", "gql", "gremlin"), "use `query`: omnigraph has a query language of its own"),
    "gc": "use `cleanup`",
    "fsck": "use `status`, and `repair` for what it finds",
    "create": "use `init` for a graph, `branch create` for a branch",
    "import": "use `load`",
    "ingest": "use `load`",
    "insert": "use `mutate`",
    "update": "use `mutate`",
    "delete": "use `mutate`, or `branch delete` for a branch",
    "change": "use `mutate`",
    "read": "use `query`",
    "select": "use `query`",
    "match": "use `query`",
    "migrate": "use `schema apply`",
    "vacuum": "use `cleanup`",
    "check": "use `lint`, or `proposal check`",
    "pagerank": "use `algorithm run`",
    "analytics": "use `algorithm list`",
    "algorithms": "use `algorithm list`",
}


class _Commands(LazyGroup):
    foreign = _FOREIGN
    entries: ClassVar[Mapping[str, Entry]] = {
        name: Entry(
            app=f"omnigraph.cli.commands.{app}",
            summary=summary,
            capability=capability,
            is_clustered=name in _ON_CLUSTERS,
        )
        for capability, commands in _COMMANDS.items()
        for name, (app, summary) in commands.items()
    }

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write what the marks of commands mean, and what else there is to know."""
        with formatter.section("Capabilities"):
            formatter.write_dl(_LEGEND)
        super().format_epilog(ctx, formatter)


_app = new_app(
    cls=_Commands,
    epilog=(
        "The graph is the first argument of every command on a graph, or --store, or --server with --graph; it is left "
        "out where --profile, OMNIGRAPH_STORE, OMNIGRAPH_PROFILE or the operator config names it. These options, --as, "
        "--yes, --quiet and --json may also stand before the command.\n\n"
        "Exit codes: 0 success, 1 a bug in omnigraph, 2 invalid input or usage, 3 conflict, 4 unexpected branch head, "
        "5 not found, 9 too large, 14 not supported in this version. The errors page of the docs lists them all."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        write_line(f"{PROGRAM} {VERSION}", sys.stdout)
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
    if argv is None:
        own_process()
    arguments = list(sys.argv[1:] if argv is None else argv)
    _write_utf8(sys.stdout)
    _write_utf8(sys.stderr)
    sys.exit(run(lambda: _invoke(arguments), arguments))


def _invoke(arguments: list[str]) -> int:
    command = get_command(_app)
    # Not through ``command.main``: it decides about interrupts and closed pipes before we can.
    try:
        with command.make_context(PROGRAM, arguments) as context:
            code = command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    return code if isinstance(code, int) else 0


def _write_utf8(stream: Any) -> None:
    # File names and sources may hold what the terminal's encoding cannot say; that must not become an error.
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
