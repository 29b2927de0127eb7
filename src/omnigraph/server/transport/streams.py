"""Streams: bytes from a thread that makes them to a client that takes them, with little in between.

A producer waits while the client has not taken what was made before. It stops when the client goes away or takes
nothing for too long, and what it holds, such as the slot of an export, is given back when it has ended, not before.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

from omnigraph.errors import BadValue, LimitExceeded, QueryCancelledError, StreamCapacityError
from omnigraph.runtime import Clock, in_context, start_thread
from omnigraph.server.config import ServerLimits

CHUNK_BYTES = 64 << 10
_QUEUED = 2
_IN_HEADERS = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")
_TRANSPORT_BYTES = 256 << 10


def header_text(name: str) -> str:
    """Return a name as a header may carry it: what is not ASCII, and the percent sign, is percent-encoded UTF-8.

    >>> header_text("review/2026"), header_text("日本")
    ('review/2026', '%E6%97%A5%E6%9C%AC')
    """
    return quote(name, safe=_IN_HEADERS)


class ByteStream:
    """Hands bytes over. ``write`` is called by the thread that makes them; iterating is for the client's side."""

    def __init__(self, limits: ServerLimits, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUED)
        self._stalled_s = limits.stalled_s
        self._chunk_bytes = chunk_bytes
        self._held = bytearray()
        self._failure: BaseException | None = None
        self.cancelled = threading.Event()

    def start(self, name: str, produce: Callable[[ByteStream], None], *, ended: Callable[[], None]) -> None:
        """Run the producer in a thread of its own; ``ended`` is called when it has unwound, whatever happened."""

        def run() -> None:
            try:
                produce(self)
                self.flush()
            except BaseException as problem:  # noqa: BLE001 - raised where the client's side iterates
                self._failure = problem
            finally:
                ended()
                self._end()

        try:
            start_thread(name, in_context(run))
        except RuntimeError:
            # The system has no thread left, so that nobody else gives back what the stream holds.
            ended()
            raise

    def write(self, data: Any) -> None:
        """Take bytes, and wait while the client is behind.

        Raises:
            QueryCancelledError: the client went away, or took nothing for too long.
        """
        self._held += data
        while len(self._held) >= self._chunk_bytes:
            self._put(bytes(self._held[: self._chunk_bytes]))
            del self._held[: self._chunk_bytes]

    def flush(self) -> None:
        """Hand over what is held back."""
        if self._held:
            self._put(bytes(self._held))
            self._held.clear()

    async def first(self) -> bytes | None:
        """Return the first bytes, so that what goes wrong before them can still be answered properly.

        Raises:
            OmnigraphError: whatever the producer raised before it made anything.
        """
        found = await self._queue.get()
        if found is None and self._failure is not None:
            raise self._failure
        return found

    async def rest(self, first: bytes | None) -> AsyncGenerator[bytes, None]:
        """Yield the bytes to the client."""
        try:
            found = first
            while found is not None:
                yield found
                found = await self._queue.get()
            if self._failure is not None:
                raise self._failure
        finally:
            self.close()

    def close(self) -> None:
        """Let the producer know that nobody takes anything any more."""
        self.cancelled.set()
        while not self._queue.empty():
            self._queue.get_nowait()

    def _put(self, chunk: bytes) -> None:
        waiting: Future[None] = Future()
        if not self.cancelled.is_set():
            waiting = asyncio.run_coroutine_threadsafe(self._queue.put(chunk), self._loop)
            try:
                waiting.result(self._stalled_s)
            except TimeoutError:
                waiting.cancel()
                self.cancelled.set()
        if self.cancelled.is_set():
            details = BadValue(what="stream", value="closed", expected="a client that reads")
            raise QueryCancelledError("the client does not take the stream", details=details)

    def _end(self) -> None:
        async def end() -> None:
            # A client that takes nothing must not keep the end from coming.
            if self.cancelled.is_set():
                self.close()
            await self._queue.put(None)

        with suppress(RuntimeError):
            # The loop may be gone when the process ends.
            asyncio.run_coroutine_threadsafe(end(), self._loop)


