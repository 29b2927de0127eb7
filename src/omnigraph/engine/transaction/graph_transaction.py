"""``GraphTransaction``: calls on a private state of one branch, published together as one commit or not at all.

Nothing is written before the commit, so that a process that dies, or a caller that changes its mind, leaves nothing
behind. Conflicts are decided once, at the commit. When another writer has changed rows that the calls were decided on,
they are run again on the newer state, as if all of them had been sent then. That is only possible as long as the caller
cannot have decided anything by what it saw: results that it was shown must be the same on the newer state, which is
certain when the tables that they depend on hold the same rows. Otherwise it is a conflict, and the caller has to run
its own program again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa

from omnigraph.engine.constraints import check_change
from omnigraph.engine.load.load_files import SpooledRows
from omnigraph.engine.load.options import LoadResult
from omnigraph.engine.load.sequences import UNNAMED, StreamMemory, open_memory
from omnigraph.engine.mutate.mutation import MutationResult, MutationSurroundings, PreparedMutation
from omnigraph.engine.mutate.overlay import PendingCopies, types_read
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.query.runner import PendingRead, ReadCall
from omnigraph.engine.results import Result
from omnigraph.engine.results.entity import Entity, entity_of, find_table
from omnigraph.engine.transaction.calls import AnyCall, LoadCall, MutationCall, RepeatableIds
from omnigraph.engine.view import GraphView
from omnigraph.errors import (
    BadValue,
    HeadMismatch,
    PreconditionFailedError,
    TransactionConflictError,
    TransactionEndedError,
    UsageError,
    VersionMismatch,
)
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters, counting
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.phases import has_moved
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.reads import Reads
from omnigraph.txn.services import BranchServices
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, OnConflict, WriteTxn
from omnigraph.values import CommitId
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

if TYPE_CHECKING:
    from omnigraph.engine.open_graph import OpenGraph

_Done = TypeVar("_Done")
_Ended = Literal["committed", "rolled back", "failed"]


@record
class TransactionOptions:
    """What holds for all calls of a transaction.

    Args:
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at, when it begins and when it is published.
        on_conflict: ``refuse`` raises instead of running the calls again when rows that they were decided on have
            changed.
    """

    actor: str | None = None
    message: str | None = None
    expected_head: CommitId | None = None
    on_conflict: OnConflict = "rerun"


@record
class TransactionResult(Printable):
    """What a transaction did. ``calls`` are the results of its writes, in order, of the run that was published."""

    branch: str
    actor: str | None
    commit: Commit | None
    manifest_version: int
    cost: Cost
    calls: tuple[MutationResult | LoadResult, ...]

    @classmethod
    def repeated(cls, commit: Commit, receipt: Mapping[str, Any]) -> TransactionResult:
        """Return what a repeated request is told: commit and counts of the first."""
        return cls(
            branch=commit.branch,
            actor=commit.actor,
            commit=commit,
            manifest_version=commit.manifest_version,
            cost=Counters().cost(),
            calls=tuple(
                (LoadResult if "mode" in call else MutationResult).repeated(commit, call)
                for call in receipt.get("calls", ())
            ),
        )

    def lines(self) -> Iterator[str]:
        """Yield what was published, and what each write did."""
        made = "nothing to change" if self.commit is None else f"commit {self.commit.id}"
        yield f"committed {counted(len(self.calls), 'write')} to {self.branch}: {made}"
        yield from (f"  {line}" for call in self.calls for line in call.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "branch": self.branch,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_brief_json(),
            "calls": [call.to_json() for call in self.calls],
        }


class GraphTransaction:
    """One transaction. Threads may share it: their calls run one after the other.

    Args:
        graph: the open graph.
        branch_writer: the branch to write to.
        newest: the state of the branch that the calls run on.
        options: what is asked for.

    Raises:
        PreconditionFailedError: the branch is not at the commit that was demanded.
    """

    def __init__(
        self, graph: OpenGraph, branch_writer: BranchWriter, newest: GraphSnapshot, options: TransactionOptions
    ) -> None:
        self._graph = graph
        self._writer = branch_writer
        self._options = options
        self._runtime = branch_writer.services.runtime
        self._lock = threading.RLock()
        self._ended: _Ended | None = None
        self._txn = branch_writer.begin(
            WriteKind.TRANSACTION,
            actor=options.actor,
            message=options.message,
            expected_head=options.expected_head,
            on=newest,
        )
        self._base = self._txn.snapshot
        self._expect_head()
        self.catalog = graph.catalogs.get(self._base.state.schema)
        self._staging = MutationStaging(self._txn, self.catalog)
        self._size_bytes = 0
        self._log_memory: StreamMemory | None = None
        self._ids = RepeatableIds(self._runtime.ids)
        self._now_ms = self._runtime.clock.now_ms()
        self._held = ExitStack()
        self._copies = self._held.enter_context(PendingCopies(self._runtime))
        self._calls: list[AnyCall] = []
        self._outcomes: list[Any] = []
        # What each call was decided on, reads included.
        self._depended: list[Reads] = []
        self._reads = Reads()
        self._last_read = 0
        self._seen = Reads()

    @property
    def snapshot(self) -> GraphSnapshot:
        """The published state that the calls run on."""
        return self._base

    @property
    def services(self) -> BranchServices:
        """What the branch is written with."""
        return self._writer.services

    @property
    def now_ms(self) -> int:
        """What ``now()`` is in every call: when the transaction began."""
        return self._now_ms

    @property
    def actor(self) -> str | None:
        """Who began it."""
        return self._options.actor

    @property
    def size_bytes(self) -> int:
        """How much memory its rows took after the last call that wrote."""
        return self._size_bytes

    @property
    def branch(self) -> str:
        """The branch."""
        return str(self._writer.services.line.name)

    def mutate(self, prepare: Callable[[], PreparedMutation]) -> MutationResult:
        """Run a mutation on the private state; when it fails, nothing of it stays.

        Raises:
            TransactionEndedError: the transaction takes no further calls.
            OmnigraphError: whatever ``prepare`` and :meth:`PreparedMutation.run` raise.
        """
        with self._open():
            result = self._write(MutationCall(mutation=prepare()))
            assert isinstance(result, MutationResult)  # noqa: S101 - for the type checker: a mutation tells no other
            return result

    def load(self, read: Callable[[ExitStack], SpooledRows]) -> LoadResult:
        """Put the rows of a load on the private state; temporary files that hold them go with the transaction.

        Raises:
            TransactionEndedError: the transaction takes no further calls.
            OmnigraphError: whatever ``read`` and :meth:`LoadCall.run` raise.
        """
        with self._open(), ExitStack() as held:
            rows = read(held)
            for table_key in rows.spool.owners:
                self._base.entry(table_key)
            result = self._write(LoadCall(catalog=self.catalog, rows=rows))
            self._held.push(held.pop_all())
            assert isinstance(result, LoadResult)  # noqa: S101 - for the type checker: a load tells no other
            return result

    def query(self, call: ReadCall) -> Result:
        """Run a read on the private state.

        Raises:
            UsageError: it asks for a stream of rows, which would outlive what it reads.
            TransactionEndedError: the transaction takes no further calls.
            OmnigraphError: whatever :meth:`QueryRunner.run` raises.
        """
        if call.options.streams:
            details = BadValue(what="streams", value="True", expected="False")
            raise UsageError("a read inside a transaction cannot be streamed", details=details)

        def overlay(read: Any) -> Any:
            return self._copies.overlay(self._staging, types_read(read, self.catalog))

        pending = PendingRead(snapshot=self._base, overlay=overlay, now_ms=self._now_ms)
        return self._read(lambda: self._graph.reads.run(replace(call, branch=self.branch), pending))

    def entity(self, type_name: str, entity_id: str) -> Entity | None:
        """Return an entity of the private state by its id; raises what :func:`read_entity` does."""

        def find() -> Entity | None:
            table_key = find_table(self._base.state.tables, type_name)
            kind, _, name = table_key.partition(":")
            owner = self.catalog.nodes[name] if kind == "node" else self.catalog.edges[name]
            columns = [field.name for field in self._staging.pending(owner).schema]
            with self._base.reading():
                found = self._staging.rows_with_ids(owner, pa.array([entity_id], pa.string()), columns)
            return entity_of(table_key, entity_id, found)

        return self._read(find)

    def commit(self, seen: int = 0) -> TransactionResult:
        """Publish what the calls did as one commit; none when they changed nothing. It ends either way.

        Args:
            seen: how many of the first calls, reads included, the caller has looked at the results of.

        Raises:
            ConstraintViolationError: the graph would break a rule of its schema.
            TransactionConflictError: rows that were shown to the caller have changed.
            PreconditionFailedError: the branch is not at the commit that was demanded.
            ExpectedVersionMismatchError: rows that it was decided on have changed, and ``on_conflict`` is ``refuse``.
            SchemaMovedError: the branch follows another schema.
            ClaimBusyError, WriteOutcomeError: as for any commit.
            TransactionEndedError: it has ended.
        """
        with self._open():
            self._ended = "failed"
            try:
                done = self._publish(seen)
                self._ended = "committed"
                return TransactionResult(
                    branch=self.branch,
                    actor=self._options.actor,
                    commit=done.commit,
                    manifest_version=done.manifest_version,
                    cost=done.cost,
                    calls=tuple(map(self._told(done), self._calls, self._outcomes)),
                )
            finally:
                self._held.close()

    def rollback(self) -> None:
        """End it without publishing anything; harmless when it was rolled back or has failed.

        Raises:
            TransactionEndedError: it was committed.
        """
        with self._lock:
            if self._ended == "committed":
                raise self._refusal(self._ended)
            if self._ended is None:
                self._ended = "rolled back"
            self._held.close()

    def close(self) -> None:
        """Let go of everything; what was not committed is gone."""
        with self._lock:
            self._ended = self._ended or "rolled back"
            self._held.close()

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if self._ended is not None:
                raise self._refusal(self._ended)
            yield

    def _refusal(self, ended: _Ended) -> TransactionEndedError:
        details = BadValue(what="transaction", value=ended, expected="open")
        what = "has failed" if ended == "failed" else f"was {ended}"
        return TransactionEndedError(f"the transaction {what} and accepts no further calls", details=details)

    def _expect_head(self) -> None:
        expected, head = self._options.expected_head, self._base.state.head
        if expected is not None and head.commit != expected:
            details = HeadMismatch(branch=head.branch, expected=expected, actual=head.commit)
            raise PreconditionFailedError(
                f"the branch head is commit '{head.commit}', not '{expected}'", details=details
            )

    def _write(self, call: AnyCall) -> MutationResult | LoadResult:
        with self._one_call(), counting(self._txn.counters), self._base.reading(), self._staging.call():
            outcome = call.run(self._surroundings())
        self._calls.append(call)
        self._outcomes.append(outcome)
        self._size_bytes = self._staging.size_bytes
        so_far = CommitResult(commit=None, manifest=self._base.manifest, cost=self._txn.counters.cost())
        return self._told(so_far)(call, outcome)

    def _read(self, read: Callable[[], _Done]) -> _Done:
        with self._open():
            with self._one_call():
                found = read()
            self._last_read = len(self._depended)
            return found

    @contextmanager
    def _one_call(self) -> Iterator[None]:
        """Take down what the block is decided on; what one that fails has looked at counts with the next."""
        so_far, self._txn.reads = self._txn.reads, self._reads
        try:
            yield
            self._depended.append(self._reads)
            self._reads = Reads()
        finally:
            so_far.merge(self._txn.reads)
            self._txn.reads = so_far

    def _surroundings(self) -> MutationSurroundings:
        return MutationSurroundings(
            staging=self._staging,
            copies=self._copies,
            runtime=self._runtime,
            ids=self._ids,
            now_ms=self._now_ms,
            memory=self._graph.reads.memory,
            history=self._graph.store.refs,
            log_memory=self._remember,
        )

    def _remember(self) -> StreamMemory:
        """Return what is remembered of change logs; the calls before this one have added to it."""
        if self._log_memory is None:
            self._log_memory = open_memory(self.services, self._txn, UNNAMED)
        return self._log_memory

    def _told(self, done: CommitResult) -> Callable[[AnyCall, Any], MutationResult | LoadResult]:
        return lambda call, outcome: call.result(
            outcome, done, branch=self.branch, actor=self._options.actor, counters=self._txn.counters
        )

    def _publish(self, seen: int) -> CommitResult:
        txn = self._txn
        shown = max(min(seen, len(self._depended)), self._last_read)
        self._seen = Reads()
        for reads in self._depended[:shown]:
            self._seen.merge(reads)
        if not self._calls:
            # What only reads saw one state, whatever became of it since.
            txn.reads.clear()
        # Only what would be the same on every state may go on without being looked at again.
        txn.keeps_values = bool(txn.reads) or not all(call.is_insert_only for call in self._calls)
        if self._options.on_conflict == "rerun":
            txn.decide = self._run_again
        with counting(txn.counters), self._base.reading():
            self._add_change(txn)
            # The state may be old by now. Its claim can still be free, and what is published upon it would have to
            # be undone: one probe is cheaper.
            self._writer.snapshot()
        # The request that commits is not the one that began.
        txn.take_call()
        txn.receipt = lambda: {
            "calls": [call.receipt(one) for call, one in zip(self._calls, self._outcomes, strict=True)]
        }
        return self._writer.commit(txn)

    def _add_change(self, txn: WriteTxn) -> None:
        change, catalog = self._staging.net_change(), self.catalog

        def check(view: CommitView) -> None:
            check_change(change, GraphView.of_commit(view, catalog))

        if not change.is_empty:
            txn.add_check(check)
            txn.follows_rules = True
        if self._log_memory is not None:
            txn.sequences = self._log_memory.write(self._runtime.ids)
            self._runtime.failpoints.hit("engine.apply.after_sequences")

    def _run_again(self, txn: WriteTxn) -> None:
        """Run all calls on the newer state of the transaction, unless the caller has seen what is different there."""
        base, newer = self._base.state, txn.snapshot.state
        for table_key in sorted(self._seen.table_keys):
            if has_moved(table_key, base, newer) and (
                table_key in self._seen.tables or self._seen.have_moved(table_key, self._base, txn.snapshot)
            ):
                before, after = base.table(table_key), newer.table(table_key)
                details = VersionMismatch(
                    table_key=table_key,
                    expected=0 if before is None else before.pin.version,
                    actual=0 if after is None else after.pin.version,
                )
                raise TransactionConflictError(
                    f"another writer changed rows of '{table_key}' that this transaction has read", details=details
                )
        self._base, self._staging = txn.snapshot, MutationStaging(txn, self.catalog)
        self._log_memory = None
        self._copies.close()
        self._ids.rewind()
        txn.reads.merge(self._seen)
        with counting(txn.counters), txn.snapshot.reading():
            within = self._surroundings()
            self._outcomes = []
            for call in self._calls:
                with self._staging.call():
                    self._outcomes.append(call.run(within))
            self._add_change(txn)
