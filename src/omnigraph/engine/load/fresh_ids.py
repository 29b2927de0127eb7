"""ULIDs for many rows at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.runtime.ids import IdSource
from omnigraph.values import Ulid

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
# Both characters of ten bits, as they lie in memory.
_PAIRS = np.stack([_ALPHABET.repeat(32), np.tile(_ALPHABET, 32)], axis=1).view(np.uint16)[:, 0]
_LENGTH = 26
_PAIR_BITS = 10
_LOW_BITS = 40
_LOW_PAIRS = 4


def fill_ids(ids: pa.Array, source: IdSource) -> pa.Array:
    """Return ``ids`` with a fresh ULID in the place of every null."""
    if not ids.null_count:
        return ids
    fresh = ulid_array(source.reserve(ids.null_count), ids.null_count)
    return fresh if ids.null_count == len(ids) else pc.replace_with_mask(ids, ids.is_null(), fresh)


def ulid_array(first: Ulid, count: int) -> pa.Array:
    """Return the texts of ``count`` consecutive ULIDs.

    >>> ulid_array(Ulid("01ARZ3NDEKTSV4RRFFQ69G5FAZ"), 2).to_pylist()
    ['01ARZ3NDEKTSV4RRFFQ69G5FAZ', '01ARZ3NDEKTSV4RRFFQ69G5FB0']
    """
    upper, start = divmod(first.number, 1 << _LOW_BITS)
    low = np.uint64(start) + np.arange(count, dtype=np.uint64)
    texts = np.empty((count, _LENGTH // 2), dtype=np.uint16)
    for at in range(1, _LOW_PAIRS + 1):
        texts[:, -at] = _PAIRS[low & np.uint64((1 << _PAIR_BITS) - 1)]
        low >>= np.uint64(_PAIR_BITS)
    # The lower bits are more than any count, so they are carried into the upper ones at most once.
    until_carry = (1 << _LOW_BITS) - start
    texts[:until_carry, :-_LOW_PAIRS] = _upper_pairs(upper)
    texts[until_carry:, :-_LOW_PAIRS] = _upper_pairs(upper + 1)
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))


def _upper_pairs(number: int) -> npt.NDArray[np.uint16]:
    shifts = range(_PAIR_BITS * (_LENGTH // 2 - _LOW_PAIRS - 1), -1, -_PAIR_BITS)
    return _PAIRS[[number >> shift & ((1 << _PAIR_BITS) - 1) for shift in shifts]]