class StreamSlots:
    """How many results may be streamed at the same time; of these, one actor gets three quarters at most."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, actor: str | None) -> Callable[[], None]:
        """Take a slot and return what gives it back. Where callers do not say who they are, all may be anybody's.

        Raises:
            StreamCapacityError: all are taken, or as many as the actor gets.
        """
        name = actor or ""
        share = self._most if actor is None else max(1, self._most * 3 // 4)
        with self._lock:
            if self._taken[name] >= share or self._taken.total() >= self._most:
                limit = min(share, self._most)
                raise _full("stream_result_slots", limit, limit + 1)
            self._taken[name] += 1

        def leave() -> None:
            with self._lock:
                self._taken[name] -= 1
                if not self._taken[name]:
                    del self._taken[name]

        return leave


class ExportSlots:
    """How many exports and baselines may run at the same time, on one graph and in all."""

    def __init__(self, limits: ServerLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        # When each of them began.
        self._by_graph: dict[str, list[float]] = {}
        self._transport = threading.BoundedSemaphore(limits.transport_streams)

    def take(self, graph_id: str) -> Callable[[], None]:
        """Take a slot and return what gives it back; waits a moment where all graphs together are busy.

        Raises:
            StreamCapacityError: an export of this graph is running, or too many of all graphs are.
        """
        with self._lock:
            running = self._by_graph.setdefault(graph_id, [])
            if len(running) >= self._limits.export_streams:
                raise _full("stream_export_slots", self._limits.export_streams, len(running) + 1)
            began_s = self._clock.monotonic_s()
            running.append(began_s)
        if not self._transport.acquire(timeout=self._limits.transport_wait_s):
            self._leave(graph_id, began_s)
            budget = self._limits.transport_streams * _TRANSPORT_BYTES
            raise _full("stream_export_transport_bytes", budget, budget + _TRANSPORT_BYTES)

        def leave() -> None:
            self._transport.release()
            self._leave(graph_id, began_s)

        return leave

    def refuse_while_exporting(self, graph_id: str) -> None:
        """Return if no export of a graph is running; what moves tables away from under it has to wait.

        An export reads one state, whatever is published later. One whose reader is slow does not keep others
        waiting for ever: after ``export_hold_s`` they go on, and an export whose own branch is deleted then fails.

        Raises:
            StreamCapacityError: one is running.
        """
        with self._lock:
            since_s = self._clock.monotonic_s() - self._limits.export_hold_s
            young = [began_s for began_s in self._by_graph.get(graph_id, ()) if began_s > since_s]
        if young:
            raise _full("stream_export_slots", self._limits.export_streams, len(young) + 1)

    def _leave(self, graph_id: str, began_s: float) -> None:
        with self._lock:
            self._by_graph[graph_id].remove(began_s)
            if not self._by_graph[graph_id]:
                del self._by_graph[graph_id]


def _full(resource: str, limit: int, actual: int) -> StreamCapacityError:
    details = LimitExceeded(resource=resource, limit=limit, actual=actual)
    return StreamCapacityError("too many streams are running", details=details)


@contextmanager
def writing_arrow(sink: ByteStream, schema: Any) -> Iterator[Any]:
    """Give a writer of Arrow batches into a stream, as the IPC stream format."""
    import pyarrow as pa  # noqa: PLC0415 - loaded with the first result of this form

    with pa.ipc.new_stream(pa.PythonFile(_Sink(sink), mode="w"), schema) as writer:
        yield writer


class _Sink:
    """A stream as Arrow takes it."""

    closed = False

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        """Hand bytes over."""
        self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        """Hand nothing over: chunks go when they are full."""

    def close(self) -> None:
        """End; the producer says when."""

    def writable(self) -> bool:
        """Whether bytes can be written."""
        return True

    def readable(self) -> bool:
        """Whether bytes can be read."""
        return False

    def seekable(self) -> bool:
        """Whether there is a way back."""
        return False


def write_lines(stream: ByteStream, lines: Iterable[bytes]) -> None:
    """Write lines, each with its end."""
    for line in lines:
        stream.write(line)
        stream.write(b"\n")
