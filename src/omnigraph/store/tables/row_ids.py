"""The stable row ids and the addresses of the rows of a fragment.

Storage writes the row ids of a fragment as a sequence, most often one range. A range is counted, never listed; any
other sequence is listed once and kept as runs of numbers that follow each other.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
from lance.fragment import FragmentMetadata, RowIdSequence

from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.protobuf import read_fields
from omnigraph.store.tables.pins import data_paths

RowIds = npt.NDArray[np.uint64]

ADDRESS_BITS = 32
_CACHE_BYTES = 32 << 20
# Longer texts hold no single range.
_RANGE_CHARACTERS = 128
# The numbers of Lance's fields: a sequence's segments, a segment that is a range, and its two ends.
_SEGMENT, _RANGE, _START, _END = 1, 1, 1, 2


@record
class RowIdRuns:
    """Row ids as runs: from the place ``places[k]`` on they count up from ``firsts[k]``, ``count`` in all."""

    meta: Any
    places: npt.NDArray[np.int64]
    firsts: RowIds
    count: int

    def at(self, offsets: npt.NDArray[Any]) -> RowIds:
        """Return the row ids at these offsets."""
        plain = offsets.astype(np.int64)
        if len(plain) and int(plain.max()) >= self.count:
            raise InternalError(f"a fragment of {self.count} rows was asked for row {int(plain.max())}")
        if len(self.places) == 1:
            # No search: most fragments have one run.
            runs = np.zeros(len(plain), dtype=np.intp)
        else:
            runs = np.searchsorted(self.places, plain, side="right") - 1
        found: RowIds = self.firsts[runs] + (plain - self.places[runs]).view(np.uint64)
        return found


# Lists are made once per fragment. Files that are listed anew after they had left could come with other row ids.
_runs: LRUCache[tuple[str, ...], RowIdRuns] = LRUCache(
    max_size=_CACHE_BYTES, size_of=lambda runs: 256 + runs.places.nbytes + runs.firsts.nbytes
)


def has_row_ids(metadata: FragmentMetadata) -> bool:
    """Whether a fragment lists its row ids itself; very long sequences live in a file of their own."""
    return _sequence(metadata) is not None


def row_ids_at(metadata: FragmentMetadata, offsets: npt.NDArray[Any]) -> RowIds:
    """Return the stable row ids of the rows at these offsets of a fragment that lists its row ids."""
    found = find_row_ids(metadata, offsets)
    if found is None:
        raise InternalError("a fragment without inline row ids was taken for a small one")
    return found


def find_row_ids(metadata: FragmentMetadata, offsets: npt.NDArray[Any]) -> RowIds | None:
    """Return the stable row ids of the rows at these offsets of a fragment; None when it does not list them itself."""
    files = data_paths(metadata)
    found = _runs.get(files)
    if found is None or found.meta != metadata.row_id_meta:
        found = _read_runs(metadata)
        if found is None:
            return None
        _runs.put(files, found)
    return found.at(offsets)


def addresses_at(metadata: FragmentMetadata, offsets: npt.NDArray[Any]) -> RowIds:
    """Return the row addresses of the rows at these offsets of a fragment."""
    return (np.uint64(metadata.id) << np.uint64(ADDRESS_BITS)) | offsets.astype(np.uint64)


def _read_runs(metadata: FragmentMetadata) -> RowIdRuns | None:
    meta = metadata.row_id_meta
    bounds = _single_range(meta)
    if bounds is not None:
        start, stop = bounds
        places, firsts = np.zeros(1, dtype=np.int64), np.array([start], dtype=np.uint64)
        return RowIdRuns(meta=meta, places=places, firsts=firsts, count=stop - start)
    sequence = _sequence(metadata)
    if sequence is None:
        return None
    row_ids: RowIds = sequence.to_pyarrow().to_numpy(zero_copy_only=False)
    # Unsigned numbers wrap, so that a step down is never taken for a step up by one.
    breaks = np.flatnonzero(np.diff(row_ids) != 1) + 1
    places = np.concatenate([np.zeros(1, dtype=np.int64), breaks])
    firsts = row_ids[places] if len(row_ids) else np.zeros(1, dtype=np.uint64)
    return RowIdRuns(meta=meta, places=places, firsts=firsts, count=len(row_ids))


def _sequence(metadata: FragmentMetadata) -> RowIdSequence | None:
    """Return the row ids of a fragment, packed: to list them takes time that only a hit is worth."""
    if metadata.row_id_meta is None:
        return None
    try:
        return RowIdSequence.from_inline_metadata(metadata.row_id_meta)
    except (ValueError, OSError, NotImplementedError):
        return None


def _single_range(meta: Any) -> tuple[int, int] | None:
    """Return the ends of a sequence that is one range; None when it is anything else."""
    text = "" if meta is None else meta.json()
    if not text or len(text) > _RANGE_CHARACTERS:
        return None
    match json.loads(text):
        case {"Inline": list(raw)} | {"inline": list(raw)}:
            segments = list(read_fields(bytes(raw)))
        case _:
            return None
    if len(segments) != 1 or segments[0][0] != _SEGMENT or not isinstance(segments[0][1], bytes):
        return None
    parts = list(read_fields(segments[0][1]))
    if len(parts) != 1 or parts[0][0] != _RANGE or not isinstance(parts[0][1], bytes):
        return None
    ends = dict(read_fields(parts[0][1]))
    start, stop = ends.pop(_START, 0), ends.pop(_END, 0)
    if ends or not isinstance(start, int) or not isinstance(stop, int) or stop <= start:
        return None
    return start, stop
