"""Columns of tables as single arrays, and what taking rows of them costs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; its chunks are copied only if there are several."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


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
