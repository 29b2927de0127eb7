"""Frames: the pieces that responses, and requests with files, are sent in.

A frame is one byte that says what it is, four bytes with the length of its content, and the content. So a response can
tell how far it is before it is there, an error can come behind half of the rows, and what was cut off is noticed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum

from omnigraph.errors import FormatMismatch, ServerIncompatibleError
from omnigraph.records import record

MEDIA_TYPE = "application/vnd.omnigraph.frames"
# More than any frame that is written; a peer that announces more is none of ours.
MAX_FRAME_BYTES = 256 << 20
_HEAD = struct.Struct(">cI")


class FrameKind(Enum):
    """What a frame holds."""

    RECORD = b"R"
    """The request, or the response as one JSON document; streams that it mentions follow in the order it does."""
    ROWS = b"A"
    """Rows of the current stream: an Arrow IPC stream of one or more batches."""
    ITEMS = b"I"
    """Items of the current stream: a JSON array."""
    END = b"E"
    """The end of the current stream, or of a file: a JSON document with what is known only now."""
    FILE = b"F"
    """A file begins: a JSON document with its name."""
    BYTES = b"B"
    """Bytes of the current file, or of an exported stream."""
    PROGRESS = b"P"
    """How far the operation is, as a JSON document."""
    FAILURE = b"X"
    """The error that the operation ended with, as a JSON document; the last frame."""
    WAIT = b"W"
    """Nothing yet; it keeps idle connections open."""


@record
class Frame:
    """One frame."""

    kind: FrameKind
    content: bytes


def encode_frame(kind: FrameKind, content: bytes | memoryview = b"") -> bytes:
    """Return a frame as bytes."""
    return _HEAD.pack(kind.value, len(content)) + content


class FrameBuffer:
    """Cuts bytes into frames as they arrive."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._waiting = bytearray()
        self._max_bytes = max_frame_bytes

    @property
    def is_empty(self) -> bool:
        """Whether no frame has begun."""
        return not self._waiting

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take bytes, and yield the frames that are complete.

        Raises:
            ServerIncompatibleError: the bytes are no frames.
        """
        self._waiting += data
        while len(self._waiting) >= _HEAD.size:
            letter, length = _HEAD.unpack_from(self._waiting)
            kind = _KINDS.get(letter)
            if kind is None or length > self._max_bytes:
                details = FormatMismatch(what="frame", expected="a frame of a response", found=repr(letter))
                raise ServerIncompatibleError("the bytes are not frames of omnigraph", details=details)
            end = _HEAD.size + length
            if len(self._waiting) < end:
                return
            content = bytes(memoryview(self._waiting)[_HEAD.size : end])
            del self._waiting[:end]
            yield Frame(kind=kind, content=content)


_KINDS = {kind.value: kind for kind in FrameKind}
