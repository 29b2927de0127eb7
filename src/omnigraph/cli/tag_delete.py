"""``omnigraph tag delete``: removes a tag."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport

app = new_app()


@app.command()
def delete(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag to delete.")],
    uri: UriOption = None,
    store: Store = None,
    as_json: AsJson = False,
) -> int:
    """Delete a tag. The state that it named may then be cleaned up."""
    with open_graph(graph_address(uri, store)) as session:
        gone = session.delete_tag(name)
    report = PlainReport(document=gone.to_json(), lines=[f"deleted tag {gone.name}"])
    choose_output(as_json=as_json).show(report)
    return 0
