"""A batch: the writes that share one publish, usually one, and what is staged for them.

Its members come from this process. Guests come from others: writes that were offered and that this process publishes
together with its own. A guest that does not hold leaves without a word, because its owner looks after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ExpectedVersionMismatchError, IdempotencyKeyError, OmnigraphError, RepeatedRequest
from omnigraph.records import record
from omnigraph.runtime import Clock, calling, counting
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.changes import RowChange, TableChange, as_id_array, id_array
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import Commit, ManifestChange
from omnigraph.txn.manifest.shared import can_name, name_rows
from omnigraph.txn.publish.phases import check_rebase
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.publish.stage import StagedTable
from omnigraph.txn.services import BranchServices
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import BeforeRerun, CommitView, WriteTxn, combine, key_exists
from omnigraph.values import OperationId
from omnigraph.values.formats import NAMED_ROWS_FORMAT

# Fewer are not worth putting together.
_FEWEST_TOGETHER = 2


@record(frozen=False, kw_only=False, eq=False)
class Member:
    """One transaction of a batch and how it fares.

    ``manifest`` is there when it has ended well: the version that holds its commit, or to which it had nothing to add.
    """

    txn: WriteTxn
    error: BaseException | None = None
    commit: Commit | None = None
    manifest: LoadedManifest | None = None
    # An earlier member with the same idempotency key: whatever becomes of that one is told here too.
    first: Member | None = None
    # It was decided on rows that a member before it changes: it is decided again when that one is published.
    is_put_off: bool = False
    # The offer that it was taken from.
    offer: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is neither published nor refused, and repeats no other."""
        return self.error is None and self.first is None and self.manifest is None


@record(kw_only=False)
class _Staged:
    """A staged table together with what it was staged from; it stays good while both are the same."""

    pin: TablePin | None
    change: TableChange
    table: StagedTable | None


