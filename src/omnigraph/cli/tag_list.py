"""``omnigraph tag list``: shows which tags there are."""

from __future__ import annotations

import json

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.txn.tags import Tag

app = new_app()


@app.command("list")
def list_tags(*, uri: UriOption = None, store: Store = None, as_json: AsJson = False) -> int:
    """List the tags by name, with the commits that they name."""
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        found = session.tags()
    report = PlainReport(document={"tags": [tag.to_json() for tag in found]}, lines=list(map(_line, found)))
    choose_output(as_json=as_json).show(report)
    return 0


def _line(tag: Tag) -> str:
    message = "" if tag.message is None else f" {json.dumps(tag.message, ensure_ascii=False)}"
    return f"{tag.name} {tag.commit_id}{message}"
