"""Finishing or undoing the publishes of writers that are gone.

Recovery is part of the commit protocol: it runs the same phases on the same plans. Whatever step it is interrupted
at, the sidecar is still there, and whoever comes next classifies what it finds and ends in the same two places.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import StrEnum

from omnigraph.errors import (
    BranchMissingError,
    ClaimBusyError,
    ClaimHeld,
    CompareAndSwapLostError,
    HeadMoved,
    OmnigraphError,
    RecoveryInvariantError,
    TableDrift,
    TableMovedError,
)
from omnigraph.records import record
from omnigraph.txn.branches.delete import BranchDeletion
from omnigraph.txn.branches.incarnation import branch_missing
from omnigraph.txn.claims.store import UNREADABLE, Holding
from omnigraph.txn.manifest.file import LOCATION as MANIFEST_LOCATION
from omnigraph.txn.manifest.file import LoadedManifest, StagedManifest
from omnigraph.txn.offers.sweep import sweep_offers
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.publish.retention import publish_plan
from omnigraph.txn.recovery.audit import AuditRow
from omnigraph.txn.recovery.classify import Observation, TableClass, observe_plan, observe_table, stands_within
from omnigraph.txn.recovery.undo import plan_undo
from omnigraph.txn.services import BranchServices
from omnigraph.values import CommitId, OperationId

_log = logging.getLogger(__name__)

# Each round either ends or meets a version that another process published in the meantime.
_MAX_ROUNDS = 64


class RecoveryKind(StrEnum):
    """How an abandoned publish ended."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    DISCARDED = "OrphanedBranchDiscarded"


@record
class Recovery:
    """The end of one abandoned publish, and the manifest after it."""

    kind: RecoveryKind
    observations: tuple[Observation, ...]
    commit_id: CommitId
    manifest: LoadedManifest


