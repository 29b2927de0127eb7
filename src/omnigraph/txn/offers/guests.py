"""The holder's side of offers: which writes of other processes can be published beside its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from omnigraph.records import record
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import RowChange
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.offers.line import MachineLine
from omnigraph.txn.offers.offer import Offer, OfferedWrite, changes_of, reads_of
from omnigraph.txn.offers.owner import commits_since
from omnigraph.txn.offers.sweep import is_orphaned, is_overdue
from omnigraph.txn.publish.batch import Member
from omnigraph.txn.services import BranchServices
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, SchemaRules, WriteTxn
from omnigraph.values import OperationId

# So many more offers are looked at than can be taken, so that some of no use do not hide the others.
_SPARE = 32
# How long others have to come back after a version, as a multiple of the time that it took, and how long until the next
# look. On an object store they have more to read and to upload until their next offers are there.
_LOCAL_PATIENCE, _REMOTE_PATIENCE = 1.5, 2.5
_PAUSE_S = 0.001
# So many others make it worth the wait.
_COMPANY = 2


@record
class Guests:
    """What was found: writes that hold so far, and offers that nobody needs any more."""

    members: tuple[Member, ...] = ()
    spent: tuple[str, ...] = ()


class Company:
    """How many others are about to write, so that a writer can wait a moment for those who are nearly there.

    Writers that were published together begin their next writes together. Whoever of them is first would publish alone
    what a few milliseconds later could be the work of all, and each version costs the same however many commits it has.
    """

    def __init__(self, services: BranchServices, line: MachineLine) -> None:
        self._services = services
        self._clock = services.runtime.clock
        self._line = line
        # The last version that this process published, with how many offers of others, when, and how long that took.
        self._version = 0
        self._carried = 0
        self._published_s = 0.0
        self._window_s = 0.0

    def published(self, version: int, carried: int, took_s: float) -> None:
        """Take note of a version that this process has published with so many offers of others."""
        self._version, self._carried, self._window_s = version, carried, took_s
        self._published_s = self._clock.monotonic_s()

    def gather(self, base: LoadedManifest) -> None:
        """Return when as many offers are there as the last version had, or when their owners had time to come back.

        Only the process that published that version waits, since only it knows when that was. It does not wait for a
        single owner: two writers get further by taking turns than by waiting for each other.
        """
        if self._version != base.state.version or self._carried < _COMPANY:
            return
        is_local = self._services.stores.control.storage.is_local
        until_s = self._published_s + self._window_s * (_LOCAL_PATIENCE if is_local else _REMOTE_PATIENCE)
        wanted = self._carried + len(self._line.announced())
        while len(self._line.announced()) < wanted and self._clock.monotonic_s() < until_s:
            self._clock.sleep(_PAUSE_S)

    def offers(self, own: str | None, most: int) -> tuple[tuple[str, ...], dict[str, Offer]]:
        """Return the names of the offers of others, oldest first, and as many of those offers as can be of use."""
        told = self._line.announced()
        names, found = self._services.offers.look(told, own, most)
        self._line.wipe(set(told) - set(names))
        return names, found


def find_guests(services: BranchServices, company: Company, base: LoadedManifest, own: str | None, most: int) -> Guests:
    """Return the writes that others offer and that may go upon ``base``, oldest first.

    Args:
        services: what acts on the branch.
        company: who else is about to write.
        base: the version to go upon.
        own: the name of the caller's own offer.
        most: how many writes to take at most.
    """
    company.gather(base)
    names, offers = company.offers(own, most + _SPARE)
    if not names:
        return Guests()
    services.runtime.failpoints.hit("txn.offers.after_list")
    orphaned = {name for name, offer in offers.items() if is_orphaned(services, offer)}
    fitting = {name: offer for name, offer in offers.items() if name not in orphaned and _fits(services, offer, base)}
    published = _published(services, base, offers.values())
    snapshot = services.snapshot(base)
    members = [
        _member(services, snapshot, name, write)
        for name, offer in fitting.items()
        for write in offer.writes
        if write.commit_id not in published and not _has_moved(services, snapshot, write)
    ]
    done = [
        name
        for name, offer in offers.items()
        if name in orphaned or all(write.commit_id in published for write in offer.writes)
    ]
    overdue = [name for name in names if name not in offers and is_overdue(services, name)]
    return Guests(members=tuple(members[:most]), spent=(*done, *overdue))


def _fits(services: BranchServices, offer: Offer, base: LoadedManifest) -> bool:
    """Whether an offer was made for the schema of ``base``, on a state that it comes after, and can be checked here."""
    if services.rules is None and any(write.has_rules for write in offer.writes):
        return False
    if services.runtime.clock.now_ms() > offer.deadline_ms:
        # Its owner may be gone. If it is not, it goes on by itself, and nobody wants to see old work appear.
        return False
    return offer.schema_hash == base.state.schema.hash and offer.base_version <= base.state.version


def _published(services: BranchServices, base: LoadedManifest, offers: Iterable[Offer]) -> frozenset[str]:
    """Return the ids of offered commits that are part of ``base`` already."""
    earlier = [offer for offer in offers if offer.base_version < base.state.version]
    wanted = {write.commit_id for offer in earlier for write in offer.writes}
    if not wanted:
        return frozenset()
    return frozenset(commits_since(services, base, min(offer.base_version for offer in earlier), wanted))


@record
class _OfferedBase:
    """The tables that an offered write was decided on, as they were there."""

    services: BranchServices
    write: OfferedWrite

    def table(self, table_key: str) -> Table:
        return self.services.tables.open(self.write.pins[table_key])


def _has_moved(services: BranchServices, snapshot: GraphSnapshot, write: OfferedWrite) -> bool:
    """Whether anything that an offered write was decided on is not what it was there."""
    before, reads = _OfferedBase(services=services, write=write), reads_of(write)
    for table_key, pin in write.pins.items():
        entry = snapshot.state.table(table_key)
        if entry is None:
            return True
        if entry.pin != pin and (table_key in reads.tables or reads.have_moved(table_key, before, snapshot)):
            return True
    return False


def _member(services: BranchServices, snapshot: GraphSnapshot, name: str, write: OfferedWrite) -> Member:
    """Return an offered write as a transaction upon ``snapshot``, on which it holds as far as rows are concerned."""
    txn = WriteTxn(
        snapshot,
        operation_id=OperationId(services.runtime.ids.ulid()),
        commit_id=write.commit_id,
        kind=write.kind,
        actor=write.actor,
        message=write.message,
        expected_head=write.expected_head,
        merged_parent=None,
    )
    txn.request = write.request
    changes = changes_of(write)
    for change in changes.values():
        txn.change(change)
    txn.reads = reads_of(write)
    # What it depends on was told where its kind does not tell, too.
    txn.keeps_values = bool(write.pins)
    if write.has_rules and services.rules is not None:
        txn.follows_rules = True
        txn.add_check(partial(_check, services.rules, changes))
    return Member(txn, offer=name)


def _check(rules: SchemaRules, changes: dict[str, RowChange], view: CommitView) -> None:
    rules.check(view, changes)
