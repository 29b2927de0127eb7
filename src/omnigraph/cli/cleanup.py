"""``omnigraph cleanup``: gives back the storage of old states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from omnigraph.cli.counted import counted
from omnigraph.cli.durations import parse_duration
from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.guards import ask_consent, echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Consent, Quiet, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.engine.maintenance.cleanup import CleanupResult
from omnigraph.engine.maintenance.retention import Retention

app = new_app()


@app.command()
def cleanup(
    *,
    uri: Uri = None,
    store: Store = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=0, help="Keep the newest N states of every branch.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="TIME", help="Keep states that were current within this time, such as 30d."
        ),
    ] = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Do it; otherwise only show what would go.")] = False,
    yes: Consent = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Remove states that are older than what is to be kept, with the files that only they need.

    Give --keep, --older-than or both; with both a state goes only when neither keeps it. The newest state of every
    branch, everything that a tag names, and what branches started or could be merged from always stay. A state that
    went can never be read again, though its commit stays listed.
    """
    address = graph_address(uri, store)
    older_than_s = None if older_than is None else parse_duration(older_than)
    Retention(keep=keep, older_than_s=older_than_s)
    if confirm:
        ask_consent("cleanup", address, is_given=yes, as_json=as_json)
    echo_target("cleanup", address, is_quiet=quiet)
    with open_graph(address, mode="read_write" if confirm else "read_only") as session:
        result = session.cleanup(keep=keep, older_than_s=older_than_s, confirm=confirm)
    document = {
        "uri": address,
        "keep_versions": keep,
        "older_than_secs": older_than_s,
        "confirmed": result.is_done,
        "bytes_removed": result.bytes,
        "datasets": [dataset.to_json() for dataset in result.datasets],
        "branches": [{"branch": name, "oldest_version": floor} for name, floor in result.floors.items()],
        "protected": [{"branch": name, "version": version, "by": why} for name, version, why in result.protected],
    }
    remarks = [] if confirm else ["nothing was removed; give --confirm to do it"]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=list(_lines(result)), remarks=remarks))
    return 0


def _lines(result: CleanupResult) -> Iterator[str]:
    verb = "removed" if result.is_done else "would remove"
    for dataset in result.datasets:
        what = f"{counted(dataset.old_versions, 'version')} and {counted(dataset.files, 'file')}"
        done = f"{verb} {what}, {dataset.bytes} bytes"
        yield f"{dataset.table_key}: {done if dataset.error is None else f'failed: {dataset.error}'}"
    if not result.datasets:
        yield "nothing to remove"
    for name, version, why in result.protected:
        yield f"kept version {version} of branch {name}: {why}"
