"""Repair: showing drift that recovery does not own, and adopting or discarding it when somebody has decided.

A damaged claim or record is shown with what storage says of it, and settled by what can be proved. Projections are
looked at, too: a damaged one is as if it had never been written, and takes storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

from omnigraph.errors import BadValue, ClaimBusyError, ClaimHeld, UsageError
from omnigraph.records import record
from omnigraph.txn.claims.store import UNREADABLE, PendingClaim
from omnigraph.txn.manifest.rows import ManifestState
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.recovery.drift import Drift, adopt_drift, discard_drift, find_drift
from omnigraph.txn.recovery.pending import DamagedClaim, DamagedClaims, pending_claims
from omnigraph.txn.recovery.records import DamagedRecords
from omnigraph.txn.services import BranchServices
from omnigraph.values import BranchName, check_flags, checked_text
from omnigraph.values.counts import counted
from omnigraph.values.damage import DamagedRecord
from omnigraph.values.printable import Printable

_LOOK_EVERY_S = 0.25

Action = Literal["no_op", "preview", "healed", "forced", "discarded", "refused"]


@record
class RepairedTable:
    """One table: how far its head is from what the branch says, and what was done about it."""

    table_key: str
    published_version: int
    head_version: int
    classification: str
    action: Action
    operations: tuple[str, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the table as every result shows it."""
        return {
            "type_key": self.table_key,
            "published_dataset_version": self.published_version,
            "lance_head_version": self.head_version,
            "classification": self.classification,
            "action": self.action,
            "operations": list(self.operations),
            "error": self.error,
        }


@record
class DamagedProjection:
    """A projection whose bytes are not what was written; ``action`` says whether its file was removed.

    ``kind`` is the structure, ``of`` the number of the column that it is about, if it is about one.
    """

    key: str
    table_key: str
    kind: str
    of: str
    bytes: int
    action: Literal["preview", "dropped"]

    def to_json(self) -> dict[str, Any]:
        """Return the projection as every result shows it."""
        return {
            "type_key": self.table_key,
            "kind": self.kind,
            "file": self.key,
            "bytes": self.bytes,
            "action": self.action,
        }

    def __str__(self) -> str:
        return f"{self.table_key}: {self.action}, damaged projection {self.kind}, {self.bytes} bytes file={self.key}"


