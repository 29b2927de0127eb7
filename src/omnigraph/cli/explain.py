"""``omnigraph explain``: the plan of a read, and what its steps really did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from omnigraph.cli.graphs import open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Param, Params, ParamsFile, QueryFile, QueryText, Store
from omnigraph.cli.output import choose_output
from omnigraph.cli.reads import (
    AtSnapshot,
    Memory,
    QueryName,
    ReadBranch,
    RowLimit,
    Timeout,
    Traversal,
    TraversalMode,
    read_options,
    read_request,
)
from omnigraph.engine.results import Explanation
from omnigraph.records import record

app = new_app()


@record
class ExplainReport:
    """A plan."""

    explanation: Explanation

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return self.explanation.to_json()

    def to_lines(self) -> Iterable[str]:
        """The plan, one step per line."""
        return self.explanation.describe().splitlines()

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@app.command()
def explain(  # noqa: PLR0913 - one parameter per option
    *,
    name: QueryName = None,
    query_path: QueryFile = None,
    query_text: QueryText = None,
    params: Params = None,
    params_path: ParamsFile = None,
    param: Param = None,
    store: Store = None,
    branch: ReadBranch = None,
    snapshot: AtSnapshot = None,
    limit_rows: RowLimit = None,
    timeout: Timeout = None,
    memory: Memory = None,
    mode: TraversalMode = Traversal.AUTO,
    run: Annotated[
        bool, typer.Option("--run", help="Run the query too, and show rows, calls and time of each step.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show how a query would be read, step by step, with the rows that each step is expected to have."""
    request = read_request(
        name=name,
        query_path=query_path,
        query_text=query_text,
        params=params,
        params_path=params_path,
        param=param,
        branch=branch,
        snapshot=snapshot,
        options=read_options(limit_rows, timeout, memory, mode),
    )
    with open_graph(store, mode="read_only") as session:
        explanation = session.explain(**request.arguments(), run=run)
    choose_output(as_json=as_json).show(ExplainReport(explanation=explanation))
    return 0
