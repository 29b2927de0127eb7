"""Waiting for other writers of a branch: for a turn on this machine, and for the end of a claim of another one."""

from __future__ import annotations

from dataclasses import field

from omnigraph.errors import ClaimBusyError, ClaimHeld
from omnigraph.records import record
from omnigraph.store.versions import version_file
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.offers.line import MachineLine
from omnigraph.txn.offers.owner import OwnOffer
from omnigraph.txn.publish.batch import Batch
from omnigraph.txn.services import BranchServices
from omnigraph.values.counts import counted

_FIRST_WAIT_S = 0.004
LONGEST_WAIT_S = 0.25
# How often whoever is next looks whether the turn is free, and how often those behind it look for news.
_NEXT_WAIT_S, _IN_LINE_WAIT_S = 0.0007, 0.003
# How often an offer is looked for when a version was published, and at most how long that is left when none was.
_QUICK_LOOKS = 4
_LONGEST_LOCAL_LOOK_S, _LONGEST_REMOTE_LOOK_S = 0.03, 0.25
# A live writer is normally done before its claim is worth reading.
LOOK_AT_HOLDER_AFTER_S = 0.15
# Whoever has the turn of a machine and publishes nothing for so long is not waited for any more.
_LINE_PATIENCE_S = 2.0


@record(frozen=False, kw_only=False)
class Patience:
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


class Turns:
    """When a writer of this machine may begin to upload: one after the other on each branch."""

    def __init__(self, services: BranchServices) -> None:
        self._services = services
        self._world = services.runtime
        self._line: MachineLine = services.machine_line()
        # The line does not move: whoever has the turn may be stopped. It is joined again when the turn is free.
        self._is_stuck = False

    @property
    def is_held(self) -> bool:
        """Whether this writer has the turn."""
        return self._line.is_held

    def take(self) -> bool:
        """Return whether the writer may begin: it has the turn, or there is nobody worth waiting for."""
        if self._line.try_take():
            self._is_stuck = False
            return True
        return self._is_stuck

    def leave(self, version: int | None) -> None:
        """Let the next one begin, and tell those who wait that ``version`` was published."""
        self._line.leave(version)

    def close(self) -> None:
        """Leave the line for good."""
        self._line.close()

    def wait(self, batch: Batch, own: OwnOffer, base: LoadedManifest, patience: Patience) -> None:
        """Wait until it is this writer's turn, or somebody has published what it offers.

        Raises:
            ClaimBusyError: nobody publishes anything for as long as a write may wait.
        """
        clock = self._world.clock
        self._world.tally.add("turns_waited")
        own.make(base)
        moved_s = looked_s = clock.monotonic_s()
        news, look_s, quick_looks = self._line.news(), _FIRST_WAIT_S, 0
        while not self.take():
            now_s = clock.monotonic_s()
            told = self._line.news()
            if told != news:
                # Progress of others is not a reason to give up. Whoever told of a version removes its offers next.
                news, moved_s, quick_looks = told, now_s, _QUICK_LOOKS
                patience.renew(now_s)
            if quick_looks or now_s - looked_s > look_s:
                looked_s, look_s = now_s, min(look_s * 1.5, self._longest_look_s)
                quick_looks = max(quick_looks - 1, 0)
                if own.is_gone() if own.name is not None else self.is_followed(base):
                    return
                if batch.is_forsaken or batch.is_late(clock):
                    return
            if now_s - moved_s > _LINE_PATIENCE_S:
                self._is_stuck = True
                return
            if now_s - patience.started_s > self._services.settings.claim_wait_s:
                raise busy(base, patience, now_s, own.ahead())
            clock.sleep(_NEXT_WAIT_S if self._line.is_next or quick_looks else _IN_LINE_WAIT_S)

    def is_followed(self, base: LoadedManifest) -> bool:
        """Whether the version after ``base`` is there, at the price of one look."""
        pin = base.dataset.pin
        file, control = version_file(pin.at(pin.version + 1)), self._services.stores.control
        return control.is_marked(file) if control.storage.is_local else control.exists(file)

    @property
    def _longest_look_s(self) -> float:
        is_local = self._services.stores.control.storage.is_local
        return _LONGEST_LOCAL_LOOK_S if is_local else _LONGEST_REMOTE_LOOK_S


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
