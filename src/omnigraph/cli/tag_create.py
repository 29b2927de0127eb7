"""``omnigraph tag create``: names a state."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AsJson, Message, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport

app = new_app()


@app.command()
def create(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag to create.")],
    at: Annotated[
        str, typer.Option("--at", metavar="REF", help="The state: a branch, a commit, tag:NAME, BRANCH~N or @TIME.")
    ] = "main",
    message: Message = None,
    uri: UriOption = None,
    store: Store = None,
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """Name a state of the graph. It stays readable until the tag is deleted."""
    with open_graph(graph_address(uri, store)) as session:
        made = session.create_tag(name, at, actor=actor, message=message)
    report = PlainReport(document=made.to_json(), lines=[f"created tag {made.name} at {made.commit_id}"])
    choose_output(as_json=as_json).show(report)
    return 0
