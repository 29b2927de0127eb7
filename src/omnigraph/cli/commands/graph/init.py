"""``omnigraph init``: creates a graph."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.files import read_input
from omnigraph.cli.graphs import graph_address
from omnigraph.cli.lazy import example, new_app
from omnigraph.cli.options import CommitOptions, GraphOptions, expand_options
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cluster.managed import refuse_managed
from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage

init_app = new_app()


@init_app.command(epilog=example("omnigraph init crm --schema crm.pg"))
@expand_options
def init(
    *,
    graph: GraphOptions,
    schema: Annotated[str, typer.Option("--schema", metavar="FILE", help="The schema file; - reads standard input.")],
    commit: CommitOptions,
) -> int:
    """Create a graph with an empty table for each type of a schema.

    Fails if a graph already exists there; leftovers of a failed attempt do not count as one.
    """
    uri = graph_address(graph, is_direct=True)
    source = read_input(schema)
    storage = Storage.open(uri)
    refuse_managed(storage, "create a graph here")
    init_graph(storage, source.data, source_name=source.name, **commit.to_fields())
    choose_output(as_json=False).show(PlainReport(document={"uri": uri}, lines=[f"initialized {uri}"]))
    return 0
