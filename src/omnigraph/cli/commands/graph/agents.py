"""``omnigraph mcp``: one graph for an agent, over standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.graphs import ServedAddress, graph_address, open_graph, read_catalog
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, GraphOptions, expand_options
from omnigraph.cli.usage import usage_error
from omnigraph.distribution import pip_install
from omnigraph.values import BranchName

if TYPE_CHECKING:
    from omnigraph.ir.stored_queries import StoredQueries
    from omnigraph.operations import Backend

app = new_app()

INSTALL = f"install it with `{pip_install('mcp')}`"


@app.command()
@expand_options
def mcp(
    *,
    graph: GraphOptions,
    branch: Annotated[
        str, typer.Option("--branch", metavar="NAME", help="The branch to read, and to start new branches from.")
    ] = "main",
    actor: Actor = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(
            "--queries",
            metavar="PATH",
            help="A .gq file with stored queries, or a folder of such files; may be repeated.",
        ),
    ] = None,
    query_tools: Annotated[
        int,
        typer.Option(
            "--query-tools",
            metavar="N",
            min=0,
            help='Maximum number of stored queries with @mcp("expose") that become tools.',
        ),
    ] = 20,
    allow_main: Annotated[
        bool, typer.Option("--allow-main", help="Allow changes of main and --branch without a person's consent.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Provide read-only tools.")] = False,
) -> int:
    """Serve a graph to an AI agent as tools, over the Model Context Protocol on standard input and output.

    The agent's client starts and stops this command. Writes go to a new branch below agents/ACTOR/ unless the agent
    names another. Writes to main or to --branch, and merges into them, need the consent of the person at the client,
    unless --allow-main is set.
    """
    address = graph_address(graph)
    read_branch = str(BranchName.parse(branch))
    from omnigraph.engine.results.frames import library  # noqa: PLC0415 - for agents alone

    library("mcp", hint=INSTALL, what="command")
    from omnigraph.mcp.local import LocalHost, serve_stdio  # noqa: PLC0415 - see above
    from omnigraph.operations.registry import RegistryBackend  # noqa: PLC0415 - see above

    if queries and isinstance(address, ServedAddress):
        raise usage_error(
            "--queries does not apply to a graph of a server",
            value=queries[0],
            expected="no --queries",
            hint="leave it out; the server has its own stored queries",
        )

    with open_graph(address, mode="read_only" if read_only else "read_write") as backend:
        is_remote = isinstance(address, ServedAddress)
        known = backend if is_remote else RegistryBackend(backend, _stored(backend, queries, read_branch))
        # A server knows by the token who writes, and refuses a name.
        writer = None if is_remote else actor
        host = LocalHost(
            known,
            actor=writer,
            branch=read_branch,
            is_read_only=read_only,
            query_tools=query_tools,
            asks=not allow_main,
        )
        serve_stdio(host)
    return 0


def _stored(backend: Backend, paths: list[str] | None, branch: str) -> StoredQueries:
    from omnigraph.ir.stored_queries import StoredQueries  # noqa: PLC0415 - for agents alone
    from omnigraph.operations.query_files import discover_queries  # noqa: PLC0415 - see above

    return StoredQueries.check(discover_queries(Path(), paths), read_catalog(backend, branch))
