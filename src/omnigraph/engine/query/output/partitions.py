"""Tables cut by their keys: rows with equal keys stay together, so that each part can be grouped for itself.

One call that groups millions of rows can neither be stopped nor told how much memory its hash table may take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# So many rows are grouped or sorted in one call, some hundredths of a second.
PIECE_ROWS = 1 << 18

_MOST_PARTS = 256
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
# Texts that differ mostly do so near their end.
_TEXT_BYTES = 8

Hashes = npt.NDArray[np.uint64]


def parts_by_key(rows: pa.Table, keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield all rows in parts of about :data:`PIECE_ROWS`; no two parts have a key in common.

    Rows of one part keep their order. A table that is small enough is one part.
    """
    if rows.num_rows <= PIECE_ROWS:
        yield rows
        return
    part_count = min(_MOST_PARTS, 2 * -(-rows.num_rows // PIECE_ROWS))
    parts: list[list[pa.Table]] = [[] for _ in range(part_count)]
    for start in range(0, rows.num_rows, PIECE_ROWS):
        piece = rows.slice(start, PIECE_ROWS).combine_chunks()
        places = (_hash_rows(piece, keys) % np.uint64(part_count)).astype(np.uint8)
        taken = piece.take(pa.array(np.argsort(places, kind="stable")))
        bounds = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=part_count))]).tolist()
        for part, low, high in zip(parts, bounds, bounds[1:], strict=False):
            if high > low:
                part.append(taken.slice(low, high - low))
    for part in parts:
        if part:
            yield pa.concat_tables(part)


def _hash_rows(rows: pa.Table, keys: Sequence[str]) -> Hashes:
    total = np.zeros(rows.num_rows, dtype=np.uint64)
    for key in keys:
        for_key = [_hash_values(chunk) for chunk in rows.column(key).chunks]
        total = _mixed(total + np.concatenate(for_key))
    return total


def _hash_values(values: pa.Array) -> Hashes:
    """Return numbers that are equal for equal values, and one number for NULL."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        hashes = _hash_texts(values)
    else:
        plain = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values
        numbers = pc.fill_null(plain, 0).to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "f":
            numbers = np.where(np.isnan(numbers), np.nan, numbers).astype(np.float64).view(np.uint64)
        hashes = numbers.astype(np.uint64)
    if values.null_count:
        hashes[np.asarray(values.is_null())] = 0
    return _mixed(hashes)


def _hash_texts(values: pa.Array) -> Hashes:
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"\0", dtype=np.uint8)
    lengths, ends = np.diff(offsets), offsets[1:]
    hashes = lengths.astype(np.uint64)
    for back in range(1, _TEXT_BYTES + 1):
        is_there = lengths >= back
        letters = data[np.where(is_there, ends - back, 0)]
        hashes = (hashes << np.uint64(8)) ^ np.where(is_there, letters, 0).astype(np.uint64) ^ (hashes >> np.uint64(56))
    return hashes


def _mixed(hashes: Hashes) -> Hashes:
    spread = hashes * _MULTIPLIER
    return spread ^ (spread >> _HALF)