@record
class RepairResult(Printable):
    """What a repair found and did. ``manifest_version`` is None when nothing was published.

    ``claims`` are writes that were neither finished nor known to be dead, ``damaged`` claims that cannot be understood.
    ``records`` are small records that cannot be understood, of the whole graph and shown with main.
    A preview shows claims and no table; otherwise each was watched until it ended, or was taken over or settled after
    the grace period without a sign of life. ``projections`` are damaged ones; optimize, or a read that needs one,
    builds it again.
    """

    branch: BranchName
    manifest_version: int | None
    tables: tuple[RepairedTable, ...]
    claims: tuple[PendingClaim, ...] = ()
    projections: tuple[DamagedProjection, ...] = ()
    damaged: tuple[DamagedClaim, ...] = ()
    records: tuple[DamagedRecord, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield what became of each write that was in the way, and of each table that drifted."""
        yield from map(str, self.damaged)
        yield from map(str, self.records)
        for claim in self.claims:
            action = "ended" if self.tables else "pending"
            yield f"write {claim.version}: {action}, {claim.kind} of '{claim.holder}', which is {claim.state}"
        found = [table for table in self.tables if table.action != "no_op"]
        for table in found:
            operations = ", ".join(table.operations) or table.error or ""
            yield (
                f"{table.table_key}: {table.action}, {table.classification}"
                f" published={table.published_version} head={table.head_version} operations={operations}"
            )
        if not found and (self.tables or not (self.claims or self.damaged)):
            yield f"no drift in {counted(len(self.tables), 'table')}"
        yield from map(str, self.projections)

    @property
    def is_refused(self) -> bool:
        """Whether something was left that needs a decision."""
        left = [*(claim.settlement for claim in self.damaged), *(one.settlement for one in self.records)]
        is_damaged = "refused" in left
        return is_damaged or any(table.action == "refused" for table in self.tables)


@record
class RepairOrder:
    """What to do about drift.

    Args:
        confirm: adopt compactions, which change no row; otherwise only look.
        force: adopt every other drift too.
        discard: undo every drift instead.
        message: what the commit says.

    Raises:
        UsageError: ``force`` or ``discard`` without ``confirm``, or both of them, or something that is not a flag.
    """

    confirm: bool = False
    force: bool = False
    discard: bool = False
    message: str | None = None

    def __post_init__(self) -> None:
        check_flags(confirm=self.confirm, force=self.force, discard=self.discard)
        checked_text("message", self.message)
        if (self.force or self.discard) and not self.confirm:
            details = BadValue(what="arguments", value="", expected="--confirm")
            raise UsageError("--force and --discard need --confirm", details=details, hint="add --confirm")
        if self.force and self.discard:
            details = BadValue(what="arguments", value="", expected="--force or --discard")
            raise UsageError("--force and --discard cannot be combined", details=details)

    def action(self, drift: Drift) -> Action:
        """Return what becomes of one table."""
        if drift.classification == "no_drift":
            return "no_op"
        if not self.confirm:
            return "preview"
        # What writes of ours left is not theirs to keep: it was never published.
        if self.discard or drift.classification == "unpublished":
            return "discarded"
        if drift.classification == "verified_maintenance":
            return "healed"
        return "forced" if self.force else "refused"


def repair(
    branch_writer: BranchWriter,
    order: RepairOrder,
    gone: Sequence[BranchServices] = (),
    records: DamagedRecords | None = None,
) -> RepairResult:
    """Look at every table that the branch owns, and settle drift as ``order`` says.

    Args:
        branch_writer: what acts on the branch.
        order: what to do about what is found.
        gone: what acts on branches that were deleted, whose damaged claims are looked at, too.
        records: the small records of the graph, if they are looked at.

    Raises:
        ClaimBusyError: a write is under way, or has to be recovered first.
        ExpectedVersionMismatchError: a table moved meanwhile.
        RecoveryInvariantError: a table is behind its pin.
    """
    damaged_records: tuple[DamagedRecord, ...] = ()
    if records is not None:
        damaged_records = records.settle() if order.confirm else records.find()
    # What cannot be understood is shown below.
    with suppress(*UNREADABLE):
        branch_writer.recover()
    services = branch_writer.services
    cases = [DamagedClaims(services), *(DamagedClaims(other, is_gone=True) for other in gone)]
    damaged = tuple(claim for case in cases for claim in case.find())
    claims = pending_claims(services, branch_writer.known())
    is_blocked = any(claim.settlement == "refused" for claim in damaged)
    if (claims or damaged) and (not order.confirm or is_blocked):
        branch = branch_writer.snapshot().state.head.branch
        return RepairResult(
            branch=branch, manifest_version=None, tables=(), claims=claims, damaged=damaged, records=damaged_records
        )
    if damaged:
        damaged = tuple(claim for case in cases for claim in _settle(branch_writer, case))
    if claims:
        _break_claims(branch_writer)
    state = branch_writer.snapshot().state
    drifts = [find_drift(services, entry) for entry in state.tables.values() if services.line.owns(entry.pin)]
    actions = {drift.entry.table_key: order.action(drift) for drift in drifts}
    adopted = [drift for drift in drifts if actions[drift.entry.table_key] in {"healed", "forced"}]
    discarded = [drift for drift in drifts if actions[drift.entry.table_key] == "discarded"]
    version = None
    if adopted:
        is_forced = "forced" in actions.values()
        done = adopt_drift(services, branch_writer.recover_claim, adopted, is_forced=is_forced, message=order.message)
        version = done.state.version
    if discarded:
        undone = discard_drift(services, branch_writer.recover_claim, discarded, message=order.message)
        version = undone.state.version
    return RepairResult(
        branch=state.head.branch,
        manifest_version=version,
        tables=_reports(drifts, actions),
        claims=claims,
        projections=tuple(_check_projections(services, state, drops=order.confirm)),
        damaged=damaged,
        records=damaged_records,
    )


def _check_projections(services: BranchServices, state: ManifestState, *, drops: bool) -> Iterator[DamagedProjection]:
    """Yield the projections of the graph that are not what was written, and remove them if asked to.

    Those of another format are left to the version of omnigraph that writes them.
    """
    store = services.tables.datasets.projections
    table_keys = {entry.pin.location: entry.table_key for entry in state.tables.values()}
    for stored in store.list_all():
        if not stored.is_known or store.is_intact(stored) or store.is_foreign(stored):
            continue
        if drops:
            store.drop(stored.key)
        yield DamagedProjection(
            key=stored.key,
            table_key=table_keys.get(stored.location, stored.location),
            kind=stored.kind,
            of=stored.of,
            bytes=stored.size,
            action="dropped" if drops else "preview",
        )


def _reports(drifts: Sequence[Drift], actions: dict[str, Action]) -> tuple[RepairedTable, ...]:
    return tuple(
        RepairedTable(
            table_key=drift.entry.table_key,
            published_version=drift.entry.pin.version,
            head_version=drift.head,
            classification=drift.classification,
            action=actions[drift.entry.table_key],
            operations=drift.operations,
            error=drift.error,
        )
        for drift in drifts
    )


def _settle(branch_writer: BranchWriter, case: DamagedClaims) -> Iterator[DamagedClaim]:
    """Watch the damaged claims of one branch as others are watched, then settle each.

    Raises:
        ClaimBusyError: somebody still gives signs of life.
    """
    clock, settings = branch_writer.services.runtime.clock, branch_writer.services.settings
    for claim in case.find():
        until_s = clock.monotonic_s() + settings.grace_s + settings.claim_wait_s
        while not case.is_silent(claim.version):
            if clock.monotonic_s() > until_s:
                details = ClaimHeld(branch=claim.branch, version=claim.version, holder="", waited_s=settings.grace_s)
                raise ClaimBusyError(f"the holder of damaged claim '{claim.file}' is alive", details=details)
            clock.sleep(_LOOK_EVERY_S)
        yield case.settle(claim)


def _break_claims(branch_writer: BranchWriter) -> None:
    """Watch the claims of a branch until they are gone: a holder without a sign of life loses its claim.

    Raises:
        ClaimBusyError: a writer is alive and goes on.
    """
    clock, settings = branch_writer.services.runtime.clock, branch_writer.services.settings
    until_s = clock.monotonic_s() + settings.grace_s + settings.claim_wait_s
    services = branch_writer.services
    while pending := pending_claims(services, branch_writer.known()):
        writing = [claim for claim in pending if claim.state == "alive"]
        first = (*writing, *pending)[0]
        if writing or clock.monotonic_s() > until_s:
            details = ClaimHeld(
                branch=first.branch, version=first.version, holder=first.holder, waited_s=first.silent_s
            )
            raise ClaimBusyError(
                f"'{first.holder}' is writing version {first.version} of branch '{first.branch}'",
                details=details,
            )
        clock.sleep(_LOOK_EVERY_S)
        branch_writer.recover()
