"""Branch refs: which branches exist, and which line of the manifest each of them is.

A ref is a named record: of two racing creators one wins, and ending it is what ends a branch. The line it names is
unique to the incarnation, so nothing that belongs to a deleted branch can be reached through a later branch of the
same name.

Creating and deleting meet on their marks. A creator writes its mark and its ref and then looks whether the source is
being deleted; a deletion claims the branch and then looks for marks. Whatever the order, one of them sees the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import msgspec

from omnigraph.errors import (
    BadValue,
    BranchClosingError,
    BranchExistsError,
    Effect,
    FormatMismatch,
    GoneState,
    HistoryGoneError,
    ManifestCorruptError,
    OmnigraphError,
    TableMissingError,
    VersionMissingError,
)
from omnigraph.txn.branches.incarnation import BranchIncarnation, branch_missing, lance_branch_name
from omnigraph.txn.branches.records import Dependant, DependantMarks, Generations, NamedObjects, NamedRecord
from omnigraph.txn.claims.store import ClaimStore
from omnigraph.txn.manifest.file import LOCATION, LoadedManifest
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.services import GraphStores
from omnigraph.txn.stored_json import StoredCodec
from omnigraph.values import MAIN, BranchName, CommitId
from omnigraph.values.damage import WAY_OUT, DamagedRecord

_log = logging.getLogger(__name__)

REFS_PREFIX = "__branches"
# Creators of overlapping names give way to each other; with random pauses one of them is through after a few turns.
_ATTEMPTS = 8


class BranchRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A live branch and where it came from.

    ``parent`` is the line it was forked from at ``forked_version``; ``forked_depth`` is how many commits its history
    had at that moment. ``number`` tells the lives of one name apart; it is the name of the object, not part of it.
    """

    name: BranchName
    incarnation: str
    lance_branch: str | None = msgspec.field(name="line")
    parent_name: BranchName = msgspec.field(name="parent")
    parent_incarnation: str
    parent_lance_branch: str | None = msgspec.field(name="parent_line")
    forked_at: CommitId
    forked_version: int
    forked_depth: int
    created_at_ms: int
    actor: str | None
    number: int = 0

    @property
    def line(self) -> BranchIncarnation:
        """The branch as storage knows it."""
        return BranchIncarnation(name=self.name, incarnation=self.incarnation, lance_branch=self.lance_branch)

    @property
    def parent(self) -> BranchIncarnation:
        """The branch that it was forked from."""
        return BranchIncarnation(
            name=self.parent_name, incarnation=self.parent_incarnation, lance_branch=self.parent_lance_branch
        )

    @property
    def mark(self) -> Dependant:
        """What says to a deletion of the parent that this branch needs it."""
        return Dependant(kind="branch", name=self.name, identity=self.incarnation)


REF = StoredCodec(BranchRecord, subject="branch ref", expected="a branch ref", error=ManifestCorruptError, hint=WAY_OUT)


