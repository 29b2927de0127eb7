"""Requests that keep a graph in shape, or say how it fares. None of them changes an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.operations.request import Request, operation
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from omnigraph.engine.maintenance.cleanup import CleanupResult
    from omnigraph.engine.maintenance.migrate import MigrateResult
    from omnigraph.engine.maintenance.optimize import OptimizeResult
    from omnigraph.engine.maintenance.repair import RepairResult
    from omnigraph.engine.maintenance.status import GraphStatus
    from omnigraph.store.staging.compaction import CompactionPolicy


@operation("optimize", Action.MAINTAIN, writes=True)
@record
class OptimizeRequest(Request["OptimizeResult"]):
    """Compact the tables of a branch and bring their indexes and projections up to date, beside all writers.

    Args:
        branch: whose tables; those that it inherits are left to the branch that owns them.
        types: only these, ``Person`` or ``node:Person``.
        actor: who asks for it.
        message: what its commits say.
        policy: when fragments are merged.
    """

    branch: str = MAIN
    types: Sequence[str] | None = None
    actor: str | None = None
    message: str | None = None
    policy: CompactionPolicy | None = None


@operation("build_indexes", Action.MAINTAIN, writes=True)
@record
class BuildIndexesRequest(Request["OptimizeResult"]):
    """Build or extend the indexes that the schema declares, as one commit; fragments stay as they are.

    The fields are those of :class:`OptimizeRequest`.
    """

    branch: str = MAIN
    types: Sequence[str] | None = None
    actor: str | None = None
    message: str | None = None


@operation("cleanup", Action.MAINTAIN, writes=True)
@record
class CleanupRequest(Request["CleanupResult"]):
    """Give back the storage of old states, on every branch; without ``confirm`` only say what would go.

    Args:
        keep: how many of the newest states of each branch stay.
        older_than_s: how long a state stays after it was current.
        confirm: do it; states that go can never be read again.
    """

    keep: int | None = None
    older_than_s: float | None = None
    confirm: bool = False


@operation("status", Action.MAINTAIN)
@record
class StatusRequest(Request["GraphStatus"]):
    """Say how the graph fares: rows, fragments, indexes, writes under way, and what to do about it.

    Args:
        branch: as which branch sees it.
        storage: look at every stored file, too: versions and bytes. That takes longer the more states are kept.
    """

    branch: str = MAIN
    storage: bool = False


@operation("repair", Action.MAINTAIN, writes=True)
@record
class RepairRequest(Request["RepairResult"]):
    """Show what something other than omnigraph has done to the tables of a branch, and settle it if asked to.

    Args:
        branch: whose tables.
        confirm: adopt compactions, which change no row; otherwise only look.
        force: adopt every other change too.
        discard: undo every change instead.
        message: what the commit says.
    """

    branch: str = MAIN
    confirm: bool = False
    force: bool = False
    discard: bool = False
    message: str | None = None


@operation("migrate", Action.MAINTAIN, writes=True)
@record
class MigrateRequest(Request["MigrateResult"]):
    """Bring every branch of a graph to the newest storage format, or say what would change.

    Args:
        preview: only say what would change.
        actor: who asks for it.
        message: what its commits say.
    """

    preview: bool = False
    actor: str | None = None
    message: str | None = None
