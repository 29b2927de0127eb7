"""Output that is whole or not there: an interrupt never cuts a document, nor a line of a stream.

An interrupt that comes while something is written is held back until it is written. A second one is not: a reader that
has stopped reading must not keep a command alive.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, AnyStr, Generic

# A document that is larger waits for its end on disk.
_SPOOL_BYTES = 64 << 20
# Lines are written together, in pieces of about this size.
_PIECE = 64 << 10


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold an interrupt back until the block is done; the second one ends the block."""
    found = signal.getsignal(signal.SIGINT)
    # A process that ignores interrupts goes on ignoring them, and only the main thread is told about them.
    if not callable(found) or threading.current_thread() is not threading.main_thread():
        yield
        return
    is_held = False

    def hold(number: int, frame: Any) -> None:
        nonlocal is_held
        if is_held:
            found(number, frame)
        is_held = True

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, found)
    if is_held:
        signal.raise_signal(signal.SIGINT)


def write_whole(text: AnyStr, stream: IO[AnyStr]) -> None:
    """Write a text to its end."""
    with uninterrupted():
        stream.write(text)
        stream.flush()


class WholeLines(Generic[AnyStr]):
    """A sink for lines in pieces of any size, with ``newline`` between them; they reach the stream line by line.

    As a context it writes what is left when the block is done, and nothing more when the block fails.
    """

    def __init__(self, stream: IO[AnyStr], newline: AnyStr) -> None:
        self._stream: IO[AnyStr] = stream
        self._newline: AnyStr = newline
        self._nothing: AnyStr = newline[:0]
        self._waiting: list[AnyStr] = []
        self._size = 0

    def write(self, piece: AnyStr) -> None:
        """Take a piece."""
        # Joined with nothing, a view of bytes becomes bytes.
        taken = self._nothing.join((piece,))
        self._waiting.append(taken)
        self._size += len(taken)
        if self._size >= _PIECE and self._newline in taken:
            waiting = self._nothing.join(self._waiting)
            end = waiting.rindex(self._newline) + 1
            self._waiting, self._size = [waiting[end:]], len(waiting) - end
            write_whole(waiting[:end], self._stream)

    def __enter__(self) -> WholeLines[AnyStr]:
        return self

    def __exit__(self, problem: type[BaseException] | None, *_: object) -> None:
        if problem is None:
            write_whole(self._nothing.join(self._waiting), self._stream)


@contextmanager
def whole_document(stream: IO[str]) -> Iterator[WholeLines[str]]:
    """Give a sink for a document that is made piece by piece; it is written to ``stream`` when the block is done."""
    import shutil  # noqa: PLC0415 - short commands have no use for it
    import tempfile  # noqa: PLC0415 - short commands have no use for it

    # Characters that have no encoding are left to the stream.
    with tempfile.SpooledTemporaryFile(
        _SPOOL_BYTES, "w+", encoding="utf-8", errors="surrogatepass", newline=""
    ) as spool:
        # Its own size is looked at with every piece that the spool is given.
        with WholeLines(spool, "\n") as pieces:
            yield pieces
        spool.seek(0)
        with uninterrupted():
            shutil.copyfileobj(spool, stream, _PIECE)
            stream.flush()
