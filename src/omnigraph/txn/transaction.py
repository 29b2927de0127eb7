"""``WriteTxn``: a write that has resolved its runtime once, and what it wants to change in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, assert_never

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import (
    BadValue,
    ExistingKeys,
    KeyExistsError,
    LimitExceeded,
    RequestDeadlineError,
    UsageError,
)
from omnigraph.runtime import CallContext, Clock, Counters, calling, current_call
from omnigraph.store.tables.moves import EdgeEnds
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.changes import (
    Compaction,
    IndexBuilds,
    RowChange,
    SchemaChange,
    TableAlter,
    TableChange,
    TableDrop,
    TableRegister,
    TableReplace,
    TableSteps,
    WrittenRows,
    as_id_array,
    id_array,
)
from omnigraph.txn.manifest.requests import request_mark
from omnigraph.txn.manifest.rows import AcceptedSchema, BatchMark, FeedMark, RequestMark, RunMark
from omnigraph.txn.manifest.sequences import SequenceMark, StreamSequences
from omnigraph.txn.publish.kinds import KEYED_KINDS, REBASE_RULES, RebaseRule, WriteKind
from omnigraph.txn.reads import Reads
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import CommitId, OperationId, checked_text


class CommitView:
    """What a check sees: a published state with this transaction's changes, and those grouped before it, on top.

    ``before`` holds the changes of the others alone, for checks that compare a row with what it replaces.
    """

    def __init__(
        self,
        snapshot: GraphSnapshot,
        changes: Mapping[str, TableChange],
        before: Mapping[str, TableChange] = MappingProxyType({}),
    ) -> None:
        self.snapshot = snapshot
        self.changes = changes
        self.before = before

    def existing_ids(self, table_key: str, ids: Sequence[str]) -> frozenset[str]:
        """Return those of ``ids`` that the table would hold after the changes."""
        return frozenset(self.taken_ids(table_key, pa.array(ids, pa.string())).to_pylist())

    def taken_ids(self, table_key: str, ids: pa.Array) -> pa.Array:
        """Return the same as :meth:`existing_ids` for many ids, in columns."""
        change = self.changes.get(table_key)
        match change:
            case TableReplace() | TableRegister():
                return ids.filter(pc.is_in(ids, value_set=id_array(change.rows)))
            case TableDrop():
                return ids.slice(0, 0)
            case RowChange():
                is_pending = pc.is_in(ids, value_set=id_array(change.written))
                is_hidden = pc.is_in(ids, value_set=as_id_array(change.deletes))
                asked = ids.filter(pc.invert(pc.or_(is_pending, is_hidden)))
                return pa.concat_arrays([ids.filter(is_pending), *self._stored(table_key, asked).chunks])
            case WrittenRows() if change.replaces_all:
                # Which rows come is known to their writers alone; they have checked them against each other.
                return ids.slice(0, 0)
            case TableAlter() | IndexBuilds() | Compaction() | WrittenRows() | TableSteps() | None:
                return pa.concat_arrays([ids.slice(0, 0), *self._stored(table_key, ids).chunks])
            case _:
                assert_never(change)

    def _stored(self, table_key: str, ids: pa.Array) -> pa.ChunkedArray:
        if not len(ids):
            return pa.chunked_array([], pa.string())
        return self.snapshot.table(table_key).lookup(ids, ()).column("id")


# What becomes of a write when rows that it was decided on have changed.
OnConflict = Literal["rerun", "refuse"]

Check = Callable[[CommitView], None]


class SchemaRules(Protocol):
    """What the schema says of changes of rows. Whoever knows schemas gives it to those who publish."""

    def check(self, view: CommitView, changes: Mapping[str, RowChange]) -> None:
        """Return if the graph keeps every rule of its schema with ``changes``, which come after those of the view.

        Raises:
            OmnigraphError: it would break one.
        """

    def hold_apart(self, view: CommitView, changes: Mapping[str, RowChange]) -> bool:
        """Whether rows that keep the rules together also keep them one after the other, in any order."""


# What has to happen before a write is decided again.
BeforeRerun = Callable[[], None]
# Reads the snapshot of a transaction and adds its changes and checks.
Decide = Callable[["WriteTxn"], None]


class WriteTxn:
    """One write in the making. Nothing it does before the commit can be seen by anybody else."""

    def __init__(
        self,
        snapshot: GraphSnapshot,
        *,
        operation_id: OperationId,
        commit_id: CommitId,
        kind: WriteKind,
        actor: str | None,
        message: str | None,
        expected_head: CommitId | None,
        merged_parent: CommitId | None,
    ) -> None:
        self.snapshot = snapshot
        self.operation_id = operation_id
        self.commit_id = commit_id
        self.kind = kind
        self.actor = actor
        self.message = message
        self.expected_head = expected_head
        self.merged_parent = merged_parent
        self.counters = Counters()
        self.checks: list[Check] = []
        self.schema_change: SchemaChange | None = None
        # A commit of its own although every row was as it should be already: a load is one whatever it finds.
        self.is_recorded = False
        # Whoever asked for it was interrupted meanwhile: it is not published unless it has claimed its version.
        self.is_forsaken = False
        # Taken for good by a thread that leaves, or by the publisher for as long as the write may get published.
        self._publishable = threading.Lock()
        self._is_held = False
        # The request that asks for it, and what makes up what a repeated one is told; it is asked for when the write
        # is about to be published, because running it again may change the answer.
        self.call = CallContext()
        self.request: RequestMark | None = None
        self.receipt: Callable[[], dict[str, Any]] | None = None
        self.take_call()
        self.batch: BatchMark | None = None
        # The proposal that it merges.
        self.proposal: int | None = None
        # The commit that it undoes.
        self.reverts: CommitId | None = None
        # The run of a pipeline that asks for it.
        self.run: RunMark | None = None
        # How far a feed of another graph will be taken over, and how far it was where that was decided.
        self.feed: FeedMark | None = None
        self.feed_base: FeedMark | None = None
        # What it adds to what is remembered of change logs, and by stream what was remembered where that was decided.
        self.sequences: tuple[SequenceMark, ...] = ()
        self.sequence_bases: dict[str, StreamSequences | None] = {}
        self.reads = Reads()
        # Where other processes put files for this write, by table.
        self.prepared: dict[str, TablePin] = {}
        # Runs the write again when rows that it was decided on have moved; None leaves that to the caller.
        self.decide: Decide | None = None
        # How often that has happened.
        self.reruns = 0
        # Whether the rules of the schema are all that its checks look at, so that any process can check it.
        self.follows_rules = False
        # Whether it holds values of stored rows although its kind does not tell.
        self.keeps_values = False
        self._changes: dict[str, TableChange] = {}

    @property
    def rule(self) -> RebaseRule:
        """What happens when a table of this write has moved before the commit."""
        return RebaseRule.REFUSE if self.keeps_values else REBASE_RULES[self.kind]

    @property
    def read_set(self) -> frozenset[str]:
        """The tables that it was decided on as a whole."""
        return frozenset(self.reads.tables)

    @property
    def rows_read(self) -> Mapping[str, frozenset[str]]:
        """The ids of the rows that it was decided on, there or not, of tables where nothing else counts.

        Without an id it adds rows to a table whatever that holds.
        """
        return {table_key: frozenset(ids) for table_key, ids in self.reads.rows.items()}

    @property
    def ends_read(self) -> Mapping[str, frozenset[EdgeEnds]]:
        """The ends of which it was decided on every edge, by the table of the edges."""
        return {table_key: frozenset(ends) for table_key, ends in self.reads.ends.items()}

    @property
    def changes(self) -> Mapping[str, TableChange]:
        """The changes by table, one per table whatever the number of statements."""
        return MappingProxyType(self._changes)

    @property
    def is_empty(self) -> bool:
        """Whether a commit would change nothing; joining two histories is a change without any row."""
        return not (
            self._changes
            or self.schema_change is not None
            or self.is_recorded
            or self.merged_parent is not None
            or self.batch is not None
            or self.feed is not None
            or self.sequences
        )

    @property
    def can_group(self) -> bool:
        """Whether the change may share a publish with others: rows only, nothing that depends on an exact base.

        One that was decided on rows must not follow one that writes them, see :meth:`depends_on`.
        """
        return (
            (self.rule is RebaseRule.REVALIDATE or (self.rule is RebaseRule.REFUSE and self._is_by_rows))
            and self.expected_head is None
            and self.can_lead
        )

    @property
    def can_lead(self) -> bool:
        """Whether others may come behind it in the version that it is published in: it changes rows, no whole table."""
        return (
            self.merged_parent is None
            and self.schema_change is None
            and self.batch is None
            and self.feed is None
            and self.run is None
            and not self.sequence_bases
            and all(isinstance(change, RowChange) for change in self._changes.values())
        )

    @property
    def is_self_contained(self) -> bool:
        """Whether another process could publish it: rows only, and checks that every process can make."""
        return (
            (self.follows_rules or not self.checks)
            and self.merged_parent is None
            and self.schema_change is None
            and self.batch is None
            and self.feed is None
            and self.run is None
            and self.proposal is None
            and self.reverts is None
            and not self.sequence_bases
            and not self.sequences
            and bool(self._changes)
            and all(isinstance(change, RowChange) and change.outcome is None for change in self._changes.values())
        )

    @property
    def _is_by_rows(self) -> bool:
        return bool(self._changes) and not self.reads.tables and all(map(self.reads.is_by_rows, self._changes))

    def depends_on(self, change: RowChange) -> bool:
        """Whether it was decided on rows that ``change`` writes or removes."""
        return self.rule is RebaseRule.REFUSE and self.reads.depends_on(change)

    def is_stale(self, table_key: str, newer: GraphSnapshot) -> bool:
        """Whether rows that it was decided on, of a table that has moved, may be others in ``newer``.

        A table of which nobody has said which rows count is decided on as a whole.
        """
        change = self._changes.get(table_key)
        is_by_rows = self.reads.is_by_rows(table_key) and (change is None or isinstance(change, RowChange))
        return not is_by_rows or self.reads.have_moved(table_key, self.snapshot, newer)

    def read_table(self, table_key: str) -> None:
        """Remember that the write was decided on this table's rows."""
        self.snapshot.entry(table_key)
        self.reads.add_table(table_key)

    def read_rows(self, table_key: str, ids: Iterable[str]) -> None:
        """Remember that the write was decided on the rows with these ids, there or not, and on no others.

        What a whole table was read for stays; so many rows that they are hardly told apart count as the table.
        """
        self.snapshot.entry(table_key)
        self.reads.add_rows(table_key, ids)

    def read_ends(self, table_key: str, ends: Iterable[EdgeEnds]) -> None:
        """Remember that the write was decided on all edges with some ends; those it has found are rows that it read."""
        self.snapshot.entry(table_key)
        self.reads.add_ends(table_key, ends)

    def insert(self, table_key: str, rows: pa.Table, *, has_fresh_ids: bool = False) -> None:
        """Add rows whose ids must not exist yet; ids that were made for them just now need no look-up."""
        self.change(RowChange(table_key=table_key, inserts=rows, has_fresh_ids=has_fresh_ids))

    def upsert(self, table_key: str, rows: pa.Table) -> None:
        """Add rows, replacing whole rows of the same id."""
        self.change(RowChange(table_key=table_key, upserts=rows))

    def delete(self, table_key: str, ids: Iterable[str]) -> None:
        """Remove rows by id; ids that do not exist are ignored."""
        self.change(RowChange(table_key=table_key, deletes=tuple(ids)))

    def replace_all(self, table_key: str, rows: pa.Table) -> None:
        """Put rows in the place of all rows of a table; one that has none and gets none stays as it is."""
        if rows.num_rows or self.snapshot.entry(table_key).row_count:
            self.change(TableReplace(table_key=table_key, rows=rows))
        else:
            # Rows that somebody else adds before the commit must go, too.
            self.read_table(table_key)

    def change(self, change: TableChange) -> None:
        """Add a change; row changes of one table add up in the order they come.

        Raises:
            UsageError: the table already has a change that this one cannot be combined with.
            KeyExistsError: a row is inserted whose id this transaction has already written.
        """
        present = self._changes.get(change.table_key)
        if present is None:
            self._changes[change.table_key] = change
        elif isinstance(present, RowChange) and isinstance(change, RowChange):
            self._changes[change.table_key] = combine(present, change)
        else:
            details = BadValue(
                what="change", value=type(change).__name__, expected=f"no {type(present).__name__} before"
            )
            raise UsageError(f"table '{change.table_key}' allows one kind of change per commit", details=details)

    def set_schema(self, schema: AcceptedSchema) -> None:
        """Accept another schema with this commit."""
        self.schema_change = SchemaChange(schema=schema)

    def take_call(self) -> None:
        """Belong to the request that is being executed."""
        self.call = current_call()
        mark = request_mark(self.call, self.actor)
        if mark is not None and self.kind not in KEYED_KINDS:
            mark = None if mark.id is None else RequestMark(id=mark.id)
        self.request = mark

    def told_request(self) -> RequestMark | None:
        """Return what the commit says of the request, the receipt included."""
        if self.request is None or self.request.key is None or self.receipt is None:
            return self.request
        return msgspec.structs.replace(self.request, receipt=self.receipt())

    def lateness(self, clock: Clock) -> RequestDeadlineError | None:
        """Return the error of a request that should have ended by now; None while there is time."""
        deadline_s = self.call.deadline_s
        late_s = 0.0 if deadline_s is None else clock.monotonic_s() - deadline_s
        if late_s <= 0:
            return None
        details = LimitExceeded(resource="milliseconds after the deadline", limit=0, actual=int(late_s * 1000))
        return RequestDeadlineError("the deadline of the request passed before its turn to publish", details=details)

    def mark_batch(self, mark: BatchMark) -> None:
        """Publish this as one piece of a stream, unless the branch has that piece or a later one already.

        The commit then raises :class:`BatchRepeatedError`, whoever wrote in between.

        Raises:
            ValueFormatError: the name of the stream cannot be stored.
        """
        checked_text("name of a stream", mark.app)
        self.batch = mark

    def mark_feed(self, mark: FeedMark) -> None:
        """Record how far this takes a feed of another graph over.

        If another write takes the same feed further before the commit, this one is decided again.
        """
        self.feed, self.feed_base = mark, self.snapshot.state.feeds.get(mark.source)

    def read_sequences(self, stream: str) -> StreamSequences | None:
        """Return what is remembered of a stream of change logs; if that moves, the write is decided again."""
        known = self.snapshot.state.sequences.get(stream)
        self.sequence_bases[stream] = known
        return known

    def run_again(self, snapshot: GraphSnapshot) -> bool:
        """Forget what was decided and decide it again on ``snapshot``; False when that is the caller's to do.

        Raises:
            OmnigraphError: whatever the write raises on that state.
        """
        if self.decide is None or self.is_forsaken:
            return False
        self.reruns += 1
        self.snapshot = snapshot
        self.checks, self._changes = [], {}
        self.follows_rules = False
        self.reads.clear()
        self.sequences, self.sequence_bases = (), {}
        with calling(self.call):
            self.decide(self)
        return True

    def forsake(self) -> bool:
        """Say that nobody waits for the outcome any more; return whether nothing of it will be published."""
        self.is_forsaken = True
        return self._publishable.acquire(blocking=False)

    def hold(self) -> bool:
        """Say, before others can see the write, that it may be published from now on; False: it was forsaken."""
        self._is_held = self._is_held or self._publishable.acquire(blocking=False)
        return self._is_held

    def let_go(self) -> None:
        """Say that nothing of it can be published without another :meth:`hold`."""
        if self._is_held:
            self._is_held = False
            self._publishable.release()

    def add_check(self, check: Check) -> None:
        """Run ``check`` against every state this write is about to be published on."""
        self.checks.append(check)


def combine(earlier: RowChange, later: RowChange) -> RowChange:
    """Return the net effect of two row changes of one table.

    Raises:
        KeyExistsError: ``later`` inserts an id that ``earlier`` has written.
    """
    inserts = id_array(later.inserts)
    repeated = inserts.filter(pc.is_in(inserts, value_set=id_array(earlier.written))).to_pylist()
    if repeated:
        raise key_exists(later.table_key, repeated)
    if later.upserts is None and not len(later.deletes) and not len(earlier.deletes):
        # Rows that are new beside all others: nothing of what was there has to be looked at again.
        return earlier.with_inserts(later)
    return earlier.then(later)


def key_exists(table_key: str, ids: Sequence[str]) -> KeyExistsError:
    """Return the error for ids that a strict insert found taken."""
    details = ExistingKeys(location=table_key, ids=tuple(ids[:20]), count=len(ids))
    return KeyExistsError(f"table '{table_key}' already has this id: {ids[0]!r}", details=details)
