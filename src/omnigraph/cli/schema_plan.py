"""``omnigraph schema plan``: the steps to another schema, from a file or from a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from omnigraph.catalog import Catalog, assign_identities, compile_schema
from omnigraph.catalog.migration import MigrationPlan, plan_migration
from omnigraph.cli.files import read_input, refuse_second_stdin
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AllowDataLoss, AsJson, Branch, DesiredSchema, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.errors import BadValue, Kind, UsageError
from omnigraph.lang.pg import parse_schema
from omnigraph.records import record

# A plan between two files belongs to no graph; its ids only have to be told apart from each other.
_NO_GRAPH = "0" * 26

app = new_app()


@record
class SchemaPlanReport:
    """A migration plan. ``origin`` says where it starts: ``from`` a file, or a graph's ``uri`` and nothing else."""

    origin: dict[str, str]
    title: str
    plan: MigrationPlan

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            **self.origin,
            "supported": self.plan.is_supported,
            "step_count": len(self.plan.steps),
            "steps": [step.to_json() for step in self.plan.steps],
            "diagnostics": [diagnostic.to_json() for diagnostic in self.plan.diagnostics],
        }

    def to_lines(self) -> Iterable[str]:
        """The verdict and a line per step."""
        yield f"schema plan {self.title}"
        yield f"supported: {'yes' if self.plan.is_supported else 'no'}"
        yield self.plan.describe()

    def to_remarks(self) -> Iterable[str]:
        """A warning per hint that did nothing."""
        return [f"warning: {diagnostic}" for diagnostic in self.plan.diagnostics]


@app.command()
def plan(
    *,
    uri: Uri = None,
    accepted_path: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="Start from this schema instead of a graph's; - reads standard input."
        ),
    ] = None,
    desired_path: DesiredSchema,
    store: Store = None,
    branch: Branch = "main",
    allow_data_loss: AllowDataLoss = False,
    as_json: AsJson = False,
) -> int:
    """Show the steps from the schema of a graph, or of a file, to another one, without changing anything.

    Every step is listed, the refused ones too. Exits with 2 if one of them is refused.
    """
    if accepted_path is not None and (uri is not None or store is not None):
        raise UsageError(
            "--from and a graph exclude each other",
            details=BadValue(what="arguments", value="", expected="one of them"),
            hint="plan from a file or from a graph",
        )
    refuse_second_stdin([path for path in (accepted_path, desired_path) if path is not None])
    if accepted_path is None:
        address, accepted = _graph_schema(uri, store, branch)
        desired_file = read_input(desired_path)
        origin, title = {"uri": address}, f"for {address}"
    else:
        accepted_file, desired_file = read_input(accepted_path), read_input(desired_path)
        tree = parse_schema(accepted_file.data, accepted_file.name)
        accepted = assign_identities(compile_schema(tree), domain=_NO_GRAPH)
        origin = {"from": accepted_file.name, "to": desired_file.name}
        title = f"{accepted_file.name} -> {desired_file.name}"
    desired = parse_schema(desired_file.data, desired_file.name)
    found = plan_migration(accepted, desired, allow_data_loss=allow_data_loss)
    choose_output(as_json=as_json).show(SchemaPlanReport(origin=origin, title=title, plan=found))
    return 0 if found.is_supported else Kind.INVALID.exit_code


def _graph_schema(uri: str | None, store: str | None, branch: str) -> tuple[str, Catalog]:
    from omnigraph.cli.graphs import graph_address, open_graph  # noqa: PLC0415 - a plan between files needs no storage

    address = graph_address(uri, store)
    with open_graph(address, mode="read_only") as session:
        return address, session.catalog(branch)
