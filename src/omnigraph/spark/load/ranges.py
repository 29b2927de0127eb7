"""Byte ranges of a file of lines: a range owns the lines that start in it, so that ranges never share one."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from omnigraph.engine.load.sources import Source, reading

_BLOCK_BYTES = 4 << 20
_NEWLINE = ord("\n")


class RangeStream:
    """The lines that start in ``start`` to ``end`` of an open file, from front to back."""

    def __init__(self, name: str, raw: BinaryIO, start: int, end: int) -> None:
        self._name = name
        self._raw = raw
        self._end = end
        self._at = start
        self._is_done = False
        self._is_inside_line = False
        if start:
            # The line that the byte before belongs to is owned by whoever owns its start.
            with reading(name):
                raw.seek(start - 1)
                self._at = start - 1
                self._skip_line()

    @property
    def bytes_read(self) -> int:
        """How far the file is read."""
        return self._at

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes, beyond the end only as far as the last line goes; none when all is read.

        Raises:
            FileAccessError: the file cannot be read.
        """
        if self._is_done or (self._at >= self._end and not self._is_inside_line):
            return b""
        with reading(self._name):
            data = self._raw.read(min(count, self._end - self._at) if self._at < self._end else count)
        self._at += len(data)
        if self._at > self._end:
            over = data.find(b"\n") + 1
            data, self._is_done = data[: over or None], over > 0
        elif self._at == self._end:
            self._is_inside_line = not data.endswith(b"\n")
        self._is_done = self._is_done or not data
        return data

    def _skip_line(self) -> None:
        while block := self._raw.read(_BLOCK_BYTES):
            over = block.find(b"\n") + 1
            if over:
                self._at += over
                self._raw.seek(self._at)
                return
            self._at += len(block)


def count_line_breaks(source: Source, start: int, end: int) -> int:
    """Return how many line breaks the bytes from ``start`` to ``end`` of a source hold.

    Raises:
        FileAccessError: it cannot be read.
    """
    found = 0
    with source.open() as raw, reading(source.name):
        raw.seek(start)
        while start < end and (block := raw.read(min(_BLOCK_BYTES, end - start))):
            found += int(np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE))
            start += len(block)
    return found
