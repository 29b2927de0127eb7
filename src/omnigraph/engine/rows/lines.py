"""Lines of a chunk as an Arrow array over its bytes, sorted by the type that each names first.

Nothing is parsed here. A line that does not have the plain form (an object from its first to its last byte, the type
named first) is *odd*: it may be quite right, but only the exact decoder can tell.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.records import record

_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"
_BLANK = b" \t\r\n"
# One byte for each byte: whether a line that holds it is not blank.
_TEXT = bytes(byte not in _BLANK for byte in range(256))
# What may stand behind a closing brace without a doubt. Anything else could be a second value on the line, which
# the columnar reader takes for a row of its own, or fails on.
_AFTER_CLOSE = np.zeros(256, dtype=bool)
_AFTER_CLOSE[list(b",}]\n")] = True
_HEAD: Final = re.compile(rb'\{ ?"(type|edge)" ?: ?"([A-Za-z0-9_]+)"')
_MAX_HEADS = 128

Mask = npt.NDArray[np.bool_]


@record
class Head:
    """How a line begins: whether it is an edge, and the name of its type."""

    is_edge: bool
    name: str


@record
class LineArray:
    """The lines of a chunk.

    ``whole`` has one item per physical line, its line break included; the index lists are in ascending order.
    """

    whole: pa.Array
    by_head: tuple[tuple[Head, npt.NDArray[np.int64]], ...]
    odd: npt.NDArray[np.int64]


def split(data: bytes) -> LineArray:
    """Sort the lines of ``data``, whose last byte is a line break; blank lines belong nowhere."""
    whole, starts, is_plain, is_blank = _cut(data)
    by_head = _by_head(data, whole, starts, is_plain)
    is_odd = ~is_blank
    for _, at in by_head:
        is_odd[at] = False
    return LineArray(whole=whole, by_head=by_head, odd=np.flatnonzero(is_odd))


def split_objects(data: bytes) -> tuple[pa.Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return all lines of ``data``, and the places of the plain and of the odd ones, however they begin."""
    whole, _, is_plain, is_blank = _cut(data)
    return whole, np.flatnonzero(is_plain & ~is_blank), np.flatnonzero(~is_plain & ~is_blank)


def _cut(data: bytes) -> tuple[pa.Array, npt.NDArray[np.int32], Mask, Mask]:
    """Return the lines, where they start, which have the plain form, and which are blank."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw == _NEWLINE)
    offsets = np.concatenate([[0], ends + 1]).astype(np.int32)
    whole = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    starts = offsets[:-1]
    is_plain = (raw[starts] == _OPEN) & _ends_well(raw, starts, ends)
    is_plain[_lines_with_doubt(raw, ends)] = False
    is_blank = _blank_lines(data, starts) if not is_plain.all() else ~is_plain
    if not _is_utf8(whole):
        is_plain[:] = False
    return whole, starts, is_plain, is_blank


def is_blank(data: bytes) -> bool:
    """Whether all lines of ``data`` are blank."""
    return data[:1] in (b"", b" ", b"\t", b"\r", b"\n") and not data.strip(_BLANK)


def text_of(lines: pa.Array) -> pa.Buffer:
    """Return the bytes of consecutive items of a line array without a copy."""
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def _ends_well(raw: npt.NDArray[np.uint8], starts: npt.NDArray[np.int32], ends: npt.NDArray[np.int64]) -> Mask:
    last = raw[np.maximum(ends - 1, starts)]
    before = raw[np.maximum(ends - 2, starts)]
    mask: Mask = (last == _CLOSE) | ((last == _RETURN) & (before == _CLOSE))
    return mask


def _lines_with_doubt(raw: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    is_close = raw == _CLOSE
    # Before the first byte comes the last one, which is a line break.
    last, before = (is_close.take(ends - back, mode="wrap") for back in (1, 2))
    if np.count_nonzero(is_close) == np.count_nonzero(last) + np.count_nonzero(last & before):
        # All of them are the last one or two bytes of their line.
        return np.empty(0, dtype=np.int64)
    closes = np.flatnonzero(is_close)
    after = raw[closes + 1]
    fine = _AFTER_CLOSE[after]
    returns = np.flatnonzero(after == _RETURN)
    fine[returns] = raw[np.minimum(closes[returns] + 2, len(raw) - 1)] == _NEWLINE
    return np.unique(np.searchsorted(ends, closes[~fine]))


def _blank_lines(data: bytes, starts: npt.NDArray[np.int32]) -> Mask:
    # A whole chunk at once, because millions of blank lines are a few kilobytes of a compressed file.
    has_text = np.frombuffer(data.translate(_TEXT), bool)
    mask: Mask = ~np.logical_or.reduceat(has_text, starts)
    return mask


def _is_utf8(lines: pa.Array) -> bool:
    try:
        lines.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _by_head(
    data: bytes, whole: pa.Array, starts: npt.NDArray[np.int32], is_plain: Mask
) -> tuple[tuple[Head, npt.NDArray[np.int64]], ...]:
    waiting = is_plain.copy()
    found: dict[tuple[bool, str], list[npt.NDArray[np.int64]]] = {}
    first, heads = 0, 0
    while heads < _MAX_HEADS and waiting[first:].any():
        first += int(waiting[first:].argmax())
        match = _HEAD.match(data, int(starts[first]))
        if match is None:
            waiting[first] = False
            continue
        heads += 1
        same = pc.starts_with(whole, pattern=match[0]).to_numpy(zero_copy_only=False) & waiting
        waiting &= ~same
        # Two spellings of one head come together here.
        found.setdefault((match[1] == b"edge", match[2].decode()), []).append(np.flatnonzero(same))
    return tuple(
        (Head(is_edge=is_edge, name=name), np.sort(np.concatenate(parts))) for (is_edge, name), parts in found.items()
    )
