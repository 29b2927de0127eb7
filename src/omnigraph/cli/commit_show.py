"""``omnigraph commit show``: shows one commit."""

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
def show(
    *,
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit.")],
    uri: UriOption = None,
    store: Store = None,
    as_json: AsJson = False,
) -> int:
    """Show one commit, whichever branch has it; times are in microseconds since 1970."""
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        document = session.show(commit_id).to_json()
    lines = [f"{key}: {_text(value)}" for key, value in document.items() if value is not None]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    return 0


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
