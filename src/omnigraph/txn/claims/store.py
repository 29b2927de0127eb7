"""Claims: the sidecar under the name of the version it will publish, its renewals and its takeovers.

Put-if-absent is the only primitive used. Whoever creates ``<n>.json`` is the one writer in the runtime that may be
between phases A and D of version ``n``; whoever creates the next ``<n>.takeover-<k>.json`` is the one recoverer.
"""

from __future__ import annotations

import hashlib
import logging
import re
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import msgspec

from omnigraph.errors import FormatMismatch, OmnigraphError, SidecarCorruptError, StorageDeniedError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.control import ControlObjects
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.txn.claims.watch import OFFERS, ClaimWatch, recovery_folder
from omnigraph.txn.publish.plan import PLAN, PublishPlan
from omnigraph.txn.settings import TxnSettings
from omnigraph.txn.stored_json import SealedCodec, json_decoder
from omnigraph.values import Ulid
from omnigraph.values.patterns import late_pattern

_log = logging.getLogger(__name__)

# Where objects are kept that could not be understood and were settled.
QUARANTINE_PREFIX = "__quarantine"
# What keeps a claim from being understood.
UNREADABLE = (SidecarCorruptError, StorageDeniedError)

_decode_writer = json_decoder(WriterIdentity)
_WRITER = re.compile(rb'"writer":(?P<writer>\{[^{}]*\})')
_CLAIM = late_pattern(r"(?P<version>[0-9]+)\.json")
_TAKEOVER = late_pattern(r"(?P<version>[0-9]+)\.takeover-(?P<turn>[0-9]+)\.json")


