"""Claims as people see them: writes in flight, claims that cannot be understood, and how those can be settled.

A claim that was damaged blocks the next write of its branch, and whatever has to know what is in flight there. Nothing
of it is executed unless what is left of its checksum proves that the whole plan is as it was written. That loses no
acknowledged write: a write is acknowledged behind its publish, so either its version is there, or nobody has heard of
it and the tables may go back to what is published. Settling takes that version, so that an owner that still lives finds
it taken.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Literal

from omnigraph.errors import OmnigraphError, SidecarCorruptError
from omnigraph.records import record
from omnigraph.txn.branches.delete import BranchDeletion
from omnigraph.txn.branches.refs import BranchRefs
from omnigraph.txn.claims.store import UNREADABLE, PendingClaim
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.plan import PLAN, PLAN_FORMAT, PublishPlan
from omnigraph.txn.recovery.classify import Observation, TableClass, observe_plan
from omnigraph.txn.recovery.recoverer import Recoverer
from omnigraph.txn.services import BranchServices
from omnigraph.txn.stored_json import loose_json
from omnigraph.values.counts import counted

_log = logging.getLogger(__name__)

Settlement = Literal["published", "forward", "back", "set_aside", "refused"]


@record
class DamagedClaim:
    """A claim that cannot be understood.

    Args:
        branch: whose it is.
        version: the version that it stands for.
        file: its key.
        problem: why it cannot be understood.
        reads_as: what it seems to be, as far as it can be read; nothing relies on it.
        evidence: what storage says of that version and of the tables of the branch.
        settlement: what settling it comes to. ``published``: the version is there, so nothing of the claim is missing.
            ``forward``: the plan is whole, and its tables moved as planned. ``back``: what moved is undone in that
            version. ``set_aside``: it stands for nothing, so that only the file is put away. ``refused``: nobody can
            prove that going on is safe; ``evidence`` says why.
        is_settled: whether that was done.
        kept: where the file is kept then.
    """

    branch: str
    version: int
    file: str
    problem: str
    reads_as: str | None
    evidence: str
    settlement: Settlement
    is_settled: bool = False
    kept: str | None = None

    def __str__(self) -> str:
        done = {
            "published": "its version is published",
            "forward": "finished as it was planned",
            "back": "undone",
            "set_aside": "set aside",
            "refused": "left alone",
        }
        plain = {**done, "forward": "can be finished as it was planned", "back": "can be undone"}
        action = (done if self.is_settled else plain)[self.settlement]
        reads_as = "" if self.reads_as is None else f", reads as {self.reads_as}"
        kept = "" if self.kept is None else f" kept={self.kept}"
        return f"damaged claim {self.file}: {action}; {self.problem}{reads_as}; {self.evidence}{kept}"


def is_finished(services: BranchServices, loaded: LoadedManifest, plan: PublishPlan) -> bool:
    """Whether the version of a plan is published with what it brings: its claim only has to be removed."""
    if plan.target_version > loaded.state.version or plan.kind is WriteKind.BRANCH_DELETE:
        return False
    if plan.kind is WriteKind.CLEANUP:
        return loaded.state.head.last_cleanup >= plan.target_version
    return services.manifest.has_published(loaded, plan.change.commits, plan.target_version)


def pending_claims(services: BranchServices, known: LoadedManifest | None) -> tuple[PendingClaim, ...]:
    """Return the writes that are in flight on a branch, without those that are published or cannot be understood.

    Args:
        services: what acts on the branch.
        known: a version of its manifest that is in memory.
    """
    versions = services.claims.pending_versions()
    # What is published by now is known to be finished only by a version that was read after its claim was seen.
    loaded = services.load(known) if versions else None
    found = []
    for version in versions:
        try:
            plan = services.claims.read(version)
            if plan is not None and loaded is not None and not is_finished(services, loaded, plan):
                found.append(services.claims.describe(plan))
        except UNREADABLE:
            continue
    return tuple(found)


class DamagedClaims:
    """The claims of one branch incarnation that cannot be understood; ``is_gone``: the branch was deleted."""

    def __init__(self, services: BranchServices, *, is_gone: bool = False) -> None:
        self._services = services
        self._is_gone = is_gone
        self._recoverer = Recoverer(services)

    def find(self) -> tuple[DamagedClaim, ...]:
        """Return them, oldest first, with what settling each would come to; nothing is changed."""
        found = []
        for version in self._services.claims.pending_versions():
            try:
                self._services.claims.read(version)
            except SidecarCorruptError as error:
                found.append(self._inspect(version, error)[0])
            except UNREADABLE as error:
                evidence = "it can be settled by a user who may read it"
                found.append(self._described(version, error, None, evidence, "refused"))
        return tuple(found)

    def is_silent(self, version: int) -> bool:
        """Whether whoever holds a claim may be presumed dead."""
        claims = self._services.claims
        data = claims.raw(version)
        return data is None or claims.is_abandoned(claims.holding_of(version, data))

    def settle(self, claim: DamagedClaim) -> DamagedClaim:
        """Settle a claim as storage tells at this moment, and keep its bytes.

        Raises:
            RecoveryInvariantError: a table is behind its pin.
            ClaimBusyError: the branch kept moving.
        """
        claims, version = self._services.claims, claim.version
        try:
            claims.read(version)
        except SidecarCorruptError as error:
            claim, plan = self._inspect(version, error)
        else:
            # Somebody else was faster.
            return claim
        data = claims.raw(version)
        if claim.settlement == "refused" or data is None:
            return claim
        kept = claims.quarantine(version, data)
        self._services.runtime.failpoints.hit("txn.settle.after_keep")
        if self._is_gone:
            BranchDeletion(self._services.stores).seal(self._services)
            claims.release(version)
        elif plan is not None:
            self._recoverer.resolve(plan)
        elif claim.settlement == "set_aside":
            claims.release(version)
        else:
            self._recoverer.use_up(version, kept.rpartition(".")[2])
        _log.warning("settled damaged claim %s: %s, kept as %s", claim.file, claim.settlement, kept)
        return replace(claim, is_settled=True, kept=kept)

    def _inspect(self, version: int, error: OmnigraphError) -> tuple[DamagedClaim, PublishPlan | None]:
        data = self._services.claims.raw(version) or b""
        plan = self._salvaged(version, data)
        settlement, evidence = self._prospect(version, data, plan)
        claim = self._described(version, error, _reads_as(data), evidence, settlement)
        return claim, plan if settlement in {"published", "forward", "back"} else None

    def _described(
        self, version: int, error: OmnigraphError, reads_as: str | None, evidence: str, settlement: Settlement
    ) -> DamagedClaim:
        found = getattr(error.details, "found", "")
        return DamagedClaim(
            branch=self._services.line.name,
            version=version,
            file=self._services.claims.key(version),
            problem=f"{error.message}{f' ({found})' if found else ''}",
            reads_as=reads_as,
            evidence=evidence,
            settlement=settlement,
        )

    def _salvaged(self, version: int, data: bytes) -> PublishPlan | None:
        plan = PLAN.salvage(data, self._services.claims.key(version))
        line = self._services.line
        if plan is None or (plan.branch, plan.incarnation, plan.target_version) != (
            line.name,
            line.incarnation,
            version,
        ):
            return None
        return plan

    def _prospect(self, version: int, data: bytes, plan: PublishPlan | None) -> tuple[Settlement, str]:
        if PLAN.is_whole(data) and _format_of(data) > PLAN_FORMAT:
            return "refused", "a newer version of omnigraph wrote it: use that version"
        if self._is_gone:
            if BranchRefs(self._services.stores).has_had(self._services.line.name):
                return "set_aside", "its branch was deleted"
            return "refused", "no branch of that name exists or existed"
        base = self._services.load()
        newest, seen = base.state.version, self._recoverer.observe_owned(base)
        tables = _told(seen)
        if any(item.klass is TableClass.INVARIANT_VIOLATION for item in seen):
            return "refused", f"version {newest} is the newest one; {tables}"
        if version <= newest:
            return "published", f"version {version} is published; {tables}"
        if self._services.claims.is_marked(version):
            return "refused", f"version {version} was acknowledged, but the newest existing one is {newest}"
        if version == newest + 1:
            if plan is None:
                return "back", f"version {version} is not published; {tables}"
            landed = all(
                item.klass is TableClass.ROLLED_PAST_EXPECTED
                for item in observe_plan(plan, base.state, self._services.tables)
            )
            how = "as planned" if landed else "not as planned"
            return ("forward" if landed else "back"), f"version {version} is not published; {tables}, {how}"
        where = f"version {newest} is the newest one, so version {version} cannot have been claimed"
        if any(item.has_moved for item in seen):
            return "refused", f"{where}; {tables}: versions of the manifest may be missing"
        return "set_aside", f"{where}; {tables}"


def _told(seen: tuple[Observation, ...]) -> str:
    moved = [
        f"{item.table_key} is at {item.head} instead of {item.pin.version}"
        + (", changed outside omnigraph" if item.is_foreign else "")
        for item in seen
        if item.head != item.pin.version
    ]
    return "; ".join(moved) if moved else f"none of {counted(len(seen), 'table')} has moved"


def _format_of(data: bytes) -> int:
    number = loose_json(data).get("format")
    return number if isinstance(number, int) else 0


def _reads_as(data: bytes) -> str | None:
    """Tell what the bytes seem to be, in a few words."""
    if not data:
        return "an empty file"
    found = loose_json(data)
    if not isinstance(found.get("kind"), str):
        return f"{len(data)} bytes that are not a plan"
    actor, branch, base = found.get("actor"), found.get("branch"), found.get("base_version")
    by = f" of '{actor}'" if isinstance(actor, str) else ""
    return f"a plan of kind '{found['kind']}'{by} on version {base!r} of branch {branch!r}"[:300]