class Recoverer:
    """Recovers the claims of one branch."""

    def __init__(self, services: BranchServices) -> None:
        self._services = services
        # Turns of this process that an error ended. Nobody else may go on with them while it lives, so it does.
        self._broken_off: dict[int, int] = {}

    def recover_abandoned(self) -> tuple[Recovery, ...]:
        """Recover every claim of the branch whose holder is gone; leave those of live writers alone.

        Raises:
            SidecarCorruptError, StorageDeniedError: a claim cannot be understood; all others were looked at.
        """
        done, unreadable = [], None
        for version in self._services.claims.pending_versions():
            try:
                recovery = self.recover_if_abandoned(version)
            except BranchMissingError:
                # Nothing can come of what others claimed on a branch that is gone, and each claim says so itself.
                continue
            except UNREADABLE as error:
                unreadable = unreadable or error
                continue
            if recovery is not None:
                done.append(recovery)
        self._services.claims.remove_strays()
        sweep_offers(self._services)
        if unreadable is not None:
            raise unreadable
        return tuple(done)

    def recover_if_abandoned(self, version: int) -> Recovery | None:
        """Take over one claim if its holder may be presumed dead, and end it. None: not ours to touch.

        Raises:
            SidecarCorruptError: the claim cannot be understood.
            RecoveryInvariantError: a table is behind its pin.
        """
        claims = self._services.claims
        plan = claims.read(version)
        if plan is None:
            return None
        holding = claims.holding(plan)
        turn = holding.turn
        try:
            if not self._was_broken_off(version, holding):
                if not claims.is_abandoned(holding):
                    return None
                turn += 1
                if not claims.take_over(version, holding, self._services.writer):
                    return None
            self._services.runtime.failpoints.hit("txn.recover.after_takeover")
            return self.resolve(plan)
        except BaseException:
            self._broken_off[version] = turn
            raise

    def resolve(self, plan: PublishPlan) -> Recovery:
        """End the publish of ``plan``, whose claim the caller holds, and remove the claim.

        Each outcome leaves every table of the plan at a version that the manifest names.

        Raises:
            BranchMissingError: the branch is gone, by the deletion that the plan stood for or by another; so is the
                claim.
        """
        if plan.kind is WriteKind.BRANCH_DELETE:
            return self._resolve_deletion(plan)
        self._services.manifest.put_torn_aside(plan.target_version)
        try:
            recovery = self._end_floor(plan) if plan.kind is WriteKind.CLEANUP else self._end(plan)
        except BranchMissingError:
            self._conclude(plan, RecoveryKind.DISCARDED, plan.base_commit, ())
            raise
        self._services.runtime.failpoints.hit("txn.recover.after_publish")
        self._conclude(plan, recovery.kind, recovery.commit_id, recovery.observations)
        return recovery

    def _resolve_deletion(self, plan: PublishPlan) -> Recovery:
        is_gone = BranchDeletion(self._services.stores).resume(self._services, plan)
        kind = RecoveryKind.ROLLED_FORWARD if is_gone else RecoveryKind.ROLLED_BACK
        self._conclude(plan, kind, plan.base_commit, ())
        if is_gone:
            raise branch_missing(plan.branch)
        return _recovery(kind, (), plan.base_commit, self._services.load())

    def _end_floor(self, plan: PublishPlan) -> Recovery:
        """Record the floor of a cleanup that died, unless its version is taken: then the cleanup never began."""
        for _ in range(_MAX_ROUNDS):
            base = self._services.load()
            if base.state.version >= plan.target_version:
                self._services.stores.syncing.found(base.dataset, plan.target_version)
                was_published = base.state.head.last_cleanup >= plan.target_version
                kind = RecoveryKind.ROLLED_FORWARD if was_published else RecoveryKind.ROLLED_BACK
                return _recovery(kind, (), base.state.head.commit, base)
            try:
                manifest = publish_plan(self._services, plan, base)
            except CompareAndSwapLostError:
                self._pause()
                continue
            return _recovery(RecoveryKind.ROLLED_FORWARD, (), manifest.state.head.commit, manifest)
        raise _busy(plan)

    def use_up(self, version: int, plan_id: str) -> Recovery:
        """End the publish of a claim that cannot be understood, and remove the claim.

        A version that is published says what became of it. One that is not was acknowledged to nobody: whatever the
        tables of the branch hold unpublished is undone in it, so that its owner, should it live, finds it taken.

        Raises:
            RecoveryInvariantError: a table is behind its pin, or the version is further than the next one.
        """
        for _ in range(_MAX_ROUNDS):
            base = self._services.load()
            seen = self.observe_owned(base)
            self._services.runtime.failpoints.hit("txn.recover.after_classify")
            _refuse_violations(seen)
            try:
                if base.state.version >= version:
                    self._services.stores.syncing.found(base.dataset, version)
                    manifest = self._undo_unpublished(seen, base)
                else:
                    manifest = self._undo_all(seen, base, f"undo of what claimed version {version}")
            except (CompareAndSwapLostError, TableMovedError):
                self._pause()
                continue
            self._services.runtime.failpoints.hit("txn.recover.after_publish")
            commit_id = manifest.state.head.commit
            self._record(
                AuditRow(
                    recovery_kind=RecoveryKind.ROLLED_BACK.value,
                    operation_id=OperationId(self._services.runtime.ids.ulid()),
                    plan_id=plan_id,
                    writer_kind="unknown",
                    branch=base.state.head.branch,
                    original_actor=None,
                    commit_id=commit_id,
                    observations=tuple(seen),
                    recovered_at_ms=self._services.runtime.clock.now_ms(),
                ),
                version,
            )
            return _recovery(RecoveryKind.ROLLED_BACK, tuple(seen), commit_id, manifest)
        raise _still_busy(self._services.line.name, version, "its holder")

    def observe_owned(self, base: LoadedManifest) -> tuple[Observation, ...]:
        """Compare every table that the branch owns with its pin."""
        return tuple(
            observe_table(entry.table_key, entry.pin, self._services.tables)
            for entry in base.state.tables.values()
            if self._services.line.owns(entry.pin)
        )

    def _conclude(
        self, plan: PublishPlan, kind: RecoveryKind, commit_id: CommitId, observations: tuple[Observation, ...]
    ) -> None:
        """Record how the publish ended, then remove its claim."""
        self._record(
            AuditRow(
                recovery_kind=kind.value,
                operation_id=plan.operation_id,
                plan_id=plan.publish_uuid,
                writer_kind=plan.kind.value,
                branch=plan.branch,
                original_actor=plan.actor,
                commit_id=commit_id,
                observations=observations,
                recovered_at_ms=self._services.runtime.clock.now_ms(),
            ),
            plan.target_version,
        )

    def _record(self, row: AuditRow, version: int) -> None:
        self._services.audit.record(row)
        self._services.runtime.tally.add("recoveries")
        self._services.runtime.failpoints.hit("txn.recover.after_audit")
        self._services.claims.release(version)

    def _was_broken_off(self, version: int, holding: Holding) -> bool:
        """Whether the claim is held by a turn of our own that failed; whoever is told so goes on with it."""
        return self._broken_off.pop(version, 0) == holding.turn > 0 and holding.writer == self._services.writer

    def _end(self, plan: PublishPlan) -> Recovery:
        for _ in range(_MAX_ROUNDS):
            base = self._services.load()
            self._put_torn_aside(plan, base)
            observations = observe_plan(plan, base.state, self._services.tables)
            self._services.runtime.failpoints.hit("txn.recover.after_classify")
            commits = plan.change.commits
            is_published = self._services.manifest.has_published(base, commits, plan.target_version)
            if not is_published:
                _refuse_violations(observations)
            try:
                if base.state.version >= plan.target_version:
                    # Whoever published that version may have died before it was on the disk, and from now on no claim
                    # tells that it was never acknowledged.
                    self._services.stores.syncing.found(base.dataset, plan.target_version)
                    manifest = self._heal(plan, base)
                    if is_published:
                        return _recovery(RecoveryKind.ROLLED_FORWARD, observations, commits[-1].id, manifest)
                    return _recovery(RecoveryKind.ROLLED_BACK, observations, manifest.state.head.commit, manifest)
                return self._end_current(plan, base, observations)
            except (CompareAndSwapLostError, TableMovedError):
                # The presumed-dead writer, or whoever holds a later claim, was faster: look again, and not in step
                # with another recoverer of the same tables.
                self._pause()
        raise _busy(plan)

    def _put_torn_aside(self, plan: PublishPlan, base: LoadedManifest) -> None:
        """Move away what a power failure left of table versions that the plan was to make and nothing names."""
        places = {(commit.before.location, commit.before.branch) for commit in plan.commits}
        for entry in base.state.tables.values():
            if (entry.pin.location, entry.pin.branch) in places:
                self._services.tables.put_torn_aside(entry.pin)

    def _end_current(self, plan: PublishPlan, base: LoadedManifest, observations: tuple[Observation, ...]) -> Recovery:
        """The plan's version is still free: all of its tables landed, or none of them shall have."""
        landed = all(seen.klass is TableClass.ROLLED_PAST_EXPECTED for seen in observations)
        staged = self._stage_again(plan, base) if landed else None
        if staged is not None:
            for commit in plan.commits:
                # The writer may have died between landing and syncing.
                self._services.stores.syncing.after_landing(commit)
            manifest = self._services.phases.publish(plan, base, staged)
            return _recovery(RecoveryKind.ROLLED_FORWARD, observations, plan.change.commits[-1].id, manifest)
        # Undone to what the manifest names, not to what the plan was built on: a plan that is itself an undo was
        # built on rows that nobody published.
        manifest = self._undo_all(self._observe_current(plan, base), base, f"undo of {plan.operation_id}")
        return _recovery(RecoveryKind.ROLLED_BACK, observations, manifest.state.head.commit, manifest)

    def _undo_all(self, observations: Sequence[Observation], base: LoadedManifest, reason: str) -> LoadedManifest:
        """Undo what moved, in the version whose claim is held, and use that version up when nothing did."""
        undo = plan_undo(self._services, base, observations, reason)
        self._services.phases.commit_tables(undo)
        return self._publish(undo, base)

    def _stage_again(self, plan: PublishPlan, base: LoadedManifest) -> StagedManifest | None:
        """Upload the manifest of a plan whose tables have landed.

        None: it holds something that no manifest can. Nothing of it was published, so that it can be undone; finishing
        it would fail for whoever tries, and keep the branch for ever.
        """
        try:
            return self._services.phases.stage(base, plan)
        except OmnigraphError:
            raise
        except (ValueError, TypeError) as trouble:
            _log.warning("cannot finish write '%s', undoing it: %s", plan.publish_uuid, trouble)
            return None

    def _heal(self, plan: PublishPlan, base: LoadedManifest) -> LoadedManifest:
        """The plan's version is taken: undo, under a claim of its own, whatever the plan's tables hold unpublished.

        That is what the plan itself moved after it was fenced, or what a recoverer undid too late. Only tables that
        the newest manifest pins on the same line matter; nobody can reach the others.
        """
        return self._undo_unpublished(self._observe_current(plan, base), base, f"undo of {plan.operation_id}")

    def _undo_unpublished(
        self, observations: Sequence[Observation], base: LoadedManifest, reason: str = "undo of unpublished commits"
    ) -> LoadedManifest:
        moved = [seen for seen in observations if seen.has_moved and not seen.is_foreign]
        drifted = self._without_window(moved, base)
        if not drifted:
            return base
        undo = plan_undo(self._services, base, drifted, reason)
        if not self._services.claims.claim(undo):
            self._wait_for_claim(undo.target_version)
            raise _lost(undo)
        if self._services.manifest.latest_version() != base.state.version:
            # What looked like drift may have been the window of whoever published since. No table was touched.
            self._services.claims.release(undo.target_version)
            raise _lost(undo)
        try:
            self._services.phases.commit_tables(undo)
            manifest = self._publish(undo, base)
        except (CompareAndSwapLostError, TableMovedError):
            # Overtaken. What the undo has moved is drift like any other, and its sidecar the only one that is sure
            # to name it: it goes when that is healed.
            self.resolve(undo)
            raise
        self._services.claims.release(undo.target_version)
        return manifest

    def _without_window(self, moved: Sequence[Observation], base: LoadedManifest) -> Sequence[Observation]:
        """Leave out tables that stand where the plan of the next version's claim puts them.

        They are in the window of its holder, who publishes them or whose claim gets them undone. On a busy branch
        there always is such a window: whoever waited for a moment without one could wait for ever.
        """
        claim = self._services.claims.read(base.state.version + 1) if moved else None
        if claim is None:
            return moved
        chains = {chain[0].before: chain for chain in claim.chains.values()}
        tables = self._services.tables
        return [
            seen for seen in moved if seen.pin not in chains or not stands_within(chains[seen.pin], seen.head, tables)
        ]

    def _observe_current(self, plan: PublishPlan, base: LoadedManifest) -> Sequence[Observation]:
        places = {(commit.before.location, commit.before.branch) for commit in plan.commits}
        return [
            observe_table(entry.table_key, entry.pin, self._services.tables)
            for entry in base.state.tables.values()
            if (entry.pin.location, entry.pin.branch) in places
        ]

    def _publish(self, plan: PublishPlan, base: LoadedManifest) -> LoadedManifest:
        staged = self._services.phases.stage(base, plan)
        return self._services.phases.publish(plan, base, staged)

    def _wait_for_claim(self, version: int) -> None:
        """Give whoever holds the newest claim a moment, or recover it when nobody is there any more."""
        if self.recover_if_abandoned(version) is None:
            self._pause()

    def _pause(self) -> None:
        runtime = self._services.runtime
        runtime.clock.sleep(0.02 + 0.05 * runtime.randomness.fraction())


