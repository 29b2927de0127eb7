"""The owner's side of an offer: leaving it, seeing that it was published, and taking it back with proof."""

from __future__ import annotations

import logging
from collections.abc import Collection
from enum import Enum

from omnigraph.errors import (
    BranchMissingError,
    CommitOutcome,
    Effect,
    OmnigraphError,
    SidecarCorruptError,
    WriteOutcomeError,
)
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.offers.offer import Offer, can_offer, offered
from omnigraph.txn.publish.batch import Batch, Member
from omnigraph.txn.recovery.recoverer import Recoverer
from omnigraph.txn.services import BranchServices
from omnigraph.values import CommitId
from omnigraph.values.formats import OFFERS_FORMAT

_log = logging.getLogger(__name__)

# Whoever publishes a version removes its offers a moment later, which says that the version is on the disk.
_DURABLE_LOOKS = 20
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.002, 0.1


class _State(Enum):
    UNCERTAIN = "whether it is there is not known"
    OUT = "others can see it"
    REMOVED = "it was taken back"


class OwnOffer:
    """What one batch has offered, if anything. One thread uses it."""

    def __init__(self, services: BranchServices, batch: Batch) -> None:
        self._services = services
        self._world = services.runtime
        self._batch = batch
        self._name: str | None = None
        self._members: tuple[Member, ...] = ()
        self._base_version = 0
        self._state = _State.UNCERTAIN
        self._deadline_ms = 0
        self._can_put = True

    @property
    def name(self) -> str | None:
        """What the offer is called, if there is one."""
        return self._name

    def make(self, base: LoadedManifest) -> None:
        """Leave the open members where others find them, if all of them are of the kind that can be left to others."""
        settings = self._services.settings
        members = self._batch.open_members
        is_possible = self._can_put and can_be_offered(self._services, base) and not self._batch.is_forsaken
        if self._name is not None or not is_possible:
            return
        if not members or not all(can_offer(member.txn, settings.offer_bytes // len(members)) for member in members):
            return
        schema_hash = base.state.schema.hash
        if any(member.txn.snapshot.state.schema.hash != schema_hash for member in members) or not self._batch.hold():
            return
        now_ms = self._world.clock.now_ms()
        self._deadline_ms = now_ms + int(settings.claim_wait_s * 1000)
        base_version = min(member.txn.snapshot.state.version for member in members)
        offer = Offer(
            branch=self._services.line.name,
            incarnation=self._services.line.incarnation,
            base_version=base_version,
            schema_hash=schema_hash,
            writer=self._services.writer,
            created_at_ms=now_ms,
            deadline_ms=self._deadline_ms,
            writes=tuple(offered(member.txn) for member in members),
        )
        # Known before it is there: a put whose answer is lost may have been made, or may be made yet.
        self._members, self._base_version = members, base_version
        self._name = self._services.offers.new_name()
        self._state = _State.UNCERTAIN
        try:
            self._services.offers.put(self._name, offer)
        except OmnigraphError as error:
            # The write does not depend on it: it waits for a turn of its own.
            _log.info("could not offer a write to others: %s", error)
            self._can_put = False
            return
        self._state = _State.OUT
        self._world.tally.add("offers_made")

    def is_among(self, offers: Collection[str]) -> bool:
        """Whether there is an offer, and this is one of them."""
        return self._name is not None and self._name in offers

    def is_lost(self) -> bool:
        """Whether the offer is gone although there is a member that nothing has become of."""
        return any(member.is_open for member in self._members) and self.is_gone()

    def is_gone(self) -> bool:
        """Whether somebody has removed the offer, as whoever publishes it does, at the price of one look."""
        return self._name is not None and not self._services.offers.is_there(self._name)

    def find_published(self, manifest: LoadedManifest) -> None:
        """Let members end whose commits are part of a version; they are durable when this returns."""
        # One that has failed here may have been published elsewhere all the same.
        waiting = {member.txn.commit_id: member for member in self._members if member.manifest is None}
        if self._name is None or not waiting or manifest.state.version <= self._base_version:
            return
        found = commits_since(self._services, manifest, self._base_version, waiting)
        if not found:
            return
        self._ensure_durable(manifest, max(commit.manifest_version for commit in found.values()))
        for commit_id, commit in found.items():
            member = waiting[commit_id]
            member.commit, member.manifest, member.error = commit, manifest, None
        self._world.tally.add("offers_published", len(found))

    def withdraw(self, known: LoadedManifest) -> LoadedManifest:
        """Take the offer back, and return the newest version, for good: nobody will publish it from then on.

        Members that were published before are ended. The rest may be decided again, or end without effect.

        Raises:
            WriteOutcomeError: somebody has taken it, and has not ended in time.
        """
        if self._name is None:
            return known
        hit = self._world.failpoints.hit
        hit("txn.offer.before_withdraw")
        # A put that nobody answered could come after its deletion: then what fences its name stays there.
        if self._state is not _State.UNCERTAIN or not self._services.offers.fence(self._name):
            self._services.offers.remove([self._name])
        self._state = _State.REMOVED
        hit("txn.offer.after_withdraw")
        newest = self._prove_withdrawn(known)
        self._world.tally.add("offers_withdrawn")
        self._name, self._members = None, ()
        return newest

    def end(self, known: LoadedManifest) -> None:
        """Withdraw what is left of the offer; members that fail say truly whether they may still be published."""
        if self._name is None:
            return
        if all(member.manifest is not None for member in self._members):
            # The claim of whoever took it stays until its offers are gone, or its process; then nobody needs it.
            return
        try:
            self.withdraw(known)
        except BranchMissingError:
            # Nothing can be published on a branch that is gone.
            return
        except OmnigraphError as trouble:
            for member in self._members:
                if member.manifest is None:
                    member.error = self._unproven(member, trouble)

    def ahead(self) -> int:
        """Return how many offers are older, or how many there are if nothing was offered."""
        try:
            names = self._services.offers.names()
        except OmnigraphError as error:
            _log.info("could not count the writes that wait: %s", error)
            return 0
        return sum(self._name is None or name < self._name for name in names)

    def _prove_withdrawn(self, known: LoadedManifest) -> LoadedManifest:
        clock, settings = self._world.clock, self._services.settings
        recoverer = Recoverer(self._services)
        started_s, delay_s = clock.monotonic_s(), _FIRST_WAIT_S
        mine = {member.txn.commit_id for member in self._members}
        newest = known
        while True:
            newest = self._services.load(newest)
            self.find_published(newest)
            if all(member.manifest is not None for member in self._members):
                return newest
            target = newest.state.version + 1
            claim = self._services.claims.read(target)
            if claim is None or not any(commit.id in mine for commit in claim.change.commits):
                # The version may have been published and released since the first look, and claimed again by somebody
                # who has not looked yet.
                if self._services.manifest.latest_version() == newest.state.version:
                    return newest
                continue
            if clock.monotonic_s() - started_s > settings.claim_wait_s:
                raise self._unknown(self._members[0], None)
            recoverer.recover_if_abandoned(target)
            clock.sleep(delay_s)
            delay_s = min(delay_s * 1.5, _LONGEST_WAIT_S)

    def _ensure_durable(self, manifest: LoadedManifest, version: int) -> None:
        """Wait until a version that another process has published would survive a power failure."""
        if not self._services.stores.control.storage.is_local or not self._services.settings.is_durable:
            return
        # That an offer is gone says nothing when it was taken back, or is so old that somebody may have swept it.
        is_told = self._state is _State.OUT and self._world.clock.now_ms() < self._deadline_ms
        looks = _DURABLE_LOOKS if is_told else 0
        for _ in range(looks):
            if self.is_gone():
                return
            self._world.clock.sleep(_FIRST_WAIT_S)
        # Its process may be gone. Whatever the version names was on the disk before it became visible.
        self._services.stores.syncing.found(manifest.dataset, version)
        if self._services.claims.read(version) is not None:
            self._services.claims.acknowledge(version)

    def _unproven(self, member: Member, trouble: OmnigraphError) -> BaseException:
        """Return the error of a write of which nobody can say whether it will be published."""
        error = member.error
        if isinstance(error, SidecarCorruptError):
            # The claim that cannot be read is what its user has to see to; it may carry the write.
            error.effect = Effect.UNKNOWN
            return error
        return self._unknown(member, trouble)

    def _unknown(self, member: Member, cause: OmnigraphError | None) -> WriteOutcomeError:
        txn = member.txn
        details = CommitOutcome(branch=self._services.line.name, commit_id=txn.commit_id, operation_id=txn.operation_id)
        because = "" if cause is None else f": {cause.message}"
        return WriteOutcomeError(
            f"another writer has taken commit '{txn.commit_id}' to publish it, and has not ended{because}",
            details=details,
        )


def can_be_offered(services: BranchServices, base: LoadedManifest) -> bool:
    """Whether writes may be left to others on a branch: no process that takes offers for litter opens it."""
    return services.settings.offers and base.format >= OFFERS_FORMAT


def commits_since(
    services: BranchServices, manifest: LoadedManifest, version: int, wanted: Collection[CommitId]
) -> dict[CommitId, Commit]:
    """Return those of the wanted commits that versions after ``version`` have brought."""
    found: dict[CommitId, Commit] = {}
    for _, commit in services.manifest.commit_line(manifest).back():
        if commit.manifest_version <= version or len(found) == len(wanted):
            break
        if commit.id in wanted:
            found[commit.id] = commit
    return found
