"""``omnigraph branch``: commands about branches."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.commands.history.conflicts import ConflictOptions
from omnigraph.cli.engines import SparkOptions, on_engine
from omnigraph.cli.graphs import ask_consent, echo_target, graph_address, open_graph
from omnigraph.cli.lazy import Entry, example, new_app, new_group
from omnigraph.cli.options import (
    Actor,
    AsJson,
    CommitOptions,
    Consent,
    GraphOptions,
    IfCommit,
    Quiet,
    expand_options,
)
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.errors import OmnigraphError
from omnigraph.operations import Backend
from omnigraph.operations.history import (
    CreateBranchRequest,
    DeleteBranchRequest,
    ListBranchesRequest,
    MergeRequest,
    PreviewMergeRequest,
)
from omnigraph.values.damage import DamagedRecord, damaged_json

app = new_group(
    "Create, list, merge and delete branches.",
    {
        "create": Entry(app=f"{__name__}:create_app", summary="Create a branch."),
        "list": Entry(app=f"{__name__}:list_app", summary="List the branches."),
        "merge": Entry(app=f"{__name__}:merge_app", summary="Merge a branch into another, schema and rows."),
        "delete": Entry(app=f"{__name__}:delete_app", summary="Delete a branch and its own commits."),
    },
)


create_app = new_app()


@create_app.command(epilog=example("omnigraph branch create crm draft"))
@expand_options
def create(
    *,
    graph: GraphOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The branch to create.")],
    source: Annotated[str, typer.Option("--from", metavar="BRANCH", help="The branch to start from.")] = "main",
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="REF", help="Start from this state: a commit, tag:NAME, BRANCH~N or @TIME."),
    ] = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Create a branch. It shares every row with its source until either is written to."""
    address = graph_address(graph)
    echo_target("branch create", address, is_quiet=quiet)
    with open_graph(address) as backend:
        made = backend.execute(CreateBranchRequest(name=name, source=source, at=at, actor=actor))
    origin = source if at is None else at
    report = PlainReport(
        document={"uri": address, "name": made.name, "from": origin, "actor_id": actor, "branch": made.to_json()},
        lines=[f"created branch {made.name} from {origin}"],
    )
    choose_output(as_json=as_json).show(report)
    return 0


delete_app = new_app()


@delete_app.command()
@expand_options
def delete(
    *,
    graph: GraphOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The branch to delete.")],
    actor: Actor = None,
    yes: Consent = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Permanently delete a branch and its own commits.

    Fails if another branch or a tag depends on it. An interrupted command can be repeated: it succeeds if the branch is
    already deleted.
    """
    address = graph_address(graph)
    ask_consent(f"deleting branch '{name}'", address, is_given=yes, as_json=as_json)
    echo_target("branch delete", address, is_quiet=quiet)
    with open_graph(address) as backend:
        backend.execute(DeleteBranchRequest(name=name, actor=actor))
    report = PlainReport(document={"uri": address, "name": name, "actor_id": actor}, lines=[f"deleted branch {name}"])
    choose_output(as_json=as_json).show(report)
    return 0


list_app = new_app()


@list_app.command("list", epilog=example("omnigraph branch list crm --verbose"))
@expand_options
def list_branches(
    *,
    graph: GraphOptions,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also show head, parent, commits ahead and behind, and the last actor.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """List the branches by name; with --verbose, JSON has an object per branch instead of its name."""
    with open_graph(graph_address(graph), mode="read_only") as backend:
        found = backend.execute(ListBranchesRequest())
    found = tuple(sorted(found, key=lambda status: status.name))
    report = PlainReport(
        document={
            "branches": [
                status.to_json() if verbose else str(status.name)
                for status in found
                if not isinstance(status, DamagedRecord)
            ],
            **damaged_json(found),
        },
        lines=[str(status) if verbose or isinstance(status, DamagedRecord) else str(status.name) for status in found],
    )
    choose_output(as_json=as_json).show(report)
    return 0


merge_app = new_app()


@merge_app.command(epilog=example("omnigraph branch merge crm draft --preview"))
@expand_options
def merge(  # noqa: PLR0913 - one for each option or group of options
    *,
    graph: GraphOptions,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge from.")],
    target: Annotated[str, typer.Option("--into", metavar="BRANCH", help="The branch to merge into.")] = "main",
    conflicts: ConflictOptions,
    spark_options: SparkOptions,
    preview: Annotated[bool, typer.Option("--preview", help="Show the result of the merge; change nothing.")] = False,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source afterwards, if nothing depends on it.")
    ] = False,
    commit: CommitOptions,
    expected_head: IfCommit = None,
    expected_source_head: Annotated[
        str | None,
        typer.Option("--if-source-commit", metavar="ID", help="Change nothing unless the source is at this commit."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Merge one branch into another in a single atomic commit, schema and rows against their common ancestor.

    Rows that both sides changed differently are conflicts unless --resolve or --resolve-with resolves them. Exits with
    code 3 on conflicts; --preview shows them and exits with code 0. To decide them one by one, write them to a file
    with --conflicts-out, fill in the resolution of each (ours, theirs, base, or {"value": ...}), and merge with
    --resolve-with. A completed merge exits with code 0, even if --delete-branch is refused. With --engine spark or a
    Spark setting, executors compare and write the rows.
    """
    spark = spark_options.request()
    address = graph_address(graph)
    output = choose_output(as_json=as_json)
    decided = conflicts.to_fields()
    command = ["branch", "merge", address, source, *(() if target == "main" else ("--into", target))]
    if preview:
        with open_graph(address, mode="read_only") as backend, on_engine(backend, spark) as engine:
            seen = engine.execute(PreviewMergeRequest(source=source, target=target, **decided))
        advice = conflicts.next_step(seen.conflicts, command) if seen.conflicts or conflicts.conflicts_out else None
        remarks = [] if advice is None else [f"hint: {advice}"]
        output.show(PlainReport(document=seen.to_json(), lines=list(seen.lines()), remarks=remarks))
        return 0
    echo_target("branch merge", address, is_quiet=quiet)
    with open_graph(address) as backend, conflicts.explaining(command):
        request = MergeRequest(
            source=source,
            target=target,
            **decided,
            **commit.to_fields(),
            expected_head=expected_head,
            expected_source_head=expected_source_head,
        )
        with on_engine(backend, spark) as engine:
            done = engine.execute(request)
        refusal = _delete(backend, source, commit.actor) if delete_branch else None
    is_deleted = delete_branch and refusal is None
    deletion = {"branch_deleted": is_deleted} if delete_branch else {}
    report = PlainReport(
        document={**done.to_json(), **deletion, **({} if refusal is None else {"branch_delete_error": refusal})},
        lines=[*done.lines(), *([f"deleted branch {source}"] if is_deleted else [])],
    )
    output.show(report)
    if refusal is not None:
        output.warn(f"branch {source} was not deleted: {refusal}")
    return 0


def _delete(backend: Backend, name: str, actor: str | None) -> str | None:
    """Delete the source; return why it is still there. The merge has landed, and that is what the exit code tells."""
    try:
        backend.execute(DeleteBranchRequest(name=name, actor=actor))
    except OmnigraphError as problem:
        return problem.message
    return None
