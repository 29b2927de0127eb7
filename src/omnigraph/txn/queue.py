"""The in-process queue of a branch: one thread publishes what all threads of the process hand in, in their order.

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
from typing import Generic, TypeVar

from omnigraph.errors import Effect, InternalError
from omnigraph.runtime import Clock, start_thread

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
        forsake: told of work that has begun and whose thread has left.
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
        forsake: Callable[[_Work], None],
    ) -> None:
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
        except BaseException:
            if not ticket.turn.acquire(blocking=False):
                self._forsake(work)
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
                raise InternalError("the thread that publishes ended without an answer", effect=Effect.UNKNOWN)
            return
        with self._door:
            self._start()
        waited_s = self._clock.monotonic_s() - max(ticket.since_s, self._ended_s)
        if waited_s > self._wait_s and ticket.turn.acquire(blocking=False):
            raise self._busy(self._clock.monotonic_s() - ticket.since_s)

    def _serve(self) -> None:
        is_open = True
        while is_open:
            try:
                is_open = self._lead_batch()
            except BaseException:  # noqa: BLE001 - those who wait are told by their tickets; the next must be served
                _log.exception("a batch of writes broke off")

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
