"""``omnigraph status``: how a graph fares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from omnigraph.cli.counted import counted
from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.engine.maintenance.status import GraphStatus, TableStatus

app = new_app()

Storage = Annotated[
    bool, typer.Option("--storage", help="Look at every stored file, too; takes longer the more states are kept.")
]


@app.command()
def status(
    *, uri: Uri = None, store: Store = None, branch: Branch = "main", storage: Storage = False, as_json: AsJson = False
) -> int:
    """Show rows, fragments, index coverage and writes under way, with advice. Nothing is written."""
    address = graph_address(uri, store)
    with open_graph(address, mode="read_only") as session:
        found = session.status(branch, storage=storage)
    document = {
        "uri": address,
        "branch": found.branch,
        "graph_commit_id": found.head,
        "graph_manifest_version": found.manifest_version,
        "commits": found.commits,
        "branches": found.branches,
        "tags": found.tags,
        "pending": list(found.pending),
        "stored_bytes": found.stored_bytes,
        "dead_bytes": found.dead_bytes,
        "datasets": [table.to_json() for table in found.tables],
        "advice": list(found.advice),
    }
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=list(_lines(found))))
    return 0


def _lines(found: GraphStatus) -> Iterator[str]:
    branches, tags = counted(found.branches, "branch", "branches"), counted(found.tags, "tag")
    yield f"branch {found.branch}: {counted(found.commits, 'commit')}, {branches}, {tags} in the graph"
    for table in found.tables:
        size = f"{counted(table.rows, 'row')}, {counted(table.fragments, 'fragment')}"
        yield f"{table.table_key}: {size}, {_coverage(table)}"
    if found.stored_bytes is not None:
        dead = "an unknown part" if found.dead_bytes is None else f"{found.dead_bytes} bytes"
        yield f"storage: {found.stored_bytes} bytes, {dead} of old states and left-overs"
    if found.pending:
        yield f"writes under way: {len(found.pending)}"
    for line in found.advice or ("all is well",):
        yield f"advice: {line}" if found.advice else line


def _coverage(table: TableStatus) -> str:
    current = sum(index.is_built and index.covered_rows == table.rows for index in table.indexes)
    return f"{current} of {counted(len(table.indexes), 'index', 'indexes')} current"
