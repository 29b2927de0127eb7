"""Runs the objects of ``omnigraph`` on an event loop.

Their methods are written for threads, and wait in few places: for the backend, for a lock, for work that takes a
while. :func:`run` calls such a method in a greenlet, which :func:`wait` leaves with something to be awaited; the task
awaits it and goes on in the greenlet with the result. So a method is written once, and a waiting task blocks nobody.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

import greenlet

from omnigraph.aio.backend import AsyncBackend, AsyncLocalBackend, connect
from omnigraph.graph.waiting import Stop, Waiting, manner
from omnigraph.operations.request import NOTHING, Attachments, Backend, Request, Response

_Result = TypeVar("_Result")
# So many items are read in a thread at once.
_READ_AHEAD = 256


class _Call(greenlet.greenlet):
    """A call that can be left to await something."""


async def run(function: Callable[..., _Result], *args: Any, **options: Any) -> _Result:
    """Call a function in which :func:`wait` may be called, and return its result."""
    call = _Call(function)
    context = contextvars.copy_context()
    context.run(manner.set, MANNER)
    call.gr_context = context
    step = partial(call.switch, *args, **options)
    while True:
        result = step()
        if call.dead:
            return cast("_Result", result)
        try:
            step = partial(call.switch, await result)
        except BaseException as error:  # noqa: BLE001 - the function decides what becomes of it
            step = partial(call.throw, error)


def wait(awaitable: Awaitable[_Result]) -> _Result:
    """Await something in a function that :func:`run` has called."""
    call = greenlet.getcurrent()
    if not isinstance(call, _Call) or call.parent is None:
        msg = "nothing can be awaited here"
        raise RuntimeError(msg)
    return cast("_Result", call.parent.switch(awaitable))


class _TaskLock:
    """A lock for the tasks of one loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def __enter__(self) -> None:
        wait(self._lock.acquire())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class _TaskStop:
    """Ends the wait of a task, from any task or thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_set = threading.Event()

    def set(self) -> None:
        """End it, for good."""
        self._is_set.set()
        # A loop that is closed has nobody who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    def is_set(self) -> bool:
        """Whether it was ended."""
        return self._is_set.is_set()

    def wait(self, timeout: float) -> object:
        """Wait until it is ended, or for so many seconds."""
        with suppress(TimeoutError):
            return wait(asyncio.wait_for(self._event.wait(), timeout))
        return None


class BridgedBackend:
    """What executes requests on a loop, to objects that call :func:`wait`."""

    def __init__(self, inner: AsyncBackend) -> None:
        self.inner = inner

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self.inner.uri

    @property
    def mode(self) -> Literal["read_write", "read_only"]:
        """Whether the graph may be written to."""
        return self.inner.mode

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request and return its response."""
        return wait(self.inner.execute(request, attached))

    def close(self) -> None:
        """Finish what is under way and let go of everything."""
        wait(self.inner.close())


class _Suspending(Waiting):
    """Waits by suspending the task that runs a call."""

    def lock(self) -> AbstractContextManager[Any]:
        return _TaskLock()

    def stop(self) -> Stop:
        return _TaskStop()

    def compute(self, work: Callable[[], _Result]) -> _Result:
        return wait(asyncio.to_thread(work))

    def items(self, items: Iterable[_Result]) -> Iterator[_Result]:
        arriving = iter(items)
        while part := wait(asyncio.to_thread(lambda: list(islice(arriving, _READ_AHEAD)))):
            yield from part

    def open_local(self, opened: Callable[[], Backend]) -> Backend:
        return BridgedBackend(AsyncLocalBackend(self.compute(opened)))

    def connect(self, uri: str, **settings: Any) -> Backend:
        return BridgedBackend(wait(connect(uri, **settings)))


MANNER = _Suspending()
