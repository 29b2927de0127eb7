"""Bodies in frames: a request, and the files that travel with it, which are laid down in a folder as they arrive."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from starlette.requests import ClientDisconnect, Request

from omnigraph.errors import BodyTimeoutError, BodyTooLargeError, LimitExceeded
from omnigraph.operations.wire import Frame, FrameBuffer, FrameKind, from_bytes, inner_path
from omnigraph.server.transport.bodies import malformed

# Written to disk at once, in a thread.
_WRITTEN_BYTES = 1 << 20
RESOURCE = "request_upload_bytes"

Run = Callable[[Callable[[], None]], Awaitable[None]]


class UploadFolder:
    """A temporary folder, made when it is first needed and removed in the end."""

    def __init__(self) -> None:
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """Where it is."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="omnigraph-request-"))
        return self._path

    def close(self) -> None:
        """Remove it with everything in it."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)


async def read_upload(request: Request, folder: UploadFolder, limit: int, seconds: float, run: Run) -> Any:
    """Return the document of a body in frames, and lay its files down.

    Args:
        request: the HTTP request.
        folder: gets the files.
        limit: how many bytes the body may have.
        seconds: how long it may be silent.
        run: runs a function in a thread.

    Raises:
        BodyTooLargeError: it is longer.
        BodyTimeoutError: it did not go on in time.
        RequestFormatError: it is not such a body, or broke off.
        RemoteUnsupportedError: a file has a name that leads elsewhere.
    """
    with ExitStack() as held:
        body = _Body(folder, held)
        waiting, size = bytearray(), 0
        chunks = aiter(request.stream())
        try:
            while True:
                chunk = await asyncio.wait_for(anext(chunks, None), seconds)
                if chunk is None:
                    break
                size += len(chunk)
                if size > limit:
                    details = LimitExceeded(resource=RESOURCE, limit=limit, actual=size)
                    raise BodyTooLargeError(f"the body is longer than {limit} bytes", details=details)
                waiting += chunk
                if len(waiting) >= _WRITTEN_BYTES:
                    await _write(body, waiting, run)
        except TimeoutError:
            late = LimitExceeded(resource="request_body_seconds", limit=int(seconds), actual=int(seconds))
            raise BodyTimeoutError("the body of the request did not go on in time", details=late) from None
        except ClientDisconnect:
            raise malformed("body", "", "the whole body", "the client went away") from None
        await _write(body, waiting, run)
        return body.document()


async def _write(body: _Body, waiting: bytearray, run: Run) -> None:
    data = bytes(waiting)
    waiting.clear()
    await run(lambda: body.feed(data))


class _Body:
    """What has arrived of a body."""

    def __init__(self, folder: UploadFolder, held: ExitStack) -> None:
        self._folder = folder
        self._held = held
        self._buffer = FrameBuffer()
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
                path = inner_path(self._folder.path, str(from_bytes(frame.content)["name"]))
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._held.enter_context(path.open("wb"))
            case FrameKind.BYTES if self._file is not None:
                self._file.write(frame.content)
            case FrameKind.END if self._file is not None:
                self._file.close()
                self._file = None
            case _:
                raise malformed("body", frame.kind.name, "a request and its files")
