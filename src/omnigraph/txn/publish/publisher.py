"""Driving a batch of transactions through phases A to D, rebasing as often as the branch moves under it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from omnigraph.errors import (
    BranchMissingError,
    ClaimBusyError,
    CommitOutcome,
    CompareAndSwapLostError,
    Effect,
    HeadMoved,
    InternalError,
    OmnigraphError,
    TableDrift,
    TableDriftError,
    TableMovedError,
    WriteOutcomeError,
)
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters, counting, current_counters, in_context, side_by_side
from omnigraph.txn.claims.heartbeat import ClaimHeartbeat
from omnigraph.txn.manifest.file import LOCATION as MANIFEST_LOCATION
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.requests import already_done
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.offers.guests import Company, Guests, find_guests
from omnigraph.txn.offers.owner import OwnOffer, can_be_offered
from omnigraph.txn.publish.batch import Batch, Member
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.publish.release import Releaser
from omnigraph.txn.publish.waiting import LONGEST_WAIT_S, LOOK_AT_HOLDER_AFTER_S, Patience, Turns, busy
from omnigraph.txn.recovery.recoverer import Recoverer, Recovery, RecoveryKind
from omnigraph.txn.services import BranchServices
from omnigraph.txn.transaction import WriteTxn

_log = logging.getLogger(__name__)


# How long a sign of other writers makes this one look again after it won a claim.
_CONTENTION_S = 5.0
# A base that was looked at longer ago is looked at again under the claim. Cleanup keeps versions far longer than that,
# so that within it the number after the base is either free or taken.
_FRESH_S = 5.0
# A base that was looked at so short ago is not looked at again before something is staged upon it.
_JUST_SEEN_S = 0.05


@record
class CommitResult:
    """The outcome of a write: its commit, None when there was nothing to change, and the manifest that holds it."""

    commit: Commit | None
    manifest: LoadedManifest
    cost: Cost

    @property
    def manifest_version(self) -> int:
        """The version of the manifest that brought the commit."""
        return self.manifest.state.version if self.commit is None else self.commit.manifest_version


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
        self._releaser = Releaser(services, self._keeper)
        line = services.machine_line()
        self._turns = Turns(services, line)
        self._company = Company(services, line)
        # Nobody knows at first whether others write here, so the first claim is looked at again.
        self._contended_until_s = math.inf
        # Until when offers of others are worth a listing.
        self._met_others_until_s = -math.inf
        # Plans that may hold a claim: noted before it is made, forgotten when nothing is left of it. One that an
        # exception tore out of its window is ended before anything else is written.
        self._unsettled: dict[str, _Unsettled] = {}

    def close(self) -> None:
        """End what broke off, finish the releases that run behind acknowledged writes, and stop renewing."""
        try:
            self._settle_all()
        finally:
            self._turns.close()
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
            self._publish(batch, base, seen_s)
        return [self._outcome(member, counters) for member in batch.members]

    def _publish(self, batch: Batch, base: LoadedManifest, seen_s: float) -> None:
        """Publish what can be published; a member that cannot be says why."""
        began_s = self._world.clock.monotonic_s()
        patience = Patience(began_s=began_s, started_s=began_s, moved_s=began_s, seen_s=seen_s)
        own = OwnOffer(self._services, batch)
        try:
            self._settle_all()
            while batch.open_members:
                if own.name is None:
                    batch.let_go()
                base = self._get_ready(batch, own, base, patience)
                if not batch.open_members or not self._turns.take():
                    continue
                manifest = self._attempt(batch, own, base, patience)
                if manifest is None:
                    base = self._look_again(own, base, patience)
                    continue
                if manifest.state.version > base.state.version:
                    self._turns.tell(manifest.state.version, batch.carried)
                batch.end(manifest)
                base = manifest
                if batch.open_members:
                    batch.begin_again(self._services)
        except OmnigraphError as error:
            batch.fail_all(error)
        except Exception:
            # A mistake of the program. Its claim must not stay: this process lives, so others would wait for it.
            self._settle_all()
            self._releaser.remove_offers([] if own.name is None else [own.name])
            raise
        finally:
            self._turns.leave()
        own.end(base)
        self._releaser.remove_offers([] if own.name is None else [own.name])

    def _get_ready(self, batch: Batch, own: OwnOffer, base: LoadedManifest, patience: Patience) -> LoadedManifest:
        """Take the turn, or wait until there is something else to do; return the newest version that is known."""
        if self._turns.begin():
            # Where others have written lately nothing is staged before a look whether the branch has moved.
            is_outdated = self._has_met_others() and self._is_followed(base, patience)
        else:
            self._turns.wait(batch, own, base, patience)
            self._saw_others()
            is_outdated = not self._turns.is_held or self._turns.is_followed(base)
        return self._look_again(own, base, patience) if is_outdated else base

    def _is_followed(self, base: LoadedManifest, patience: Patience) -> bool:
        """Whether a version comes after ``base``; one that was the newest a moment ago is not looked for again."""
        if self._turns.newest_told() > base.state.version:
            return True
        is_just_seen = self._world.clock.monotonic_s() - patience.seen_s <= _JUST_SEEN_S
        return not is_just_seen and self._turns.is_followed(base)

    def _look_again(self, own: OwnOffer, base: LoadedManifest, patience: Patience) -> LoadedManifest:
        """Return the newest version; members end that another process has published in it."""
        told = self._newest_told(base)
        patience.seen_s = -math.inf if told is not None else self._world.clock.monotonic_s()
        newest = told or self._services.load(base)
        if newest.state.version > base.state.version:
            self._saw_others()
            self._world.tally.add("rebases")
            patience.renew(self._world.clock.monotonic_s())
            own.find_published(newest)
        # Removed and not published: somebody took this process for gone. It may offer its write again.
        return own.withdraw(newest) if told is None and own.is_lost() else newest

    def _newest_told(self, base: LoadedManifest) -> LoadedManifest | None:
        """Return the version that a writer of this machine has told of, if that comes after ``base``.

        Whether others followed it is looked at under the claim, if this writer still has something to publish then.
        """
        told = self._turns.newest_told()
        if told <= base.state.version:
            return None
        try:
            return self._services.manifest.load_version(told, base)
        except OmnigraphError as error:
            _log.info("could not read version %s, which another writer announced: %s", told, error)
            return None

    def _attempt(self, batch: Batch, own: OwnOffer, base: LoadedManifest, patience: Patience) -> LoadedManifest | None:
        """Try once upon ``base``; None means that the branch has moved and it is worth looking again."""
        patience.attempts += 1
        if patience.attempts > self._settings.max_attempts or self._is_late(batch, patience):
            raise self._busy(base, patience, own, batch.reruns)
        try:
            plan = self._plan(batch, own, base)
        except _OvertakenError:
            return None
        if plan is None:
            return base
        self._world.failpoints.hit("txn.stage.after_files")
        # A claim in another graph that was made in the same place would be recovered there.
        self._services.manifest.check_same(base)
        if not batch.hold():
            return None
        self._unsettled[plan.publish_uuid] = _Unsettled(plan)
        if not self._claim(plan):
            self._settled(plan)
            own.make(base)
            self._wait(plan, own, base, patience)
            return None
        is_overtaken, are_wanted = self._look_under_claim(plan, batch.carried, patience)
        if is_overtaken:
            # The version was published and released before this claim was made: it holds nothing, and the
            # tables have not been touched.
            self._let_go(plan)
            return None
        if not are_wanted:
            self._take_back(plan)
            return None
        return self._run_window(batch, plan, base)

    def _plan(self, batch: Batch, own: OwnOffer, base: LoadedManifest) -> PublishPlan | None:
        """Stage the batch upon ``base``, and with it what others have offered; None when there is nothing to publish.

        Raises:
            _OvertakenError: the branch moved meanwhile.
        """

        def withdraw() -> None:
            newest = own.withdraw(base)
            if newest.state.version > base.state.version:
                raise _OvertakenError

        self._invite(batch, own, base)
        try:
            batch.prepare(self._services, base, withdraw)
            plan = batch.plan(self._services, base)
        except OmnigraphError:
            if not batch.guests:
                raise
            # What is wrong with a guest must not be wrong with others.
            plan = None
        if batch.guests and (plan is None or not plan.commits):
            # Nobody of this process would be published now, or no table would move. Such a plan is finished by whoever
            # finds it, also when nobody has looked yet whether those who offered it still want it.
            batch.invite(())
            batch.prepare(self._services, base, withdraw)
            plan = batch.plan(self._services, base)
        return plan

    def _invite(self, batch: Batch, own: OwnOffer, base: LoadedManifest) -> None:
        """Take along what others have offered, if this process has met others lately."""
        room = self._settings.max_group - len(batch.open_members)
        guests = Guests()
        is_possible = batch.takes_guests and room > 0 and self._has_met_others()
        if is_possible and can_be_offered(self._services, base):
            guests = find_guests(self._services, self._company, base, own.name, room)
        batch.invite(guests.members)
        # Their owners may be gone. That an offer is gone tells its owner that its commit is on the disk, so they go
        # when the version after theirs is.
        batch.spent = guests.spent

    def _claim(self, plan: PublishPlan) -> bool:
        """Phase A. Before: nothing names this write. After, if won: its whole plan is durable under its version."""
        self._world.failpoints.hit("txn.claim.before_put")
        with self._withdrawing(plan):
            won = self._services.claims.claim(plan)
            if won:
                self._unsettled[plan.publish_uuid].is_claimed = True
                self._world.failpoints.hit("txn.claim.after_put")
        return won

    def _look_under_claim(self, plan: PublishPlan, carried: Sequence[str], patience: Patience) -> tuple[bool, bool]:
        """Tell whether the branch has moved, and whether the owners of all offers that a plan carries still want them.

        An owner that takes its offer back looks for a claim afterwards, and whoever has claimed looks for offers
        afterwards. So one of the two sees the other.
        """
        is_fresh = self._world.clock.monotonic_s() - patience.seen_s <= _FRESH_S
        looks: list[Callable[[], bool]] = []
        if not is_fresh or self._is_contended():
            looks.append(lambda: self._services.manifest.latest_version() == plan.base_version)
        if carried:
            looks.append(lambda: self._are_wanted(carried))
        with self._withdrawing(plan):
            if self._services.stores.control.storage.is_local:
                answers = tuple(look() for look in looks)
            else:
                answers = side_by_side(self._services.stores.pool, lambda look: look(), looks)
        are_wanted = answers[-1] if carried else True
        is_newest = answers[0] if len(answers) > bool(carried) else True
        return not is_newest, are_wanted

    def _are_wanted(self, carried: Sequence[str]) -> bool:
        self._world.failpoints.hit("txn.offers.before_verify")
        are_wanted = set(carried) <= set(self._services.offers.names())
        self._world.failpoints.hit("txn.offers.after_verify")
        return are_wanted

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

    def _take_back(self, plan: PublishPlan) -> None:
        """Remove the claim of a plan that shall not be carried out, before anything else is done.

        Its version is still free. Removed later, the claim could be one that somebody else has made since.
        """
        try:
            if self._holds_claim(plan):
                self._services.claims.release(plan.target_version)
        except OmnigraphError:
            # Ended like one that died here: no table has moved, so it is undone and its version used up.
            self._recoverer.resolve(plan)
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
        self._company.published(plan.target_version, len(batch.carried), self._world.clock.monotonic_s() - started_s)
        self._world.tally.add("publishes")
        self._world.tally.add("commits", len(plan.change.commits))
        carried = batch.carried
        if carried:
            self._world.tally.add("groups")
            self._world.tally.add("offers_taken", sum(member.offer is not None for member in batch.alive))
        self._let_go(plan, (*carried, *batch.spent))
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
            is_part = self._services.manifest.has_published(newest, plan.change.commits, plan.target_version)
        except OmnigraphError as trouble:
            raise self._unknown(plan, trouble) from trouble
        return newest if is_part else None

    def _let_go(self, plan: PublishPlan, carried: Sequence[str] = ()) -> None:
        self._releaser.release(plan.target_version, carried)
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

    def _wait(self, plan: PublishPlan, own: OwnOffer, base: LoadedManifest, patience: Patience) -> None:
        """Wait until the version that ``plan`` wanted is published, its claim is gone, or its holder is."""
        self._saw_others()
        self._world.tally.add("claims_waited")
        clock, claims = self._world.clock, self._services.claims
        while self._services.manifest.latest_version() == base.state.version:
            waited_s = clock.monotonic_s() - patience.started_s
            if waited_s - patience.looked_s > LOOK_AT_HOLDER_AFTER_S:
                patience.looked_s = waited_s
                holder = claims.read(plan.target_version)
                if holder is None:
                    return
                if holder.publish_uuid in self._unsettled:
                    self._settle(self._unsettled[holder.publish_uuid])
                    return
                if self._recoverer.recover_if_abandoned(plan.target_version) is not None:
                    return
            if waited_s > self._settings.claim_wait_s:
                raise self._busy(base, patience, own)
            clock.sleep(patience.delay_s * (0.5 + self._world.randomness.fraction()))
            patience.delay_s = min(patience.delay_s * 1.5, LONGEST_WAIT_S)

    def _outcome(self, member: Member, counters: Counters) -> CommitResult | BaseException:
        if member.error is not None:
            return member.error
        first = member.first
        if first is not None and first.error is None and first.commit is not None and member.txn.request is not None:
            return already_done(first.commit, member.txn.request)
        if first is not None:
            return self._outcome(first, counters)
        if member.manifest is None:
            raise InternalError("a batch ended before all of its members had", effect=Effect.UNKNOWN)
        cost = Counters()
        cost.add(member.txn.counters.cost())
        cost.add(counters.cost())
        return CommitResult(commit=member.commit, manifest=member.manifest, cost=cost.cost())

    def _saw_others(self) -> None:
        until_s = self._world.clock.monotonic_s() + _CONTENTION_S
        self._contended_until_s = self._met_others_until_s = until_s

    def _is_contended(self) -> bool:
        return self._world.clock.monotonic_s() < self._contended_until_s

    def _has_met_others(self) -> bool:
        return self._world.clock.monotonic_s() < self._met_others_until_s

    def _refuse_drift(self, recovery: Recovery) -> None:
        for seen in recovery.observations:
            if seen.is_foreign:
                details = TableDrift(table_key=seen.table_key, published=seen.pin.version, head=seen.head)
                raise TableDriftError(
                    f"table '{seen.table_key}' was changed outside omnigraph:"
                    f" published version {seen.pin.version}, head {seen.head}",
                    details=details,
                )

    def _is_late(self, batch: Batch, patience: Patience) -> bool:
        """Whether the batch has been run again for so long that it ends here; the first time is always granted."""
        return batch.reruns > 0 and self._world.clock.monotonic_s() - patience.began_s > self._settings.rerun_s

    def _busy(self, base: LoadedManifest, patience: Patience, own: OwnOffer, reruns: int = 0) -> ClaimBusyError:
        return busy(base, patience, self._world.clock.monotonic_s(), own.ahead(), reruns)

    def _unknown(self, plan: PublishPlan, cause: OmnigraphError | None) -> WriteOutcomeError:
        commit_id = plan.change.commits[-1].id
        details = CommitOutcome(branch=plan.branch, commit_id=commit_id, operation_id=plan.operation_id)
        because = "" if cause is None else f": {cause.message}"
        return WriteOutcomeError(f"commit '{commit_id}' may or may not be published{because}", details=details)


class _OvertakenError(Exception):
    """The branch moved while an offer was taken back: what was being decided is looked at anew."""


def _lost(plan: PublishPlan) -> CompareAndSwapLostError:
    details = HeadMoved(location=MANIFEST_LOCATION, expected=plan.target_version, actual=None)
    return CompareAndSwapLostError("another writer took the version", details=details)
