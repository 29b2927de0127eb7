"""``omnigraph shell``: statements one after another, from a terminal or from standard input."""

from __future__ import annotations

import sys

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AtSnapshot, Branch, CommitOptions, GraphOptions, expand_options
from omnigraph.cli.shell.session import ShellSession
from omnigraph.cli.shell.statements import split_script

app = new_app()


@app.command()
@expand_options
def shell(
    *,
    graph: GraphOptions,
    branch: Branch = "main",
    snapshot: AtSnapshot = None,
    commit: CommitOptions,
) -> int:
    """Read and change a graph interactively, with completion and history; :help lists the commands of the shell.

    Without a terminal, statements are read from standard input, separated by semicolons or empty lines. The first one
    that fails ends the shell with the exit code of its error.
    """
    with open_graph(graph_address(graph)) as backend:
        session = ShellSession(backend=backend, **commit.to_fields())
        session.run(f":branch {branch}")
        if snapshot is not None:
            session.run(f":as-of {snapshot}")
        if not sys.stdin.isatty():
            code = run_script(session)
        else:
            from omnigraph.cli.shell.prompt import converse  # noqa: PLC0415 - for terminals

            code = converse(session)
        session.finish()
        return code


def run_script(session: ShellSession) -> int:
    """Run what standard input holds, up to the first error; return the exit code."""
    for text in split_script(sys.stdin):
        session.run(text)
        if session.is_over:
            break
    return 0
