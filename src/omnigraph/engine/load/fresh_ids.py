"""ULIDs for many rows at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.runtime.ids import IdSource
from omnigraph.values import Ulid

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
_LENGTH = 26
_HALF_BITS = 40
_HALF_CHARS = 8


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
    entropy = first.entropy
    low = (entropy & ((1 << _HALF_BITS) - 1)) + np.arange(count, dtype=np.uint64)
    high = (entropy >> _HALF_BITS) + (low >> np.uint64(_HALF_BITS))
    text = np.empty((count, _LENGTH), dtype=np.uint8)
    text[:, :10] = np.frombuffer(first[:10].encode(), np.uint8)
    text[:, 10:18] = _digits(high)
    text[:, 18:] = _digits(low)
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))


def _digits(half: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    digits = np.empty((len(half), _HALF_CHARS), dtype=np.uint8)
    for at in range(_HALF_CHARS):
        shift = np.uint64(5 * (_HALF_CHARS - 1 - at))
        digits[:, at] = _ALPHABET[(half >> shift) & np.uint64(31)]
    return digits
