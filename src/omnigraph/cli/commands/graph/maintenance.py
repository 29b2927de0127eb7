"""``omnigraph status``, ``optimize``, ``cleanup``, ``repair`` and ``migrate``: a graph's condition and upkeep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from omnigraph.cli.engines import (
    SparkOptions,
    SparkRequest,
    choose_plainly,
    open_spark,
)
from omnigraph.cli.graphs import ask_consent, echo_target, graph_address, open_storage
from omnigraph.cli.lazy import example, new_app
from omnigraph.cli.options import AsJson, Branch, Consent, GraphOptions, Message, Quiet, Types, expand_options
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.usage import usage_error
from omnigraph.engine.maintenance.optimize import OptimizeResult
from omnigraph.engine.maintenance.repair import RepairOrder, RepairResult
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import TableDriftError
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.maintenance import (
    CleanupRequest,
    MigrateRequest,
    OptimizeRequest,
    RepairRequest,
    StatusRequest,
)
from omnigraph.txn.claims.store import PendingClaim

status_app = new_app()

Storage = Annotated[
    bool,
    typer.Option("--storage", help="Also measure all stored files, which takes longer the more states there are."),
]


@status_app.command(epilog=example("omnigraph status crm"))
@expand_options
def status(*, graph: GraphOptions, branch: Branch = "main", storage: Storage = False, as_json: AsJson = False) -> int:
    """Show rows, fragments, indexes, projections and writes in progress, with advice. Writes nothing."""
    address = graph_address(graph, is_direct=True)
    with open_storage(address, mode="read_only") as backend:
        found = backend.execute(StatusRequest(branch=branch, storage=storage))
    document = {"uri": address, **found.to_json()}
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=list(found.lines())))
    return 0


optimize_app = new_app()


@optimize_app.command()
@expand_options
def optimize(
    *,
    graph: GraphOptions,
    branch: Branch = "main",
    types: Types = None,
    spark_options: SparkOptions,
    message: Message = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Compact the tables of a branch, and bring its indexes and projections up to date.

    Runs concurrently with writers, changes no query result and removes nothing. Tables inherited from another branch
    are not changed. A second run has nothing to do and makes no commit. With --engine spark or a Spark setting,
    executors do the work.
    """
    spark = spark_options.request()
    address = graph_address(graph, is_direct=True)
    echo_target("optimize", address, is_quiet=quiet)
    with open_storage(address) as backend:
        result = _run(backend, branch, types or None, message, spark)
    document = {"uri": address, **result.to_json()}
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=list(result.lines())))
    return 0


def _run(
    backend: LocalBackend, branch: str, types: list[str] | None, message: str | None, spark: SparkRequest
) -> OptimizeResult:
    if not choose_plainly(spark).is_spark:
        return backend.execute(OptimizeRequest(branch=branch, types=types, message=message))
    from omnigraph.spark import optimize_on_spark  # noqa: PLC0415 - loaded for the runs that use it

    with open_spark(spark, is_short=False) as started:
        return optimize_on_spark(backend, spark=started, branch=branch, types=types, message=message)


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhdw])")


def parse_duration(text: str) -> int:
    """Return how many seconds a number with a unit is.

    >>> parse_duration("90s"), parse_duration("2h")
    (90, 7200)

    Raises:
        UsageError: the text is no duration.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        expected = "a number followed by s, m, h, d or w"
        hint = f"use {expected}, such as 30d"
        raise usage_error(f"invalid duration {text!r}", what="duration", value=text, expected=expected, hint=hint)
    return int(found["count"]) * _SECONDS[found["unit"]]


cleanup_app = new_app()


@cleanup_app.command(epilog=example("omnigraph cleanup crm --keep 10"))
@expand_options
def cleanup(
    *,
    graph: GraphOptions,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=0, help="Keep the newest N states of every branch.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="TIME", help="Keep states that were current within this period, such as 12h or 30d."
        ),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Remove them; otherwise only show what would be removed.")
    ] = False,
    yes: Consent = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Remove old states, and the files that only they need.

    Use --keep, --older-than or both; with both, a state is removed only if neither retains it. The newest state of
    every branch, tagged states, and the states that branches or later merges need are always retained. A removed state
    can never be read again; its commit stays listed.
    """
    address = graph_address(graph, is_direct=True)
    older_than_s = None if older_than is None else parse_duration(older_than)
    Retention(keep=keep, older_than_s=older_than_s)
    if confirm:
        ask_consent("cleanup", address, is_given=yes, as_json=as_json)
    echo_target("cleanup", address, is_quiet=quiet)
    with open_storage(address, mode="read_write" if confirm else "read_only") as backend:
        result = backend.execute(CleanupRequest(keep=keep, older_than_s=older_than_s, confirm=confirm))
    document = {
        "uri": address,
        "keep_versions": keep,
        "older_than_secs": older_than_s,
        **result.to_json(),
    }
    remarks = [] if confirm else ["nothing was removed; add --confirm to remove"]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=list(result.lines()), remarks=remarks))
    return 0


