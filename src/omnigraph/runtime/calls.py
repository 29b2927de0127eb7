"""The calls that are under way on something that can be closed: it ends when the last of them has.

Each thread has a lock of its own, which it holds while it is inside a call; closing takes each of them once. The locks
are the interpreter's, entered and left in one step, so that an interrupt at whatever line leaves none behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


class _Thread(threading.local):
    """What one thread knows of the calls it makes."""

    lock: threading.RLock | None = None
    depth = 0


class Calls:
    """The calls on one thing. A call may make others of the same thing: only the outermost can be refused."""

    def __init__(self, refusal: Callable[[], Exception]) -> None:
        self._refusal = refusal
        self._is_closed = False
        self._adding = threading.Lock()
        self._locks: list[tuple[threading.Thread, threading.RLock]] = []
        self._mine = _Thread()

    def run(self, call: Callable[[], _Result]) -> _Result:
        """Return what ``call`` does, which ends before the thing is closed.

        Raises:
            Exception: the refusal, when it is closed or about to be.
        """
        mine = self._mine
        with mine.lock or self._enrol(mine):
            # Looked at inside: from here on, closing waits for this call.
            if self._is_closed and not mine.depth:
                raise self._refusal()
            return _inside(mine, call)

    def close(self) -> None:
        """Refuse further calls and wait for those of other threads; after an interrupt it can be called again."""
        self._is_closed = True
        with self._adding:
            locks = tuple(self._locks)
        for _, lock in locks:
            with lock:
                pass

    def _enrol(self, mine: _Thread) -> threading.RLock:
        lock = threading.RLock()
        with self._adding:
            self._locks = [(thread, known) for thread, known in self._locks if thread.is_alive()]
            self._locks.append((threading.current_thread(), lock))
        mine.lock = lock
        return lock


def _inside(mine: _Thread, call: Callable[[], _Result]) -> _Result:
    mine.depth += 1
    try:
        return call()
    finally:
        mine.depth -= 1


class Closable(Protocol):
    """Something whose calls are counted."""

    @property
    def _calls(self) -> Calls: ...


_Owner = TypeVar("_Owner", bound=Closable)


def counted(
    method: Callable[Concatenate[_Owner, _Params], _Result],
) -> Callable[Concatenate[_Owner, _Params], _Result]:
    """Make a method one of its object's calls."""

    @wraps(method)
    def run(self: _Owner, /, *args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        return self._calls.run(lambda: method(self, *args, **kwargs))

    return run
