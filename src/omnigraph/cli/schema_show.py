"""``omnigraph schema show``: prints the schema that a graph follows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.records import record

app = new_app()


@record
class SchemaReport:
    """A schema as it was written when it was accepted."""

    source: str

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"schema_source": self.source}

    def to_lines(self) -> Iterable[str]:
        """The text itself."""
        return self.source.removesuffix("\n").split("\n")

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@app.command()
def show(*, uri: Uri = None, store: Store = None, branch: Branch = "main", as_json: AsJson = False) -> int:
    """Print the schema that a branch of a graph follows, as it was written."""
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        source = session.snapshot(branch).state.schema.source
    choose_output(as_json=as_json).show(SchemaReport(source=source))
    return 0
