"""When two rows are the same: typed and structural, floats by their bits, blobs by their bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import one_array
from omnigraph.errors import InternalError

Mask = npt.NDArray[np.bool_]

# Types that are compared as the integers they are stored as, so that 0.0 and -0.0 differ and a NaN equals itself.
_AS_BITS = {
    pa.float32(): pa.int32(),
    pa.float64(): pa.int64(),
    pa.date32(): pa.int32(),
    pa.date64(): pa.int64(),
}


def rows_equal(before: pa.Table, after: pa.Table) -> Mask:
    """Return for each position whether both tables hold the same row there; columns are paired by name.

    Raises:
        InternalError: the tables have other columns, types or numbers of rows.
    """
    if set(before.column_names) != set(after.column_names) or before.num_rows != after.num_rows:
        raise InternalError(
            f"cannot compare rows of different shape: before={before.num_rows}x{before.column_names}"
            f" after={after.num_rows}x{after.column_names}"
        )
    is_equal = np.ones(before.num_rows, dtype=np.bool_)
    for name in before.column_names:
        is_equal &= columns_equal(before.column(name), after.column(name))
    return is_equal


def columns_equal(before: pa.ChunkedArray, after: pa.ChunkedArray) -> Mask:
    """Return for each position whether both columns hold the same value there; null equals null and nothing else."""
    if before.type != after.type:
        raise InternalError(f"cannot compare columns of types {before.type} and {after.type}")
    if not len(before):
        return np.ones(0, dtype=np.bool_)
    parts = []
    start = 0
    # Chunks are paired by their bounds: joining them first could pass what one array of texts can hold.
    for length in _common_lengths(before, after):
        parts.append(_arrays_equal(one_array(before.slice(start, length)), one_array(after.slice(start, length))))
        start += length
    return np.concatenate(parts)


def _common_lengths(before: pa.ChunkedArray, after: pa.ChunkedArray) -> list[int]:
    ends = {int(end) for side in (before, after) for end in np.cumsum([len(chunk) for chunk in side.chunks])}
    return [length for length in np.diff([0, *sorted(ends)]).tolist() if length]


def _arrays_equal(before: pa.Array, after: pa.Array) -> Mask:
    is_old, is_new = _validity(before), _validity(after)
    is_equal: Mask = np.equal(is_old, is_new)
    is_both = is_old & is_new
    if is_both.any():
        chosen = None if is_both.all() else pa.array(is_both)
        old = before if chosen is None else before.filter(chosen)
        new = after if chosen is None else after.filter(chosen)
        is_equal[is_both] = _values_equal(old, new)
    return is_equal


def _values_equal(before: pa.Array, after: pa.Array) -> Mask:
    """Compare arrays without a null at the top."""
    kind = before.type
    if pa.types.is_fixed_size_list(kind):
        if not kind.list_size:
            return np.ones(len(before), dtype=np.bool_)
        elements: Mask = _arrays_equal(before.flatten(), after.flatten())
        return np.asarray(elements.reshape(len(before), kind.list_size).all(axis=1), dtype=np.bool_)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists_equal(before, after)
    bits = _AS_BITS.get(kind)
    if bits is not None:
        before, after = before.view(bits), after.view(bits)
    return _as_mask(pc.equal(before, after))


def _lists_equal(before: pa.Array, after: pa.Array) -> Mask:
    old_lengths, new_lengths = _numbers(pc.list_value_length(before)), _numbers(pc.list_value_length(after))
    is_equal: Mask = old_lengths == new_lengths
    # Empty lists of equal length are equal already, and the sums below need at least one element each.
    is_open = is_equal & (old_lengths > 0)
    if is_open.any():
        chosen = pa.array(is_open)
        elements = _arrays_equal(before.filter(chosen).flatten(), after.filter(chosen).flatten())
        starts = np.concatenate([[0], np.cumsum(old_lengths[is_open])[:-1]])
        is_equal[is_open] = np.logical_and.reduceat(elements, starts)
    return is_equal


def _validity(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.ones(len(array), dtype=np.bool_)
    return _as_mask(array.is_valid())


def _as_mask(array: pa.Array) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


def _numbers(array: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
