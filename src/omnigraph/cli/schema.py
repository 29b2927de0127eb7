"""``omnigraph schema``: commands about schemas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from omnigraph.catalog import assign_identities, compile_schema
from omnigraph.catalog.migration import MigrationPlan, plan_migration
from omnigraph.cli.files import read_input, refuse_second_stdin
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import choose_output
from omnigraph.errors import Kind
from omnigraph.lang.pg import parse_schema

# A plan between two files belongs to no graph; its ids only have to be told apart from each other.
_NO_GRAPH = "0" * 26

app = new_app()


@app.callback()
def schema() -> None:
    """Plan changes of a schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlanReport:
    """A migration plan between two schema files."""

    from_name: str
    to_name: str
    plan: MigrationPlan

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "from": self.from_name,
            "to": self.to_name,
            "supported": self.plan.is_supported,
            "step_count": len(self.plan.steps),
            "steps": [step.to_json() for step in self.plan.steps],
            "diagnostics": [diagnostic.to_json() for diagnostic in self.plan.diagnostics],
        }

    def to_lines(self) -> Iterable[str]:
        """The verdict and a line per step."""
        yield f"schema plan {self.from_name} -> {self.to_name}"
        yield f"supported: {'yes' if self.plan.is_supported else 'no'}"
        yield self.plan.describe()

    def to_remarks(self) -> Iterable[str]:
        """A warning per hint that did nothing."""
        for diagnostic in self.plan.diagnostics:
            place = diagnostic.place
            yield f"warning: {place.source}:{place.line}:{place.column}: {diagnostic.message}"


@app.command()
def plan(
    *,
    accepted_path: Annotated[
        str, typer.Option("--from", metavar="FILE", help="The schema that is in use; - reads standard input.")
    ],
    desired_path: Annotated[
        str, typer.Option("--schema", metavar="FILE", help="The schema to move to; - reads standard input.")
    ],
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Make every drop a hard one, which cannot be undone.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the steps from one schema to another, without touching any graph.

    Every step is listed, the refused ones too. Exits with 2 if one of them is refused.
    """
    refuse_second_stdin([accepted_path, desired_path])
    accepted_file, desired_file = read_input(accepted_path), read_input(desired_path)
    accepted = assign_identities(compile_schema(parse_schema(accepted_file.data, accepted_file.name)), domain=_NO_GRAPH)
    desired = parse_schema(desired_file.data, desired_file.name)
    report = SchemaPlanReport(
        from_name=accepted_file.name,
        to_name=desired_file.name,
        plan=plan_migration(accepted, desired, allow_data_loss=allow_data_loss),
    )
    choose_output(as_json=as_json).show(report)
    return 0 if report.plan.is_supported else Kind.INVALID.exit_code
