"""``BranchWriter``: the one machine through which a change of a branch becomes visible.

Interrupts reach only the thread that the program started with, so none ever meets a publish: whoever is interrupted
leaves, and what it handed in is taken back, or ends by itself when it has begun. What both sides share is guarded by
plain locks, which the interpreter enters and leaves in one step. Conditions, events and futures are programs
themselves: an interrupt inside one of them can leave it locked for ever.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from omnigraph.errors import (
    ClaimBusyError,
    ClaimHeld,
    Effect,
    InternalError,
    OmnigraphError,
    Outcome,
    WriteInterruptedError,
)
from omnigraph.runtime import Clock, counting, current_call, late_property, start_thread
from omnigraph.runtime.context import note_commit
from omnigraph.txn.branches.incarnation import branch_missing
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.requests import request_mark
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.services import BranchServices, graph_closed
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import CommitId, OperationId, checked_text

if TYPE_CHECKING:
    from omnigraph.store.tables.pins import TablePin
    from omnigraph.txn.branches.delete import BranchDeletion
    from omnigraph.txn.branches.refs import BranchRecord
    from omnigraph.txn.manifest.rows import Commit
    from omnigraph.txn.publish.publisher import CommitResult, Publisher
    from omnigraph.txn.recovery.recoverer import Recoverer, Recovery
    from omnigraph.txn.transaction import WriteTxn

_Work = TypeVar("_Work")
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)

# How often a waiting thread looks whether it waits in vain.
_LOOK_S = 0.5
# A thread that had nothing to do for so long ends; the next write starts another.
_IDLE_S = 10.0


class _Ticket(Generic[_Work, _Result]):
    """A piece of work, and how its thread hears of the outcome."""

    __slots__ = ("answered", "outcome", "running", "since_s", "turn", "work")

    def __init__(self, work: _Work, since_s: float) -> None:
        self.work = work
        self.since_s = since_s
        self.outcome: _Result | BaseException | None = None
        # Taken for good by the publisher when it begins, or before that by a thread that leaves.
        self.turn = threading.Lock()
        # Held until there is an outcome.
        self.answered = threading.Lock()
        self.answered.acquire()
        # Held by the publisher while it works on this.
        self.running: threading.Lock | None = None


class BranchQueue(Generic[_Work, _Result]):
    """First come, first served.

    Args:
        run: gets a batch and returns one result or error for each member.
        can_group: whether a piece of work may share a batch with its neighbours.
        max_group: the most that one batch may hold.
        wait_s: how long a thread waits for a turn while no batch ends.
        clock: what it waits by.
        busy: makes the error of a thread that waited for so long, given for how long that was.
        refuse: makes the error of a queue that is closed.
        forsake: told of work that has begun and whose thread was interrupted, and how to look for its outcome; returns
            what the thread raises instead.
        late: returns the error of work whose time is over before its turn has come.
    """

    def __init__(
        self,
        run: Callable[[Sequence[_Work]], Sequence[_Result | BaseException]],
        *,
        can_group: Callable[[_Work], bool],
        max_group: int,
        wait_s: float,
        clock: Clock,
        busy: Callable[[float], Exception],
        refuse: Callable[[], Exception],
        forsake: Callable[[_Work, Callable[[], _Result | BaseException | None]], BaseException | None],
        late: Callable[[_Work], Exception | None] = lambda _: None,
    ) -> None:
        self._late = late
        self._run = run
        self._can_group = can_group
        self._max_group = max_group
        self._wait_s = wait_s
        self._clock = clock
        self._busy = busy
        self._refuse = refuse
        self._forsake = forsake
        self._door = threading.Lock()
        self._arrivals: SimpleQueue[_Ticket[_Work, _Result] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None  # noqa: TID251 - its type; runtime starts it
        self._is_closed = False
        # Both belong to whichever thread leads; an interrupt of the one that starts it may make a second.
        self._leading = threading.Lock()
        self._line: deque[_Ticket[_Work, _Result] | None] = deque()
        self._ended_s = clock.monotonic_s()

    @property
    def waiting(self) -> int:
        """How many pieces of work have not begun."""
        return self._arrivals.qsize() + len(self._line)

    def submit(self, work: _Work) -> _Result:
        """Wait until the work is done; return its result or raise its error.

        Raises:
            Exception: what ``busy`` makes, when nothing moves for too long; what ``refuse`` makes, when it is closed.
        """
        ticket: _Ticket[_Work, _Result] = _Ticket(work, self._clock.monotonic_s())
        try:
            self._hand_in(ticket)
            while not ticket.answered.acquire(timeout=_LOOK_S):
                self._look_after(ticket)
        except BaseException as error:
            if not ticket.turn.acquire(blocking=False):
                instead = self._forsake(work, lambda: ticket.outcome)
                if instead is not None and isinstance(error, KeyboardInterrupt):
                    raise instead from error
            raise
        if isinstance(ticket.outcome, BaseException):
            raise ticket.outcome
        result: _Result = ticket.outcome  # type: ignore[assignment] # answered without an error means a result
        return result

    def close(self) -> None:
        """Refuse further work and wait for what was handed in; after an interrupt it can be called again."""
        with self._door:
            self._is_closed = True
            # Behind everything that was handed in; one more than is needed does no harm.
            self._arrivals.put(None)
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _hand_in(self, ticket: _Ticket[_Work, _Result]) -> None:
        with self._door:
            if self._is_closed:
                raise self._refuse()
            self._arrivals.put(ticket)
            self._start()

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = start_thread("publisher", self._serve)

    def _look_after(self, ticket: _Ticket[_Work, _Result]) -> None:
        """Make sure that somebody is at work, and leave when nothing has moved for too long."""
        if ticket.running is not None:
            if not ticket.running.locked() and ticket.answered.locked():
                raise InternalError("the publishing thread ended without a result", effect=Effect.UNKNOWN)
            return
        with self._door:
            self._start()
        late = self._late(ticket.work)
        if late is not None and ticket.turn.acquire(blocking=False):
            raise late
        waited_s = self._clock.monotonic_s() - max(ticket.since_s, self._ended_s)
        if waited_s > self._wait_s and ticket.turn.acquire(blocking=False):
            raise self._busy(self._clock.monotonic_s() - ticket.since_s)

    def _serve(self) -> None:
        is_open = True
        while is_open:
            try:
                is_open = self._lead_batch()
            except BaseException:  # noqa: BLE001 - those who wait are told by their tickets; the next must be served
                _log.exception("a batch of writes was interrupted")

    def _lead_batch(self) -> bool:
        """Run the next batch; False when nothing came for a while, or nothing will any more."""
        running = threading.Lock()
        with self._leading, running:
            is_more = self._form_line()
            if is_more:
                self._run_next(running)
            return is_more

    def _run_next(self, running: threading.Lock) -> None:
        batch: list[_Ticket[_Work, _Result]] = []
        try:
            self._take(batch, running)
            if batch:
                outcomes = self._run([ticket.work for ticket in batch])
                for ticket, outcome in zip(batch, outcomes, strict=True):
                    ticket.outcome = outcome
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            for ticket in batch:
                ticket.outcome = error
        finally:
            self._ended_s = self._clock.monotonic_s()
            for ticket in batch:
                ticket.answered.release()

    def _form_line(self) -> bool:
        """Let those who came stand in line; False when nobody did, or the queue has ended."""
        try:
            if not self._line:
                self._line.append(self._arrivals.get(timeout=_IDLE_S))
            while True:
                self._line.append(self._arrivals.get_nowait())
        except Empty:
            pass
        if self._line:
            return self._line[0] is not None
        with self._door:
            if self._arrivals.empty():
                self._thread = None
                return False
        return True

    def _take(self, batch: list[_Ticket[_Work, _Result]], running: threading.Lock) -> None:
        while self._line and len(batch) < self._max_group:
            ticket = self._line[0]
            if ticket is None or (batch and not self._can_group(ticket.work)):
                return
            ticket.running = running
            is_taken = ticket.turn.acquire(blocking=False)
            if is_taken:
                batch.append(ticket)
            self._line.popleft()
            if is_taken and not self._can_group(ticket.work):
                return


class BranchWriter:
    """Reads, writes and recovers one branch. Threads may share it."""

    def __init__(self, services: BranchServices, *, group_commit: bool = True) -> None:
        self.services = services
        self._known: LoadedManifest | None = None
        self._known_at_s = 0.0
        self._known_lock = threading.Lock()
        self._queue: BranchQueue[WriteTxn, CommitResult] = BranchQueue(
            self._run,
            can_group=lambda txn: group_commit and txn.can_group,
            max_group=services.settings.max_group,
            wait_s=services.settings.claim_wait_s,
            clock=services.runtime.clock,
            busy=self._busy,
            refuse=lambda: branch_missing(services.line.name) if self._is_forgotten else graph_closed(),
            forsake=self._forsake,
            late=lambda txn: txn.lateness(services.runtime.clock),
        )
        self._is_forgotten = False

    @late_property
    def _recoverer(self) -> Recoverer:
        from omnigraph.txn.recovery.recoverer import Recoverer  # noqa: PLC0415 - a read needs none of it

        return Recoverer(self.services)

    @late_property
    def _publisher(self) -> Publisher:
        from omnigraph.txn.publish.publisher import Publisher  # noqa: PLC0415 - a read needs none of it

        return Publisher(self.services, self._recoverer)

    @property
    def waiting(self) -> int:
        """How many writes of this process wait for their turn to be published."""
        return self._queue.waiting

    def snapshot(self) -> GraphSnapshot:
        """Return the newest published state: one probe when nothing has changed since the last look."""
        return self.services.snapshot(self._refresh())

    def begin(
        self,
        kind: WriteKind,
        *,
        actor: str | None = None,
        message: str | None = None,
        expected_head: CommitId | None = None,
        merged_parent: CommitId | None = None,
        on: GraphSnapshot | None = None,
    ) -> WriteTxn:
        """Return a transaction on the newest state, or ``on`` the state that its caller has just looked at.

        Raises:
            ValueFormatError: the actor or the message cannot be stored.
            RequestRepeatedError: the request that is being executed was published before.
            IdempotencyKeyError: its key was used before, for another write.
        """
        from omnigraph.txn.transaction import WriteTxn  # noqa: PLC0415 - a read needs none of it

        ids = self.services.runtime.ids
        with counting() as counters:
            snapshot = self.snapshot() if on is None else on
        txn = WriteTxn(
            snapshot,
            operation_id=OperationId(ids.ulid()),
            commit_id=CommitId(ids.ulid()),
            kind=kind,
            actor=checked_text("actor", actor),
            message=checked_text("message", message),
            expected_head=expected_head,
            merged_parent=merged_parent,
        )
        txn.counters.add(counters.cost())
        # The request that begins a transaction of several calls publishes nothing.
        if kind is not WriteKind.TRANSACTION:
            with counting(txn.counters):
                self.services.keyed.refuse_repeated(snapshot.manifest, txn.request)
        return txn

    def refuse_repeated(self, snapshot: GraphSnapshot, actor: str | None) -> None:
        """Return if the request that is being executed has not been published yet, as far as ``snapshot`` tells.

        Raises:
            RequestRepeatedError: it was published before.
            IdempotencyKeyError: its key was used before, for another write.
            ValueFormatError: the actor cannot be stored.
        """
        mark = request_mark(current_call(), checked_text("actor", actor))
        self.services.keyed.refuse_repeated(snapshot.manifest, mark)

    def prepare(self, txn: WriteTxn, table_key: str) -> TablePin:
        """Return where other processes have to put files of a table that is to change with ``txn``.

        That is the table's own place, or a fork that is made at once when the branch only inherits the table.

        Raises:
            TypeMissingError: the graph has no such type.
        """
        known = txn.prepared.get(table_key)
        if known is None:
            stager = self.services.stager
            with counting(txn.counters):
                known = stager.place(txn.snapshot.entry(table_key).pin)
            txn.prepared[table_key] = known
        return known

    def commit(self, txn: WriteTxn) -> CommitResult:
        """Publish a transaction: all of it, or nothing.

        Raises:
            PreconditionFailedError: the demanded head is not the head.
            ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
            KeyExistsError: a row to insert exists already.
            ClaimBusyError: other writers kept the branch busy for too long.
            WriteOutcomeError: storage failed in a way that left the outcome open.
            RequestRepeatedError, IdempotencyKeyError: another write was published under the key of the request.
            RequestDeadlineError: the time of the request is over.
            BranchMissingError: the branch was deleted.
            GraphClosedError: the graph was closed.
            OmnigraphError: whoever the request came through does not let the branch have another schema.
        """
        check_schema = txn.call.check_schema
        if txn.schema_change is not None and check_schema is not None:
            # Every verb that brings a schema to a branch comes by here.
            check_schema(str(self.services.line.name), txn.schema_change.schema)
        return self.services.stores.calls.run(lambda: self._commit(txn))

    def _commit(self, txn: WriteTxn) -> CommitResult:
        with self.services.life.reading():
            result = self._queue.submit(txn)
        if result.commit is not None:
            note_commit(result.commit.branch, result.commit.id)
        return result

    def recover(self) -> tuple[Recovery, ...]:
        """End every publish of this branch whose writer is gone."""
        recoveries = self._recoverer.recover_abandoned()
        for recovery in recoveries:
            self._learn(recovery.manifest)
        return recoveries

    def recover_claim(self, version: int) -> Recovery | None:
        """End the publish that holds a version's claim if its writer is gone; None when it is not, or nobody does."""
        recovery = self._recoverer.recover_if_abandoned(version)
        if recovery is not None:
            self._learn(recovery.manifest)
        return recovery

    def known(self) -> LoadedManifest | None:
        """Return the newest version that is in memory, without asking storage whether there is a newer one."""
        with self._known_lock:
            return self._known

    def load_version(self, version: int) -> LoadedManifest:
        """Return one version of the manifest; a schema that is in memory is not read again.

        Raises:
            BranchMissingError: the branch was deleted.
            VersionMissingError: there is no such version.
        """
        return self.services.manifest.load_version(version, self.known())

    def delete(
        self, deletion: BranchDeletion, ref: BranchRecord, actor: str | None, expected_head: CommitId | None = None
    ) -> None:
        """Delete the branch; this authority is of no use afterwards."""
        recover = self._recoverer.recover_if_abandoned
        deletion.delete(self.services, ref, self.known(), recover, actor, expected_head)

    def forget(self) -> None:
        """Refuse writes as the branch is gone, and let go of everything."""
        self._is_forgotten = True
        self.close()

    def close(self) -> None:
        """Refuse further writes, finish those under way and what runs behind acknowledged ones."""
        self._queue.close()
        # Nothing was published by one that was never asked for.
        if "_publisher" in vars(self):
            self._publisher.close()

    def _forsake(
        self, txn: WriteTxn, outcome: Callable[[], CommitResult | BaseException | None]
    ) -> WriteInterruptedError | None:
        """Cancel a write, or return what says how it has ended, as soon as it has."""
        if txn.forsake():
            return None
        return WriteInterruptedError(self.services.line.name, txn.commit_id, lambda: _told(outcome()))

    def _busy(self, waited_s: float) -> ClaimBusyError:
        name, known = self.services.line.name, self.known()
        version = 0 if known is None else known.state.version + 1
        details = ClaimHeld(branch=name, version=version, holder="other writers in this process", waited_s=waited_s)
        return ClaimBusyError(
            f"other writers of this process kept branch '{name}' busy for {waited_s:.1f} s", details=details
        )

    def _run(self, batch: Sequence[WriteTxn]) -> Sequence[CommitResult | BaseException]:
        base, seen_s = self._newest_known(batch)
        outcomes = self._publisher.publish(batch, base, seen_s)
        done = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        if done:
            self._learn(max(done, key=lambda result: result.manifest_version).manifest)
        self._tell([result.commit for result in done])
        return outcomes

    def _tell(self, commits: Sequence[Commit | None]) -> None:
        made = [commit for commit in commits if commit is not None]
        for listener in self.services.stores.listeners if made else ():
            listener(self.services.line.name, made)

    def _newest_known(self, batch: Sequence[WriteTxn]) -> tuple[LoadedManifest, float]:
        """Return the newest version that is in memory, and when it was last seen to be the newest of all."""
        base = max((txn.snapshot.manifest for txn in batch), key=lambda loaded: loaded.state.version)
        with self._known_lock:
            if self._known is None or self._known.state.version < base.state.version:
                return base, 0.0
            return self._known, self._known_at_s

    def _refresh(self) -> LoadedManifest:
        with self._known_lock:
            known = self._known
        loaded = self.services.load(known)
        return self._learn(loaded)

    def _learn(self, loaded: LoadedManifest) -> LoadedManifest:
        """Remember the newest version seen; a slow reader never replaces what a faster one found."""
        with self._known_lock:
            if self._known is None or loaded.state.version > self._known.state.version:
                self._known = loaded
            if loaded.state.version == self._known.state.version:
                self._known_at_s = self.services.runtime.clock.monotonic_s()
            return self._known if self._known.state.version == loaded.state.version else loaded


def _told(outcome: CommitResult | BaseException | None) -> Outcome:
    """Return what a result or an error says of the write; None: there is neither yet."""
    if isinstance(outcome, BaseException):
        is_harmless = isinstance(outcome, KeyboardInterrupt) or (
            isinstance(outcome, OmnigraphError) and outcome.effect is not Effect.UNKNOWN
        )
        return "cancelled" if is_harmless else "unknown"
    if outcome is None:
        return "unknown"
    return "cancelled" if outcome.commit is None else "published"
