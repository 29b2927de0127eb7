"""Hashes of ids: 64 bits of a text, the same on every machine and for ever.

A text is cut into words of eight bytes, read as little-endian numbers, the last one filled up with zeros. Each word is
mixed into the hash by an exclusive or, a multiplication and a shift; the length in bytes is where the hash begins.
Whoever knows the function can find texts with the same hash, so nobody may take equal hashes for equal texts.

The same function exists twice: for columns, word by word for all texts at once, and for a few texts, one by one, where
making arrays would take longer than hashing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

# Belongs to what is written below: another function, or another constant, needs another number.
REVISION = 1

_SEED = 0x9E3779B97F4A7C15
_MULTIPLIER = 0xD6E8FEB86659FD93
_FINISH = 0xFF51AFD7ED558CCD
_SHIFT = 32
_WORD = 8
_MASK = (1 << 64) - 1
# Up to so many texts one by one; of a column so many bytes at once, or so many texts.
_FEW = 24
# The rest of so few texts of a piece, which are longer than all others, is hashed one by one, too.
_LONG = 4
_PIECE_BYTES = 4 << 20
_PIECE_TEXTS = 1 << 16

# Which bytes of a word belong to a text of which so many are left.
_LEFT_MASKS = np.array([(1 << 8 * left) - 1 for left in range(_WORD)] + [_MASK], dtype=np.uint64)


def hash_text(text: str) -> int:
    """Return the hash of one text.

    >>> hex(hash_text("person-1")), hex(hash_text(""))
    ('0x5e968dcf2c02a78', '0x0')
    """
    data = text.encode("utf-8", "surrogatepass")
    found = _mix((len(data) * _SEED) & _MASK, data)
    found = (found * _FINISH) & _MASK
    return found ^ found >> _SHIFT


def _mix(found: int, data: bytes) -> int:
    for at in range(0, len(data), _WORD):
        found = ((found ^ int.from_bytes(data[at : at + _WORD], "little")) * _MULTIPLIER) & _MASK
        found ^= found >> _SHIFT
    return found


def hash_texts(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return the hash of every text of a column; memory is taken for a piece of it at a time."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    if len(texts) <= _FEW:
        return np.array([hash_text(text) for chunk in chunks for text in chunk.to_pylist()], dtype=np.uint64)
    found = np.empty(len(texts), dtype=np.uint64)
    at = 0
    for chunk in chunks:
        for piece in _pieces(chunk):
            found[at : at + len(piece)] = _hash_piece(piece)
            at += len(piece)
    return found


def _offsets(chunk: pa.Array) -> npt.NDArray[np.int64]:
    width = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
    stored = np.frombuffer(chunk.buffers()[1], dtype=width)
    return stored[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)


def _pieces(chunk: pa.Array) -> Iterator[pa.Array]:
    start = 0
    offsets = _offsets(chunk) if len(chunk) else np.zeros(1, dtype=np.int64)
    while start < len(chunk):
        stop = int(np.searchsorted(offsets, offsets[start] + _PIECE_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), start + _PIECE_TEXTS, len(chunk))
        yield chunk.slice(start, stop - start)
        start = stop


def _hash_piece(piece: pa.Array) -> Hashes:
    offsets = _offsets(piece)
    base, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    found = lengths.astype(np.uint64) * np.uint64(_SEED)
    size = int(offsets[-1] - offsets[0])
    if size:
        # Filled up, so that the last word of the last text can be read whole.
        data = np.zeros(size + _WORD, dtype=np.uint8)
        data[:size] = np.frombuffer(piece.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
        words: Hashes = np.ndarray(shape=(size + 1,), dtype="<u8", buffer=data.data, strides=(1,))
        active = np.flatnonzero(lengths)
        done = 0
        while len(active) > _LONG:
            left = lengths[active] - done
            word = words[base[active] + done] & _LEFT_MASKS[np.minimum(left, _WORD)]
            mixed = (found[active] ^ word) * np.uint64(_MULTIPLIER)
            found[active] = mixed ^ (mixed >> np.uint64(_SHIFT))
            active = active[left > _WORD]
            done += _WORD
        for at in active.tolist():
            rest = data[base[at] + done : base[at] + lengths[at]].tobytes()
            found[at] = _mix(int(found[at]), rest)
    found *= np.uint64(_FINISH)
    return found ^ (found >> np.uint64(_SHIFT))
