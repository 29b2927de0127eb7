"""A batch: the transactions that share one publish, usually one, and what is staged for them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from omnigraph.errors import ExpectedVersionMismatchError, IdempotencyKeyError, OmnigraphError, RepeatedRequest
from omnigraph.records import record
from omnigraph.runtime import counting
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.changes import RowChange, TableChange, id_array
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import Commit, ManifestChange
from omnigraph.txn.publish.phases import check_rebase
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.publish.stage import StagedTable
from omnigraph.txn.services import BranchServices
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, WriteTxn, combine, key_exists
from omnigraph.values import OperationId


@record(frozen=False, kw_only=False, eq=False)
class Member:
    """One transaction of a batch and how it fares."""

    txn: WriteTxn
    error: BaseException | None = None
    commit: Commit | None = None
    # An earlier member with the same idempotency key: whatever becomes of that one is told here too.
    first: Member | None = None


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
        # What is staged stays when a member leaves, so its name must not depend on who is left.
        self._operation_id = self.members[0].txn.operation_id
        self._staged: dict[str, _Staged] = {}
        self._checked_on: int | None = None
        self._staged_on: int | None = None
        self._changes: dict[str, TableChange] = {}

    @property
    def alive(self) -> tuple[Member, ...]:
        """The members that have not failed and repeat no other."""
        return tuple(member for member in self.members if member.error is None and member.first is None)

    def fail_all(self, error: OmnigraphError) -> None:
        """Every member that has not failed by itself fails with the batch."""
        for member in self.alive:
            member.error = error

    @property
    def is_forsaken(self) -> bool:
        """Whether nobody waits for any of it: then it ends before it claims anything."""
        return all(member.txn.is_forsaken for member in self.members if member.error is None)

    @property
    def reruns(self) -> int:
        """How often a member was run again because rows that it was decided on had moved."""
        return max(member.txn.reruns for member in self.members)

    def forget_staged(self) -> None:
        """Stage everything again: what was staged may have landed and been undone."""
        self._staged.clear()

    def prepare(self, services: BranchServices, base: LoadedManifest) -> None:
        """Bring the batch onto ``base``: rebase rules, constraint checks, then staging of what is not staged yet."""
        snapshot = services.snapshot(base)
        self._forget_swept(services, base)
        if self._checked_on != base.state.version:
            self._changes = self._check_members(services, snapshot)
            self._checked_on = base.state.version
        self._stage(services, snapshot)

    def plan(self, services: BranchServices, base: LoadedManifest) -> PublishPlan | None:
        """Return the plan that publishes every living member upon ``base``, or None when nothing is left to do."""
        for member in self.members:
            # A commit planned for an earlier base was not published, or there would be no second plan.
            member.commit = None
        alive = [member for member in self.alive if not member.txn.is_empty]
        tables = [staged.table for staged in self._staged.values() if staged.table is not None]
        schema = next((member.txn.schema_change for member in alive if member.txn.schema_change), None)
        # Another opener may have upgraded the graph since: then this one's work is done.
        is_upgrade = services.manifest.is_outdated(base) and any(member.txn.is_upgrade for member in alive)
        is_merge = any(member.txn.merged_parent is not None for member in alive)
        # That a piece of a stream was delivered is worth a commit although it left every row as it was.
        is_batch = any(
            member.txn.batch or member.txn.feed or member.txn.is_recorded or member.txn.sequences for member in alive
        )
        if (
            not alive
            or self.is_forsaken
            or (not tables and schema is None and not is_upgrade and not is_merge and not is_batch)
        ):
            return None
        leader = alive[0].txn
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
        published_at_ms = base.state.next_moment(services.runtime.clock.now_ms())
        commits = []
        for member in alive:
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

    def _check_members(self, services: BranchServices, snapshot: GraphSnapshot) -> dict[str, TableChange]:
        """Let each member see the ones before it; return the changes of all that hold."""
        changes: dict[str, TableChange] = {}
        keys: dict[str, Member] = {}
        for member in self.alive:
            request = member.txn.request
            if request is not None and request.key is not None:
                first = keys.setdefault(request.key, member)
                if first is not member:
                    _join(member, first)
                    continue
            member.error = member.txn.lateness(services.runtime.clock)
            if member.error is not None:
                continue
            try:
                services.keyed.refuse_repeated(snapshot.manifest, request)
                changes = _accept(member.txn, snapshot, changes)
            except OmnigraphError as error:
                member.error = error
        return changes

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


def _accept(txn: WriteTxn, snapshot: GraphSnapshot, before: dict[str, TableChange]) -> dict[str, TableChange]:
    """Return ``before`` with the changes of ``txn`` added, or raise what forbids it."""
    try:
        check_rebase(txn, snapshot.state)
    except ExpectedVersionMismatchError:
        if not txn.run_again(snapshot):
            raise
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
    with counting(txn.counters):
        for check in txn.checks:
            check(view)
    return merged


def _refuse_taken_ids(change: RowChange, earlier: CommitView) -> None:
    if change.inserts is None or change.has_fresh_ids:
        return
    ids = id_array(change.inserts)
    taken = earlier.taken_ids(change.table_key, ids)
    if len(taken):
        raise key_exists(change.table_key, ids.filter(pc.is_in(ids, value_set=taken)).to_pylist())
