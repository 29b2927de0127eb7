"""What waiting means on an event loop: letting others run. ``omnigraph.graph.waiting`` is its twin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import TypeVar

Lock = asyncio.Lock
_Item = TypeVar("_Item")
# So many items are drawn in a thread at once.
_DRAWN = 256


class Stop:
    """Ends a wait, from any task of the loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """End it, for good."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it was ended."""
        return self._event.is_set()

    async def wait(self, seconds: float) -> None:
        """Wait until it is ended, or for so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)


async def drawn(items: Iterable[_Item]) -> AsyncIterator[_Item]:
    """Yield the items of a response that may still have to be computed, which happens in threads."""
    arriving = iter(items)
    while chosen := await asyncio.to_thread(lambda: list(islice(arriving, _DRAWN))):
        for item in chosen:
            yield item


async def computed(work: Callable[[], _Item]) -> _Item:
    """Return what takes a while to compute, in a thread."""
    return await asyncio.to_thread(work)
