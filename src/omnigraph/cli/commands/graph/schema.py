"""``omnigraph schema``: commands about schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from omnigraph.catalog import assign_identities, compile_schema
from omnigraph.catalog.migration import MigrationPlan, plan_migration
from omnigraph.cli.files import read_input, refuse_second_stdin
from omnigraph.cli.graphs import ServedAddress, echo_target, graph_address, open_graph
from omnigraph.cli.lazy import Entry, LazyGroup, example, new_app, new_group
from omnigraph.cli.options import (
    AllowDataLoss,
    AsJson,
    AtSnapshot,
    Branch,
    CommitOptions,
    DesiredSchema,
    GraphOptions,
    Quiet,
    ReadBranch,
    expand_options,
    refuse_two_states,
)
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.sources import TableOptions, read_sources
from omnigraph.cli.usage import usage_error
from omnigraph.errors import Kind
from omnigraph.lang.pg import parse_schema
from omnigraph.operations.reads import PlanSchemaRequest, ReadStateRequest
from omnigraph.operations.writes import ApplySchemaRequest
from omnigraph.records import record
from omnigraph.values import MAIN

_ALIASES = {"get": "show"}


class _Aliased(LazyGroup):
    """The commands about schemas; one of them has a second name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name, by its name or its alias."""
        return super().resolve_command(ctx, [_ALIASES.get(args[0], args[0]), *args[1:]])


app = new_group(
    "Show, propose, plan and apply schemas.",
    {
        "infer": Entry(
            app=f"{__name__}:infer_app",
            summary="Propose a schema for files.",
            capability="local",
        ),
        "plan": Entry(
            app=f"{__name__}:plan_app",
            summary="Show the steps of a migration.",
            capability="direct",
        ),
        "apply": Entry(
            app=f"{__name__}:apply_app",
            summary="Migrate a graph to a new schema, rows included.",
            capability="any",
        ),
        "show": Entry(
            app=f"{__name__}:show_app",
            summary="Print the schema of a graph.",
            capability="any",
        ),
    },
    _Aliased,
)


infer_app = new_app()


@infer_app.command(epilog=example("omnigraph schema infer people.jsonl"))
@expand_options
def infer(
    *,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILES]...", help="JSONL, CSV and Parquet files, folders and globs.")
    ] = None,
    table_options: TableOptions,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Read at most N rows of each file.")] = (
        100_000
    ),
    as_json: AsJson = False,
) -> int:
    """Propose a schema for files: types, nullability, keys and edges, each guess explained in a comment.

    Writes the schema to standard output and changes nothing. Check it before you use it.
    """
    # Reading files takes Arrow, which the other commands about schemas can do without.
    from omnigraph.engine.infer import propose_schema, sample_files  # noqa: PLC0415 - see above

    sources = read_sources(files or (), table_options, expected="FILES or --table TYPE=FILE")
    proposal = propose_schema(sample_files(sources, rows=rows))
    lines = proposal.text.removesuffix("\n").split("\n")
    choose_output(as_json=as_json).show(PlainReport(document=proposal.to_json(), lines=lines))
    return 0


apply_app = new_app()


@apply_app.command(epilog=example("omnigraph schema apply crm --schema crm2.pg"))
@expand_options
def apply(
    *,
    graph: GraphOptions,
    desired_path: DesiredSchema,
    branch: Branch = "main",
    allow_data_loss: AllowDataLoss = False,
    commit: CommitOptions,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Migrate a graph to a new schema: tables, rows and schema change in a single atomic commit.

    Added rules are checked against the existing rows. Without --allow-data-loss, earlier commits still have the dropped
    data. Exits with code 2 if a step is refused or a row breaks an added rule, 3 if another process wrote to a table
    that had to change.
    """
    address = graph_address(graph)
    desired = read_input(desired_path)
    if not isinstance(address, ServedAddress):
        from omnigraph.cluster.managed import refuse_managed  # noqa: PLC0415 - a server knows itself
        from omnigraph.store.location import Storage  # noqa: PLC0415 - see above

        refuse_managed(Storage.open(address), "apply a schema")
    echo_target("schema apply", address, is_quiet=quiet)
    with open_graph(address) as backend:
        request = ApplySchemaRequest(
            text=desired.data,
            branch=branch,
            allow_data_loss=allow_data_loss,
            **commit.to_fields(),
            source_name=desired.name,
        )
        result = backend.execute(request)
    lines = [
        f"schema apply for {address}",
        f"supported: {_word(result.supported)}",
        f"applied: {_word(result.applied)}",
        f"graph_manifest_version: {result.manifest_version}",
        *([f"- {step.describe()}" for step in result.steps] or ["no schema changes"]),
    ]
    remarks = [f"warning: {remark}" for remark in (*result.diagnostics, *result.warnings)]
    document = {"uri": address, **result.to_json()}
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines, remarks=remarks))
    return 0


def _word(value: bool) -> str:
    return "yes" if value else "no"


# A plan between two files belongs to no graph; its ids only have to be told apart from each other.
_NO_GRAPH = "0" * 26

plan_app = new_app()


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


@plan_app.command(epilog=example("omnigraph schema plan crm --schema crm2.pg"))
@expand_options
def plan(
    *,
    graph: GraphOptions,
    accepted_path: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="Start from this schema instead of a graph's; - reads standard input."
        ),
    ] = None,
    desired_path: DesiredSchema,
    branch: Branch = "main",
    allow_data_loss: AllowDataLoss = False,
    as_json: AsJson = False,
) -> int:
    """Show the steps that migrate a graph or a schema file to a new schema. Changes nothing.

    Every step is listed, including those that are refused. Exits with code 2 if a step is refused.
    """
    if accepted_path is not None and graph.given is not None:
        raise usage_error(
            "--from and a graph cannot be combined", expected="one of them", hint="plan from a file or from a graph"
        )
    refuse_second_stdin([path for path in (accepted_path, desired_path) if path is not None])
    if accepted_path is None:
        address, desired_file = graph_address(graph, is_direct=True), read_input(desired_path)
        with open_graph(address, mode="read_only") as backend:
            request = PlanSchemaRequest(
                text=desired_file.data,
                branch=branch,
                allow_data_loss=allow_data_loss,
                source_name=desired_file.name,
            )
            found = backend.execute(request)
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


show_app = new_app()


@show_app.command()
@expand_options
def show(
    *, graph: GraphOptions, branch: ReadBranch = None, snapshot: AtSnapshot = None, as_json: AsJson = False
) -> int:
    """Print the schema of a branch or of an earlier state, as it was written."""
    refuse_two_states(branch, snapshot)
    with open_graph(graph_address(graph), mode="read_only") as backend:
        state = backend.execute(ReadStateRequest(branch=branch or MAIN, at=snapshot)).state
        source = state.schema.source
    choose_output(as_json=as_json).show(
        PlainReport(document={"schema_source": source}, lines=source.removesuffix("\n").split("\n"))
    )
    return 0
