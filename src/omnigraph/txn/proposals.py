"""What happened to proposals: numbered events that are written once, safe from any number of processes.

A proposal has a number, and each of its events has one. The first event, ``<proposal>/1.json``, makes the proposal;
the next one is a put-if-absent of the number after the last. Of two processes that write at once one is first, and the
other decides again on what it finds then, so no event is lost and all of them have one order. Numbers have no gaps.

Neither a publish nor an open reads any of it. Two things keep listings short, and both only say where to look: a mark
for every proposal that may be open, written before the proposal and removed after it ended, and the number of a recent
one, from which the newest is a few steps away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Literal

import msgspec

from omnigraph.errors import (
    FormatMismatch,
    ManifestCorruptError,
    MissingThing,
    OmnigraphError,
    ProposalMissingError,
)
from omnigraph.records import record
from omnigraph.runtime import LRUCache, side_by_side
from omnigraph.txn.services import GraphStores
from omnigraph.txn.stored_json import SealedCodec
from omnigraph.values import BranchName, CommitId
from omnigraph.values.damage import WAY_OUT, DamagedRecord
from omnigraph.values.patterns import late_pattern

PROPOSALS_PREFIX = "__proposals"
_MARKS = f"{PROPOSALS_PREFIX}/open"
_RECENT = f"{PROPOSALS_PREFIX}/recent"
_FILE = late_pattern(r"([0-9]{1,18})\.json")
_CACHED_BYTES = 16 << 20


class BranchPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A branch as it was at one moment; ``incarnation`` tells it from a later one of the same name."""

    branch: BranchName
    incarnation: str
    head: CommitId


class DeclaredCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query that must return no row: its name, and which of the texts declares it."""

    name: str
    text: int


class Opened(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="opened"):
    """The proposal was made. ``texts`` are the sources of its checks, as they were then."""

    title: str
    description: str
    source: BranchPoint
    target: BranchPoint
    texts: tuple[str, ...]
    checks: tuple[DeclaredCheck, ...]
    required_approvals: int


class Commented(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="commented"):
    """Words about the proposal, or about one entity."""

    text: str
    type_key: str | None = None
    entity_id: str | None = None


class Approved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="approved"):
    """The source was approved as it is at one commit."""

    head: CommitId


class MergeBegun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="merging"):
    """A merge passed everything and is about to be published as one version of the target, or never.

    The commit is in the history of the target if and only if that happened, so that a crash right behind it hides
    nothing.
    """

    commit: CommitId
    version: int
    source_head: CommitId
    target_head: CommitId
    checks: tuple[str, ...]
    approved_by: tuple[str, ...]


class MergeDone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="merged"):
    """The merge with that commit was published."""

    commit: CommitId


class Closed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="closed"):
    """The proposal was given up."""

    reason: str | None = None


Happening = Opened | Commented | Approved | MergeBegun | MergeDone | Closed


class ProposalEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event. ``identity`` tells it from any other, also from one that would have had its number."""

    format: Literal[1] = 1
    proposal: int
    number: int
    identity: str
    at_ms: int
    actor: str | None
    what: Happening


EVENT = SealedCodec(
    ProposalEvent,
    subject="proposal",
    expected="an event of a proposal",
    error=ManifestCorruptError,
    needs_seal=lambda _: True,
    hint=WAY_OUT,
)
Events = tuple[ProposalEvent, ...]


