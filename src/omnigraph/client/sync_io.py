"""What waiting means in a thread; :mod:`omnigraph.client.async_io` is the same for an event loop."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from httpx2 import Client as HttpClient
from httpx2 import Response as HttpResponse
from httpx2 import TransportError

from omnigraph.client.exchange import Exchange, Incoming
from omnigraph.runtime import Runtime
from omnigraph.runtime.process import start_thread

__all__ = ["CAN_BE_LAZY", "HttpClient", "HttpResponse", "answer_lazily", "body_of", "sleep", "watching"]

# Rows, changes and records that the caller draws one after the other are read from the connection as they are drawn.
CAN_BE_LAZY = True
_LOOK_S = 0.05
_AGAIN_S = 0.01
_RUNTIME = Runtime.system()


def sleep(seconds: float) -> None:
    """Wait."""
    _RUNTIME.clock.sleep(seconds)


def body_of(body: bytes | Iterator[bytes]) -> bytes | Iterator[bytes]:
    """Return a body to send."""
    return body


@contextmanager
def watching(cancel: threading.Event | None, stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` when an event is set while the block runs."""
    if cancel is None:
        yield
        return
    has_ended = threading.Event()

    def watch() -> None:
        while not cancel.wait(_LOOK_S):
            if has_ended.is_set():
                return
        # Again and again, since the server may not have begun yet.
        while not has_ended.is_set():
            stop()
            has_ended.wait(_AGAIN_S)

    thread = start_thread("omnigraph-cancel", watch)
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def answer_lazily(exchange: Exchange, incoming: Incoming, reply: HttpResponse, chunks: Iterator[bytes]) -> Any:
    """Return a response whose rows are read from the connection when they are drawn."""

    def pull() -> None:
        try:
            chunk = next(chunks, None)
        except TransportError as problem:
            incoming.fail(exchange.lost(str(problem) or type(problem).__name__, is_timeout=False, was_sent=True))
            return
        if chunk is None:
            incoming.fail(exchange.lost("the answer was cut off", is_timeout=False, was_sent=True))
        else:
            incoming.feed(chunk)
        if incoming.is_complete:
            reply.close()

    response = incoming.response(pull)
    # Rows that are never drawn must not hold the connection.
    weakref.finalize(pull, reply.close)
    return exchange.finish(response)
