"""``omnigraph changes``: commands about the change feed."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.catalog.model import Catalog
from omnigraph.cli.files import STDIN, open_lines
from omnigraph.cli.graphs import echo_target, graph_address, open_graph, read_catalog
from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.options import AsJson, Branch, ChangeFilter, CommitOptions, GraphOptions, Quiet, expand_options
from omnigraph.cli.output import PlainReport, choose_output, write_whole
from omnigraph.cli.usage import usage_error
from omnigraph.errors import BadValue, FileAccessError, UsageError
from omnigraph.graph.feed import Feed
from omnigraph.history.diff.lines import change_lines
from omnigraph.history.feed.apply import ApplyResult
from omnigraph.history.feed.batch import ChangeBlock, FeedBatch, whole_commits
from omnigraph.history.feed.reader import ChangeFeedPage
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.operations.history import (
    AppliedFeedsRequest,
    ApplyChangesRequest,
    BaselineRequest,
    FeedRequest,
    PollChangesRequest,
)
from omnigraph.operations.request import Backend

app = new_group(
    "Follow the commits of a branch, and apply them elsewhere.",
    {
        "poll": Entry(app=f"{__name__}:poll_app", summary="Show what was committed since a cursor."),
        "follow": Entry(app=f"{__name__}:follow_app", summary="Print changes as they are committed."),
        "apply": Entry(app=f"{__name__}:apply_app", summary="Apply the changes of another graph."),
        "applied": Entry(app=f"{__name__}:applied_app", summary="Show the last applied position of each feed."),
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
        typer.Option("--start", metavar="PLACE", help="Where to start instead: now, beginning or after:COMMIT."),
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
    if start is None and cursor is None:
        hint = (
            "pass --start now or --start beginning to the first poll, and --cursor with the printed "
            "cursor to later ones"
        )
        raise usage_error("a poll needs a position to start from", expected="--start or --cursor", hint=hint)
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
    lines = [*_block_lines(blocks, catalog)] or ["(no new commits)"]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=[*lines, f"cursor: {page.cursor}"]))
    return 0


def _is_end(page: ChangeFeedPage) -> bool:
    """Whether nothing follows; a poll that shows nothing and is not caught up stands before what it cannot show."""
    return page.next_page_token is None and (page.is_caught_up or not page.blocks)


def _stitched(blocks: Iterable[ChangeBlock]) -> Iterator[ChangeBlock]:
    """Put the parts of a commit that came in several pages together."""
    for cause, parts in groupby(blocks, key=lambda block: block.cause):
        found = list(parts)
        yield replace(found[0], cause=cause, changes=tuple(change for block in found for change in block.changes))


def _block_lines(blocks: Iterable[ChangeBlock], catalog: Catalog) -> Iterator[str]:
    for block in blocks:
        commit = block.cause.commit
        actor = "" if commit.actor is None else f" actor={commit.actor}"
        yield f"{commit.id} graph_branch={commit.branch}{actor}"
        yield from change_lines(block.changes, catalog, indent="  ")


follow_app = new_app()


@follow_app.command()
@expand_options
def follow(
    *,
    graph: GraphOptions,
    start: Annotated[
        str,
        typer.Option("--from", metavar="PLACE", help="Where to start: now, beginning, after:COMMIT, or a token."),
    ],
    once: Annotated[bool, typer.Option("--once", help="Stop when caught up instead of waiting.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Print lines for people instead of JSON.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="How often to look for new commits.")
    ] = 1.0,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Maximum number of changes per line.")
    ] = None,
    branch: Branch = "main",
    only: ChangeFilter,
) -> int:
    """Print the changes of a branch after a position, oldest commit first, until interrupted.

    Each line is a JSON object with some changes and a token: the position after them, even inside a large commit. To
    continue later, start from the last token. `changes apply` reads these lines.
    """
    request = FeedRequest(
        start=start,
        branch=branch,
        **only.to_fields(),
        limits=PageLimits() if limit is None else PageLimits(changes=limit),
    )
    with open_graph(graph_address(graph), mode="read_only") as backend:
        feed = Feed(backend, request, follow=not once, interval_s=interval)
        if start == "now":
            # Where "now" was is worth a line, although nothing has changed since.
            batch = backend.execute(replace(request, start=feed.token))
            feed.seek(batch.token)
            _print(batch, backend, branch, as_text=text)
        for batch in feed:
            _print(batch, backend, branch, as_text=text)
    return 0


def _print(batch: FeedBatch, backend: Backend, branch: str, *, as_text: bool) -> None:
    lines = _lines(batch, backend, branch) if as_text else [json.dumps(batch.to_json(), ensure_ascii=False)]
    write_whole("".join(f"{line}\n" for line in lines), sys.stdout)


def _lines(batch: FeedBatch, backend: Backend, branch: str) -> Iterator[str]:
    yield from _block_lines(batch.blocks, read_catalog(backend, branch))
    yield f"token: {batch.token}"


apply_app = new_app()


@apply_app.command()
@expand_options
def apply(
    *,
    graph: GraphOptions,
    source: Annotated[
        str, typer.Option("--input", metavar="FILE", help="Lines of `changes follow`; - reads standard input.")
    ] = STDIN,
    branch: Branch = "main",
    commit: CommitOptions,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Apply the changes that `changes follow` printed for another graph, deletes and edges included.

    Each change is applied exactly once: the commit stores the position in the feed. Lines that were applied before are
    skipped, and a gap is an error. The entities keep their ids. If the schema cannot take the rows, the error says
    which schema to apply first.
    """
    address = graph_address(graph)
    echo_target("changes apply", address, is_quiet=quiet)
    with open_graph(address) as backend:
        found = ApplyResult(source="", token="")
        for group in whole_commits(_documents(source)):
            found += backend.execute(ApplyChangesRequest(batches=group, branch=branch, **commit.to_fields()))
    lines = [*found.lines(), f"token: {found.token}"]
    choose_output(as_json=as_json).show(PlainReport(document=found.to_json(), lines=lines))
    return 0


def _documents(path: str) -> Iterator[dict[str, Any]]:
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                document = json.loads(line)
            except ValueError as error:
                details = BadValue(what="line", value=str(number), expected="a line of 'omnigraph changes follow'")
                raise UsageError(f"line {number} of the input is not JSON", details=details) from error
            yield document


applied_app = new_app()


@applied_app.command()
@expand_options
def applied(*, graph: GraphOptions, branch: Branch = "main", as_json: AsJson = False) -> int:
    """Show the feeds of other graphs that were applied to a branch, and the token to continue each from."""
    with open_graph(graph_address(graph), mode="read_only") as backend:
        found = backend.execute(AppliedFeedsRequest(branch=branch))
    lines = [line for one in found for line in one.lines()] or ["(no applied feeds)"]
    document = {"feeds": [one.to_json() for one in found]}
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    return 0


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

    The file has only entities and can be loaded; the cursor is printed. It is written completely or not at all; a
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
