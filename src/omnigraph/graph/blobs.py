"""``BlobReader``: the content of one Blob, read from any place like a file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from omnigraph.errors import BadValue, UsageError
from omnigraph.operations.reads import ReadBlobRequest, content_of
from omnigraph.operations.request import Backend
from omnigraph.values import check_whole
from omnigraph.values.printable import Printable

if TYPE_CHECKING:
    from omnigraph.store.tables.pinned import BlobPart

DEFAULT_BUFFER_BYTES = 1 << 20
LARGEST_BUFFER_BYTES = 64 << 20
_FARTHEST = (1 << 63) - 1


class BlobReader(Printable):
    """Reads one Blob. It keeps as many bytes as its buffer has room for, and never asks for more at once.

    What it reads is the content of one state, whatever is written meanwhile. It is for one reader at a time.

    Raises:
        BlobMissingError: there is no such entity, or its Blob is null.
        BlobReferenceError: the content is outside of the graph, which keeps its address only.
    """

    def __init__(
        self,
        backend: Backend,
        request: ReadBlobRequest,
        found: BlobPart | None,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    ) -> None:
        self._backend = backend
        self._request = request
        self._part = content_of(request, found)
        self._buffer_bytes = buffer_bytes
        self._buffer = b""
        self._buffer_at = 0
        self._at = 0
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def lines(self) -> Iterator[str]:
        """Yield which Blob it reads, and how far it is."""
        name = f"{self._request.type_name} {self._request.entity_id!r} {self._request.property}"
        yield f"{name}: at {self._at} of {self.size} bytes"

    @property
    def size(self) -> int:
        """How many bytes the Blob has."""
        return self._part.size

    @property
    def tag(self) -> str:
        """The same for as long as the Blob is; another one as soon as it is stored anew."""
        return self._part.tag

    @property
    def commit_id(self) -> str:
        """The commit whose state is read."""
        return str(self._request.at)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be read from any place."""
        return True

    def writable(self) -> bool:
        """It cannot be written to."""
        return False

    def tell(self) -> int:
        """Return where the next read begins."""
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read on from another place, counted from the start, from here, or from the end; return it from the start.

        Behind the end there is nothing to read.
        """
        self._check_open()
        check_whole("whence", whence, most=io.SEEK_END)
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        check_whole("offset", offset, least=-base, most=_FARTHEST - base)
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next ``size`` bytes, fewer only at the end; all that are left when it is negative or None."""
        self._check_open()
        check_whole("size", size, least=-_FARTHEST, optional=True)
        left = max(0, self.size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        pieces: list[bytes] = []
        while wanted:
            piece = self._next(wanted)
            pieces.append(piece)
            wanted -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def chunks(self) -> Iterator[bytes]:
        """Yield what is left, in pieces of the size of the buffer."""
        while piece := self.read(self._buffer_bytes):
            yield piece

    def close(self) -> None:
        """Let go of the buffer; harmless when closed already."""
        self._release()

    def _release(self) -> None:
        self._is_closed = True
        self._buffer = b""

    def _next(self, wanted: int) -> bytes:
        """Return some of the bytes from here on: those of the buffer, which is filled when it has none of them."""
        start = self._at - self._buffer_at
        if not 0 <= start < len(self._buffer):
            length = min(self._buffer_bytes, self.size - self._at)
            found = self._backend.execute(replace(self._request, start=self._at, length=length))
            # Let go of before the next is kept.
            self._buffer = b""
            self._buffer, self._buffer_at, start = content_of(self._request, found).data, self._at, 0
        piece = self._buffer[start : start + wanted]
        self._at += len(piece)
        return piece

    def _check_open(self) -> None:
        if self._is_closed:
            details = BadValue(what="blob", value="closed", expected="open")
            raise UsageError("the blob is closed", details=details)