def _refuse_violations(observations: Sequence[Observation]) -> None:
    for seen in observations:
        if seen.klass is TableClass.INVARIANT_VIOLATION:
            details = TableDrift(table_key=seen.table_key, published=seen.pin.version, head=seen.head)
            raise RecoveryInvariantError(
                f"table '{seen.table_key}' is behind its published version:"
                f" published {seen.pin.version}, head {seen.head}",
                details=details,
            )


def _recovery(
    kind: RecoveryKind, observations: tuple[Observation, ...], commit_id: CommitId, manifest: LoadedManifest
) -> Recovery:
    return Recovery(kind=kind, observations=observations, commit_id=commit_id, manifest=manifest)


def _lost(plan: PublishPlan) -> CompareAndSwapLostError:
    details = HeadMoved(location=MANIFEST_LOCATION, expected=plan.target_version, actual=None)
    return CompareAndSwapLostError("another writer was faster", details=details)


def _busy(plan: PublishPlan) -> ClaimBusyError:
    return _still_busy(plan.branch, plan.target_version, f"{plan.writer.host} pid {plan.writer.pid}")


def _still_busy(branch: str, version: int, holder: str) -> ClaimBusyError:
    details = ClaimHeld(branch=branch, version=version, holder=holder, waited_s=0.0)
    return ClaimBusyError("the branch kept moving while an abandoned write was undone", details=details)
