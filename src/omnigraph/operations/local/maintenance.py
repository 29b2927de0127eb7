"""Handlers of the requests that keep a graph in shape, or say how it fares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.values import BranchName, check_flag

if TYPE_CHECKING:
    from omnigraph.engine.maintenance.cleanup import CleanupResult
    from omnigraph.engine.maintenance.migrate import MigrateResult
    from omnigraph.engine.maintenance.optimize import OptimizeResult
    from omnigraph.engine.maintenance.repair import RepairResult
    from omnigraph.engine.maintenance.status import GraphStatus
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.operations.maintenance import (
        BuildIndexesRequest,
        CleanupRequest,
        MigrateRequest,
        OptimizeRequest,
        RepairRequest,
        StatusRequest,
    )
    from omnigraph.operations.request import Attachments


def optimize(graph: OpenGraph, request: OptimizeRequest, attached: Attachments) -> OptimizeResult:
    """Compact the tables of a branch and bring their indexes and projections up to date.

    Raises:
        BranchMissingError, TypeMissingError: there is no such branch or type.
        ReadOnlyError: the graph is open for reading only.
    """
    from omnigraph.engine.maintenance.building import ProjectionBounds  # noqa: PLC0415 - see below
    from omnigraph.engine.maintenance.optimize import Optimization  # noqa: PLC0415 - status needs none of it
    from omnigraph.engine.maintenance.planning import LocalRunner  # noqa: PLC0415 - see above

    branch_writer = graph.store.current(BranchName.parse(request.branch))[0]
    runner = attached.runner or LocalRunner(graph.store.storage, graph.maintenance.threads)
    work = Optimization(
        branch_writer,
        graph.catalogs.get,
        runner,
        policy=request.policy,
        actor=request.actor,
        message=request.message,
        projections=ProjectionBounds(least_rows=graph.maintenance.projection_rows),
    )
    done = work.run(request.types)
    graph.measure_projections(done.branch)
    return done


def build_indexes(graph: OpenGraph, request: BuildIndexesRequest, attached: Attachments) -> OptimizeResult:
    """Build or extend the indexes of a branch; no fragment is merged.

    Raises:
        BranchMissingError, TypeMissingError: there is no such branch or type.
        ReadOnlyError: the graph is open for reading only.
    """
    from omnigraph.engine.maintenance.optimize import Optimization  # noqa: PLC0415 - status needs none of it
    from omnigraph.engine.maintenance.planning import LocalRunner  # noqa: PLC0415 - see above

    branch_writer = graph.store.current(BranchName.parse(request.branch))[0]
    runner = attached.runner or LocalRunner(graph.store.storage, graph.maintenance.threads)
    work = Optimization(branch_writer, graph.catalogs.get, runner, actor=request.actor, message=request.message)
    return work.run(request.types, compacts=False)


def cleanup(graph: OpenGraph, request: CleanupRequest, attached: Attachments) -> CleanupResult:
    """Give back the storage of old states, or say what would go.

    Raises:
        UsageError: neither ``keep`` nor ``older_than_s`` is given.
        TableDriftError: a table was changed by something else, and has to be repaired first.
        ClaimBusyError: writers kept a branch busy for too long; nothing was removed.
        ReadOnlyError: the graph is open for reading only.
    """
    from omnigraph.engine.maintenance.cleanup import Cleanup  # noqa: PLC0415 - status needs none of it
    from omnigraph.engine.maintenance.retention import Retention  # noqa: PLC0415 - see above

    del attached
    check_flag("confirm", request.confirm)
    retention = Retention(keep=request.keep, older_than_s=request.older_than_s)
    work = Cleanup(graph.store, retention, graph.maintenance, graph.runtime)
    return work.run() if request.confirm else work.preview()


def status(graph: OpenGraph, request: StatusRequest, attached: Attachments) -> GraphStatus:
    """Say how the graph fares.

    Raises:
        BranchMissingError: there is no such branch.
    """
    from omnigraph.engine.maintenance.status import read_status  # noqa: PLC0415 - the others need none of it

    check_flag("storage", request.storage)
    del attached
    return read_status(
        graph.store,
        BranchName.parse(request.branch),
        graph.catalog_at(graph.snapshot(request.branch, None)),
        graph.maintenance,
        graph.runtime,
        storage=request.storage,
    )


def repair(graph: OpenGraph, request: RepairRequest, attached: Attachments) -> RepairResult:
    """Show or settle what something other than omnigraph has done to the tables of a branch.

    Raises:
        UsageError: ``force`` or ``discard`` without ``confirm``, or both.
        ClaimBusyError: a write is under way, or waits to be recovered.
        ExpectedVersionMismatchError: a table moved meanwhile.
        ReadOnlyError: the graph is open for reading only.
    """
    from omnigraph.engine.maintenance.repair import RepairOrder  # noqa: PLC0415 - status needs none of it
    from omnigraph.engine.maintenance.repair import repair as repair_tables  # noqa: PLC0415 - see above
    from omnigraph.txn.recovery.records import DamagedRecords  # noqa: PLC0415 - see above

    del attached
    order = RepairOrder(confirm=request.confirm, force=request.force, discard=request.discard, message=request.message)
    branch = BranchName.parse(request.branch)
    # What is left of branches that are gone, and what no branch owns, is looked after with main.
    gone = graph.store.gone_lines() if branch.is_main else ()
    records = DamagedRecords(graph.store) if branch.is_main else None
    return repair_tables(graph.store.current(branch)[0], order, gone, records)


def migrate(graph: OpenGraph, request: MigrateRequest, attached: Attachments) -> MigrateResult:
    """Bring every branch to the newest storage format, or say what would change.

    Raises:
        ClaimBusyError: writers kept a branch busy for too long; branches before it have the newest format.
        ReadOnlyError: the graph is open for reading only.
    """
    from omnigraph.engine.maintenance.migrate import Migration  # noqa: PLC0415 - status needs none of it

    del attached
    check_flag("preview", request.preview)
    work = Migration(graph.store, actor=request.actor, message=request.message)
    return work.preview() if request.preview else work.run()