class Batch:
    """Members in the order they came. A member that fails leaves; the others go on without it."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = tuple(members)
        self._guests: tuple[Member, ...] = ()
        self._conditional: tuple[Member, ...] = ()
        # Offers that were found to be published already.
        self.spent: tuple[str, ...] = ()
        # What is staged stays when a member leaves, so its name must not depend on who is left.
        self._operation_id = self.members[0].txn.operation_id
        self._staged: dict[str, _Staged] = {}
        self._checked_on: int | None = None
        self._staged_on: int | None = None
        self._changes: dict[str, TableChange] = {}

    @property
    def open_members(self) -> tuple[Member, ...]:
        """The members of this process that nothing has become of yet."""
        return tuple(member for member in self.members if member.is_open)

    @property
    def alive(self) -> tuple[Member, ...]:
        """Those who would be published now: a guest that demands the head as it is, members, other guests."""
        present = (*self._conditional, *self.members, *self._guests)
        return tuple(member for member in present if member.is_open and not member.is_put_off)

    @property
    def takes_guests(self) -> bool:
        """Whether writes of others may share its version: what they are checked by is not changed in it."""
        return all(member.txn.can_lead for member in self.open_members)

    def invite(self, guests: Sequence[Member]) -> None:
        """Take along writes of others, instead of those that were taken along before."""
        if not guests and not self.guests:
            return
        # What comes behind another write of the same version finds another head than it demands.
        is_free = all(member.txn.expected_head is None for member in self.open_members)
        conditional = [guest for guest in guests if guest.txn.expected_head is not None]
        self._conditional = tuple(conditional[:1]) if is_free else ()
        self._guests = tuple(guest for guest in guests if guest.txn.expected_head is None)
        self._checked_on = None

    @property
    def guests(self) -> tuple[Member, ...]:
        """The writes of others that were taken along, published or not."""
        return (*self._conditional, *self._guests)

    @property
    def carried(self) -> tuple[str, ...]:
        """The offers that the guests come from who would be published now."""
        return tuple(dict.fromkeys(member.offer for member in self.alive if member.offer is not None))

    def fail_all(self, error: OmnigraphError) -> None:
        """Every member that nothing has become of fails with the batch."""
        for member in self.open_members:
            member.error = error

    def end(self, manifest: LoadedManifest) -> None:
        """Those who are alive are part of ``manifest``; what was put off begins anew, under names of its own."""
        for member in self.alive:
            member.manifest = manifest
        self._guests = self._conditional = ()
        self.forget_staged()
        self._checked_on = self._staged_on = None
        for member in self.members:
            member.is_put_off = False

    def begin_again(self, services: BranchServices) -> None:
        """Upload whatever is left to be published at places of its own."""
        self._operation_id = OperationId(services.runtime.ids.ulid())

    def hold(self) -> bool:
        """Say of every open member that it may be published; False when some were forsaken before, and are out."""
        forsaken = [member for member in self.open_members if not member.txn.hold()]
        for member in forsaken:
            # Its thread has left, and hears of nothing.
            member.error = KeyboardInterrupt()
        for member in self.members if forsaken else ():
            if member.first in forsaken:
                member.first = None
            self._checked_on = None
        return not forsaken

    def let_go(self) -> None:
        """Say that no open member can be published as things are: nothing of it is claimed or offered."""
        for member in self.open_members:
            member.txn.let_go()

    @property
    def is_forsaken(self) -> bool:
        """Whether nobody waits for any of it: then it ends before it claims anything."""
        return all(member.txn.is_forsaken for member in self.open_members)

    def is_late(self, clock: Clock) -> bool:
        """Whether the time of all of it is over."""
        return all(member.txn.lateness(clock) is not None for member in self.open_members)

    @property
    def reruns(self) -> int:
        """How often a member was run again because rows that it was decided on had moved."""
        return max(member.txn.reruns for member in self.members)

    def forget_staged(self) -> None:
        """Stage everything again: what was staged may have landed and been undone."""
        self._staged.clear()

    def prepare(self, services: BranchServices, base: LoadedManifest, before_rerun: BeforeRerun | None = None) -> None:
        """Bring the batch onto ``base``: rebase rules, constraint checks, then staging of what is not staged yet.

        ``before_rerun`` is called before a member is run again, and may raise instead.
        """
        snapshot = services.snapshot(base)
        self._forget_swept(services, base)
        if self._checked_on != base.state.version:
            self._changes = self._check_members(services, snapshot, before_rerun)
            self._checked_on = base.state.version
        self._stage(services, snapshot)

    def plan(self, services: BranchServices, base: LoadedManifest) -> PublishPlan | None:
        """Return the plan that publishes every living member upon ``base``, or None when nothing is left to do."""
        for member in self.members:
            if member.is_open:
                # A commit planned for an earlier base was not published, or there would be no second plan.
                member.commit = None
        alive = [member for member in self.alive if not member.txn.is_empty]
        tables = [staged.table for staged in self._staged.values() if staged.table is not None]
        schema = next((member.txn.schema_change for member in alive if member.txn.schema_change), None)
        is_merge = any(member.txn.merged_parent is not None for member in alive)
        # That a piece of a stream was delivered is worth a commit although it left every row as it was.
        is_batch = any(
            member.txn.batch or member.txn.feed or member.txn.is_recorded or member.txn.sequences for member in alive
        )
        leader = next((member.txn for member in alive if member.offer is None), None)
        if leader is None or self.is_forsaken or (not tables and schema is None and not is_merge and not is_batch):
            return None
        change = ManifestChange(
            commits=self._commits(alive, services, base),
            put_tables=tuple(table.entry for table in tables if table.entry is not None),
            drop_tables=tuple(table.tombstone for table in tables if table.tombstone is not None),
            rename_tables=tuple(table.rename for table in tables if table.rename is not None),
            schema=None if schema is None else schema.schema,
        )
        return PublishPlan.upon(
            base.state,
            services.runtime,
            services.writer,
            operation_id=self._operation_id,
            kind=leader.kind,
            actor=leader.actor,
            actions=tuple(action for table in tables for action in table.actions),
            change=change,
            read_set=tuple(sorted({key for member in alive for key in member.txn.read_set})),
        )

    def _commits(self, alive: Sequence[Member], services: BranchServices, base: LoadedManifest) -> tuple[Commit, ...]:
        parent = base.state.head.commit
        named = name_rows([_written(member.txn) for member in alive]) if len(alive) > 1 else [None]
        published_at_ms = base.state.next_moment(services.runtime.clock.now_ms())
        commits = []
        for member, wrote in zip(alive, named, strict=True):
            member.commit = Commit(
                id=member.txn.commit_id,
                parent=parent,
                actor=member.txn.actor,
                # The id was minted when the write was asked for, and outlives every attempt to publish it.
                created_at_ms=member.txn.commit_id.timestamp_ms,
                manifest_version=base.state.version + 1,
                operation=member.txn.kind.value,
                branch=base.state.head.branch,
                merged_parent=member.txn.merged_parent,
                message=member.txn.message,
                published_at_ms=published_at_ms,
                touched=self._touched(member),
                batch=member.txn.batch,
                proposal=member.txn.proposal,
                feed=member.txn.feed,
                request=member.txn.told_request(),
                reverts=member.txn.reverts,
                run=member.txn.run,
                sequences=member.txn.sequences,
                wrote=wrote,
            )
            parent = member.commit.id
            commits.append(member.commit)
        return tuple(commits)

    def _touched(self, member: Member) -> tuple[str, ...]:
        """The tables that a member really changes, under both names where it renames one."""
        keys = set()
        for table_key in member.txn.changes:
            staged = self._staged.get(table_key)
            if staged is not None and staged.table is not None:
                rename = staged.table.rename
                keys |= {table_key} if rename is None else {table_key, rename.new_key}
        return tuple(sorted(keys))

    def _check_members(
        self, services: BranchServices, snapshot: GraphSnapshot, before_rerun: BeforeRerun | None
    ) -> dict[str, TableChange]:
        """Let each member see the ones before it; return the changes of all that hold."""
        for member in self.members:
            member.is_put_off = False
        self._join_repeated()
        together = self._check_together(services, snapshot)
        if together is not None:
            return together
        changes: dict[str, TableChange] = {}
        sizes: list[int] = []
        for member in self.alive:
            member.error = member.txn.lateness(services.runtime.clock)
            if member.error is not None:
                continue
            try:
                services.keyed.refuse_repeated(snapshot.manifest, member.txn.request)
                after = _accept(member, snapshot, changes, before_rerun)
            except OmnigraphError as error:
                member.error = error
                continue
            sizes.append(_row_count(member.txn))
            if member.is_put_off or not _can_share(snapshot, sizes):
                member.is_put_off = True
                sizes.pop()
                continue
            changes = after
        return changes

    def _join_repeated(self) -> None:
        """Let members share the outcome of an earlier one with their idempotency key."""
        keys: dict[str, Member] = {}
        for member in self.alive:
            request = member.txn.request
            if request is not None and request.key is not None:
                first = keys.setdefault(request.key, member)
                if first is not member:
                    _join(member, first)

    def _check_together(self, services: BranchServices, snapshot: GraphSnapshot) -> dict[str, TableChange] | None:
        """Check the rows of all members as those of one, which costs what one costs; None when each must be looked at.

        That is so when anything is wrong, because it is one member's fault, and whenever the order of members counts.
        """
        rules, members = services.rules, self.alive
        if rules is None or len(members) < _FEWEST_TOGETHER:
            return None
        if not all(member.txn.is_self_contained and member.txn.can_group for member in members):
            return None
        if not _can_share(snapshot, [_row_count(member.txn) for member in members]):
            return None
        try:
            for member in members:
                if member.txn.lateness(services.runtime.clock) is not None:
                    return None
                services.keyed.refuse_repeated(snapshot.manifest, member.txn.request)
                check_rebase(member.txn, snapshot)
            changes = _united([member.txn for member in members])
            view = CommitView(snapshot, {})
            if changes is None or not rules.hold_apart(view, changes):
                return None
            for change in changes.values():
                _refuse_taken_ids(change, view)
            rules.check(view, changes)
        except OmnigraphError:
            return None
        return dict(changes)

    def _forget_swept(self, services: BranchServices, base: LoadedManifest) -> None:
        """Upload everything again when a cleanup may have removed what was uploaded, at places of their own."""
        if self._staged_on is not None and self._staged_on < base.state.head.orphan_floor:
            self._staged.clear()
            self._staged_on = None
            self._operation_id = OperationId(services.runtime.ids.ulid())

    def _stage(self, services: BranchServices, snapshot: GraphSnapshot) -> None:
        wanted: list[TableChange] = []
        for table_key, change in self._changes.items():
            entry = snapshot.state.table(table_key)
            pin = None if entry is None else entry.pin
            known = self._staged.get(table_key)
            if known is None or known.pin != pin or known.change is not change:
                self._staged.pop(table_key, None)
                wanted.append(change)
        for table_key in set(self._staged) - set(self._changes):
            del self._staged[table_key]
        leader = next((member.txn for member in self.alive), None)
        if not wanted or leader is None:
            return
        if self._staged_on is None:
            self._staged_on = snapshot.state.version
        tables = services.stager.stage(snapshot, wanted, self._operation_id, leader.commit_id)
        for change, table in zip(wanted, tables, strict=True):
            entry = snapshot.state.table(change.table_key)
            self._staged[change.table_key] = _Staged(None if entry is None else entry.pin, change, table)


def _united(txns: Sequence[WriteTxn]) -> dict[str, RowChange] | None:
    """Return the changes of transactions as those of one; None when one writes or was decided on a row of another."""
    by_table: dict[str, list[RowChange]] = {}
    for txn in txns:
        for table_key, change in txn.changes.items():
            if not isinstance(change, RowChange):
                return None
            by_table.setdefault(table_key, []).append(change)
    changes = {table_key: _one_of(table_key, parts) for table_key, parts in by_table.items()}
    for change in changes.values():
        ids = pa.concat_arrays([id_array(change.written), as_id_array(change.deletes)])
        if pc.count_distinct(ids).as_py() < len(ids):
            return None
    if any(txn.reads for txn in txns) and _are_entangled(txns):
        return None
    return changes


def _are_entangled(txns: Sequence[WriteTxn]) -> bool:
    """Whether one of them was decided on rows that another one changes."""
    writers = {(key, one): txn for txn in txns for key, ids in _written(txn).items() for one in ids.to_pylist()}
    for txn in txns:
        for table_key, ids in txn.rows_read.items():
            if any(writers.get((table_key, one), txn) is not txn for one in ids):
                return True
        if txn.ends_read and any(
            txn.depends_on(change)
            for other in txns
            if other is not txn
            for change in other.changes.values()
            if isinstance(change, RowChange)
        ):
            return True
    return False


def _can_share(snapshot: GraphSnapshot, sizes: Sequence[int]) -> bool:
    """Whether writes of so many rows may share a version: their commits have to tell whose rows are whose."""
    return len(sizes) < _FEWEST_TOGETHER or (snapshot.state.format >= NAMED_ROWS_FORMAT and can_name(sizes))


def _row_count(txn: WriteTxn) -> int:
    """Return how many rows a transaction writes or removes."""
    changes = (change for change in txn.changes.values() if isinstance(change, RowChange))
    return sum(len(rows) for one in changes for rows in (one.inserts, one.upserts, one.deletes) if rows is not None)


def _written(txn: WriteTxn) -> dict[str, pa.Array]:
    """Return the ids of the rows that a transaction writes or removes, by table."""
    return {
        key: pa.concat_arrays([id_array(change.inserts), id_array(change.upserts), as_id_array(change.deletes)])
        for key, change in txn.changes.items()
        if isinstance(change, RowChange)
    }


def _one_of(table_key: str, parts: Sequence[RowChange]) -> RowChange:
    inserts = [part.inserts for part in parts if part.inserts is not None]
    upserts = [part.upserts for part in parts if part.upserts is not None]
    deletes = [as_id_array(part.deletes) for part in parts if len(part.deletes)]
    return RowChange(
        table_key=table_key,
        inserts=pa.concat_tables(inserts) if inserts else None,
        has_fresh_ids=all(part.has_fresh_ids for part in parts if part.inserts is not None),
        upserts=pa.concat_tables(upserts) if upserts else None,
        deletes=tuple(pa.concat_arrays(deletes).to_pylist()) if deletes else (),
    )


def _join(member: Member, first: Member) -> None:
    """Let a member share the outcome of an earlier one with its key; another payload under that key is refused."""
    asked, before = member.txn.request, first.txn.request
    if asked is not None and before is not None and asked.payload != before.payload:
        details = RepeatedRequest(
            branch=member.txn.snapshot.state.head.branch, commit_id=first.txn.commit_id, request_id=before.id
        )
        message = "another write with the same idempotency key is being published"
        member.error = IdempotencyKeyError(message, details=details)
    else:
        member.first = first


def _accept(
    member: Member, snapshot: GraphSnapshot, before: dict[str, TableChange], before_rerun: BeforeRerun | None
) -> dict[str, TableChange]:
    """Return ``before`` with the changes of a member added, or raise what forbids it."""
    txn = member.txn
    try:
        check_rebase(txn, snapshot)
    except ExpectedVersionMismatchError:
        if before_rerun is not None:
            before_rerun()
        with calling(txn.call):
            # This thread may publish for a request of its own: every write is decided within the limits of its request.
            is_decided = txn.run_again(snapshot)
        if not is_decided:
            raise
    if before and txn.expected_head is not None and member.offer is not None:
        # Left to its owner, who is told what the head is by then.
        member.is_put_off = True
        return before
    if not _can_follow(txn, before):
        member.is_put_off = True
        return before
    earlier = CommitView(snapshot, before)
    merged = dict(before)
    for table_key, change in txn.changes.items():
        if isinstance(change, RowChange):
            _refuse_taken_ids(change, earlier)
        present = merged.get(table_key)
        if isinstance(present, RowChange) and isinstance(change, RowChange):
            merged[table_key] = combine(present, change)
        else:
            merged[table_key] = change
    view = CommitView(snapshot, merged, before)
    with counting(txn.counters), calling(txn.call):
        for check in txn.checks:
            check(view)
    return merged


def _can_follow(txn: WriteTxn, before: dict[str, TableChange]) -> bool:
    """Whether a write still says the same behind others of its version, and its changes add up with theirs."""
    if any(isinstance(change, RowChange) and txn.depends_on(change) for change in before.values()):
        return False
    shared = before.keys() & txn.changes.keys()
    return all(isinstance(item, RowChange) for key in shared for item in (before[key], txn.changes[key]))


def _refuse_taken_ids(change: RowChange, earlier: CommitView) -> None:
    if change.inserts is None or change.has_fresh_ids:
        return
    ids = id_array(change.inserts)
    taken = earlier.taken_ids(change.table_key, ids)
    if len(taken):
        raise key_exists(change.table_key, ids.filter(pc.is_in(ids, value_set=taken)).to_pylist())