class BranchRefs:
    """The refs of one graph."""

    def __init__(self, stores: GraphStores) -> None:
        self._stores = stores
        self._world = stores.runtime
        self._objects = NamedObjects(stores.control, REFS_PREFIX, is_durable=stores.settings.is_durable)
        self.marks = DependantMarks(stores.control, is_durable=stores.settings.is_durable)

    def get(self, name: BranchName) -> BranchRecord:
        """Return the ref of a live branch other than main.

        Raises:
            BranchMissingError: there is none.
        """
        found = self.find(name)
        if found is None:
            raise branch_missing(name, near=tuple(self.names()))
        return found

    def find(self, name: BranchName) -> BranchRecord | None:
        """Return the ref of a live branch other than main, or None."""
        record = self._objects.find(name)
        if record is None:
            return None
        return self._ref(record)

    def has_ended(self, name: BranchName) -> bool:
        """Whether there was a branch of that name, and there is none any more."""
        lives = self._objects.lives(name)
        return lives.live is None and bool(lives.ended)

    def has_had(self, name: BranchName) -> bool:
        """Whether there was a branch of that name before the one that there may be."""
        return bool(self._objects.lives(name).ended)

    def names(self) -> list[BranchName]:
        """Return the live branches, main first, then by name."""
        return _live_names(self._objects.survey())

    def described(self, name: BranchName, error: OmnigraphError) -> DamagedRecord:
        """Return a branch whose ref cannot be understood, or is missing, as lists show it."""
        return DamagedRecord.of("branch", name, self._objects.key(name, self._objects.lives(name).live or 1), error)

    def damaged(self) -> Iterator[tuple[DamagedRecord, NamedRecord]]:
        """Yield the refs of live branches that cannot be understood, by name."""
        return self._objects.damaged("branch", self._ref)

    def ever(self) -> frozenset[str]:
        """Return every name that is or was in use; one listing."""
        return frozenset(self._objects.survey())

    def put_back(self, ref: BranchRecord) -> None:
        """Write a ref that was damaged or is missing, and its mark on the parent."""
        self.marks.add(ref.parent, ref.mark)
        self._objects.put_back(ref.name, ref.number, REF.encode(msgspec.structs.replace(ref, number=0)))

    def drop(self, damaged: NamedRecord) -> None:
        """End a branch that has nothing but a ref that cannot be understood."""
        self._objects.drop(damaged)

    def create(
        self,
        name: BranchName,
        source: BranchIncarnation,
        base: LoadedManifest,
        depth: int,
        is_whole: Callable[[], bool],
        actor: str | None,
    ) -> BranchRecord:
        """Create a branch at ``base`` of ``source``: a constant number of calls, whatever the number of tables.

        A crash before the ref exists leaves a line that nobody can find; cleanup collects it.

        Args:
            name: the name.
            source: the line that it starts from.
            base: the version that it starts from.
            depth: how many commits its history has there.
            is_whole: tells whether cleanup leaves that version alone; asked when the line is there, which cleanup
                looks for after it has recorded what it removes.
            actor: who asks for it.

        Raises:
            BranchExistsError: the name, or one that overlaps with it, is taken.
            HistoryGoneError: the version was reclaimed.
            BranchMissingError, BranchClosingError: the source was deleted, or is about to be.
        """
        for _ in range(_ATTEMPTS):
            lives = self._objects.survey()
            taken = next((taken for taken in _live_names(lives) if name.overlaps(taken)), None)
            if taken is not None and self.end_orphan(taken):
                continue
            if taken is not None:
                raise _exists(name, taken)
            ref = self._draw_up(name, source, base, depth, actor, lives.get(name, Generations()).next_number)
            if self._put(ref, is_whole):
                return ref
            self._world.clock.sleep(0.01 + 0.05 * self._world.randomness.fraction())
        raise _exists(name, name)

    def end(self, ref: BranchRecord) -> None:
        """End a branch: from here on it does not exist. Nothing else of it is touched."""
        self._objects.end(ref.name, ref.number)

    def leftovers(self) -> tuple[str, ...]:
        """Return the keys of what the refs of ended branches have left, and nobody needs."""
        return self._objects.leftovers()

    def sweep(self, ref: BranchRecord, *, keeps_mark: bool = False) -> None:
        """Remove what the ref of an ended branch left, its mark on the parent first.

        ``keeps_mark``: its states stay, and need those of the parent.
        """
        if not keeps_mark:
            self.marks.remove(ref.parent, ref.mark)
        self._objects.sweep(ref.name, ref.number)

    def sweep_ended(self, line: BranchIncarnation, *, keeps_mark: bool = False) -> None:
        """Remove what the ref of a branch left whose deletion died behind its end."""
        for leftover in self._objects.remains(line.name):
            ref = self._ref(leftover)
            if ref.line.incarnation == line.incarnation:
                self.sweep(ref, keeps_mark=keeps_mark)

    def is_orphan(self, ref: BranchRecord) -> bool:
        """Whether the branch that a ref was forked from is gone.

        No deletion ends a branch that others need. Such a ref was written by a creator that died before it could look
        at a deletion that was already under way; nobody was ever told that its branch exists.
        """
        if ref.parent.name.is_main:
            return False
        parent = self.find(ref.parent.name)
        return parent is None or parent.line.incarnation != ref.parent.incarnation

    def is_live(self, line: BranchIncarnation) -> bool:
        """Whether a line other than main's is that of a branch: of none that was deleted, and of no orphan."""
        ref = self.find(line.name)
        return ref is not None and ref.line == line and not self.is_orphan(ref)

    def may_be_live(self, name: BranchName, incarnation: str) -> bool:
        """Tell whether an incarnation of a branch is live; one whose ref cannot be understood may be."""
        try:
            ref = None if name.is_main else self.find(name)
        except ManifestCorruptError:
            return True
        return name.is_main or (ref is not None and ref.line.incarnation == incarnation)

    def end_orphan(self, name: BranchName) -> bool:
        """End a branch whose parent is gone; return whether it was one."""
        ref = None if name.is_main else self.find(name)
        if ref is None or not self.is_orphan(ref):
            return False
        self._end_and_withdraw(ref)
        return True

    def check_open(self, line: BranchIncarnation) -> None:
        """Refuse a branch that is deleted or about to be, after something that needs it was written.

        Raises:
            BranchClosingError: a deletion has begun.
            BranchMissingError: it has ended.
        """
        if line.name.is_main:
            return
        self._refuse_closing(line)
        # A deletion gives up its claim behind the end of the ref, not before.
        ref = self.find(line.name)
        if ref is None or ref.line != line:
            raise branch_missing(line.name)

    def _refuse_closing(self, line: BranchIncarnation) -> None:
        claims = ClaimStore(self._stores.control, line, self._world, self._stores.settings)
        for version in claims.pending_versions():
            plan = claims.read(version)
            if plan is not None and plan.kind is WriteKind.BRANCH_DELETE:
                details = BadValue(what="branch", value=line.name, expected="a branch that is not being deleted")
                raise BranchClosingError(f"branch '{line.name}' is being deleted", details=details)

    def _survey_open(self, line: BranchIncarnation) -> Mapping[str, Generations]:
        """Do what :meth:`check_open` does and return every name, for a call less than doing both."""
        if line.name.is_main:
            return self._objects.survey()
        self._refuse_closing(line)
        lives = self._objects.survey()
        number = lives.get(line.name, Generations()).live
        data = None if number is None else self._stores.control.get(self._objects.key(line.name, number))
        if number is None or data is None:
            raise branch_missing(line.name)
        if self._ref(NamedRecord(name=line.name, number=number, data=data)).line != line:
            raise branch_missing(line.name)
        return lives

    def _ref(self, record: NamedRecord) -> BranchRecord:
        ref = REF.decode(record.data, self._objects.key(record.name, record.number))
        self._objects.refuse_other(record, ref.name)
        if ref.lance_branch != lance_branch_name(ref.name, ref.incarnation):
            key = self._objects.key(record.name, record.number)
            details = FormatMismatch(what=key, expected="the line of that branch", found=str(ref.lance_branch))
            raise ManifestCorruptError(f"cannot read branch ref '{key}'", details=details, hint=WAY_OUT)
        return msgspec.structs.replace(ref, number=record.number)

    def _draw_up(
        self,
        name: BranchName,
        source: BranchIncarnation,
        base: LoadedManifest,
        depth: int,
        actor: str | None,
        number: int,
    ) -> BranchRecord:
        incarnation = str(self._world.ids.ulid()).lower()
        return BranchRecord(
            name=name,
            incarnation=incarnation,
            lance_branch=lance_branch_name(name, incarnation),
            parent_name=source.name,
            parent_incarnation=source.incarnation,
            parent_lance_branch=source.lance_branch,
            forked_at=base.state.head.commit,
            forked_version=base.state.version,
            forked_depth=depth,
            created_at_ms=self._world.clock.now_ms(),
            actor=actor,
            number=number,
        )

    def _put(self, ref: BranchRecord, is_whole: Callable[[], bool]) -> bool:
        """Make the line, then the ref; False when a creator of the same or an overlapping name was in the way."""
        datasets, line = self._stores.datasets, ref.line.lance_branch or ""
        self.marks.add(ref.parent, ref.mark)
        try:
            version = datasets.create_branch(LOCATION, ref.parent.lance_branch, ref.forked_version, line)
        except TableMissingError:
            raise branch_missing(ref.parent.name) from None
        except VersionMissingError:
            self.marks.remove(ref.parent, ref.mark)
            raise _reclaimed(ref) from None
        self._stores.syncing.line(LOCATION, line, version)
        self._world.failpoints.hit("txn.branch.after_line")
        if not is_whole():
            self._withdraw(ref)
            raise _reclaimed(ref)
        self._world.failpoints.hit("txn.branch.before_ref")
        if not self._objects.create(ref.name, ref.number, REF.encode(msgspec.structs.replace(ref, number=0))):
            self._withdraw(ref)
            return False
        self._world.failpoints.hit("txn.branch.after_ref")
        try:
            lives = self._survey_open(ref.parent)
        except OmnigraphError as error:
            self._take_back(ref, error)
            raise
        is_ours = lives.get(ref.name, Generations()).live == ref.number
        if is_ours and not any(taken != ref.name and ref.name.overlaps(taken) for taken in _live_names(lives)):
            return True
        self._end_and_withdraw(ref)
        return False

    def _take_back(self, ref: BranchRecord, error: OmnigraphError) -> None:
        """End a branch whose creation failed behind its ref, and let ``error`` say whether that worked."""
        error.effect = Effect.UNKNOWN
        try:
            self._objects.end(ref.name, ref.number)
            error.effect = Effect.NONE
            self._withdraw(ref)
            self._objects.sweep(ref.name, ref.number)
        except OmnigraphError as trouble:
            _log.warning("could not clean up after branch '%s', which was not created: %s", ref.name, trouble)

    def _end_and_withdraw(self, ref: BranchRecord) -> None:
        self._objects.end(ref.name, ref.number)
        self._withdraw(ref)
        self._objects.sweep(ref.name, ref.number)

    def _withdraw(self, ref: BranchRecord) -> None:
        self._stores.datasets.delete_branch_files(LOCATION, ref.line.lance_branch or "")
        self.marks.remove(ref.parent, ref.mark)


def _live_names(lives: Mapping[str, Generations]) -> list[BranchName]:
    found = sorted(name for name, life in lives.items() if life.live is not None)
    return [BranchName(MAIN), *(BranchName(name) for name in found)]


def _reclaimed(ref: BranchRecord) -> HistoryGoneError:
    details = GoneState(commit_id=ref.forked_at, branch=ref.parent.name)
    return HistoryGoneError(f"the state of commit '{ref.forked_at}' was reclaimed", details=details)


def _exists(name: BranchName, taken: BranchName) -> BranchExistsError:
    details = BadValue(what="branch", value=name, expected=f"a name that does not overlap with {taken!r}")
    return BranchExistsError(f"branch '{taken}' already exists", details=details)
