"""``omnigraph snapshot``: shows which version of which dataset a state of the graph consists of."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.runtime import Counters
from omnigraph.txn.manifest.rows import TableEntry
from omnigraph.values import BranchName
from omnigraph.values.formats import STORAGE_FORMAT

app = new_app()


@app.command()
def snapshot(
    *,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    at: Annotated[
        str | None, typer.Option("--at", metavar="REF", help="This state: a commit, tag:NAME, BRANCH~N or @TIME.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show a state of the graph: its commit, and for every type the dataset, version and rows it consists of."""
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        if at is None:
            state = session.snapshot(branch).state
        else:
            state = session.store.past.resolve_ref(at, BranchName.parse(branch), Counters()).snapshot.state
    datasets = [_dataset(state.tables[key]) for key in sorted(state.tables)]
    document = {
        "graph_branch": state.head.branch,
        "graph_commit_id": state.head.commit,
        "graph_manifest_version": state.version,
        "internal_schema_version": STORAGE_FORMAT,
        "datasets": datasets,
    }
    lines = [f"{key}: {value}" for key, value in document.items() if key != "datasets"]
    lines += [" ".join(f"{key}={value}" for key, value in dataset.items() if value is not None) for dataset in datasets]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    return 0


def _dataset(entry: TableEntry) -> dict[str, Any]:
    return {
        "type_key": entry.table_key,
        "dataset_path": entry.pin.location,
        "dataset_branch": entry.pin.branch,
        "dataset_version": entry.pin.version,
        "row_count": entry.row_count,
    }
