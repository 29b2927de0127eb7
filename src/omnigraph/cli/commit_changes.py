"""``omnigraph commit changes``: shows what one commit changed."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Kinds, Ops, Store, Types, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.history.diff.change import ChangeFilter, EntityChange
from omnigraph.history.diff.lines import change_lines
from omnigraph.history.feed.pages import PageLimits
from omnigraph.history.feed.reader import ChangeReader, CommitChanges

app = new_app()


@app.command()
def changes(
    *,
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit.")],
    uri: UriOption = None,
    store: Store = None,
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="How many changes a page may hold.")] = None,
    page_token: Annotated[
        str | None, typer.Option("--page-token", metavar="TOKEN", help="Fetch this one page instead of all.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show what a commit changed against its first parent, entity by entity."""
    wanted = ChangeFilter.of(kinds=kinds or (), type_names=types or (), ops=ops or ())
    limits = PageLimits() if limit is None else PageLimits(changes=limit)
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        reader = ChangeReader(session.store)
        page = reader.commit_changes(commit_id, wanted=wanted, page_token=page_token, limits=limits)
        found, last = list(page.block.changes), page
        while last.next_page_token is not None and page_token is None:
            last = reader.commit_changes(commit_id, wanted=wanted, page_token=last.next_page_token, limits=limits)
            found += last.block.changes
        lines = [] if as_json else list(change_lines(found, session.catalog()))
    choose_output(as_json=as_json).show(_report(page, found, last, lines))
    return 0


def _report(first: CommitChanges, found: list[EntityChange], last: CommitChanges, lines: list[str]) -> PlainReport:
    token = {} if last.next_page_token is None else {"next_page_token": last.next_page_token}
    document = {"cause": first.block.cause.to_json(), "changes": [change.to_json() for change in found], **token}
    return PlainReport(document=document, lines=lines or ["(no changes)"])
