"""Deleting a branch: claim it, make sure that nothing needs it, end its ref, reclaim what it alone owned.

The claim keeps writers out from the first look to the last file. Ending the ref is the moment at which the branch is
gone; everything after it only tidies up, may be repeated by any process, and is repeated by the one that finds the
claim of a deletion that died.

A branch that was merged is *retired* instead of reclaimed: its line gets a last version that says so, which every
process meets that still has the branch open, and its states stay readable for the merges until cleanup removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import wait

import msgspec

from omnigraph.errors import (
    BranchInUse,
    BranchInUseError,
    BranchMissingError,
    ClaimBusyError,
    ClaimHeld,
    CompareAndSwapLostError,
    Effect,
    OmnigraphError,
)
from omnigraph.runtime import Counters, counting, current_counters, in_context
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.branches.records import Dependant
from omnigraph.txn.branches.refs import BranchRecord, BranchRefs
from omnigraph.txn.branches.tags import Tags
from omnigraph.txn.manifest.file import LOCATION, LoadedManifest
from omnigraph.txn.manifest.rows import ManifestChange, Tombstone
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.phases import check_head
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.publish.retention import publish_plan
from omnigraph.txn.services import BranchServices, GraphStores
from omnigraph.values import BranchName, CommitId

_log = logging.getLogger(__name__)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.25

Recover = Callable[[int], object]


class BranchDeletion:
    """Deletes branches of one graph, and finishes deletions that others left."""

    def __init__(self, stores: GraphStores) -> None:
        self._stores = stores
        self._world = stores.runtime
        self._refs = BranchRefs(stores)
        self._tags = Tags(stores, self._refs)
        # Claims that this process may have left behind: nobody else presumes it dead while it lives.
        self._left: set[str] = set()

    def delete(
        self,
        services: BranchServices,
        ref: BranchRecord,
        known: LoadedManifest | None,
        recover: Recover,
        actor: str | None,
        expected_head: CommitId | None = None,
    ) -> None:
        """Delete a branch.

        Args:
            services: what acts on the branch.
            ref: its ref.
            known: a version of its manifest that is in memory.
            recover: ends the claim of a version if its holder is gone.
            actor: who asks for it.
            expected_head: the commit that the branch must be at.

        Raises:
            PreconditionFailedError: it is at another one.
            BranchInUseError: a branch or a tag depends on it.
            BranchMissingError: somebody else deleted it.
            ClaimBusyError: writers kept it busy for too long.
        """
        plan = self._claim(services, known, recover, actor)
        claimed_s = self._world.clock.monotonic_s()
        try:
            self._world.failpoints.hit("txn.branch_delete.after_claim")
            if expected_head is not None:
                # No writer publishes to the branch while it is claimed.
                check_head(services.load(known).state, expected_head)
            marks = self._check(ref.line)
            self._refuse_lateness(ref.line, plan, claimed_s)
        except OmnigraphError as error:
            self._withdraw(services, plan, error)
            raise
        self._end(ref, plan)
        try:
            self._tidy(services, ref, plan, marks)
            services.claims.release_own(plan.target_version, was_renewed=False)
        except OmnigraphError as error:
            # The branch is gone. Its claim stays, and with it the list of what somebody else will reclaim.
            _log.warning("could not clean up after deleted branch '%s': %s", ref.name, error)

    def resume(self, services: BranchServices, plan: PublishPlan) -> bool:
        """Finish a deletion that died, or give it up when the branch is needed; return whether the branch is gone.

        Nothing could begin to depend on the branch while its claim was there, so the check says the same again.
        """
        ref = self._refs.find(services.line.name)
        if ref is None or ref.line.incarnation != services.line.incarnation:
            marks = self._refs.marks.of(services.line)
            self._dispose(services, plan, marks)
            self._refs.sweep_ended(services.line, keeps_mark=_is_retired(marks))
            return True
        try:
            marks = self._check(ref.line)
        except BranchInUseError:
            return False
        self._world.failpoints.hit("txn.branch_delete.before_end")
        self._refs.end(ref)
        self._tidy(services, ref, plan, marks)
        return True

    def seal(self, services: BranchServices) -> None:
        """Publish the version that says that a branch is gone whose deletion cannot be read; harmless when it is there.

        No process that has the branch open can write to it from then on; its files are left to cleanup.
        """
        try:
            base = services.load()
        except BranchMissingError:
            return
        self._retire(services, self._plan(services, base, None))

    def _claim(
        self, services: BranchServices, known: LoadedManifest | None, recover: Recover, actor: str | None
    ) -> PublishPlan:
        """Wait for a moment in which no writer is inside its window, and keep it that way."""
        clock, claims = self._world.clock, services.claims
        started_s, delay_s = clock.monotonic_s(), _FIRST_WAIT_S
        base = services.load() if known is None else known
        while True:
            plan = self._plan(services, base, actor)
            if self._is_won(services, plan):
                return plan
            left = claims.read(plan.target_version)
            if left is not None and left.operation_id in self._left:
                return left
            if left is not None:
                recover(plan.target_version)
                waited_s = clock.monotonic_s() - started_s
                if waited_s > self._stores.settings.claim_wait_s:
                    raise _busy(services.line, plan.target_version, waited_s)
                clock.sleep(delay_s * (0.5 + self._world.randomness.fraction()))
                delay_s = min(delay_s * 1.5, _LONGEST_WAIT_S)
            base = services.load(base)

    def _is_won(self, services: BranchServices, plan: PublishPlan) -> bool:
        """Claim the version after the newest one; False when somebody else holds it or it has been published."""
        try:
            if not services.claims.claim(plan):
                return False
            if services.manifest.latest_version() == plan.base_version:
                return True
        except OmnigraphError as error:
            self._withdraw(services, plan, error)
            raise
        services.claims.release_own(plan.target_version, was_renewed=False)
        return False

    def _withdraw(self, services: BranchServices, plan: PublishPlan, error: OmnigraphError) -> None:
        """Give the branch free, and let ``error`` say whether it will stay: a claim that is left will end it."""
        error.effect = Effect.UNKNOWN
        self._left.add(plan.operation_id)
        try:
            found = services.claims.read(plan.target_version)
            if found is not None and found.operation_id == plan.operation_id:
                services.claims.release_own(plan.target_version, was_renewed=False)
                error.effect = Effect.NONE
                self._left.discard(plan.operation_id)
        except OmnigraphError as trouble:
            _log.warning("could not withdraw the claim on branch '%s': %s", plan.branch, trouble)

    def _plan(self, services: BranchServices, base: LoadedManifest, actor: str | None) -> PublishPlan:
        state, now_ms = base.state, self._world.clock.now_ms()
        live = (
            Tombstone(
                table_key=entry.table_key,
                object_id=entry.object_id,
                pin=entry.pin,
                dropped_by=state.head.commit,
                dropped_at_ms=now_ms,
            )
            for entry in state.tables.values()
        )
        owned = tuple(stone for stone in (*live, *state.tombstones) if services.line.owns(stone.pin))
        return PublishPlan.upon(
            state,
            self._world,
            services.writer,
            kind=WriteKind.BRANCH_DELETE,
            actor=actor,
            change=ManifestChange(commits=(), drop_tables=owned),
        )

    def _refuse_lateness(self, line: BranchIncarnation, plan: PublishPlan, claimed_s: float) -> None:
        """Stop when others may soon presume this deletion dead: what it has just looked at could be different then."""
        held_s = self._world.clock.monotonic_s() - claimed_s
        if held_s > self._stores.settings.grace_s / 2:
            raise _busy(line, plan.target_version, held_s)

    def _check(self, line: BranchIncarnation) -> tuple[Dependant, ...]:
        """Refuse to end a branch that something needs; return the marks of merges, and of things that are gone.

        A mark of something that is not there keeps nothing. The process that wrote it and is about to write the thing
        itself looks for this deletion afterwards.
        """
        found = self._refs.marks.of(line)
        for mark in found:
            if mark.kind != "merge" and self._is_live(mark):
                what = "descendant branch" if mark.kind == "branch" else "tag"
                details = BranchInUse(branch=line.name, needed_by=mark.kind, name=mark.name)
                raise BranchInUseError(
                    f"cannot delete branch '{line.name}': {what} '{mark.name}' still depends on it", details=details
                )
        return found

    def _is_live(self, mark: Dependant) -> bool:
        if mark.kind == "tag":
            tag = self._tags.find(mark.name)
            return tag is not None and tag.identity == mark.identity
        child = self._refs.find(BranchName(mark.name))
        return child is not None and child.line.incarnation == mark.identity

    def _end(self, ref: BranchRecord, plan: PublishPlan) -> None:
        """End the ref; when storage does not say whether it ended, look."""
        self._world.failpoints.hit("txn.branch_delete.before_end")
        try:
            self._refs.end(ref)
        except OmnigraphError as error:
            # The claim stays: should the end have been written after all, nobody may have come to need the branch.
            error.effect = Effect.UNKNOWN
            self._left.add(plan.operation_id)
            if self._may_be_live(ref):
                raise
            self._left.discard(plan.operation_id)

    def _may_be_live(self, ref: BranchRecord) -> bool:
        try:
            found = self._refs.find(ref.name)
        except OmnigraphError:
            return True
        return found is not None and found.line.incarnation == ref.line.incarnation

    def _tidy(self, services: BranchServices, ref: BranchRecord, plan: PublishPlan, marks: Sequence[Dependant]) -> None:
        self._world.failpoints.hit("txn.branch_delete.after_end")
        self._dispose(services, plan, marks)
        self._refs.sweep(ref, keeps_mark=_is_retired(marks))
        self._world.failpoints.hit("txn.branch_delete.after_reclaim")

    def _dispose(self, services: BranchServices, plan: PublishPlan, marks: Sequence[Dependant]) -> None:
        """Reclaim what the branch owned, or keep it for the merges that brought it elsewhere.

        The marks of a retired branch stay: they tell the same to the process that finishes a deletion that died.
        """
        if _is_retired(marks):
            self._retire(services, plan)
            return
        self._reclaim(services, plan)
        if marks:
            self._refs.marks.clear(services.line)

    def _retire(self, services: BranchServices, plan: PublishPlan) -> None:
        """Publish the version that says that the branch is gone; repeating it is harmless."""
        services.manifest.put_torn_aside(plan.target_version)
        last = msgspec.structs.replace(plan, change=ManifestChange(commits=(), ends=True))
        while True:
            try:
                base = services.load()
            except BranchMissingError:
                # It says so already.
                return
            try:
                publish_plan(services, last, base)
            except CompareAndSwapLostError:
                continue
            return

    def _reclaim(self, services: BranchServices, plan: PublishPlan) -> None:
        """Remove the line and, side by side, the forks; a fork that cannot be removed is left to cleanup."""
        pins = sorted({stone.pin for stone in plan.change.drop_tables}, key=lambda pin: (pin.location, pin.version))
        forks = {(pin.location, pin.branch): pin for pin in pins}
        own = [Counters() for _ in forks]
        jobs = [
            self._stores.pool.submit(in_context(self._reclaim_fork, count), pin)
            for pin, count in zip(forks.values(), own, strict=True)
        ]
        line = Counters()
        try:
            with counting(line):
                self._stores.datasets.delete_branch_files(LOCATION, services.line.lance_branch or "")
        finally:
            wait(jobs)
            current_counters().add_parallel([line.cost(), *(count.cost() for count in own)])

    def _reclaim_fork(self, pin: TablePin) -> None:
        try:
            self._stores.tables.delete_fork(pin.location, pin.branch or "")
        except OmnigraphError as error:
            _log.warning("could not remove the fork of '%s' for branch '%s': %s", pin.location, pin.branch, error)


def _is_retired(marks: Sequence[Dependant]) -> bool:
    """Whether states of the branch may be needed: it was merged, or a branch that came from it was, and is gone."""
    return any(mark.kind in {"merge", "branch"} for mark in marks)


def _busy(line: BranchIncarnation, version: int, waited_s: float) -> ClaimBusyError:
    details = ClaimHeld(branch=line.name, version=version, holder="other writers", waited_s=waited_s)
    return ClaimBusyError(
        f"branch '{line.name}' was still busy at version {version} after {waited_s:.1f} s", details=details
    )
