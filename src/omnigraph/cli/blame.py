"""``omnigraph blame``: shows which commits changed an entity."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Limit, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.history.feed.blame import EntityEvent
from omnigraph.history.feed.blame import blame as find_events

app = new_app()


@app.command()
def blame(
    *,
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The type: Person, node:Person or edge:Knows.")],
    entity_id: Annotated[str, typer.Argument(metavar="ID", help="The entity's id.")],
    branch: Branch = "main",
    at: Annotated[
        str | None, typer.Option("--at", metavar="REF", help="Begin at this state: a commit, tag:NAME or @TIME.")
    ] = None,
    limit: Limit = 20,
    uri: UriOption = None,
    store: Store = None,
    as_json: AsJson = False,
) -> int:
    """Show which commits and actors changed which properties of one entity, newest first."""
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        catalog = session.catalog(branch)
        kind = "edge" if type_name in catalog.edges else "node"
        table_key = type_name if ":" in type_name else f"{kind}:{type_name}"
        found = find_events(session.store, table_key, entity_id, branch=branch, at=at, limit=limit)
    remarks = [] if found.is_complete else ["older changes are not shown; give a larger --limit"]
    lines = list(map(_line, found.events)) or ["(no changes)"]
    choose_output(as_json=as_json).show(PlainReport(document=found.to_json(), lines=lines, remarks=remarks))
    return 0


def _line(event: EntityEvent) -> str:
    commit = event.cause.commit
    actor = "" if commit.actor is None else f" actor={commit.actor}"
    return f"{commit.id} {event.op}{actor} changed={','.join(event.changed)}"
