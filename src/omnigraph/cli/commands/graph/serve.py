"""``omnigraph serve``: one graph over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import GraphOptions, expand_options

app = new_app()


@app.command()
@expand_options
def serve(
    *,
    graph: GraphOptions,
    bind: Annotated[
        str, typer.Option("--bind", metavar="HOST:PORT", help="Where to listen; port 0 takes any free one.")
    ] = "127.0.0.1:8080",
) -> int:
    """Serve one graph over HTTP until interrupted.

    Prints OMNIGRAPH_LISTEN_ADDR=HOST:PORT once it listens; logs go to standard error.
    """
    address = graph_address(graph)
    from omnigraph.server.config import ServerSettings, parse_bind, single_graph  # noqa: PLC0415 - the server's alone
    from omnigraph.server.main import serve as run  # noqa: PLC0415 - see above

    host, port = parse_bind(bind)
    return run(ServerSettings(graphs=(single_graph(address),), host=host, port=port, unauthenticated=True))
