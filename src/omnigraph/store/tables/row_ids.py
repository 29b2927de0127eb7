"""The stable row ids of fragments, read from a version's own description, and the addresses of their rows.

Rows that were written together have ids in one run, which Lance describes by its ends: listing them through Lance takes
ten times as long as counting.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from lance.fragment import FragmentMetadata, RowIdSequence

from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.store.protobuf import read_fields
from omnigraph.store.tables.pins import FragmentRef, data_paths

RowIds = npt.NDArray[np.uint64]
# A row id that no row has.
NO_ROW = np.uint64(2**64 - 1)

# The numbers of Lance's fields: a sequence's segments, a segment that is a range, and its ends.
_SEGMENT, _RANGE, _START, _END = 1, 1, 1, 2
# A description of a few ranges is no longer than this.
_SHORT_BYTES = 256
ADDRESS_BITS = 32
_CACHE_BYTES = 32 << 20


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

    def one_at(self, offset: int) -> int:
        """Return the row id at one offset, without the arrays that many of them are worth."""
        if offset >= self.count:
            raise InternalError(f"a fragment of {self.count} rows was asked for row {offset}")
        run = 0 if len(self.places) == 1 else int(self.places.searchsorted(offset, side="right")) - 1
        return int(self.firsts[run]) + offset - int(self.places[run])


# Lists are made once per fragment. Files that are listed anew after they had left could come with other row ids.
_runs: LRUCache[tuple[str, ...], RowIdRuns] = LRUCache(
    max_size=_CACHE_BYTES, size_of=lambda runs: 256 + runs.places.nbytes + runs.firsts.nbytes
)


def has_row_ids(metadata: FragmentMetadata) -> bool:
    """Whether a fragment lists its row ids itself."""
    return row_id_sequence(metadata) is not None


def row_ids_at(metadata: FragmentMetadata, offsets: npt.NDArray[Any]) -> RowIds:
    """Return the stable row ids of the rows at these offsets of a fragment that lists its row ids."""
    found = find_row_ids(metadata, offsets)
    if found is None:
        raise InternalError("a fragment without inline row ids was taken for a small one")
    return found


def find_row_ids(metadata: FragmentMetadata, offsets: npt.NDArray[Any]) -> RowIds | None:
    """Return the stable row ids of the rows at these offsets of a fragment; None when it does not list them itself."""
    found = _runs_of(metadata, data_paths(metadata))
    return None if found is None else found.at(offsets)


def find_row_id(fragment: FragmentRef, offset: int) -> int | None:
    """Return the stable row id of one row of a fragment; None when the fragment does not list them itself."""
    found = _runs_of(fragment.metadata, fragment.files)
    return None if found is None else found.one_at(offset)


def _runs_of(metadata: FragmentMetadata, files: tuple[str, ...]) -> RowIdRuns | None:
    found = _runs.get(files)
    if found is None or (found.meta is not metadata.row_id_meta and found.meta != metadata.row_id_meta):
        found = _read_runs(metadata)
        if found is not None:
            _runs.put(files, found)
    return found


def addresses_at(metadata: FragmentMetadata, offsets: npt.NDArray[Any]) -> RowIds:
    """Return the row addresses of the rows at these offsets of a fragment."""
    return (np.uint64(metadata.id) << np.uint64(ADDRESS_BITS)) | offsets.astype(np.uint64)


def _read_runs(metadata: FragmentMetadata) -> RowIdRuns | None:
    meta, count = metadata.row_id_meta, metadata.physical_rows
    first = row_id_run(metadata)
    if first is not None:
        places, firsts = np.zeros(1, dtype=np.int64), np.array([first], dtype=np.uint64)
        return RowIdRuns(meta=meta, places=places, firsts=firsts, count=count)
    row_ids = physical_row_ids(metadata)
    if row_ids is None:
        return None
    # Unsigned numbers wrap, so that a step down is never taken for a step up by one.
    breaks = np.flatnonzero(np.diff(row_ids) != 1) + 1
    places = np.concatenate([np.zeros(1, dtype=np.int64), breaks])
    firsts = row_ids[places] if len(row_ids) else np.zeros(1, dtype=np.uint64)
    return RowIdRuns(meta=meta, places=places, firsts=firsts, count=len(row_ids))
