"""Waits of the objects of this room: they block the thread, or suspend the task in ``omnigraph.aio``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from omnigraph.operations.request import Backend

_Item = TypeVar("_Item")


class Stop(Protocol):
    """Ends a wait, from any thread or task."""

    def set(self) -> None:
        """End it, for good."""

    def is_set(self) -> bool:
        """Whether it was ended."""

    def wait(self, timeout: float) -> object:
        """Wait until it is ended, or for so many seconds."""


class Waiting:
    """Waits by blocking the thread."""

    def lock(self) -> AbstractContextManager[Any]:
        """Return a lock that lasts over calls that wait."""
        return threading.Lock()

    def stop(self) -> Stop:
        """Return what ends the wait for further items."""
        return threading.Event()

    def compute(self, work: Callable[[], _Item]) -> _Item:
        """Return the result of a function that takes a while."""
        return work()

    def items(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Return the items of a response that may still be on their way."""
        return iter(items)

    def open_local(self, opened: Callable[[], Backend]) -> Backend:
        """Return the backend of a graph that this process opens."""
        return opened()

    def connect(self, uri: str, **settings: Any) -> Backend:
        """Return a backend that asks a server."""
        from omnigraph.graph.opening import connect  # noqa: PLC0415 - few programs ask servers

        return connect(uri, **settings)


manner: ContextVar[Waiting] = ContextVar("omnigraph_waiting", default=Waiting())  # noqa: B039 - it has no state


def computed(work: Callable[[], _Item]) -> _Item:
    """Return what takes a while to compute."""
    return manner.get().compute(work)


def drawn(items: Iterable[_Item]) -> Iterator[_Item]:
    """Return the items of a response that may still be on their way."""
    return manner.get().items(items)
