"""A stream of bytes cut into chunks of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.engine.load.sources import ByteStream
from omnigraph.errors import LimitExceeded, SourceTooLargeError

_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole lines, the last one with its line break too; ``bytes_read`` says how far the source is read after them."""

    data: bytes
    first_line: int
    bytes_read: int


def iter_chunks(stream: ByteStream, name: str, *, chunk_bytes: int, max_line_bytes: int) -> Iterator[Chunk]:
    """Yield the lines of a stream, about ``chunk_bytes`` at a time.

    Raises:
        SourceTooLargeError: a line is longer than ``max_line_bytes``.
        FileAccessError: the stream cannot be read.
    """
    line = 1
    pieces: list[bytes] = []
    held = 0
    # How many of the held bytes are behind the last line break.
    tail = 0
    while block := stream.read(min(_BLOCK_BYTES, chunk_bytes)):
        pieces.append(block)
        held += len(block)
        last = block.rfind(b"\n")
        tail = tail + len(block) if last < 0 else len(block) - last - 1
        if tail > max_line_bytes:
            raise _too_long(name, line + sum(piece.count(b"\n") for piece in pieces), max_line_bytes, tail)
        if held < chunk_bytes or tail == held:
            continue
        data = b"".join(pieces)
        whole, rest = data[: held - tail], data[held - tail :]
        yield Chunk(data=whole, first_line=line, bytes_read=stream.bytes_read)
        line += whole.count(b"\n")
        pieces, held = [rest] if rest else [], tail
    if pieces:
        data = b"".join(pieces)
        yield Chunk(data=data if data.endswith(b"\n") else data + b"\n", first_line=line, bytes_read=stream.bytes_read)


def _too_long(name: str, line: int, limit: int, actual: int) -> SourceTooLargeError:
    details = LimitExceeded(resource="line_bytes", limit=limit, actual=actual)
    return SourceTooLargeError(f"a line is too long source={name} line={line} limit_bytes={limit}", details=details)
