"""The stable row ids of fragments, read from a version's own description.

Rows that were written together have ids in one run, which Lance describes by its ends: listing them through Lance takes
ten times as long as counting.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from lance.fragment import FragmentMetadata, RowIdSequence

from omnigraph.store.protobuf import read_fields

RowIds = npt.NDArray[np.uint64]

# The numbers of Lance's fields: a sequence's segments, a segment that is a range, and its ends.
_SEGMENT, _RANGE, _START, _END = 1, 1, 1, 2
# A description of a few ranges is no longer than this.
_SHORT_BYTES = 256


def row_id_run(metadata: FragmentMetadata) -> int | None:
    """Return the first row id of a fragment whose rows have ids in one run; None when they have not."""
    meta = metadata.row_id_meta
    raw = None if meta is None else next(iter(cast("Any", meta).asdict().values()))
    if not isinstance(raw, list) or len(raw) > _SHORT_BYTES:
        return None
    segments = [value for number, value in read_fields(bytes(raw)) if number == _SEGMENT]
    if len(segments) != 1 or not isinstance(segments[0], bytes):
        return None
    ((number, ends),) = list(read_fields(segments[0])) or [(0, b"")]
    if number != _RANGE or not isinstance(ends, bytes):
        return None
    bounds = {name: value for name, value in read_fields(ends) if isinstance(value, int)}
    start, end = bounds.get(_START, 0), bounds.get(_END, 0)
    return start if end - start == metadata.physical_rows else None


def physical_row_ids(metadata: FragmentMetadata) -> RowIds | None:
    """Return the row ids of a fragment's rows in stored order, deleted ones too; None when only a scan can tell."""
    first = row_id_run(metadata)
    if first is not None:
        return np.arange(first, first + metadata.physical_rows, dtype=np.uint64)
    sequence = row_id_sequence(metadata)
    if sequence is None:
        return None
    listed: RowIds = sequence.to_pyarrow().to_numpy(zero_copy_only=False)
    return listed


def row_id_sequence(metadata: FragmentMetadata) -> RowIdSequence | None:
    """Return the row ids of a fragment, packed; None when they live in a file of their own."""
    if metadata.row_id_meta is None:
        return None
    try:
        return RowIdSequence.from_inline_metadata(metadata.row_id_meta)
    except (ValueError, OSError, NotImplementedError):
        # Very long sequences live in a file of their own.
        return None
