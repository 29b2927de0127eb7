"""Waiting for other writers of a branch: for a turn on this machine, and for the end of a claim of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from omnigraph.errors import ClaimBusyError, ClaimHeld
from omnigraph.records import record
from omnigraph.store.versions import version_file
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.offers.line import Holder, MachineLine
from omnigraph.txn.offers.owner import OwnOffer
from omnigraph.txn.publish.batch import Batch
from omnigraph.txn.services import BranchServices
from omnigraph.values.counts import counted

_FIRST_WAIT_S = 0.004
LONGEST_WAIT_S = 0.25
# How often whoever is next looks whether the turn is free, and how often those behind it look for news: the rarer the
# longer they wait, because all of them together take time from the one that publishes.
_NEXT_WAIT_S, _IN_LINE_WAIT_S, _LONGEST_IN_LINE_WAIT_S = 0.0007, 0.003, 0.02
_WAIT_SHARE = 0.05
# How long whoever waits leaves its offer alone: only writers of other machines do not tell which they have published.
_FIRST_REMOTE_LOOK_S = 0.05
_LONGEST_LOCAL_LOOK_S, _LONGEST_REMOTE_LOOK_S = 0.03, 0.25
# A live writer is normally done before its claim is worth reading.
LOOK_AT_HOLDER_AFTER_S = 0.15
# For how long after a version others leave the turn to whoever has published it.
_LOCAL_HEAD_START_S, _REMOTE_HEAD_START_S = 0.004, 0.03
# After so many versions with offers of others a writer lets one of them go first.
_MOST_LED = 16
# So many versions may be published without an offer before its owner insists on publishing it.
_MOST_MISSED = 1
# Whoever has the turn of a machine and publishes nothing for so long is not waited for any more, unless it is known to
# run: going on without the line would slow down a machine that is slow already.
_LINE_PATIENCE_S, _RUNNING_PATIENCE_S = 2.0, 10.0


@record(frozen=False, kw_only=False)
class Patience:
    """How long one batch has waited, and how long it may; ``seen_s`` is when its base was known to be the newest."""

    began_s: float
    started_s: float
    seen_s: float
    attempts: int = 0
    delay_s: float = _FIRST_WAIT_S
    looked_s: float = field(default=0.0)
    # When a version was published last, as far as this writer knows.
    moved_s: float = field(default=0.0)
    # Up to which version this writer has heard what was published, and how many of them left out what it offers.
    told: int = 0
    missed: int = 0

    def renew(self, now_s: float) -> None:
        """Start to wait afresh: progress of others is not a reason to give up, nor is time spent in a window."""
        self.started_s, self.moved_s, self.looked_s, self.delay_s = now_s, now_s, 0.0, _FIRST_WAIT_S


class Turns:
    """When a writer of this machine may begin to upload: one after the other on each branch."""

    def __init__(self, services: BranchServices, line: MachineLine) -> None:
        self._services = services
        self._world = services.runtime
        self._line = line
        is_local = services.stores.control.storage.is_local
        self._first_look_s = _FIRST_WAIT_S if is_local else _FIRST_REMOTE_LOOK_S
        self._longest_look_s = _LONGEST_LOCAL_LOOK_S if is_local else _LONGEST_REMOTE_LOOK_S
        self._head_start_s = _LOCAL_HEAD_START_S if is_local else _REMOTE_HEAD_START_S
        # No line moves. It is joined again when the turn is free.
        self._is_stuck = False
        self._published: tuple[int, tuple[str, ...]] | None = None
        # How many versions in a row this writer has published with offers of others.
        self._led = 0

    @property
    def is_held(self) -> bool:
        """Whether this writer has the turn."""
        return self._line.is_held

    def begin(self) -> bool:
        """Take the turn for a new batch, unless this writer has had it for long and others wait."""
        return self.is_held or (self._led < _MOST_LED and self.take())

    def take(self, *, in_line: bool = False) -> bool:
        """Return whether the writer may begin: it has the turn, or there is nobody worth waiting for.

        Args:
            in_line: whether to stay next when somebody else has the turn.
        """
        if self._line.try_take(in_line=in_line):
            self._is_stuck = False
            return True
        return self._is_stuck

    def tell(self, version: int, offers: Sequence[str]) -> None:
        """Have those who wait know, when the turn is left, that a version was published and whose offers it brought."""
        self._published = (version, (*offers, *(self._published or (0, ()))[1]))
        self._led = self._led + 1 if offers else 0
        self._line.wipe(offers)

    def leave(self) -> None:
        """Let the next one begin, and tell those who wait what was published."""
        version, offers = self._published or (None, ())
        self._published = None
        self._line.leave(version, offers)

    def close(self) -> None:
        """Leave the line for good."""
        self._line.close()

    def newest_told(self) -> int:
        """Return the newest version that a writer of this machine has told of; 0 when there is none."""
        return self._line.news().version

    def wait(self, batch: Batch, own: OwnOffer, base: LoadedManifest, patience: Patience) -> None:
        """Wait until it is this writer's turn, or somebody has published what it offers.

        Whoever has published last knows the newest version and can go on at once, with what others offer. So a writer
        that has offered its write lets it go first, until its offer was left out too often.

        Raises:
            ClaimBusyError: nobody publishes anything for as long as a write may wait.
        """
        clock = self._world.clock
        self._world.tally.add("turns_waited")
        own.make(base)
        if own.name is not None:
            self._line.announce(own.name)
        gives_way, self._led = self._led >= _MOST_LED, 0
        since_s = looked_s = clock.monotonic_s()
        look_s = self._first_look_s
        while not self._has_heard(own, base, patience):
            now_s = clock.monotonic_s()
            is_in_line = own.name is None or patience.missed > _MOST_MISSED
            is_early = now_s - patience.moved_s < self._head_start_s * (2 * gives_way or bool(patience.missed))
            if (is_in_line or not is_early) and self.take(in_line=is_in_line):
                if self._has_heard(own, base, patience):
                    # What is left is to read that version, and nobody has to wait for that.
                    self._line.leave()
                return
            if now_s - looked_s > look_s:
                looked_s, look_s = now_s, min(look_s * 1.5, self._longest_look_s)
                if self._is_over(batch, own, base):
                    return
            still_s = now_s - max(patience.moved_s, since_s)
            if still_s > _LINE_PATIENCE_S and self._line.step_aside():
                since_s = now_s
            elif self._has_lost_patience(still_s):
                self._is_stuck = True
                return
            if now_s - patience.started_s > self._services.settings.claim_wait_s:
                raise busy(base, patience, now_s, own.ahead())
            in_line_s = min(max(_WAIT_SHARE * still_s, _IN_LINE_WAIT_S), _LONGEST_IN_LINE_WAIT_S)
            clock.sleep(_NEXT_WAIT_S if self._line.is_next else in_line_s)

    def _has_lost_patience(self, still_s: float) -> bool:
        """Whether nothing has moved for too long; what the holder does is looked at only where that matters."""
        if still_s <= _LINE_PATIENCE_S:
            return False
        return still_s > _RUNNING_PATIENCE_S or self._line.holder is not Holder.RUNNING

    def _has_heard(self, own: OwnOffer, base: LoadedManifest, patience: Patience) -> bool:
        """Take note of the version that was published last, and tell whether it brought what this writer offers."""
        told = self._line.news()
        if told.version > max(base.state.version, patience.told):
            # Progress of others is not a reason to give up.
            patience.renew(self._world.clock.monotonic_s())
            patience.told = told.version
            patience.missed += 1
        return own.is_among(told.offers)

    def _is_over(self, batch: Batch, own: OwnOffer, base: LoadedManifest) -> bool:
        """Whether the branch has moved as far as storage tells, or nobody waits for the batch any more."""
        has_moved = own.is_gone() if own.name is not None else self.is_followed(base)
        return has_moved or batch.is_forsaken or batch.is_late(self._world.clock)

    def is_followed(self, base: LoadedManifest) -> bool:
        """Whether the version after ``base`` is there, at the price of one look."""
        pin = base.dataset.pin
        file, control = version_file(pin.at(pin.version + 1)), self._services.stores.control
        return control.is_marked(file) if control.storage.is_local else control.exists(file)


def busy(base: LoadedManifest, patience: Patience, now_s: float, ahead: int, reruns: int = 0) -> ClaimBusyError:
    """Return the error of a write that has waited, or was run again, for as long as it may."""
    branch, version = base.state.head.branch, base.state.version + 1
    waited_s = now_s - (patience.began_s if reruns else patience.started_s)
    message = f"branch '{branch}' was still busy at version {version} after {waited_s:.1f} s"
    if reruns:
        message = (
            f"other writers kept changing what the write depends on: it ran {reruns + 1} times on branch"
            f" '{branch}' in {waited_s:.1f} s"
        )
    elif ahead:
        message += f", with {counted(ahead, 'write')} ahead of this one"
    details = ClaimHeld(branch=branch, version=version, holder="other writers", waited_s=waited_s, ahead=ahead)
    return ClaimBusyError(message, details=details)
