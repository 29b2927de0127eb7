"""Reading the fields of a protobuf message that Lance gives as bytes, without its definition."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _BYTES = 0, 2
# Values of a fixed width, by the kind that their tag names.
_WIDTHS = {1: 8, 5: 4}


def read_fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field in order; nested messages stay bytes.

    >>> list(read_fields(bytes([0x58, 0x83, 0x02, 0x12, 0x01, 0x41])))
    [(11, 259), (2, b'A')]
    """
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(raw, at)
            yield number, value
            continue
        if kind == _BYTES:
            width, at = _read_varint(raw, at)
        else:
            width = _WIDTHS[kind]
        yield number, raw[at : at + width]
        at += width


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
