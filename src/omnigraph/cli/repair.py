"""``omnigraph repair``: settles what something else has done to a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from omnigraph.cli.counted import counted
from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.guards import echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Quiet, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.engine.maintenance.repair import RepairOrder, RepairResult
from omnigraph.errors import TableDriftError
from omnigraph.txn.claims import PendingClaim

app = new_app()

# What writes to such a table end with, until somebody has decided about it.
_REFUSED = TableDriftError.row.kind.exit_code


@app.command()
def repair(
    *,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Adopt compactions and end silent writes; otherwise only look.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --confirm: adopt every other change too.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="With --confirm: undo every change instead.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Show tables that something other than omnigraph has changed, and adopt or discard what was done to them.

    A compaction, which changes no row, is adopted by --confirm alone; anything else also needs --force or --discard.
    Exits with 11 when a change was left that needs such a decision.
    """
    address = graph_address(uri, store)
    RepairOrder(confirm=confirm, force=force, discard=discard)
    echo_target("repair", address, is_quiet=quiet)
    with open_graph(address) as session:
        result = session.repair(branch, confirm=confirm, force=force, discard=discard)
    document = {
        "uri": address,
        "branch": result.branch,
        "confirm": confirm,
        "force": force,
        "discard": discard,
        "graph_manifest_version": result.manifest_version,
        "datasets": [table.to_json() for table in result.tables],
        **({"claims": [_claim(claim) for claim in result.claims]} if result.claims else {}),
    }
    report = PlainReport(document=document, lines=list(_lines(result)), remarks=list(_remarks(result)))
    choose_output(as_json=as_json).show(report)
    return _REFUSED if result.is_refused else 0


def _claim(claim: PendingClaim) -> dict[str, Any]:
    return {
        "branch": claim.branch,
        "version": claim.version,
        "operation": claim.kind,
        "actor_id": claim.actor,
        "holder": claim.holder,
        "state": claim.state,
    }


def _remarks(result: RepairResult) -> Iterator[str]:
    actions = {table.action for table in result.tables}
    if "preview" in actions or (result.claims and not result.tables):
        yield "nothing was changed; give --confirm to do it"
    if "refused" in actions:
        yield "refused changes need a decision: --force adopts them, --discard undoes them"


def _lines(result: RepairResult) -> Iterator[str]:
    for claim in result.claims:
        action = "ended" if result.tables else "pending"
        yield f"write {claim.version}: {action}, {claim.kind} of '{claim.holder}', which is {claim.state}"
    found = [table for table in result.tables if table.action != "no_op"]
    for table in found:
        operations = ", ".join(table.operations) or table.error or ""
        yield (
            f"{table.table_key}: {table.action}, {table.classification}"
            f" published={table.published_version} head={table.head_version} operations={operations}"
        )
    if not found and (result.tables or not result.claims):
        yield f"no drift in {counted(len(result.tables), 'table')}"