repair_app = new_app()

# What writes to such a table end with, until somebody has decided about it.
_REFUSED = TableDriftError.row.kind.exit_code


@repair_app.command()
@expand_options
def repair(
    *,
    graph: GraphOptions,
    branch: Branch = "main",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Adopt compactions and end abandoned writes; otherwise change nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --confirm: also adopt every other change.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="With --confirm: undo every change instead.")] = False,
    message: Message = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Show tables that were changed by something other than omnigraph, and adopt or discard the changes.

    A compaction changes no rows and needs only --confirm; any other change also needs --force or --discard. Damaged
    projections are also shown, and dropped with --confirm; optimize rebuilds them. Damaged claims of writes, which
    block the branch, are shown with the evidence in storage; so are damaged refs, tags, merge records and proposals, on
    the branch main. --confirm resolves those that can be resolved safely. Exits with code 11 if a change still needs a
    decision, or if something damaged remains.
    """
    address = graph_address(graph, is_direct=True)
    order = RepairOrder(confirm=confirm, force=force, discard=discard, message=message)
    echo_target("repair", address, is_quiet=quiet)
    with open_storage(address) as backend:
        result = backend.execute(
            RepairRequest(branch=branch, confirm=confirm, force=force, discard=discard, message=order.message)
        )
    document = {
        "uri": address,
        "branch": result.branch,
        "confirm": confirm,
        "force": force,
        "discard": discard,
        "graph_manifest_version": result.manifest_version,
        "datasets": [table.to_json() for table in result.tables],
        **({"claims": [_claim(claim) for claim in result.claims]} if result.claims else {}),
        **({"damaged_claims": [asdict(claim) for claim in result.damaged]} if result.damaged else {}),
        **({"damaged_records": [one.to_json() for one in result.records]} if result.records else {}),
        "projections": [projection.to_json() for projection in result.projections],
    }
    report = PlainReport(document=document, lines=list(result.lines()), remarks=list(_remarks(result)))
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
    actions: set[str] = {table.action for table in result.tables}
    actions |= {projection.action for projection in result.projections}
    is_left: list[tuple[bool, str | None]] = [(one.is_settled, one.settlement) for one in result.damaged]
    is_left += [(one.is_settled, one.settlement) for one in result.records]
    settleable = [settlement for is_settled, settlement in is_left if not is_settled and settlement != "refused"]
    if "preview" in actions or settleable or (not result.tables and result.claims):
        yield "nothing was changed; add --confirm to apply"
    if "refused" in actions:
        yield "refused changes need a decision: --force adopts them, --discard undoes them"


migrate_app = new_app()


@migrate_app.command()
@expand_options
def migrate(
    *,
    graph: GraphOptions,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would change; writes nothing.")] = False,
    message: Message = None,
    yes: Consent = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Upgrade every branch to the newest storage format of this version of omnigraph.

    No other command does this: before, older versions of omnigraph can read and write the graph; afterwards they refuse
    it. No row, commit, branch or tag changes, and other writers can continue. After an interruption, run it again.
    """
    address = graph_address(graph, is_direct=True)
    if not preview:
        ask_consent("migrate", address, is_given=yes, as_json=as_json)
    echo_target("migrate", address, is_quiet=quiet)
    with open_storage(address, mode="read_only" if preview else "read_write") as backend:
        result = backend.execute(MigrateRequest(preview=preview, message=message))
    document = {"uri": address, "preview": preview, **result.to_json()}
    remarks = ["nothing was changed; leave out --preview to migrate"] if result.outdated else []
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=list(result.lines()), remarks=remarks))
    return 0
