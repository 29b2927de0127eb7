"""Driving a batch of transactions through phases A to D, rebasing as often as the branch moves under it."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import field

from omnigraph.errors import (
    BranchMissingError,
    ClaimBusyError,
    ClaimHeld,
    CommitOutcome,
    CompareAndSwapLostError,
    Effect,
    HeadMoved,
    OmnigraphError,
    TableDrift,
    TableDriftError,
    TableMovedError,
    WriteOutcomeError,
)
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters, Runtime, counting, current_counters, in_context
from omnigraph.txn.claims.heartbeat import ClaimHeartbeat
from omnigraph.txn.claims.store import ClaimStore
from omnigraph.txn.manifest.file import LOCATION as MANIFEST_LOCATION
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.requests import already_done
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.batch import Batch, Member
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.recovery.recoverer import Recoverer, Recovery, RecoveryKind
from omnigraph.txn.services import BranchServices
from omnigraph.txn.transaction import WriteTxn

_log = logging.getLogger(__name__)


class Releaser:
    """Deletes claims in the background.

    A failure is logged and tried again with the next one: the write is durable, and whoever opens the graph next
    consumes what is left.
    """

    def __init__(self, claims: ClaimStore, keeper: ClaimHeartbeat, runtime: Runtime) -> None:
        self._claims = claims
        self._keeper = keeper
        self._world = runtime
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="omnigraph-release")
        self._lock = threading.Lock()
        self._pending: list[int] = []
        self._last: Future[None] | None = None

    def release(self, version: int) -> None:
        """Delete the claim of ``version`` soon."""
        with self._lock:
            self._pending.append(version)
        self._last = self._pool.submit(self._drain)

    def close(self) -> None:
        """Wait for the releases under way, and try once more what failed."""
        self._pool.shutdown(wait=True)
        self._drain()

    def _drain(self) -> None:
        with self._lock:
            versions = tuple(self._pending)
        for version in versions:
            try:
                self._world.failpoints.hit("txn.release.before_delete")
                was_renewed = self._keeper.forget(version)
                # The write that it belonged to is answered already: nobody is charged for it.
                with counting():
                    self._claims.release_own(version, was_renewed=was_renewed)
                self._world.failpoints.hit("txn.release.after_delete")
            except OmnigraphError as error:
                _log.warning("could not delete the sidecar of version %s: %s", version, error)
            else:
                with self._lock:
                    self._pending.remove(version)


# How long a sign of other writers makes this one look again after it won a claim.
_CONTENTION_S = 5.0
# A base that was looked at longer ago is looked at again under the claim. Cleanup keeps versions far longer than that,
# so that within it the number after the base is either free or taken.
_FRESH_S = 5.0
_FIRST_WAIT_S = 0.004
_LONGEST_WAIT_S = 0.25
# A live writer is normally done before its claim is worth reading.
_LOOK_AT_HOLDER_AFTER_S = 0.15


@record
class CommitResult:
    """The outcome of a write: its commit, None when there was nothing to change, and the manifest that holds it."""

    commit: Commit | None
    manifest: LoadedManifest
    cost: Cost

    @property
    def manifest_version(self) -> int:
        """The version of the manifest."""
        return self.manifest.state.version


@record(frozen=False, kw_only=False)
class _Backoff:
    """How long one batch has waited, and how long it may; ``seen_s`` is when its base was known to be the newest."""

    began_s: float
    started_s: float
    seen_s: float
    attempts: int = 0
    delay_s: float = _FIRST_WAIT_S
    looked_s: float = field(default=0.0)

    def renew(self, now_s: float) -> None:
        """Start to wait afresh: progress of others is not a reason to give up, nor is time spent in a window."""
        self.started_s, self.looked_s, self.delay_s = now_s, 0.0, _FIRST_WAIT_S


@record(frozen=False, kw_only=False)
class _Unsettled:
    """A plan that may have left something behind: its claim, and what it moved."""

    plan: PublishPlan
    is_claimed: bool = False


class Publisher:
    """Publishes batches on one branch, one at a time."""

    def __init__(self, services: BranchServices, recoverer: Recoverer) -> None:
        self._services = services
        self._world = services.runtime
        self._settings = services.settings
        self._recoverer = recoverer
        self._keeper = ClaimHeartbeat(services.claims, services.writer, services.settings.grace_s)
        self._releaser = Releaser(services.claims, self._keeper, services.runtime)
        # Nobody knows at first whether others write here, so the first claim is looked at again.
        self._contended_until_s = math.inf
        # Plans that may hold a claim: noted before it is made, forgotten when nothing is left of it. One that an
        # exception tore out of its window is ended before anything else is written.
        self._unsettled: dict[str, _Unsettled] = {}

    def close(self) -> None:
        """End what broke off, finish the releases that run behind acknowledged writes, and stop renewing."""
        try:
            self._settle_all()
        finally:
            self._releaser.close()
            self._keeper.close()

    def publish(
        self, txns: Sequence[WriteTxn], base: LoadedManifest, seen_s: float
    ) -> list[CommitResult | BaseException]:
        """Publish what can be published; one outcome per transaction, in order.

        Args:
            txns: the transactions.
            base: the newest version that is known.
            seen_s: when it was known to be the newest there is.
        """
        batch = Batch([Member(txn) for txn in txns])
        with counting() as counters:
            manifest = self._publish(batch, base, seen_s)
        return [self._outcome(member, manifest, counters) for member in batch.members]

    def _publish(self, batch: Batch, base: LoadedManifest, seen_s: float) -> LoadedManifest:
        """Publish what can be published, and return the version that holds it; a member that cannot be says why."""
        began_s = self._world.clock.monotonic_s()
        backoff = _Backoff(began_s=began_s, started_s=began_s, seen_s=seen_s)
        try:
            self._settle_all()
            while True:
                manifest = self._attempt(batch, base, backoff)
                if manifest is not None:
                    break
                backoff.seen_s = self._world.clock.monotonic_s()
                newest = self._services.load(base)
                if newest.state.version > base.state.version:
                    self._saw_others()
                    self._world.tally.add("rebases")
                    backoff.renew(self._world.clock.monotonic_s())
                base = newest
        except OmnigraphError as error:
            batch.fail_all(error)
            return base
        except Exception:
            # A mistake of the program. Its claim must not stay: this process lives, so others would wait for it.
            self._settle_all()
            raise
        return manifest

    def _attempt(self, batch: Batch, base: LoadedManifest, backoff: _Backoff) -> LoadedManifest | None:
        """Try once upon ``base``; None means that the branch has moved and it is worth looking again."""
        backoff.attempts += 1
        if backoff.attempts > self._settings.max_attempts or self._is_late(batch, backoff):
            raise self._busy(base, backoff, batch.reruns)
        batch.prepare(self._services, base)
        plan = batch.plan(self._services, base)
        if plan is None:
            return base
        self._world.failpoints.hit("txn.stage.after_files")
        # A claim in another graph that was made in the same place would be recovered there.
        self._services.manifest.check_same(base)
        self._unsettled[plan.publish_uuid] = _Unsettled(plan)
        if not self._claim(plan):
            self._settled(plan)
            self._wait(plan, base, backoff)
            return None
        if self._is_overtaken(plan, backoff):
            # The version was published and released before this claim was made: it holds nothing, and the
            # tables have not been touched.
            self._let_go(plan)
            return None
        return self._run_window(batch, plan, base)

    def _claim(self, plan: PublishPlan) -> bool:
        """Phase A. Before: nothing names this write. After, if won: its whole plan is durable under its version."""
        self._world.failpoints.hit("txn.claim.before_put")
        with self._withdrawing(plan):
            won = self._services.claims.claim(plan)
            if won:
                self._unsettled[plan.publish_uuid].is_claimed = True
                self._world.failpoints.hit("txn.claim.after_put")
        return won

    def _is_overtaken(self, plan: PublishPlan, backoff: _Backoff) -> bool:
        is_fresh = self._world.clock.monotonic_s() - backoff.seen_s <= _FRESH_S
        if is_fresh and not self._is_contended():
            return False
        with self._withdrawing(plan):
            return self._services.manifest.latest_version() != plan.base_version

    @contextmanager
    def _withdrawing(self, plan: PublishPlan) -> Iterator[None]:
        """Take the claim back when the block fails: no table has moved yet, so the write may end without recovery."""
        try:
            yield
        except OmnigraphError as error:
            self._withdraw(plan, error)
            raise

    def _withdraw(self, plan: PublishPlan, error: OmnigraphError) -> None:
        """Remove a claim that was or may have been made, and let ``error`` say what is true of the write.

        A claim that stays is undone by whoever finds it, because its tables have not moved. Only a plan without table
        commits would be finished instead, so there nothing but the removal itself proves that it will not be.
        """
        error.effect = Effect.NONE if plan.commits else Effect.UNKNOWN
        try:
            found = self._services.claims.read(plan.target_version)
            if found is not None and found.operation_id == plan.operation_id:
                self._services.claims.release(plan.target_version)
                error.effect = Effect.NONE
        except OmnigraphError as trouble:
            _log.warning("could not withdraw the claim on version %s: %s", plan.target_version, trouble)
        else:
            self._settled(plan)

    def _run_window(self, batch: Batch, plan: PublishPlan, base: LoadedManifest) -> LoadedManifest | None:
        """Phases B and C, under the claim. Whatever goes wrong here ends in recovery of the own plan."""
        started_s = self._world.clock.monotonic_s()
        try:
            with self._keeper.holding(plan.target_version):
                manifest = self._commit_and_publish(plan, base)
        except OmnigraphError as error:
            return self._end_own(batch, plan, error)
        if self._world.clock.monotonic_s() - started_s > self._settings.grace_s:
            confirmed = self._confirm(plan)
            if confirmed is None:
                return self._end_own(batch, plan, _lost(plan))
            manifest = confirmed
        if self._contended_until_s == math.inf:
            self._contended_until_s = 0.0
        self._services.claims.acknowledge(plan.target_version)
        self._world.tally.add("publishes")
        self._world.tally.add("commits", len(plan.change.commits))
        self._let_go(plan)
        return manifest

    def _commit_and_publish(self, plan: PublishPlan, base: LoadedManifest) -> LoadedManifest:
        phases = self._services.phases
        beside, tables, look = Counters(), Counters(), Counters()
        staging = phases.stage_beside(base, plan, beside)
        looking = self._look_beside(look)
        try:
            with counting(tables):
                phases.commit_tables(plan)
        finally:
            failure = (looking.exception() if looking is not None else None) or staging.exception()
            current_counters().add_parallel((beside.cost(), tables.cost(), look.cost()))
        if failure is not None:
            raise failure
        return phases.publish_and_warm(plan, base, staging.result())

    def _look_beside(self, counters: Counters) -> Future[int] | None:
        """Look, under the claim, whether the branch is there: one that is gone can still be claimed and written to.

        A deletion holds the claim until the line is removed, so that a line that is there will stay. Main is never
        deleted.
        """
        if self._services.line.lance_branch is None:
            return None
        return self._services.stores.pool.submit(in_context(self._services.manifest.latest_version, counters))

    def _end_own(self, batch: Batch, plan: PublishPlan, error: OmnigraphError) -> LoadedManifest | None:
        """Finish or undo a window that failed, exactly as anybody else would after a crash.

        Returns the manifest when the write turned out to be published, None when it was undone and may be tried
        again; raises the error, with an effect that is true, when it was undone and trying again cannot help.
        """
        self._keeper.forget(plan.target_version)
        try:
            recovery = self._recoverer.resolve(plan)
        except BranchMissingError:
            # Nothing of it can be reached, and its claim is gone.
            self._settled(plan)
            raise
        except OmnigraphError as trouble:
            raise self._unknown(plan, error) from trouble
        self._settled(plan)
        if recovery.kind is RecoveryKind.ROLLED_FORWARD:
            return recovery.manifest
        batch.forget_staged()
        self._refuse_drift(recovery)
        if isinstance(error, CompareAndSwapLostError | TableMovedError):
            self._saw_others()
            return None
        error.effect = Effect.NONE
        raise error

    def _confirm(self, plan: PublishPlan) -> LoadedManifest | None:
        """After a window longer than the grace period, make sure that the published version is part of history.

        Cleanup may by then have removed the version that a takeover had published under the same number, and a
        compare-and-swap against a number that is free again proves nothing. None: it is not, and never will be.
        """
        try:
            newest = self._services.load()
            commit_id = plan.change.commits[-1].id
            found = self._services.manifest.find_published(newest, commit_id, plan.target_version)
        except OmnigraphError as trouble:
            raise self._unknown(plan, trouble) from trouble
        return None if found is None else newest

    def _let_go(self, plan: PublishPlan) -> None:
        self._releaser.release(plan.target_version)
        self._settled(plan)

    def _settled(self, plan: PublishPlan) -> None:
        self._unsettled.pop(plan.publish_uuid, None)

    def _settle_all(self) -> None:
        """End what broke off. What cannot be ended now stays for the next time, and does not fail other writes.

        A claim of it may be in their way: whoever meets that is told why it cannot be ended.
        """
        for left in tuple(self._unsettled.values()):
            try:
                self._settle(left)
            except Exception as trouble:  # noqa: BLE001 - whatever is wrong with it is not wrong with other writes
                _log.info("could not finish interrupted write '%s': %s", left.plan.publish_uuid, trouble)

    def _settle(self, left: _Unsettled) -> None:
        plan = left.plan
        self._keeper.forget(plan.target_version)
        try:
            if left.is_claimed or self._holds_claim(plan):
                self._recoverer.resolve(plan)
        except BranchMissingError:
            # Nothing of it can be reached.
            pass
        self._settled(plan)

    def _holds_claim(self, plan: PublishPlan) -> bool:
        found = self._services.claims.read(plan.target_version)
        return found is not None and found.publish_uuid == plan.publish_uuid

    def _wait(self, plan: PublishPlan, base: LoadedManifest, backoff: _Backoff) -> None:
        """Wait until the version that ``plan`` wanted is published, its claim is gone, or its holder is."""
        self._saw_others()
        self._world.tally.add("claims_waited")
        clock, claims = self._world.clock, self._services.claims
        while self._services.manifest.latest_version() == base.state.version:
            waited_s = clock.monotonic_s() - backoff.started_s
            if waited_s - backoff.looked_s > _LOOK_AT_HOLDER_AFTER_S:
                backoff.looked_s = waited_s
                holder = claims.read(plan.target_version)
                if holder is None:
                    return
                if holder.publish_uuid in self._unsettled:
                    self._settle(self._unsettled[holder.publish_uuid])
                    return
                if self._recoverer.recover_if_abandoned(plan.target_version) is not None:
                    return
            if waited_s > self._settings.claim_wait_s:
                raise self._busy(base, backoff)
            clock.sleep(backoff.delay_s * (0.5 + self._world.randomness.fraction()))
            backoff.delay_s = min(backoff.delay_s * 1.5, _LONGEST_WAIT_S)

    def _outcome(self, member: Member, manifest: LoadedManifest, counters: Counters) -> CommitResult | BaseException:
        if member.error is not None:
            return member.error
        first = member.first
        if first is not None and first.error is None and first.commit is not None and member.txn.request is not None:
            return already_done(first.commit, member.txn.request)
        if first is not None:
            return self._outcome(first, manifest, counters)
        cost = Counters()
        cost.add(member.txn.counters.cost())
        cost.add(counters.cost())
        return CommitResult(commit=member.commit, manifest=manifest, cost=cost.cost())

    def _saw_others(self) -> None:
        self._contended_until_s = self._world.clock.monotonic_s() + _CONTENTION_S

    def _is_contended(self) -> bool:
        return self._world.clock.monotonic_s() < self._contended_until_s

    def _refuse_drift(self, recovery: Recovery) -> None:
        for seen in recovery.observations:
            if seen.is_foreign:
                details = TableDrift(table_key=seen.table_key, published=seen.pin.version, head=seen.head)
                raise TableDriftError(
                    f"table '{seen.table_key}' was changed outside omnigraph:"
                    f" published version {seen.pin.version}, head {seen.head}",
                    details=details,
                )

    def _is_late(self, batch: Batch, backoff: _Backoff) -> bool:
        """Whether the batch has been run again for so long that it ends here; the first time is always granted."""
        return batch.reruns > 0 and self._world.clock.monotonic_s() - backoff.began_s > self._settings.rerun_s

    def _busy(self, base: LoadedManifest, backoff: _Backoff, reruns: int = 0) -> ClaimBusyError:
        branch, version = base.state.head.branch, base.state.version + 1
        waited_s = self._world.clock.monotonic_s() - (backoff.began_s if reruns else backoff.started_s)
        message = f"branch '{branch}' was still busy at version {version} after {waited_s:.1f} s"
        if reruns:
            message = (
                f"other writers kept changing what the write depends on: it ran {reruns + 1} times on branch"
                f" '{branch}' in {waited_s:.1f} s"
            )
        details = ClaimHeld(branch=branch, version=version, holder="other writers", waited_s=waited_s)
        return ClaimBusyError(message, details=details)

    def _unknown(self, plan: PublishPlan, cause: OmnigraphError | None) -> WriteOutcomeError:
        commit_id = plan.change.commits[-1].id
        details = CommitOutcome(branch=plan.branch, commit_id=commit_id, operation_id=plan.operation_id)
        because = "" if cause is None else f": {cause.message}"
        return WriteOutcomeError(f"commit '{commit_id}' may or may not be published{because}", details=details)


def _lost(plan: PublishPlan) -> CompareAndSwapLostError:
    details = HeadMoved(location=MANIFEST_LOCATION, expected=plan.target_version, actual=None)
    return CompareAndSwapLostError("another writer took the version", details=details)
