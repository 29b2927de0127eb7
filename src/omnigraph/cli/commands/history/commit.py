"""``omnigraph commit``, ``blame``, ``diff``, ``revert`` and ``snapshot``: commits and the states they made."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from omnigraph.catalog.model import Catalog
from omnigraph.cli.commands.history.conflicts import ConflictOptions
from omnigraph.cli.engines import SparkOptions, on_engine
from omnigraph.cli.graphs import echo_target, graph_address, open_graph, read_catalog
from omnigraph.cli.lazy import Entry, example, new_app, new_group
from omnigraph.cli.options import (
    AsJson,
    Branch,
    ChangeFilter,
    CommitOptions,
    GraphOptions,
    IfCommit,
    Limit,
    Quiet,
    expand_options,
)
from omnigraph.cli.output import PlainReport, choose_output, write_line
from omnigraph.cli.usage import usage_error
from omnigraph.engine.accepted import catalog_of
from omnigraph.history.commit_graph import draw_commits
from omnigraph.history.diff.change import EntityChange
from omnigraph.history.diff.compare import DiffStats
from omnigraph.history.diff.lines import change_lines, counts_line
from omnigraph.history.feed.reader import CommitChanges
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.operations.history import (
    BlameRequest,
    CommitChangesRequest,
    DiffRequest,
    GetCommitRequest,
    LogRequest,
    RevertRequest,
)
from omnigraph.operations.reads import ReadStateRequest
from omnigraph.txn.manifest.rows import Commit, TableEntry
from omnigraph.values.temporal import format_datetime

app = new_group(
    "List and show commits, and what they changed.",
    {
        "list": Entry(app=f"{__name__}:list_app", summary="List commits, newest first."),
        "show": Entry(app=f"{__name__}:show_app", summary="Show one commit."),
        "changes": Entry(app=f"{__name__}:changes_app", summary="Show what one commit changed."),
    },
)


list_app = new_app()

_FILTERS = ("actor", "operation", "type")


@list_app.command("list", epilog=example("omnigraph commit list crm --limit 5"))
@expand_options
def list_commits(
    *,
    graph: GraphOptions,
    branch: Branch = "main",
    limit: Limit = 20,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="PLACE", help="Continue after this commit, or where an earlier page ended."),
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="FIELD=VALUE", help="Only commits with this actor, operation or type."),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Only commits since this time.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only commits until this time.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Include commits that came through merges.")] = False,
    graph_drawing: Annotated[bool, typer.Option("--graph", help="Draw the graph of commits; implies --full.")] = False,
    as_json: AsJson = False,
) -> int:
    """List the commits of a branch, newest first.

    With --full, the commits of merged branches are listed too, each after its merge, even if the branch was deleted.
    """
    wanted = _filters(filters or [])
    with open_graph(graph_address(graph), mode="read_only") as backend:
        request = LogRequest(
            branch=branch,
            limit=limit,
            after=after,
            actor=wanted.get("actor"),
            kind=wanted.get("operation"),
            type_name=wanted.get("type"),
            since=since,
            until=until,
            full=full or graph_drawing,
        )
        page = backend.execute(request)
    remarks = [] if page.following is None else [f"more: --after {page.following}"]
    lines = draw_commits(page.commits, _commit_line) if graph_drawing else list(map(_commit_line, page.commits))
    report = PlainReport(document=page.to_json(), lines=lines, remarks=remarks)
    choose_output(as_json=as_json).show(report)
    return 0


def _filters(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or field not in _FILTERS or field in found:
            expected = "each at most once: " + ", ".join(f"{name}=VALUE" for name in _FILTERS)
            raise usage_error(f"invalid filter {text!r}", what="filter", value=text, expected=expected, hint=expected)
        found[field] = value
    return found


def _commit_line(commit: Commit) -> str:
    actor = "" if commit.actor is None else f" actor={commit.actor}"
    place = f"graph_branch={commit.branch} graph_manifest_version={commit.manifest_version}"
    message = "" if commit.message is None else f" {json.dumps(commit.message, ensure_ascii=False)}"
    published = format_datetime(commit.published_at_ms)
    return f"{commit.id} {published} {place} operation={commit.operation}{actor}{message}"


show_app = new_app()


@show_app.command()
@expand_options
def show(
    *,
    graph: GraphOptions,
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit.")],
    as_json: AsJson = False,
) -> int:
    """Show one commit of any branch; times are UTC."""
    with open_graph(graph_address(graph), mode="read_only") as backend:
        found = backend.execute(GetCommitRequest(commit_id=commit_id))
    document = found.to_json()
    lines = [f"{key}: {_text(value)}" for key, value in document.items() if value is not None]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    return 0


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


changes_app = new_app()


@changes_app.command()
@expand_options
def changes(
    *,
    graph: GraphOptions,
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit.")],
    only: ChangeFilter,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Maximum number of changes per page.")
    ] = None,
    page_token: Annotated[
        str | None, typer.Option("--page-token", metavar="TOKEN", help="Fetch only this page.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show the changes of a commit compared with its first parent, entity by entity."""
    request = CommitChangesRequest(
        commit_id=commit_id,
        page_token=page_token,
        **only.to_fields(),
        limits=PageLimits() if limit is None else PageLimits(changes=limit),
    )
    with open_graph(graph_address(graph), mode="read_only") as backend:
        page = backend.execute(request)
        found, last = list(page.block.changes), page
        while last.next_page_token is not None and page_token is None:
            last = backend.execute(replace(request, page_token=last.next_page_token))
            found += last.block.changes
        lines = [] if as_json else list(change_lines(found, read_catalog(backend)))
    choose_output(as_json=as_json).show(_report(page, found, last, lines))
    return 0


