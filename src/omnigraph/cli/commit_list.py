"""``omnigraph commit list``: shows the history of a branch."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Limit, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.errors import BadValue, UsageError
from omnigraph.txn.manifest.rows import Commit

app = new_app()

_FILTERS = ("actor", "operation", "type")


@app.command("list")
def list_commits(
    *,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    limit: Limit = 20,
    after: Annotated[
        str | None, typer.Option("--after", metavar="PLACE", help="Go on behind this commit, or where a page ended.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="FIELD=VALUE", help="Only commits with this actor, operation or type."),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Only from this moment on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only up to this moment.")] = None,
    as_json: AsJson = False,
) -> int:
    """List the commits of a branch, newest first; the cost does not depend on how many there are."""
    wanted = _filters(filters or [])
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        page = session.log(
            branch,
            limit=limit,
            after=after,
            actor=wanted.get("actor"),
            operation=wanted.get("operation"),
            type_name=wanted.get("type"),
            since=since,
            until=until,
        )
    remarks = [] if page.following is None else [f"more: --after {page.following}"]
    report = PlainReport(document=page.to_json(), lines=list(map(_line, page.commits)), remarks=remarks)
    choose_output(as_json=as_json).show(report)
    return 0


def _filters(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or field not in _FILTERS or field in found:
            expected = "each at most once: " + ", ".join(f"{name}=VALUE" for name in _FILTERS)
            details = BadValue(what="filter", value=text, expected=expected)
            raise UsageError(f"not a filter of commits: {text!r}", details=details, hint=expected)
        found[field] = value
    return found


def _line(commit: Commit) -> str:
    actor = "" if commit.actor is None else f" actor={commit.actor}"
    place = f"graph_branch={commit.branch} graph_manifest_version={commit.manifest_version}"
    message = "" if commit.message is None else f" {json.dumps(commit.message, ensure_ascii=False)}"
    return f"{commit.id} {place} operation={commit.operation}{actor}{message}"
