"""``omnigraph branch merge``: brings the changes of one branch to another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from omnigraph.cli.counted import counted
from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.guards import echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AsJson, IfCommit, Message, Quiet, Resolve, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.engine.session import GraphSession
from omnigraph.errors import BranchInUseError, MergeConflict
from omnigraph.history.merge import MergePreview, MergeResult, TableCounts, merge_branch, preview_merge

app = new_app()


@app.command()
def merge(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    *,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge from.")],
    target: Annotated[str, typer.Option("--into", metavar="BRANCH", help="The branch to merge into.")] = "main",
    resolve: Resolve = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show what the merge would do; change nothing.")] = False,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source afterwards, if nothing depends on it.")
    ] = False,
    message: Message = None,
    expected_head: IfCommit = None,
    uri: UriOption = None,
    store: Store = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Merge a branch into another, row by row against their common commit, as one commit or not at all.

    Rows that both sides changed are conflicts unless --resolve decides them. Exits with 3 on conflicts; --preview
    shows them and exits with 0.
    """
    address = graph_address(uri, store)
    output = choose_output(as_json=as_json)
    if preview:
        with open_graph(address, mode="read_only") as session:
            seen = preview_merge(session, source, target, resolve=resolve)  # type: ignore[arg-type]  # checked inside
        output.show(PlainReport(document=seen.to_json(), lines=list(_preview_lines(seen))))
        return 0
    echo_target("branch merge", address, is_quiet=quiet)
    with open_graph(address) as session:
        done = merge_branch(
            session,
            source,
            target,
            resolve=resolve,  # type: ignore[arg-type]  # checked inside
            actor=actor,
            message=message,
            expected_head=expected_head,
        )
        refusal = _delete(session, source, actor) if delete_branch else None
    is_deleted = delete_branch and refusal is None
    report = PlainReport(
        document={**done.to_json(), "branch_deleted": is_deleted},
        lines=[*_merge_lines(done), *([f"deleted branch {source}"] if is_deleted else [])],
        remarks=[] if refusal is None else [f"warning: branch {source} was not deleted: {refusal}"],
    )
    output.show(report)
    return 0


def _delete(session: GraphSession, name: str, actor: str | None) -> str | None:
    """Delete the source; return why it was refused. The merge stands either way."""
    try:
        session.delete_branch(name, actor=actor)
    except BranchInUseError as refusal:
        return refusal.message
    return None


def _merge_lines(done: MergeResult) -> Iterable[str]:
    yield f"merged {done.source} into {done.target}: {done.outcome.value}"
    yield from map(_counts, done.tables)


def _preview_lines(seen: MergePreview) -> Iterable[str]:
    verdict = counted(len(seen.conflicts), "conflict") if seen.conflicts else "no conflicts"
    yield f"merging {seen.source} into {seen.target} would be {seen.outcome.value}, {verdict}"
    yield from map(_counts, seen.tables)
    yield from map(_conflict, seen.conflicts)


def _counts(table: TableCounts) -> str:
    parts = {
        "inserted": table.inserted,
        "updated": table.updated,
        "deleted": table.deleted,
        "resolved": table.resolved,
    }
    told = [f"{count} {what}" for what, count in parts.items() if count]
    if table.conflicts:
        told.append(counted(table.conflicts, "conflict"))
    return f"  {table.type_key}: {', '.join(told)}"


def _conflict(conflict: MergeConflict) -> str:
    return f"  conflict {conflict.kind}: {conflict.message}"
