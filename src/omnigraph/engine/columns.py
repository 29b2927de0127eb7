"""Columns in memory, in one piece or in several: values at some places of them, and what they take."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate
from operator import le

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError

# Measuring a part of something exactly takes longer than making so few bytes.
_SMALL_BYTES = 1 << 16
_FEW_CHUNKS = 8
_TAKE = pc.get_function("array_take")


def take_from(array: pa.Array, indices: pa.Array) -> pa.Array:
    """Return the values at some places, as ``array.take`` does, without first asking what kinds of things these are."""
    return _TAKE.call([array, indices])


def take_scattered(
    column: pa.ChunkedArray,
    places: npt.NDArray[np.int64],
    take: Callable[[pa.Array, npt.NDArray[np.int64]], pa.Array],
) -> pa.Array:
    """Take the values at a few places from the chunks that they are in, with ``take``, which takes from one array.

    >>> pieces = pa.chunked_array([["a", "b"], ["c"]])
    >>> take_scattered(pieces, np.array([2, 0]), lambda array, places: array.take(pa.array(places))).to_pylist()
    ['c', 'a']
    """
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if is_number and column.num_chunks <= _FEW_CHUNKS and not column.null_count:
        return _numbers_at(column, places)
    starts = [0, *accumulate(map(len, column.iterchunks()))]
    # Edges of one node mostly come in the order of the table, so that few runs of them lie in one chunk each.
    listed = places.tolist()
    order = None if all(map(le, listed, listed[1:])) else np.argsort(places, kind="stable")
    if order is not None:
        places = places[order]
        listed = places.tolist()
    parts: list[pa.Array] = []
    at = 0
    while at < len(listed) or not parts:
        chunk = bisect_right(starts, listed[at]) - 1 if listed else 0
        stop = bisect_left(listed, starts[chunk + 1], at)
        parts.append(take(column.chunk(chunk), places[at:stop] - starts[chunk]))
        at = stop
    found = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    if order is None:
        return found
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return take_from(found, pa.array(back))


def _numbers_at(column: pa.ChunkedArray, places: npt.NDArray[np.int64]) -> pa.Array:
    """Take numbers, none of them NULL, from a few chunks; a pass over all places for each costs less than sorting."""
    found = np.empty(len(places), dtype=column.type.to_pandas_dtype())
    start = taken = 0
    for chunk in column.iterchunks():
        is_here = (places >= start) & (places < start + len(chunk))
        found[is_here] = chunk.to_numpy(zero_copy_only=True)[places[is_here] - start]
        taken += int(np.count_nonzero(is_here))
        start += len(chunk)
    if taken < len(places):
        raise InternalError(f"a column of {start} rows was asked for a row that it does not have")
    return pa.array(found, column.type)


def held_bytes(values: pa.Array | pa.RecordBatch) -> int:
    """Return what values take in memory; a part of something small counts as the whole of it, which is told at once.

    >>> held_bytes(pa.array([1, 2, 3]).slice(0, 1))
    24
    """
    whole: int = values.get_total_buffer_size()
    return whole if whole <= _SMALL_BYTES else values.nbytes


def taken_bytes(column: pa.Array, places: npt.NDArray[np.int64]) -> int:
    """Return what the values at these places would take in memory, without taking them.

    Exact for texts and numbers; of nested values the elements count with their mean size.

    >>> taken_bytes(pa.array(["a" * 1000, ""]), np.array([0, 0, 1]))
    2012
    """
    kind, count = column.type, len(places)
    if not count or not len(column):
        return 0
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind):
        offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
        elements = int((offsets[places + 1].astype(np.int64) - offsets[places]).sum())
        each = 1.0 if not pa.types.is_list(kind) else column.values.nbytes / max(1, len(column.values))
        return offsets.itemsize * count + int(elements * each)
    return int(column.nbytes / len(column) * count)
