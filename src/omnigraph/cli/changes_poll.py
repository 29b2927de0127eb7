"""``omnigraph changes poll``: shows what was committed to a branch since a cursor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from omnigraph.catalog.model import Catalog
from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Kinds, Ops, Store, Types, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.diff.lines import change_lines
from omnigraph.history.feed.pages import PageLimits
from omnigraph.history.feed.reader import ChangeBlock, ChangeFeedPage, ChangeReader

app = new_app()


@app.command()
def poll(
    *,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where an earlier poll ended.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="PLACE", help="now, beginning or after:COMMIT; now unless given.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="How many commits to look at in one page.")
    ] = None,
    branch: Branch = "main",
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    uri: UriOption = None,
    store: Store = None,
    as_json: AsJson = False,
) -> int:
    """Show the commits of a branch since a cursor with what each changed, oldest first, and the cursor to go on with.

    Every commit is delivered at least once and whole; an answer that is lost is asked for again with the same cursor.
    """
    wanted = ChangeFilter.of(kinds=kinds or (), type_names=types or (), ops=ops or ())
    limits = PageLimits() if limit is None else PageLimits(commits=limit)
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        reader = ChangeReader(session.store)
        page = reader.poll(branch, start=start, cursor=cursor, wanted=wanted, limits=limits)
        pages = [page]
        while not _is_end(page):
            page = reader.poll(
                branch, page_token=page.next_page_token, cursor=page.cursor, wanted=wanted, limits=limits
            )
            pages.append(page)
        catalog = session.catalog(branch)
    blocks = list(_stitched(block for shown in pages for block in shown.blocks))
    document = {"blocks": [block.to_json() for block in blocks], "cursor": page.cursor, "caught_up": page.is_caught_up}
    report = PlainReport(document=document, lines=[*_lines(blocks, catalog), f"cursor: {page.cursor}"])
    choose_output(as_json=as_json).show(report)
    return 0


def _is_end(page: ChangeFeedPage) -> bool:
    """Whether nothing follows; a poll that shows nothing and is not caught up stands before what it cannot show."""
    return page.next_page_token is None and (page.is_caught_up or not page.blocks)


def _stitched(blocks: Iterable[ChangeBlock]) -> Iterator[ChangeBlock]:
    """Put the parts of a commit that came in several pages together."""
    held: ChangeBlock | None = None
    for block in blocks:
        if held is not None and held.cause == block.cause:
            held = ChangeBlock(cause=held.cause, changes=(*held.changes, *block.changes))
            continue
        if held is not None:
            yield held
        held = block
    if held is not None:
        yield held


def _lines(blocks: Iterable[ChangeBlock], catalog: Catalog) -> Iterator[str]:
    is_empty = True
    for block in blocks:
        is_empty = False
        commit = block.cause.commit
        actor = "" if commit.actor is None else f" actor={commit.actor}"
        yield f"{commit.id} graph_branch={commit.branch}{actor}"
        yield from change_lines(block.changes, catalog, indent="  ")
    if is_empty:
        yield "(no new commits)"
