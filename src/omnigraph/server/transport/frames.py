"""Responses as frames: written by the thread that executes the request, sent as fast as the client reads them."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

import anyio
import anyio.from_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omnigraph.errors import OmnigraphError
from omnigraph.operations.wire import MEDIA_TYPE, WIRE_VERSION, FrameKind, ReaderGoneError, encode_frame

WIRE_HEADER = "omnigraph-wire"
PROGRESS_HEADER = "omnigraph-progress"
CANCELLED_HEADER = "omnigraph-cancelled"
# So many pieces wait for a slow reader; a piece holds one large frame, or small ones up to this size.
_WAITING_PIECES = 4
_PIECE_BYTES = 64 << 10
# A client takes a connection that is silent for longer for a dead one.
_SILENT_S = 15.0

Produce = Callable[[Callable[[bytes], None]], OmnigraphError | None]


class FramesResponse(Response):
    """An answer in frames.

    Nothing is sent before the first piece is there: an operation that fails at once is answered with a status.

    Args:
        produce: writes the response; it runs in a thread. It returns the error that it wrote.
        run: runs a function in such a thread.
        refuse: makes the answer to an error.
        must_finish: whether the operation goes on when the client has gone away.
        stop: set when the client has gone away, so that a read ends.
        renew: raises when the client may not have more of a read.
    """

    def __init__(
        self,
        produce: Produce,
        run: Callable[[Callable[[], bytes]], Awaitable[bytes]],
        refuse: Callable[[OmnigraphError], Response],
        *,
        must_finish: bool,
        stop: threading.Event,
        renew: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        self._renew = renew
        self._produce = produce
        self._run = run
        self._refuse = refuse
        self._must_finish = must_finish
        self._stop = stop
        self._gone = threading.Event()
        self._early: OmnigraphError | None = None
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        pieces, arriving = anyio.create_memory_object_stream[bytes](_WAITING_PIECES)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._work, pieces)
            tasks.start_soon(self._watch, receive, arriving)
            async with arriving:
                await self._pass_on(arriving, send)
            tasks.cancel_scope.cancel()
        if self._early is not None and not self._has_begun and not self._gone.is_set():
            await self._refuse(self._early)(scope, receive, send)

    async def _pass_on(self, arriving: MemoryObjectReceiveStream[bytes], send: Send) -> None:
        try:
            while True:
                piece = encode_frame(FrameKind.WAIT)
                with anyio.move_on_after(_SILENT_S):
                    piece = await arriving.receive()
                if self._has_begun and not self._must_finish:
                    try:
                        await self._renew()
                    except OmnigraphError:
                        # What has come so far has no end, by which the client knows that it is not all.
                        self._leave()
                        return
                await self._send(piece, send)
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            if self._has_begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, piece: bytes, send: Send) -> None:
        if not self._has_begun:
            self._has_begun = True
            headers: Mapping[str, str] = {"content-type": MEDIA_TYPE, WIRE_HEADER: str(WIRE_VERSION)}
            listed = [(name.encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": 200, "headers": listed})
        await send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _work(self, pieces: MemoryObjectSendStream[bytes]) -> None:
        async with pieces:
            rest = await self._run(partial(self._execute, pieces))
            if rest:
                # A small answer takes no way but this one.
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await pieces.send(rest)

    async def _watch(self, receive: Receive, arriving: MemoryObjectReceiveStream[bytes]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._leave()
        arriving.close()

    def _leave(self) -> None:
        self._gone.set()
        self._stop.set()

    def _execute(self, pieces: MemoryObjectSendStream[bytes]) -> bytes:
        """Execute the request, in a thread, and return what of the answer is not sent yet."""
        waiting = bytearray()
        has_sent = False

        def flush() -> None:
            nonlocal has_sent
            if self._gone.is_set() and not self._must_finish:
                raise ReaderGoneError
            try:
                anyio.from_thread.run(pieces.send, bytes(waiting))
                has_sent = True
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._leave()
                if not self._must_finish:
                    raise ReaderGoneError from None
            waiting.clear()

        def write(data: bytes) -> None:
            waiting.extend(data)
            if len(waiting) >= _PIECE_BYTES or data.startswith(FrameKind.PROGRESS.value):
                flush()

        try:
            failure = self._produce(write)
            if failure is not None and not has_sent and waiting.startswith(FrameKind.FAILURE.value):
                # Nothing came before it: the client gets it as the answer, with the status that it has everywhere.
                self._early = failure
                return b""
        except ReaderGoneError:
            return b""
        return bytes(waiting)
