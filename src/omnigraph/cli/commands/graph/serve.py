"""``omnigraph serve``: one graph over HTTP."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.graphs import graph_address
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import GraphOptions, expand_options
from omnigraph.cli.output import write_line

if TYPE_CHECKING:
    from omnigraph.server.config import ServerSettings
    from omnigraph.server.identity import Identities

app = new_app()
# Who acts with the token that is made up.
_OWNER = "local"
_TOKEN_BITS = 192


@app.command()
@expand_options
def serve(
    *,
    graph: GraphOptions,
    bind: Annotated[
        str, typer.Option("--bind", metavar="HOST:PORT", help="Where to listen; port 0 takes any free one.")
    ] = "127.0.0.1:8080",
    queries: Annotated[
        list[str] | None,
        typer.Option(
            "--queries", metavar="PATH", help="A .gq file or a folder of them, to invoke by name; may repeat."
        ),
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="FILE", help="The policy bundle that decides who may do what.")
    ] = None,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Let every caller do everything, without a token.")
    ] = False,
) -> int:
    """Serve one graph over HTTP until interrupted.

    Prints OMNIGRAPH_LISTEN_ADDR=HOST:PORT once it listens; logs go to standard error. Unless the environment names
    tokens (OMNIGRAPH_SERVER_BEARER_TOKEN and its siblings), one is made up and printed as OMNIGRAPH_TOKEN=...; it may
    do everything that --policy allows its actor, local, or everything without a policy.
    """
    address = graph_address(graph)
    from omnigraph.server.cluster import query_files  # noqa: PLC0415 - the server's alone
    from omnigraph.server.config import ServerSettings, parse_bind, single_graph  # noqa: PLC0415 - see above
    from omnigraph.server.identity import Identities  # noqa: PLC0415 - see above
    from omnigraph.server.main import serve as run  # noqa: PLC0415 - see above

    host, port = parse_bind(bind)
    served = replace(
        single_graph(address),
        queries=query_files(Path(), queries),
        policy_file=None if policy is None else Path(policy),
    )
    settings = ServerSettings(graphs=(served,), host=host, port=port, unauthenticated=unauthenticated)
    identities = Identities.from_environment(os.environ)
    if identities.has_tokens or unauthenticated:
        return run(settings, identities)
    return _run_personal(settings)


def _run_personal(settings: ServerSettings) -> int:
    from omnigraph.runtime import Runtime  # noqa: PLC0415 - the server is loaded, and brings it
    from omnigraph.server.identity import Identities  # noqa: PLC0415 - see above
    from omnigraph.server.main import serve as run  # noqa: PLC0415 - see above

    token = f"{Runtime.system().randomness.bits(_TOKEN_BITS):048x}"
    identities: Identities = Identities.of({_OWNER: token}, source="the command line")

    def tell(url: str) -> None:
        write_line(f"OMNIGRAPH_TOKEN={token}", sys.stdout)
        graph_id = settings.graphs[0].graph_id
        write_line(f"serving {url}/graphs/{graph_id}; stop with Ctrl-C", sys.stderr)
        sys.stdout.flush()

    return run(replace(settings, is_personal=True), identities, listening=tell)
