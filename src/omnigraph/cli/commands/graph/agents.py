"""``omnigraph mcp``: one graph for an agent, over standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import ServedAddress, graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, GraphOptions, expand_options
from omnigraph.values import BranchName

app = new_app()

INSTALL = "install omnigraph[mcp]"


@app.command()
@expand_options
def mcp(
    *,
    graph: GraphOptions,
    branch: Annotated[
        str, typer.Option("--branch", metavar="NAME", help="The branch that is read, and where fresh branches begin.")
    ] = "main",
    actor: Actor = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no tool that writes.")] = False,
) -> int:
    """Offer a graph to an agent as tools, over the Model Context Protocol on standard input and output.

    A client starts this command and stops it. What the agent writes goes to a fresh branch below agents/ACTOR/ unless
    it names another; a merge into main, or into --branch, asks the person at the client first.
    """
    address = graph_address(graph)
    read_branch = str(BranchName.parse(branch))
    from omnigraph.engine.results.frames import library  # noqa: PLC0415 - for agents alone

    library("mcp", hint=INSTALL, what="command")
    from omnigraph.mcp.local import LocalHost, serve_stdio  # noqa: PLC0415 - see above

    with open_graph(address, mode="read_only" if read_only else "read_write") as backend:
        # A server knows by the token who writes, and refuses a name.
        writer = None if isinstance(address, ServedAddress) else actor
        serve_stdio(LocalHost(backend, actor=writer, branch=read_branch, is_read_only=read_only))
    return 0
