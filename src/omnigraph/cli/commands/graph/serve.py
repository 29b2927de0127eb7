"""``omnigraph serve``: one graph over HTTP."""

from __future__ import annotations

import os
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import GraphOptions, StoredFiles, expand_options
from omnigraph.cli.output import write_line
from omnigraph.records import record
from omnigraph.runtime import Runtime

app = new_app()

_TOKEN_BITS = 256


@record
class ProviderOptions:
    """An identity provider whose tokens are accepted."""

    oidc_issuer: Annotated[
        str | None, typer.Option("--oidc-issuer", metavar="URL", help="Accept tokens of this OpenID Connect provider.")
    ] = None
    oidc_audience: Annotated[
        str | None,
        typer.Option("--oidc-audience", metavar="NAME", help="The audience that tokens must have."),
    ] = None
    oidc_jwks_url: Annotated[
        str | None,
        typer.Option(
            "--oidc-jwks-url",
            metavar="URL",
            help="The URL of the signing keys, if not the one in the provider's metadata.",
        ),
    ] = None
    oidc_actor_claim: Annotated[
        str | None,
        typer.Option(
            "--oidc-actor-claim", metavar="CLAIM", help="The claim with the name of the actor; sub by default."
        ),
    ] = None
    oidc_groups_claim: Annotated[
        str | None,
        typer.Option(
            "--oidc-groups-claim", metavar="CLAIM", help="The claim with the list of groups; groups by default."
        ),
    ] = None

    def variables(self) -> dict[str, str]:
        """Return what is given, by the variables of the environment that say the same."""
        from omnigraph.server.access.oidc import OPTIONS  # noqa: PLC0415 - the server's alone

        names = (variable for variable, _ in OPTIONS.values())
        given = (getattr(self, field.name) for field in fields(self))
        return {name: value for name, value in zip(names, given, strict=True) if value is not None}


@app.command()
@expand_options
def serve(
    *,
    graph: GraphOptions,
    bind: Annotated[
        str, typer.Option("--bind", metavar="HOST:PORT", help="The address to listen on; port 0 picks a free port.")
    ] = "127.0.0.1:8080",
    queries: StoredFiles = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="FILE", help="The policy bundle with the permissions of actors.")
    ] = None,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Run without authentication: every client may do everything.")
    ] = False,
    no_mcp: Annotated[bool, typer.Option("--no-mcp", help="Do not serve MCP at /mcp.")] = False,
    oidc: ProviderOptions,
) -> int:
    """Serve one graph over HTTP until interrupted.

    Prints OMNIGRAPH_LISTEN_ADDR=HOST:PORT once it listens; logs go to standard error. Without tokens in the
    environment, --policy and --oidc-issuer, a token is generated and printed first, as OMNIGRAPH_BEARER_TOKEN=TOKEN. It
    allows everything; client commands read it from that variable.
    """
    address = graph_address(graph, is_direct=True)
    from omnigraph.operations.query_files import discover_queries  # noqa: PLC0415 - for arguments that make sense
    from omnigraph.server.access.decisions import has_identities  # noqa: PLC0415 - the server's alone
    from omnigraph.server.config import ServerSettings, parse_bind, single_graph  # noqa: PLC0415 - see above
    from omnigraph.server.main import serve as run  # noqa: PLC0415 - see above

    host, port = parse_bind(bind)
    identity = oidc.variables()
    token = None
    if not unauthenticated and policy is None and not has_identities({**os.environ, **identity}):
        token = f"{Runtime.system().randomness.bits(_TOKEN_BITS):064x}"
        # Not to standard error, where logs go that other people read.
        write_line(f"OMNIGRAPH_BEARER_TOKEN={token}", sys.stdout)
    served = replace(
        single_graph(address),
        queries=discover_queries(Path(), queries),
        policy_file=None if policy is None else Path(policy),
    )
    settings = ServerSettings(
        graphs=(served,),
        host=host,
        port=port,
        unauthenticated=unauthenticated,
        identity=identity,
        owner_token=token,
        offers_agents=not no_mcp,
    )
    return run(settings)
