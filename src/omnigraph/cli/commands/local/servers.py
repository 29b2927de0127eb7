"""``omnigraph login``, ``logout`` and ``graphs``: the servers of the operator."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.operator.config import operator_config
from omnigraph.cli.operator.credentials import write_token
from omnigraph.cli.operator.scope import ClusterScope, ServerScope, find_scope
from omnigraph.cli.options import AsJson, Profile, Server
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.usage import usage_error

ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The server, by its name in the operator config.")]

login_app = new_app()


@login_app.command()
def login(
    *,
    name: ServerName,
    token: Annotated[
        str | None,
        typer.Option("--token", metavar="TOKEN", help="The token; the first line of standard input if left out."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Store the token of a server in a file that only you can read."""
    _check_name(name)
    given = (sys.stdin.readline() if token is None else token).strip()
    if not given or not given.isprintable() or not given.isascii() or " " in given:
        raise usage_error(
            "the token is blank or has characters that are not allowed",
            what="token",
            expected="printable characters without blanks",
        )
    is_declared = name in operator_config().servers
    path = write_token(name, given)
    output = choose_output(as_json=as_json)
    if not is_declared:
        output.warn(f"no server '{name}' is defined in {operator_config().path}; add it under `servers`")
    document = {"server": name, "credentials_path": str(path), "declared": is_declared}
    output.show(PlainReport(document=document, lines=[f"stored the token of {name} in {path}"]))
    return 0


logout_app = new_app()


@logout_app.command()
def logout(*, name: ServerName, as_json: AsJson = False) -> int:
    """Remove the token of a server."""
    _check_name(name)
    path = write_token(name, None)
    document = {"server": name, "credentials_path": str(path)}
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=[f"removed the token of {name}"]))
    return 0


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable() or any(char in name for char in "[]#=/") or name != name.strip():
        raise usage_error(f"'{name}' is not the name of a server", what="server", value=name, expected="a plain name")


graphs_app = new_group(
    "The graphs of a server.",
    {"list": Entry(app=f"{__name__}:list_app", summary="List the graphs of a server.")},
)

list_app = new_app()


@list_app.command("list")
def list_served(*, server: Server = None, profile: Profile = None, as_json: AsJson = False) -> int:
    """List the graphs that a server lets you see."""
    del server, profile
    scope = find_scope(None)
    if not isinstance(scope, ServerScope):
        raise usage_error(
            "a cluster is not a server" if isinstance(scope, ClusterScope) else "a storage is not a server",
            what="server",
            value=scope.place if isinstance(scope, ClusterScope) else scope,
            expected="--server NAME",
            hint="name one with --server",
        )
    from omnigraph.cli.operator.asking import list_graphs  # noqa: PLC0415 - for arguments that make sense

    found = list_graphs(scope.url)
    lines = [f"{graph['graph_id']}\t{graph['uri']}" for graph in found]
    choose_output(as_json=as_json).show(PlainReport(document={"graphs": found}, lines=lines))
    return 0
