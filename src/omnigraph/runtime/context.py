"""The call that is being executed: which request it belongs to, how much it may take, and the commits it has made.

A server sets it for each request; whatever the request makes the engine do finds it in its context, also in another
thread that :func:`~omnigraph.runtime.in_context` carries it into. Outside of a request it is empty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from omnigraph.errors import BadValue, LimitExceeded, QueryCancelledError, QueryTimeoutError, WriteInterruptedError
from omnigraph.records import record
from omnigraph.runtime.environment import Clock, SystemClock

_Item = TypeVar("_Item")


@record
class CallContext:
    """What is true of everything that one request makes the engine do. None sets no limit.

    Args:
        request_id: what logs and answers call the request; commits carry it.
        idempotency_key: the key under which the caller may send the same write again.
        payload_digest: tells two payloads under one key apart.
        deadline_s: when it must have ended, on the monotonic clock.
        read_deadline_s: when it must have ended to read; what it has read by then may still be published.
        stops: events that end everything that it reads, each by itself.
        is_read: whether it does nothing but read, so that all of it ends at its deadlines and by its stops.
        began_s: when it began, on the monotonic clock.
        clock: the clock of its deadlines.
        memory_bytes: how much a read, or the match of a mutation, may hold at one time.
        max_rows: how many rows a read may return.
        max_affected: how many entities a write may change.
        check_schema: raises if a branch, by its name, must not be brought to an accepted schema.
    """

    request_id: str | None = None
    idempotency_key: str | None = None
    payload_digest: str = ""
    deadline_s: float | None = None
    read_deadline_s: float | None = None
    stops: tuple[threading.Event, ...] = ()
    is_read: bool = False
    began_s: float = 0.0
    clock: Clock = SystemClock()
    memory_bytes: int | None = None
    max_rows: int | None = None
    max_affected: int | None = None
    check_schema: Callable[[str, Any], None] | None = None


_NO_CALL = CallContext()
_current: ContextVar[CallContext] = ContextVar("omnigraph_call", default=_NO_CALL)
# The branches and ids of the commits that the call has made so far, for whoever interrupts it.
_made: ContextVar[list[tuple[str, str]] | None] = ContextVar("omnigraph_commits", default=None)


def current_call() -> CallContext:
    """Return the call that is being executed here and now."""
    return _current.get()


@contextmanager
def calling(call: CallContext) -> Iterator[CallContext]:
    """Execute the block as part of a call. Like ``counting``, it must not contain a ``yield``."""
    token = _current.set(call)
    try:
        yield call
    finally:
        _current.reset(token)


def note_commit(branch: str, commit_id: str) -> None:
    """Say that the call that is being executed has published a commit."""
    made = _made.get()
    if made is not None:
        made.append((branch, commit_id))


@contextmanager
def telling_commits() -> Iterator[None]:
    """Let an interrupt of the block say which commit the block has published last, if any.

    Raises:
        WriteInterruptedError: there was one.
    """
    known = _made.get()
    made = [] if known is None else known
    token, count = _made.set(made), len(made)
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if len(made) == count or WriteInterruptedError.within(interrupt) is not None:
            raise
        raise WriteInterruptedError(*made[-1], lambda: "published") from interrupt
    finally:
        _made.reset(token)


def remember_commits() -> None:
    """Remember from here on which commits this context has made."""
    _made.set([])


def last_commit() -> tuple[str, str] | None:
    """Return branch and id of the last commit that was remembered."""
    made = _made.get()
    return made[-1] if made else None


def check_call() -> None:
    """Raise if the call that is being executed only reads and has to end; called wherever a table is read.

    Raises:
        QueryCancelledError: it was stopped, or its client has gone away.
        QueryTimeoutError: it is past a deadline.
    """
    call = _current.get()
    if not call.is_read:
        return
    if any(stop.is_set() for stop in call.stops):
        raise QueryCancelledError(
            "the read was cancelled", details=BadValue(what="read", value="cancelled", expected="running")
        )
    deadline_s = min((one for one in (call.deadline_s, call.read_deadline_s) if one is not None), default=None)
    if deadline_s is None:
        return
    now_s = call.clock.monotonic_s()
    if now_s > deadline_s:
        limit_ms = round((deadline_s - call.began_s) * 1000)
        elapsed_ms = max(int((now_s - call.began_s) * 1000), limit_ms + 1)
        spent = LimitExceeded(resource="read time in ms", limit=limit_ms, actual=elapsed_ms)
        message = f"the read took {elapsed_ms} ms, longer than the limit of {limit_ms} ms"
        raise QueryTimeoutError(message, details=spent)


def drawn_in_call(items: Iterator[_Item], call: CallContext) -> Iterator[_Item]:
    """Return items that are made while they are drawn, each as a part of a read that has returned already."""
    return _draw(items, call) if call.is_read else items


def _draw(items: Iterator[_Item], call: CallContext) -> Iterator[_Item]:
    while True:
        with calling(call):
            check_call()
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def smallest(*limits: int | None) -> int | None:
    """Return the smallest of the limits that are set; None when none is.

    >>> smallest(None, 7, 3)
    3
    """
    least: int | None = None
    for limit in limits:
        if limit is not None and (least is None or limit < least):
            least = limit
    return least
