"""What waiting means for the objects of this room: blocking the thread. ``omnigraph.aio.waiting`` is its twin."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Lock = threading.Lock
_Item = TypeVar("_Item")


class Stop:
    """Ends a wait, from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """End it, for good."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it was ended."""
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until it is ended, or for so long."""
        self._event.wait(seconds)


def drawn(items: Iterable[_Item]) -> Iterator[_Item]:
    """Return the items of a response that may still be on their way."""
    return iter(items)


def computed(work: Callable[[], _Item]) -> _Item:
    """Return what takes a while to compute."""
    return work()
