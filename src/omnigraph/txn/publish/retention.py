"""Recording what a cleanup is about to take away, before it takes anything: a publish like any other, but no commit.

The publish needs the claim of its branch, so that no writer is inside its window when it happens. Whoever works on an
older version meets it: a compare-and-swap against the version before is lost, and on the newer one a write finds out
what it must upload again, or that it cannot go on.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.errors import ClaimBusyError, ClaimHeld, CompareAndSwapLostError
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import FloorChange, ManifestChange, ManifestState
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.services import BranchServices

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.01, 0.25

Recover = Callable[[int], object]
Decide = Callable[[ManifestState], FloorChange]
MakePlan = Callable[[LoadedManifest], PublishPlan | None]


def record_floor(services: BranchServices, recover: Recover, decide: Decide) -> LoadedManifest:
    """Publish what ``decide`` says about the newest state of a branch, and return the version that records it.

    Args:
        services: what acts on the branch.
        recover: ends the claim of a version if its holder is gone.
        decide: tells what to record; asked again when the branch has moved.

    Raises:
        ClaimBusyError: writers kept the branch busy for too long.
        BranchMissingError: the branch was deleted.
    """
    return publish_alone(services, recover, lambda base: _plan(services, base, decide(base.state)))


def publish_alone(services: BranchServices, recover: Recover, make: MakePlan) -> LoadedManifest:
    """Publish a plan that moves no table, waiting for writers that are in the way.

    Args:
        services: what acts on the branch.
        recover: ends the claim of a version if its holder is gone.
        make: makes the plan upon a state, or None when there is nothing left to do; asked again when the branch has
            moved.

    Raises:
        ClaimBusyError: writers kept the branch busy for too long.
        BranchMissingError: the branch was deleted.
    """
    clock, settings = services.runtime.clock, services.settings
    started_s, delay_s = clock.monotonic_s(), _FIRST_WAIT_S
    while True:
        base = services.load()
        plan = make(base)
        if plan is None:
            return base
        published = _attempt(services, plan, base)
        if published is not None:
            return published
        recover(plan.target_version)
        waited_s = clock.monotonic_s() - started_s
        if waited_s > settings.claim_wait_s:
            raise _busy(plan, waited_s)
        clock.sleep(delay_s * (0.5 + services.runtime.randomness.fraction()))
        delay_s = min(delay_s * 1.5, _LONGEST_WAIT_S)


def publish_plan(services: BranchServices, plan: PublishPlan, base: LoadedManifest) -> LoadedManifest:
    """Publish a plan that moves no table upon ``base``, whose claim the caller holds.

    Raises:
        CompareAndSwapLostError: the branch has moved past ``base``.
    """
    staged = services.phases.stage(base, plan)
    return services.phases.publish(plan, base, staged)


def _attempt(services: BranchServices, plan: PublishPlan, base: LoadedManifest) -> LoadedManifest | None:
    """Claim and publish; None when somebody else was in the way. A claim that fails here is not left behind."""
    hit = services.runtime.failpoints.hit
    hit("txn.claim.before_put")
    if not services.claims.claim(plan):
        return None
    try:
        hit("txn.claim.after_put")
        if services.manifest.latest_version() != plan.base_version:
            return None
        return publish_plan(services, plan, base)
    except CompareAndSwapLostError:
        return None
    finally:
        # Nothing else has moved, so that whether it was published is all there is to know about it.
        services.claims.release(plan.target_version)


def _plan(services: BranchServices, base: LoadedManifest, change: FloorChange) -> PublishPlan:
    return PublishPlan.upon(
        base.state,
        services.runtime,
        services.writer,
        kind=WriteKind.CLEANUP,
        actor=None,
        change=ManifestChange(commits=(), floor=change),
    )


def _busy(plan: PublishPlan, waited_s: float) -> ClaimBusyError:
    details = ClaimHeld(branch=plan.branch, version=plan.target_version, holder="other writers", waited_s=waited_s)
    return ClaimBusyError(
        f"branch '{plan.branch}' was still busy at version {plan.target_version} after {waited_s:.1f} s",
        details=details,
    )
