"""What waiting means on an event loop; :mod:`omnigraph.client.sync_io` is the same for threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from httpx2 import AsyncClient as HttpClient
from httpx2 import Response as HttpResponse

from omnigraph.client.exchange import Exchange, Incoming

__all__ = ["CAN_BE_LAZY", "HttpClient", "HttpResponse", "answer_lazily", "body_of", "sleep", "watching"]

# Rows are drawn from a result without waiting, so that all of them have to be here.
CAN_BE_LAZY = False
# How often an event is looked at that a thread may set.
_LOOK_S = 0.05
_AGAIN_S = 0.01


async def sleep(seconds: float) -> None:
    """Wait."""
    await asyncio.sleep(seconds)


def body_of(body: bytes | Iterator[bytes]) -> bytes | AsyncIterator[bytes]:
    """Return a body to send; files are read in threads."""
    return body if isinstance(body, bytes) else _in_threads(body)


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


@asynccontextmanager
async def watching(cancel: threading.Event | None, stop: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Call ``stop`` when an event is set while the block runs."""
    if cancel is None:
        yield
        return

    async def watch() -> None:
        while not cancel.is_set():  # noqa: ASYNC110 - a thread may set it, whom no event of the loop hears
            await asyncio.sleep(_LOOK_S)
        while True:
            # Again and again, since the server may not have begun yet.
            await stop()
            await asyncio.sleep(_AGAIN_S)

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def answer_lazily(exchange: Exchange, incoming: Incoming, reply: Any, chunks: Any) -> Any:
    """Answers of an event loop are complete."""
    raise NotImplementedError