def _report(first: CommitChanges, found: list[EntityChange], last: CommitChanges, lines: list[str]) -> PlainReport:
    token = {} if last.next_page_token is None else {"next_page_token": last.next_page_token}
    document = {"cause": first.block.cause.to_json(), "changes": [change.to_json() for change in found], **token}
    return PlainReport(document=document, lines=lines or ["(no changes)"])


blame_app = new_app()


@blame_app.command(epilog=example("omnigraph blame crm Person Ada"))
@expand_options
def blame(
    *,
    graph: GraphOptions,
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The type: Person, node:Person or edge:Knows.")],
    entity_id: Annotated[str, typer.Argument(metavar="ID", help="The entity's id.")],
    branch: Branch = "main",
    at: Annotated[
        str | None, typer.Option("--at", metavar="REF", help="Start at this state: a commit, tag:NAME or @TIME.")
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> int:
    """Show who wrote each property of one entity, and which commits changed it, newest first.

    For merged changes, the original author and the merge are shown.
    """
    with open_graph(graph_address(graph), mode="read_only") as backend:
        request = BlameRequest(type_name=type_name, entity_id=entity_id, branch=branch, at=at, limit=limit)
        found = backend.execute(request)
    lines = [str(line) for line in (*found.properties, *found.events)] or ["(no changes)"]
    missing = found.missing("--limit")
    remarks = [] if missing is None else [missing]
    choose_output(as_json=as_json).show(PlainReport(document=found.to_json(), lines=lines, remarks=remarks))
    return 0


diff_app = new_app()


@diff_app.command(epilog=example("omnigraph diff crm main~1 main"))
@expand_options
def diff(
    *,
    graph: GraphOptions,
    before: Annotated[
        str, typer.Argument(metavar="BEFORE", help="A state: a branch, a commit, tag:NAME, BRANCH~N or @TIME.")
    ],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The state to compare it with.")] = "main",
    stat: Annotated[bool, typer.Option("--stat", help="Show counts per type only.")] = False,
    only: ChangeFilter,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this entity; may be repeated.")
    ] = None,
    spark_options: SparkOptions,
    as_json: AsJson = False,
) -> int:
    """Show the differences between two states, entity by entity, with the values before and after.

    With --engine spark or a Spark setting, executors compare the rows.
    """
    spark = spark_options.request()
    request = DiffRequest(before=before, after=after, **only.to_fields(), ids=ids or ())
    with open_graph(graph_address(graph), mode="read_only") as backend, on_engine(backend, spark) as engine:
        found = engine.execute(request)
        if as_json:
            document = {"stats": found.stats().to_json()} if stat else found.to_json()
            choose_output(as_json=True).show(PlainReport(document=document, lines=()))
            return 0
        counted = found.stats() if stat else DiffStats.of(_shown(iter(found), catalog_of(found.after.state.schema)))
    for line in _counts(counted):
        write_line(line, sys.stdout)
    return 0


def _shown(changes: Iterator[EntityChange], catalog: Catalog) -> Iterator[EntityChange]:
    """Write every change as it comes: a difference may be larger than memory."""
    for change in changes:
        for line in change_lines((change,), catalog):
            write_line(line, sys.stdout)
        yield change


def _counts(stats: DiffStats) -> Iterator[str]:
    if not stats.types:
        yield "(no changes)"
        return
    for counts in stats.types:
        yield f"{counts.kind} {counts.type_name}: {counts_line(counts)}"


revert_app = new_app()


@revert_app.command()
@expand_options
def revert(
    *,
    graph: GraphOptions,
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit to undo.")],
    branch: Branch = "main",
    conflicts: ConflictOptions,
    spark_options: SparkOptions,
    commit: CommitOptions,
    expected_head: IfCommit = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Undo one commit with a new one; later changes stay.

    Rows that later commits changed too are conflicts unless --resolve or --resolve-with settles them: ours keeps the
    rows as they are, theirs restores the earlier ones. With --engine spark or a Spark setting, executors do the work.
    """
    spark = spark_options.request()
    address = graph_address(graph)
    decided = conflicts.to_fields()
    echo_target("revert", address, is_quiet=quiet)
    command = ["revert", address, commit_id, *(() if branch == "main" else ("--branch", branch))]
    with open_graph(address) as backend, conflicts.explaining(command):
        request = RevertRequest(
            commit=commit_id, branch=branch, **decided, **commit.to_fields(), expected_head=expected_head
        )
        with on_engine(backend, spark) as engine:
            done = engine.execute(request)
    report = PlainReport(document=done.to_json(), lines=list(done.lines()))
    choose_output(as_json=as_json).show(report)
    return 0


snapshot_app = new_app()


@snapshot_app.command()
@expand_options
def snapshot(
    *,
    graph: GraphOptions,
    branch: Branch = "main",
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="REF", help="Show this state instead: a commit, tag:NAME, BRANCH~N or @TIME."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show a state of the graph: its commit, and the dataset, version and entity count of each type."""
    with open_graph(graph_address(graph), mode="read_only") as backend:
        state = backend.execute(ReadStateRequest(branch=branch, at=at)).state
    datasets = [_dataset(state.tables[key]) for key in sorted(state.tables)]
    document = {
        "graph_branch": state.head.branch,
        "graph_commit_id": state.head.commit,
        "graph_manifest_version": state.version,
        "internal_schema_version": state.format,
        "datasets": datasets,
    }
    lines = [f"{key}: {value}" for key, value in document.items() if key != "datasets"]
    lines += [" ".join(f"{key}={value}" for key, value in dataset.items() if value is not None) for dataset in datasets]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    return 0


def _dataset(entry: TableEntry) -> dict[str, Any]:
    kind, _, name = entry.table_key.partition(":")
    return {
        "entity_kind": kind,
        "type_name": name,
        "dataset_path": entry.pin.location,
        "published_dataset_version": entry.pin.version,
        "native_dataset_branch": entry.pin.branch,
        "entity_count": entry.row_count,
    }
