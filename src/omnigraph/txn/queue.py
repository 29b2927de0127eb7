"""The in-process queue of a branch: writers of one process take turns instead of racing for the claim.

The writer whose turn it is may lead a group: those behind it that can share a publish are handed to it, and wait
for it to bring their results.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Work = TypeVar("_Work")
_Result = TypeVar("_Result")


@dataclass(eq=False)
class _Ticket(Generic[_Work, _Result]):
    work: _Work
    result: _Result | None = None
    error: BaseException | None = None
    is_done: bool = False
    is_taken: bool = field(default=False)


class BranchQueue(Generic[_Work, _Result]):
    """First come, first served; ``run`` gets a batch and returns one result or error for each member."""

    def __init__(
        self,
        run: Callable[[Sequence[_Work]], Sequence[_Result | BaseException]],
        *,
        can_group: Callable[[_Work], bool],
        max_group: int,
    ) -> None:
        self._run = run
        self._can_group = can_group
        self._max_group = max_group
        self._waiting: deque[_Ticket[_Work, _Result]] = deque()
        self._is_busy = False
        self._changed = threading.Condition()

    def submit(self, work: _Work) -> _Result:
        """Wait for a turn, or for a leader to take this along; return the result or raise the error."""
        ticket: _Ticket[_Work, _Result] = _Ticket(work)
        with self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: ticket.is_done or self._is_turn_of(ticket))
            if not ticket.is_done:
                batch = self._take_batch()
                self._is_busy = True
        if not ticket.is_done:
            self._lead(batch)
        if ticket.error is not None:
            raise ticket.error
        result: _Result = ticket.result  # type: ignore[assignment] # done without error means it has a result
        return result

    def _is_turn_of(self, ticket: _Ticket[_Work, _Result]) -> bool:
        return not self._is_busy and not ticket.is_taken and bool(self._waiting) and self._waiting[0] is ticket

    def _take_batch(self) -> list[_Ticket[_Work, _Result]]:
        batch = [self._waiting.popleft()]
        if self._can_group(batch[0].work):
            while self._waiting and len(batch) < self._max_group and self._can_group(self._waiting[0].work):
                batch.append(self._waiting.popleft())
        for ticket in batch:
            ticket.is_taken = True
        return batch

    def _lead(self, batch: list[_Ticket[_Work, _Result]]) -> None:
        try:
            outcomes = self._run([ticket.work for ticket in batch])
            for ticket, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    ticket.error = outcome
                else:
                    ticket.result = outcome
        except BaseException as error:  # noqa: BLE001 - followers must not wait for a leader that is gone
            for ticket in batch:
                ticket.error = error
        finally:
            with self._changed:
                for ticket in batch:
                    ticket.is_done = True
                self._is_busy = False
                self._changed.notify_all()
