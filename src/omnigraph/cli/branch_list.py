"""``omnigraph branch list``: shows which branches there are."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.txn.branch_list import BranchStatus

app = new_app()


@app.command("list")
def list_branches(
    *,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show head, parent, commits ahead and behind, and the last actor too.")
    ] = False,
    uri: UriOption = None,
    store: Store = None,
    as_json: AsJson = False,
) -> int:
    """List the branches, main first, then by name."""
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        found = session.branches()
    report = PlainReport(
        document={"branches": [status.to_json() for status in found]},
        lines=[_told(status) if verbose else str(status.name) for status in found],
    )
    choose_output(as_json=as_json).show(report)
    return 0


def _told(status: BranchStatus) -> str:
    origin = "" if status.parent is None else f" parent={status.parent} ahead={status.ahead} behind={status.behind}"
    actor = "" if status.last_actor is None else f" last_actor={status.last_actor}"
    return f"{status.name} head={status.head.id}{origin}{actor}"
