"""``omnigraph changes``: commands about the change feed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.catalog.model import Catalog
from omnigraph.cli.graphs import graph_address, open_graph, read_catalog
from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.options import AsJson, Branch, ChangeFilter, GraphOptions, expand_options
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.errors import BadValue, FileAccessError
from omnigraph.history.diff.lines import change_lines
from omnigraph.history.feed.reader import ChangeBlock, ChangeFeedPage
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.operations.history import BaselineRequest, PollChangesRequest

app = new_group(
    "Follow the commits of a branch.",
    {
        "poll": Entry(app=f"{__name__}:poll_app", summary="Show what was committed since a cursor."),
        "baseline": Entry(app=f"{__name__}:baseline_app", summary="Export a state to start a feed from."),
    },
)


poll_app = new_app()


@poll_app.command()
@expand_options
def poll(
    *,
    graph: GraphOptions,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Continue where an earlier poll ended.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="PLACE", help="Where to start: now (the default), beginning or after:COMMIT."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Maximum number of commits per page.")
    ] = None,
    branch: Branch = "main",
    only: ChangeFilter,
    as_json: AsJson = False,
) -> int:
    """Show the commits of a branch since a cursor, oldest first, with their changes and the next cursor.

    Every commit is delivered whole and at least once; if a response is lost, poll again with the same cursor.
    """
    request = PollChangesRequest(
        branch=branch,
        start=start,
        cursor=cursor,
        **only.to_fields(),
        limits=PageLimits() if limit is None else PageLimits(commits=limit),
    )
    with open_graph(graph_address(graph), mode="read_only") as backend:
        page = backend.execute(request)
        pages = [page]
        while not _is_end(page):
            page = backend.execute(replace(request, start=None, page_token=page.next_page_token, cursor=page.cursor))
            pages.append(page)
        catalog = read_catalog(backend, branch)
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


baseline_app = new_app()


@baseline_app.command()
@expand_options
def baseline(
    *,
    graph: GraphOptions,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The file to write, as JSONL.")],
    branch: Branch = "main",
    only: ChangeFilter,
    as_json: AsJson = False,
) -> int:
    """Export the state of a branch, with the cursor to follow later changes from.

    The file holds entities only and can be loaded; the cursor is printed. It is written completely or not at all; a
    failure leaves an existing file unchanged.
    """
    request = BaselineRequest(branch=branch, **only.to_fields())
    with open_graph(graph_address(graph), mode="read_only") as backend:
        last = _write(Path(out), backend.execute(request))
    document = last["baseline"]
    lines = [f"{key}: {value}" for key, value in document.items()]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    return 0


def _write(path: Path, records: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Write the entities next to the file and put them in its place; return the record that came last.

    That one says where the feed goes on. It is not an entity, so it is not written to the file.
    """
    partial, held = path.with_name(f"{path.name}.partial"), dict[str, Any]()
    with _writing(path), _locked(path.with_name(f"{path.name}.lock")):
        try:
            with partial.open("w", encoding="utf-8") as file:
                for record in records:
                    if held:
                        file.write(json.dumps(held, ensure_ascii=False, separators=(",", ":")) + "\n")
                    held = record
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return held


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process write at a time; the last one to hold the lock takes its file away."""
    while True:
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_at(path, lock.fileno()):
                # Its holder has removed it meanwhile, and another process may hold a newer one.
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        details = BadValue(what="file", value=str(path), expected="a writable file")
        why = (error.strerror or str(error)).lower()
        raise FileAccessError(f"cannot write '{path}': {why}", details=details) from error
