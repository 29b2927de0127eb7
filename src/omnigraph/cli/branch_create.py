"""``omnigraph branch create``: begins a branch."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.guards import echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AsJson, Quiet, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport

app = new_app()


@app.command()
def create(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The branch to create.")],
    source: Annotated[str, typer.Option("--from", metavar="BRANCH", help="The branch to start from.")] = "main",
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="REF", help="Start from this state: a commit, tag:NAME, BRANCH~N or @TIME."),
    ] = None,
    uri: UriOption = None,
    store: Store = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Create a branch. It shares every row with its source until one of them is written to."""
    address = graph_address(uri, store)
    echo_target("branch create", address, is_quiet=quiet)
    with open_graph(address) as session:
        made = session.create_branch(name, source, at=at, actor=actor)
    origin = source if at is None else at
    report = PlainReport(
        document={"uri": address, "name": made.name, "from": origin, "actor_id": actor, "branch": made.to_json()},
        lines=[f"created branch {made.name} from {origin}"],
    )
    choose_output(as_json=as_json).show(report)
    return 0
