"""``omnigraph diff``: shows what differs between two states of a graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from omnigraph.catalog.model import Catalog
from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Kinds, Ops, Store, Types, UriOption
from omnigraph.cli.output import choose_output, write_line
from omnigraph.cli.reports import PlainReport
from omnigraph.history.diff.change import ChangeFilter, EntityChange
from omnigraph.history.diff.compare import DiffStats, diff_between
from omnigraph.history.diff.lines import change_lines, counts_line

app = new_app()


@app.command()
def diff(
    *,
    before: Annotated[
        str, typer.Argument(metavar="BEFORE", help="A state: a branch, a commit, tag:NAME, BRANCH~N or @TIME.")
    ],
    after: Annotated[str, typer.Argument(metavar="[AFTER]", help="The state to compare it with.")] = "main",
    stat: Annotated[bool, typer.Option("--stat", help="Show counts per type only.")] = False,
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    ids: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only this entity; may repeat.")] = None,
    uri: UriOption = None,
    store: Store = None,
    as_json: AsJson = False,
) -> int:
    """Show what differs between two states, entity by entity, values before and after."""
    wanted = ChangeFilter.of(kinds=kinds or (), type_names=types or (), ops=ops or (), ids=ids or ())
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        found = diff_between(session.store, before, after, wanted)
        if as_json:
            document = {"stats": found.stats().to_json()} if stat else found.to_json()
            choose_output(as_json=True).show(PlainReport(document=document, lines=()))
            return 0
        counted = found.stats() if stat else DiffStats.of(_shown(iter(found), session.catalog_at(found.after)))
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
