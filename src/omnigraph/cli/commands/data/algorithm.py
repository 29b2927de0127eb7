"""``omnigraph algorithm``: graph algorithms, shown as rows or written as a property."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.commands.data.mutate import read_params
from omnigraph.cli.commands.data.query import (
    Memory,
    ResultFormat,
    RowFormat,
    RowLimit,
    Timeout,
    choose_format,
    query_limits,
    write_result,
)
from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.options import (
    AsJson,
    AtSnapshot,
    CommitOptions,
    ConflictRule,
    GraphOptions,
    IfCommit,
    MaxAffected,
    OnConflict,
    Param,
    ReadBranch,
    expand_options,
    refuse_two_states,
)
from omnigraph.cli.output import PlainReport, choose_output, write_line
from omnigraph.cli.usage import usage_error
from omnigraph.operations.algorithms import RunAlgorithmRequest, WriteAlgorithmRequest
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.engine.results import Result

app = new_group(
    "Run graph algorithms.",
    {
        "run": Entry(app=f"{__name__}:run_app", summary="Run an algorithm, and show or write its result."),
        "list": Entry(
            app=f"{__name__}:list_app", summary="List the algorithms and their parameters.", capability="local"
        ),
    },
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The algorithm, such as pagerank; `algorithm list` shows them all.")
]


@record
class AlgorithmOptions:
    """What an algorithm is told: options for what many of them take, and ``--param`` for the rest."""

    edges: Annotated[
        list[str] | None,
        typer.Option("--edges", metavar="TYPE", help="An edge type to follow, all by default; may be repeated."),
    ] = None
    weight: Annotated[
        str | None, typer.Option("--weight", metavar="PROPERTY", help="The property with the weights of edges.")
    ] = None
    direction: Annotated[
        str | None,
        typer.Option("--direction", metavar="WAY", help="The direction in which edges are followed: out, in or both."),
    ] = None
    sources: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="NODE", help="A node to start at: an id or Type:id; may be repeated."),
    ] = None
    target: Annotated[str | None, typer.Option("--target", metavar="NODE", help="The node that a path leads to.")] = (
        None
    )
    param: Param = None

    def params(self) -> dict[str, Any]:
        """Return the parameters by name.

        Raises:
            UsageError: one occurs twice, or not of its form.
        """
        named = {"weight": self.weight, "direction": self.direction, "sources": self.sources, "target": self.target}
        given = {name: value for name, value in named.items() if value}
        single = read_params(None, None, self.param or ()) or {}
        for name in sorted(given.keys() & single.keys()):
            raise usage_error(f"parameter '{name}' occurs twice", value=name, expected="an option or --param")
        return {**given, **single}


run_app = new_app()


@run_app.command("run")
@expand_options
def run_algorithm(  # noqa: PLR0913 - one parameter per option
    *,
    graph: GraphOptions,
    algorithm: Name,
    told: AlgorithmOptions,
    branch: ReadBranch = None,
    snapshot: AtSnapshot = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=0, help="Show the first N rows only.")
    ] = None,
    write: Annotated[
        str | None,
        typer.Option(
            "--write", metavar="PROPERTY", help="Write the result to this property, or Type.property, as one commit."
        ),
    ] = None,
    expected_head: IfCommit = None,
    on_conflict: OnConflict = ConflictRule.RERUN,
    max_affected: MaxAffected = None,
    commit: CommitOptions,
    limit_rows: RowLimit = None,
    timeout: Timeout = None,
    memory: Memory = None,
    form: RowFormat = None,
    as_json: AsJson = False,
) -> int:
    """Run a graph algorithm on a branch or on an earlier state.

    The result has a row for each node, sorted by value or by group. With --write, the values are stored in a property,
    which the schema must have; nodes that already have their value are not written.
    """
    refuse_two_states(branch, snapshot)
    if write is not None and snapshot is not None:
        raise usage_error("--write and --snapshot cannot be combined", expected="one of them")
    params = told.params()
    options = query_limits(memory=memory, timeout=timeout, max_rows=limit_rows)
    chosen = choose_format(as_json=as_json, given=form)
    shared: dict[str, Any] = {
        "algorithm": algorithm,
        "edges": told.edges or None,
        "params": params,
        "branch": "main" if branch is None else branch,
        "limit": limit,
        "options": options,
    }
    if write is None:
        asked = {"--message": commit.message, "--if-commit": expected_head, "--max-affected": max_affected}
        for flag, value in asked.items():
            if value is not None:
                raise usage_error(f"{flag} needs --write: without it nothing is committed", expected="--write as well")
        with open_graph(graph_address(graph), mode="read_only") as backend:
            _show(backend.execute(RunAlgorithmRequest(**shared, at=snapshot)), chosen)
        return 0
    request = WriteAlgorithmRequest(
        **shared,
        write=write,
        **commit.to_fields(),
        expected_head=expected_head,
        on_conflict=on_conflict.value,
        max_affected=max_affected,
    )
    with open_graph(graph_address(graph)) as backend:
        _show(backend.execute(request), chosen)
    return 0


def _show(result: Result, form: ResultFormat) -> None:
    write_result(result, form, sys.stdout)
    if result.written is not None and form not in {ResultFormat.JSON, ResultFormat.JSONL}:
        write_line(str(result.written), sys.stdout if form is ResultFormat.TABLE else sys.stderr)


list_app = new_app()


@list_app.command("list")
def list_algorithms(*, as_json: AsJson = False) -> int:
    """List the algorithms with their parameters, defaults and columns."""
    from omnigraph.engine.algorithms import ALGORITHMS  # noqa: PLC0415 - for arguments that make sense

    lines: list[str] = []
    for name, one in ALGORITHMS.items():
        lines.append(f"{name}: {one.summary}")
        lines += [f"  {given.name}{_default(given.default)}: {given.summary}" for given in one.parameters]
        lines.append(f"  → {', '.join(one.columns)}" + ("" if one.column is None else f"; --write writes {one.column}"))
    document = [
        {
            "name": name,
            "summary": one.summary,
            "parameters": [
                {
                    "name": given.name,
                    "default": list(given.default) if isinstance(given.default, tuple) else given.default,
                    "required": given.is_required,
                    "summary": given.summary,
                }
                for given in one.parameters
            ],
            "columns": list(one.columns),
            "writes": one.column,
        }
        for name, one in ALGORITHMS.items()
    ]
    choose_output(as_json=as_json).show(PlainReport(document={"algorithms": document}, lines=lines))
    return 0


def _default(value: Any) -> str:
    if value is None:
        return ""
    shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f" ({shown.lower() if isinstance(value, bool) else shown})"