class ProposalEvents:
    """The events of all proposals of one graph. They never change, so each is read once while there is room for it."""

    def __init__(self, stores: GraphStores) -> None:
        self._stores = stores
        self._control = stores.control
        self._failpoints = stores.runtime.failpoints
        self._is_durable = stores.settings.is_durable
        self._known: LRUCache[tuple[int, int], tuple[ProposalEvent, int]] = LRUCache(
            max_size=_CACHED_BYTES, size_of=lambda kept: kept[1]
        )

    def open(self, opened: Opened, actor: str | None) -> ProposalEvent:
        """Make a proposal with the next free number."""
        number = self._recent() + 1
        while True:
            made = self._event(number, 1, opened, actor)
            self._control.put(_mark(number), b"{}", sync=self._is_durable)
            self._failpoints.hit("txn.proposal.before_event")
            if self._put(made):
                break
            number = self.newest(number) + 1
        # Without it the next one is found in more steps.
        with suppress(OmnigraphError):
            self._control.put(_RECENT, b"%d" % number)
        return made

    def append(self, number: int, decide: Callable[[Events], Happening], actor: str | None) -> Events:
        """Add an event, decided on all that came before it, and return all of them.

        Args:
            number: the proposal.
            decide: gets the events so far and returns the next, or raises; called again when another was faster.
            actor: who asks for it.

        Raises:
            ProposalMissingError: there is no such proposal.
            OmnigraphError: whatever ``decide`` raises.
        """
        while True:
            events = self.read(number)
            made = self._event(number, len(events) + 1, decide(events), actor)
            self._failpoints.hit("txn.proposal.before_event")
            if self._put(made):
                break
        if has_ended((made,)):
            # A mark that stays costs a listing one look.
            with suppress(OmnigraphError):
                self._control.delete(_mark(number))
        return (*events, made)

    def read(self, number: int) -> Events:
        """Return all events of a proposal, the first one first.

        Raises:
            ProposalMissingError: there is no such proposal.
            ManifestCorruptError: an event is damaged or missing.
        """
        found = self.read_many([number]).get(number)
        if found is None:
            details = MissingThing(what="proposal", name=str(number))
            raise ProposalMissingError(f"proposal {number} was not found", details=details)
        return found

    def read_many(self, numbers: Sequence[int], damaged: list[DamagedRecord] | None = None) -> Mapping[int, Events]:
        """Return the events of several proposals, read side by side; numbers that no proposal has are left out.

        ``damaged`` gets those that cannot be understood; without it, one of them is an error.

        Raises:
            ManifestCorruptError: an event is damaged or missing.
        """
        try:
            return self._read_sound(numbers)
        except ManifestCorruptError:
            if damaged is None:
                raise
        sound: dict[int, Events] = {}
        for number in numbers:
            try:
                sound |= self._read_sound([number])
            except ManifestCorruptError as error:
                damaged.append(described(number, error))
        return sound

    def _read_sound(self, numbers: Sequence[int]) -> Mapping[int, Events]:
        lengths = dict(zip(numbers, side_by_side(self._stores.pool, self._length, numbers), strict=True))
        wanted = [(number, nth) for number in numbers for nth in range(1, lengths[number] + 1)]
        kept = {place: self._known.get(place) for place in wanted}
        missing = [place for place, known in kept.items() if known is None]
        read = dict(zip(missing, side_by_side(self._stores.pool, self._read, missing), strict=True))
        found: dict[int, list[ProposalEvent]] = {number: [] for number in numbers if lengths[number]}
        for place, known in kept.items():
            found[place[0]].append(read[place] if known is None else known[0])
        return {number: tuple(events) for number, events in found.items()}

    def marked(self) -> tuple[int, ...]:
        """Return the numbers of all proposals that may be open, the newest first; one listing."""
        return tuple(sorted(_numbers(self._control.list_keys(_MARKS)), reverse=True))

    def newest(self, known: int | None = None) -> int:
        """Return the highest number, 0 when there is no proposal; ``known`` is one that is there."""
        low, step = self._recent() if known is None else known, 1
        while self._exists(low + step):
            low, step = low + step, step * 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exists(middle) else (low, middle)
        return low

    def damaged(self) -> Iterator[tuple[DamagedRecord, DamagedEvent]]:
        """Yield the events that are damaged or missing, by proposal and number."""
        for number in range(1, self.newest() + 1):
            length = max(self._length(number), 1)
            for nth in range(1, length + 1):
                try:
                    self._read((number, nth))
                except ManifestCorruptError as error:
                    data = self._control.get(_key(number, nth))
                    event = DamagedEvent(proposal=number, number=nth, is_last=nth == length, data=data)
                    yield described(number, error), event

    def replace(self, damaged: DamagedEvent, what: Sequence[Happening], actor: str) -> None:
        """Write events from the place of a damaged one on."""
        for nth, happening in enumerate(what, start=damaged.number):
            event = self._event(damaged.proposal, nth, happening, actor)
            self._control.put(_key(event.proposal, nth), EVENT.encode(event), sync=self._is_durable)

    def leftovers(self) -> tuple[str, ...]:
        """Return the keys of marks that stand for proposals that have ended; one that is damaged keeps its mark."""
        found: list[str] = []
        for number in self.marked():
            with suppress(ManifestCorruptError, ProposalMissingError):
                found += [_mark(number)] if has_ended(self.read(number)) else []
        return tuple(found)

    def _recent(self) -> int:
        data = self._control.get(_RECENT)
        number = int(data) if data is not None and data.isdigit() else 0
        # It may have been written by one whose proposal a power failure took.
        return number if number and self._exists(number) else 0

    def _exists(self, number: int) -> bool:
        return self._control.exists(_key(number, 1))

    def _length(self, number: int) -> int:
        # A listing that runs beside writers may leave one out, so that only the last one counts.
        return max(_numbers(self._control.list_keys(f"{PROPOSALS_PREFIX}/{number}")), default=0)

    def _read(self, place: tuple[int, int]) -> ProposalEvent:
        key = _key(*place)
        data = self._control.get(key)
        if data is None:
            details = FormatMismatch(what=key, expected="an event of a proposal", found="nothing")
            raise ManifestCorruptError(
                f"an event of proposal {place[0]} is missing: '{key}'", details=details, hint=WAY_OUT
            )
        event = EVENT.decode(data, key)
        if (event.proposal, event.number) != place or isinstance(event.what, Opened) != (event.number == 1):
            found = f"event {event.number} of proposal {event.proposal}"
            details = FormatMismatch(what=key, expected=f"event {place[1]} of proposal {place[0]}", found=found)
            raise ManifestCorruptError(f"cannot read proposal '{key}'", details=details, hint=WAY_OUT)
        self._known.put(place, (event, len(data)))
        return event

    def _event(self, number: int, nth: int, what: Happening, actor: str | None) -> ProposalEvent:
        runtime = self._stores.runtime
        return ProposalEvent(
            proposal=number,
            number=nth,
            identity=str(runtime.ids.ulid()),
            at_ms=runtime.clock.now_ms(),
            actor=actor,
            what=what,
        )

    def _put(self, event: ProposalEvent) -> bool:
        key, data = _key(event.proposal, event.number), EVENT.encode(event)
        # The answer to a put that landed may have been lost and the put repeated.
        is_ours = self._control.put_if_absent(key, data, sync=self._is_durable) or self._control.get(key) == data
        if is_ours:
            self._failpoints.hit("txn.proposal.after_event")
            self._known.put((event.proposal, event.number), (event, len(data)))
        return is_ours


@record
class DamagedEvent:
    """The place of an event that is damaged, or missing: then ``data`` is None."""

    proposal: int
    number: int
    is_last: bool
    data: bytes | None = field(repr=False)


def described(proposal: int, error: ManifestCorruptError) -> DamagedRecord:
    """Return a proposal whose events cannot be understood as lists show it."""
    return DamagedRecord.of("proposal", str(proposal), getattr(error.details, "what", ""), error)


def has_ended(events: Iterable[ProposalEvent]) -> bool:
    """Whether a proposal takes no further part: it was merged, or given up."""
    return any(isinstance(event.what, MergeDone | Closed) for event in events)


def _key(proposal: int, number: int) -> str:
    return f"{PROPOSALS_PREFIX}/{proposal}/{number}.json"


def _mark(proposal: int) -> str:
    return f"{_MARKS}/{proposal}.json"


def _numbers(keys: Iterable[str]) -> list[int]:
    files = (_FILE.fullmatch(key.rpartition("/")[2]) for key in keys)
    return [int(file[1]) for file in files if file is not None]
