"""``omnigraph init``: creates a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from omnigraph.cli.files import read_input
from omnigraph.cli.lazy import new_app
from omnigraph.cli.output import choose_output
from omnigraph.engine.open_graph import init_graph
from omnigraph.records import record
from omnigraph.store.location import Storage

init_app = new_app()


@record
class InitReport:
    """Where a graph was created."""

    uri: str

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"uri": self.uri}

    def to_lines(self) -> Iterable[str]:
        """One line."""
        return [f"initialized {self.uri}"]

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@init_app.command()
def init(
    *,
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="Where to create the graph: a path, file:// or s3://bucket/prefix.")
    ],
    schema: Annotated[str, typer.Option("--schema", metavar="FILE", help="The schema file; - reads standard input.")],
) -> int:
    """Create a graph with an empty table for each type of a schema.

    Fails if there is already a graph; leftovers of a failed attempt are not in the way.
    """
    source = read_input(schema)
    init_graph(Storage.open(uri), source.data, source_name=source.name)
    choose_output(as_json=False).show(InitReport(uri=uri))
    return 0
