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
_PAIR_MASK = (1 << _PAIR_BITS) - 1


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
    texts = np.empty((count, _LENGTH // 2), dtype=np.uint16)
    done = 0
    while done < count:
        # As far as nothing is carried into the upper bits.
        upper, start = divmod(first.number + done, 1 << 2 * _PAIR_BITS)
        low = np.arange(start, min(start + count - done, 1 << 2 * _PAIR_BITS))
        part = texts[done : done + len(low)]
        part[:, :-2] = _upper_pairs(upper)
        part[:, -2] = _PAIRS[low >> _PAIR_BITS]
        part[:, -1] = _PAIRS[low & _PAIR_MASK]
        done += len(low)
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))


def _upper_pairs(number: int) -> npt.NDArray[np.uint16]:
    shifts = range(_PAIR_BITS * (_LENGTH // 2 - 3), -1, -_PAIR_BITS)
    return _PAIRS[[number >> shift & _PAIR_MASK for shift in shifts]]
