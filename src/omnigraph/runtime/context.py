"""The call that is being executed: which request it belongs to, how much it may take, and the commits it has made.

A server sets it for each request; whatever the request makes the engine do finds it in its context, also in another
thread that :func:`~omnigraph.runtime.in_context` carries it into. Outside of a request it is empty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from omnigraph.errors import WriteInterruptedError
from omnigraph.records import record


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
