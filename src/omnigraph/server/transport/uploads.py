"""Bodies in frames: a request, and the files that travel with it, which are laid down in a folder as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, BinaryIO

from starlette.requests import ClientDisconnect, Request

from omnigraph.errors import BodyTimeoutError, BodyTooLargeError, LimitExceeded, ServerIncompatibleError
from omnigraph.operations.wire import Frame, FrameBuffer, FrameKind, UploadFolder, from_bytes
from omnigraph.server.transport.bodies import malformed, refuse_packed

# Written to disk at once, in a thread.
_WRITTEN_BYTES = 1 << 20
# What must arrive within the time that a body has; files may be long, so that their whole has no deadline.
_LEAST_BYTES = 64 << 10
# The longest frame, which is held in memory; clients cut files into pieces of a megabyte.
_FRAME_BYTES = 32 << 20
RESOURCE = "request_upload_bytes"

Run = Callable[[Callable[[], None]], Awaitable[None]]


async def read_upload(request: Request, folder: UploadFolder, limit: int, seconds: float, run: Run) -> Any:
    """Return the document of a body in frames, and lay its files down.

    Args:
        request: the HTTP request.
        folder: gets the files.
        limit: how many bytes the body may have.
        seconds: how long 64 KiB of it may take to arrive.
        run: runs a function in a thread.

    Raises:
        BodyTooLargeError: it is longer, or holds too many files.
        BodyTimeoutError: it did not go on in time.
        MediaTypeError: it is packed.
        RequestFormatError: it is not such a body, or broke off.
        UsageError: two files have one name, or one has none that a file can have.
    """
    refuse_packed(request)
    loop = asyncio.get_running_loop()
    with ExitStack() as held:
        body = _Body(folder, held)
        waiting, size, awaited = bytearray(), 0, _LEAST_BYTES
        try:
            async with asyncio.timeout(seconds) as deadline:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > limit:
                        details = LimitExceeded(resource=RESOURCE, limit=limit, actual=size)
                        raise BodyTooLargeError(f"the body is longer than {limit} bytes", details=details)
                    waiting += chunk
                    if len(waiting) >= _WRITTEN_BYTES:
                        # A slow disk is not the sender's fault.
                        deadline.reschedule(None)
                        await _write(body, waiting, run)
                        deadline.reschedule(loop.time() + seconds)
                    if size >= awaited:
                        awaited = size + _LEAST_BYTES
                        deadline.reschedule(loop.time() + seconds)
        except TimeoutError:
            late = LimitExceeded(resource="request_body_seconds", limit=int(seconds), actual=int(seconds))
            raise BodyTimeoutError("the body of the request did not arrive in time", details=late) from None
        except ClientDisconnect:
            raise malformed("body", "", "the whole body", "the client went away") from None
        await _write(body, waiting, run)
        return body.document()


async def _write(body: _Body, waiting: bytearray, run: Run) -> None:
    data = bytes(waiting)
    waiting.clear()
    try:
        await run(lambda: body.feed(data))
    except ServerIncompatibleError as problem:
        raise malformed("body", "", "a request and its files", problem.message) from problem


class _Body:
    """What has arrived of a body."""

    def __init__(self, folder: UploadFolder, held: ExitStack) -> None:
        self._folder = folder
        self._held = held
        self._buffer = FrameBuffer(_FRAME_BYTES)
        self._document: Any = None
        self._file: BinaryIO | None = None

    def feed(self, data: bytes) -> None:
        for frame in self._buffer.feed(data):
            self._take(frame)

    def document(self) -> Any:
        if self._document is None or self._file is not None or not self._buffer.is_empty:
            raise malformed("body", "", "a request and its files", "the body is not complete")
        return self._document

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case FrameKind.RECORD if self._document is None:
                self._document = from_bytes(frame.content)
            case FrameKind.FILE if self._file is None and self._document is not None:
                self._file = self._held.enter_context(self._open(from_bytes(frame.content)))
            case FrameKind.BYTES if self._file is not None:
                self._file.write(frame.content)
            case FrameKind.END if self._file is not None:
                self._file.close()
                self._file = None
            case _:
                raise malformed("body", frame.kind.name, "a request and its files")

    def _open(self, told: Any) -> BinaryIO:
        name = told.get("name") if isinstance(told, dict) else None
        if not isinstance(name, str):
            raise malformed("body", "", "the name of a file", "a file of the request has no name")
        return self._folder.add(name)