class SignOfLife(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a renewal or a takeover says; ``turn_id`` makes it another one each time."""

    writer: WriterIdentity
    at_ms: int
    turn_id: Ulid


_SIGN = SealedCodec(
    SignOfLife,
    subject="sidecar",
    expected="a writer's heartbeat",
    error=SidecarCorruptError,
    needs_seal=lambda _: False,
)


@record
class Holding:
    """The latest sign of life of a claim: who holds it, and ``sign``, which is another one each time it is given.

    ``writer`` is None where a damaged object says no more than that somebody wrote it.
    """

    version: int
    writer: WriterIdentity | None
    turn: int
    sign: str


@record
class PendingClaim:
    """A claim as this process sees it.

    ``state`` is ``dead`` when its holder is known to be gone, ``alive`` when it is known to run, and ``unknown`` for a
    process that cannot be looked at from here, ``silent_s`` being how long it was watched without a sign of life.
    """

    branch: str
    version: int
    kind: str
    actor: str | None
    holder: str
    state: Literal["alive", "dead", "unknown"]
    silent_s: float


class ClaimStore:
    """The claims of one branch incarnation."""

    def __init__(
        self,
        control: ControlObjects,
        line: BranchIncarnation,
        runtime: Runtime,
        settings: TxnSettings,
        watch: ClaimWatch | None = None,
    ) -> None:
        self._control = control
        self._watch = watch or ClaimWatch()
        self._line = line
        self._world = runtime
        self._settings = settings
        self._folder = recovery_folder(line.name, line.incarnation)

    def claim(self, plan: PublishPlan) -> bool:
        """Create the sidecar of ``plan``; False when somebody else holds that version.

        Raises:
            OmnigraphError: the put failed for another reason. Nothing was claimed that would need recovery: should
                the object exist after all, its plan has moved no table and the next writer consumes it.
        """
        return self._create(self.key(plan.target_version), PLAN.encode(plan))

    def release(self, version: int) -> None:
        """Delete a claim and everything beside it, the sidecar last so that it never looks unclaimed in between."""
        for key in self._siblings(version):
            self._control.delete(key)
        self._control.delete(self.key(version))
        self._watch.forget(self.key(version))

    def acknowledge(self, version: int) -> None:
        """Note, before a write is acknowledged whose claim goes later, that its version is on the disk.

        The note need not survive a power failure: that cannot tear a version that is on the disk. It tells a version
        that was damaged later from one that nobody was told of.
        """
        try:
            self._control.mark(self._acknowledged_key(version))
        except OmnigraphError as error:
            # The write does not depend on it.
            _log.warning("could not record the acknowledgement of version %s: %s", version, error)

    def is_acknowledged(self, version: int) -> bool:
        """Whether a version may have been acknowledged; False is proof that it was not.

        The claim of a version stays until the version is on the disk and, but for the note, is released before or
        after the acknowledgement.

        Raises:
            SidecarCorruptError: there is a claim that cannot be understood.
        """
        return self.is_marked(version) or self.read(version) is None

    def is_marked(self, version: int) -> bool:
        """Whether there is a note that a version was acknowledged."""
        return self._control.is_marked(self._acknowledged_key(version))

    def release_own(self, version: int, *, was_renewed: bool) -> None:
        """Phase D of an undisturbed writer, which knows without asking what it created."""
        if was_renewed:
            self._control.delete(self._renewal_key(version))
        self._control.delete(self.key(version))
        self._control.unmark(self._acknowledged_key(version))

    def renew(self, version: int, writer: WriterIdentity) -> None:
        """Say that the owner of a claim is alive and still busy."""
        self._control.put(self._renewal_key(version), self._sign(writer))

    def pending_versions(self) -> tuple[int, ...]:
        """Return the versions with a sidecar, oldest first. One listing; steady-state writes never need it."""
        found = (_CLAIM.fullmatch(key.rpartition("/")[2]) for key in self._control.list_keys(self._folder))
        return tuple(sorted(int(match["version"]) for match in found if match))

    def remove_strays(self) -> None:
        """Delete takeovers and renewals that outlived their claim: nothing can come of them any more."""
        keys = set(self._control.list_keys(self._folder))
        for key in sorted(keys):
            version = key.rpartition("/")[2].partition(".")[0]
            if f"{self._folder}/{version}.json" not in keys and not key.startswith(f"{self._folder}/{OFFERS}/"):
                self._control.delete(key)

    def read(self, version: int) -> PublishPlan | None:
        """Return the plan of a claim, or None when it is gone.

        Raises:
            SidecarCorruptError: it exists and cannot be understood; it is kept for inspection.
        """
        key = self.key(version)
        data = self._control.get(key)
        if data is None:
            return None
        plan = PLAN.decode(data, key)
        found = (plan.branch, plan.incarnation, plan.target_version)
        if found != (self._line.name, self._line.incarnation, version):
            details = FormatMismatch(what=key, expected="the plan of this branch and version", found=str(found))
            raise SidecarCorruptError(f"sidecar '{key}' holds the plan of another publish", details=details)
        return plan

    def holding(self, plan: PublishPlan) -> Holding:
        """Return who holds the claim of ``plan`` at this moment: its owner or the recoverer with the last turn."""
        return self._latest(Holding(version=plan.target_version, writer=plan.writer, turn=0, sign=plan.operation_id))

    def _latest(self, latest: Holding) -> Holding:
        for key in self._siblings(latest.version):
            data = self._control.get(key) if key.endswith(".json") else None
            if data is None:
                continue
            takeover = _TAKEOVER.fullmatch(key.rpartition("/")[2])
            signed = _read_sign(key, data, latest.version, turn=int(takeover["turn"]) if takeover else 0)
            # A renewal is by the owner and later than the claim itself, whatever clocks say.
            if signed.turn == latest.turn and signed.writer is None:
                latest = replace(signed, writer=latest.writer)
            elif signed.turn >= latest.turn:
                latest = signed
        return latest

    def raw(self, version: int) -> bytes | None:
        """Return the bytes of a claim, or None when it is gone."""
        return self._control.get(self.key(version))

    def holding_of(self, version: int, data: bytes) -> Holding:
        """Return who holds a claim that cannot be understood, as far as its bytes or others beside it tell."""
        return self._latest(Holding(version=version, writer=_find_writer(data), turn=0, sign=_sign_of(data)))

    def quarantine(self, version: int, data: bytes) -> str:
        """Keep the bytes of a claim where nothing looks for claims, and return the key; repeating it is harmless."""
        place = self.key(version).partition("/")[2]
        return keep_damaged(self._control, place, data, is_durable=self._settings.is_durable)

    def is_abandoned(self, holding: Holding) -> bool:
        """Whether a holder may be presumed dead: surely gone, or watched in silence for the grace period."""
        return self._is_dead(holding) or self._silent_s(holding) >= self._settings.grace_s

    def describe(self, plan: PublishPlan) -> PendingClaim:
        """Return what is known about a claim and its holder."""
        holding = self.holding(plan)
        silent_s = self._silent_s(holding)
        state: Literal["alive", "dead", "unknown"] = "unknown"
        if self._is_dead(holding):
            state = "dead"
        elif holding.writer is not None and holding.writer.is_of_this_host():
            state = "alive"
        writer = holding.writer or plan.writer
        return PendingClaim(
            branch=plan.branch,
            version=plan.target_version,
            kind=plan.kind.value,
            actor=plan.actor,
            holder=f"{writer.host.partition('/')[0]} pid {writer.pid}",
            state=state,
            silent_s=silent_s,
        )

    def _is_dead(self, holding: Holding) -> bool:
        writer = holding.writer
        return writer is not None and writer.is_surely_dead(is_disk_local=self._control.storage.is_local)

    def _silent_s(self, holding: Holding) -> float:
        return self._watch.silent_s(self.key(holding.version), holding, self._world.clock.monotonic_s())

    def take_over(self, version: int, after: Holding, writer: WriterIdentity) -> bool:
        """Become the recoverer after ``after``; False when another one was faster."""
        return self._create(f"{self._folder}/{version}.takeover-{after.turn + 1}.json", self._sign(writer))

    def _create(self, key: str, data: bytes) -> bool:
        if self._control.put_if_absent(key, data, sync=self._settings.is_durable):
            return True
        # A put whose answer was lost is sent again and then meets its own object. Every claim holds an id of its
        # own, so equal bytes mean that it is ours.
        return self._control.get(key) == data

    def _sign(self, writer: WriterIdentity) -> bytes:
        at_ms, turn_id = self._world.clock.now_ms(), self._world.ids.ulid()
        return _SIGN.encode(SignOfLife(writer=writer, at_ms=at_ms, turn_id=turn_id))

    def key(self, version: int) -> str:
        """Return where the claim of a version is stored."""
        return f"{self._folder}/{version}.json"

    def _renewal_key(self, version: int) -> str:
        return f"{self._folder}/{version}.renewed.json"

    def _acknowledged_key(self, version: int) -> str:
        return f"{self._folder}/{version}.acknowledged"

    def _siblings(self, version: int) -> tuple[str, ...]:
        keys = self._control.list_keys(self._folder)
        start = f"{version}."
        return tuple(key for key in keys if key.rpartition("/")[2].startswith(start) and key != self.key(version))


def keep_damaged(control: ControlObjects, place: str, data: bytes, *, is_durable: bool) -> str:
    """Keep the bytes of a damaged object where nothing looks for it, and return the key; repeating it is harmless."""
    key = quarantine_key(place, data)
    control.put(key, data, sync=is_durable)
    return key


def quarantine_key(place: str, data: bytes) -> str:
    """Return where the bytes of a damaged object are kept."""
    return f"{QUARANTINE_PREFIX}/{place}.{_sign_of(data)}"


def _read_sign(key: str, data: bytes, version: int, *, turn: int) -> Holding:
    # That it is there is what counts: one that was damaged is a sign of life like any other.
    writer = None
    with suppress(SidecarCorruptError):
        writer = _SIGN.decode(data, key).writer
    return Holding(version=version, writer=writer, turn=turn, sign=_sign_of(data))


def _sign_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _find_writer(data: bytes) -> WriterIdentity | None:
    """Return who a damaged claim says wrote it. Being wrong costs that writer its attempt and nothing else."""
    found = _WRITER.search(data)
    with suppress(ValueError):
        return None if found is None else _decode_writer(found["writer"])
    return None
