"""What became of writes: for an hour, whoever sent one may ask, and one that is sent again is answered as before.

A write that makes a commit is found in history by its idempotency key, by any server at any time. The others, such as
making a branch, are remembered here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, TypeVar

from omnigraph.errors import IdempotencyKeyError, OmnigraphError, RepeatedRequest
from omnigraph.records import record
from omnigraph.runtime import CallContext, Clock
from omnigraph.values.temporal import format_datetime

KEPT_S = 3600.0
# Whichever is reached first; an entry takes a few hundred bytes.
MAX_KEPT = 10_000
_Answer = TypeVar("_Answer")
State = Literal["running", "succeeded", "failed"]


@record(frozen=False)
class Outcome:
    """One write of a request, and how far it is."""

    request_id: str
    operation: str
    actor: str | None
    digest: str
    began_s: float
    began_ms: int
    state: State = "running"
    ended_ms: int | None = None
    response: Any = None
    commit_id: str | None = None
    error: OmnigraphError | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as the API shows it; what errors say is left to whoever answers."""
        return {
            "request_id": self.request_id,
            "operation": self.operation,
            "state": self.state,
            "actor_id": self.actor,
            "began_at": format_datetime(self.began_ms),
            "ended_at": None if self.ended_ms is None else format_datetime(self.ended_ms),
            "graph_commit_id": self.commit_id,
        }


_Name = tuple[str, str | None, str]
_Key = tuple[str, str | None, str, str]


class Outcomes:
    """The outcomes of the writes of one process. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_request: OrderedDict[_Name, Outcome] = OrderedDict()
        self._by_key: OrderedDict[_Key, Outcome] = OrderedDict()
        # Who has a key, whatever it did under it and on whichever branch: history knows the keys of one branch.
        self._users: OrderedDict[_Name, Outcome] = OrderedDict()

    def find(self, graph_id: str, actor: str | None, request_id: str) -> Outcome | None:
        """Return what became of a write that the actor sent within the last hour, or None."""
        with self._lock:
            self._forget()
            return self._by_request.get((graph_id, actor, request_id))

    def has_done(self, graph_id: str, actor: str | None, call: CallContext, operation: str) -> bool:
        """Whether a request did an operation under its key when it was sent before."""
        if call.idempotency_key is None:
            return False
        with self._lock:
            self._forget()
            first = self._by_key.get((graph_id, actor, call.idempotency_key, operation))
            return first is not None and first.state == "succeeded" and first.digest == call.payload_digest

    def run(
        self,
        graph_id: str,
        actor: str | None,
        call: CallContext,
        operation: str,
        work: Callable[[], _Answer],
        *,
        is_remembered: bool,
    ) -> _Answer:
        """Do a write and remember what became of it.

        Args:
            graph_id: the graph.
            actor: who asks for it.
            call: the request.
            operation: what it does.
            work: does it.
            is_remembered: whether the same write under the same key is answered as this one was.

        Raises:
            IdempotencyKeyError: the key was used before, for another write.
            OmnigraphError: what the work raises.
        """
        mine = Outcome(
            request_id=call.request_id or "",
            operation=operation,
            actor=actor,
            digest=call.payload_digest,
            began_s=self._clock.monotonic_s(),
            began_ms=self._clock.now_ms(),
        )
        key = (graph_id, actor, call.idempotency_key, operation) if call.idempotency_key and is_remembered else None
        user = (graph_id, actor, call.idempotency_key) if call.idempotency_key else None
        while True:
            first = self._enter(graph_id, mine, key, user)
            if first is None:
                return self._do(mine, key, user, work)
            first.ended.wait()
            if first.state == "succeeded":
                response: _Answer = first.response
                return response
            # It failed and left its key free: this one tries.

    def _enter(self, graph_id: str, mine: Outcome, key: _Key | None, user: _Name | None) -> Outcome | None:
        """Note a write; returns the one that has its key already, if there is one.

        Raises:
            IdempotencyKeyError: another request has the key.
        """
        with self._lock:
            self._forget()
            other = None if user is None else self._users.setdefault(user, mine)
            if other is not None and other.digest != mine.digest:
                details = RepeatedRequest(branch="", commit_id=other.commit_id, request_id=other.request_id)
                raise IdempotencyKeyError("the idempotency key was used before, for another request", details=details)
            first = None if key is None else self._by_key.get(key)
            if first is not None:
                return first
            if key is not None:
                self._by_key[key] = mine
            name = (graph_id, mine.actor, mine.request_id)
            self._by_request[name] = mine
            self._by_request.move_to_end(name)
            return None

    def _do(self, mine: Outcome, key: _Key | None, user: _Name | None, work: Callable[[], _Answer]) -> _Answer:
        try:
            response = work()
        except BaseException as error:
            mine.error = error if isinstance(error, OmnigraphError) else None
            mine.state = "failed"
            with self._lock:
                if key is not None:
                    self._by_key.pop(key, None)
                if user is not None and self._users.get(user) is mine:
                    del self._users[user]
            raise
        else:
            commit = getattr(response, "commit", None)
            # A proposal that was merged names its commit and does not hold it.
            mine.commit_id = None if commit is None else str(getattr(commit, "id", commit))
            mine.response = None if key is None else response
            mine.state = "succeeded"
            return response
        finally:
            mine.ended_ms = self._clock.now_ms()
            mine.ended.set()

    def _forget(self) -> None:
        oldest_s = self._clock.monotonic_s() - KEPT_S
        kept: tuple[OrderedDict[Any, Outcome], ...] = (self._by_request, self._by_key, self._users)
        for outcomes in kept:
            ended: list[Any] = []
            # The oldest come first. One that is running stays, and those behind it are looked at all the same.
            for name, outcome in outcomes.items():
                if outcome.began_s >= oldest_s and len(outcomes) - len(ended) <= MAX_KEPT:
                    break
                if outcome.state != "running":
                    ended.append(name)
            for name in ended:
                del outcomes[name]
