"""``omnigraph schema apply``: brings a graph to another schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnigraph.cli.files import read_input
from omnigraph.cli.graphs import commit_to_json, graph_address, open_graph
from omnigraph.cli.guards import echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AllowDataLoss, AsJson, Branch, DesiredSchema, Quiet, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.engine.schema import SchemaApplyResult
from omnigraph.records import record

app = new_app()


@record
class SchemaApplyReport:
    """What applying a schema did, and where."""

    uri: str
    result: SchemaApplyResult

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        done = self.result
        return {
            "uri": self.uri,
            "supported": done.supported,
            "applied": done.applied,
            "step_count": len(done.steps),
            "graph_manifest_version": done.manifest_version,
            "steps": [step.to_json() for step in done.steps],
            "diagnostics": [diagnostic.to_json() for diagnostic in done.diagnostics],
            "warnings": list(done.warnings),
            "commit": commit_to_json(done.commit),
        }

    def to_lines(self) -> Iterable[str]:
        """The verdict and a line per step."""
        done = self.result
        yield f"schema apply for {self.uri}"
        yield f"supported: {_word(done.supported)}"
        yield f"applied: {_word(done.applied)}"
        yield f"graph_manifest_version: {done.manifest_version}"
        yield from [f"- {step.describe()}" for step in done.steps] or ["no schema changes"]

    def to_remarks(self) -> Iterable[str]:
        """A warning per hint that did nothing, and what did not work out after the commit."""
        return [f"warning: {remark}" for remark in (*self.result.diagnostics, *self.result.warnings)]


@app.command()
def apply(
    *,
    uri: Uri = None,
    desired_path: DesiredSchema,
    store: Store = None,
    branch: Branch = "main",
    allow_data_loss: AllowDataLoss = False,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Bring a graph to another schema: tables, rows and schema change in one commit, or nothing does.

    Rules that are added are checked against the rows there are. Drops are soft unless --allow-data-loss is given:
    earlier commits still show what was dropped. Exits with 2 if a step is refused or a row breaks an added rule, with 3
    if somebody else wrote to a table that had to be changed.
    """
    address = graph_address(uri, store)
    desired = read_input(desired_path)
    echo_target("schema apply", address, is_quiet=quiet)
    with open_graph(address) as session:
        result = session.apply_schema(
            desired.data, branch=branch, allow_data_loss=allow_data_loss, actor=actor, source_name=desired.name
        )
    choose_output(as_json=as_json).show(SchemaApplyReport(uri=address, result=result))
    return 0


def _word(value: bool) -> str:
    return "yes" if value else "no"
