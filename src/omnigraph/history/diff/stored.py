"""Differences of many rows: found column by column, and left in storage until somebody wants to see a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.diff.equality import columns_equal
from omnigraph.history.diff.selection import Addresses, Selection
from omnigraph.runtime import Counters
from omnigraph.store.table import KEY, ROW_ADDRESS

Check = Callable[[int], None]
Places = npt.NDArray[np.int64]

_SLICE_ROWS, _BLOB_ROWS = 2048, 64
_NONE: Addresses = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredRows:
    """Rows of one version, known by id and address, ids ascending."""

    selection: Selection | None
    ids: pa.ChunkedArray
    addresses: Addresses

    @property
    def size_bytes(self) -> int:
        """What is in memory of them."""
        return int(self.ids.nbytes + self.addresses.nbytes)

    @property
    def slice_rows(self) -> int:
        """How many of them are best taken at once: a call for each slice, and all of it in memory."""
        return _BLOB_ROWS if self.selection is not None and self.selection.table.blobs else _SLICE_ROWS

    def take(self, places: Places, counters: Counters) -> pa.Table:
        """Read the rows at these places, which ascend; they come by id."""
        if self.selection is None:
            return pa.table({KEY: pa.array([], pa.string())})
        chosen = self.selection.only(self.addresses[places])
        rows = chosen.read(self.selection.table.schema.names, counters)
        return rows.take(pc.sort_indices(rows.column(KEY))) if rows.num_rows > 1 else rows

    def read_all(self, counters: Counters) -> pa.Table:
        """Read all of the rows, by id."""
        return self.take(np.arange(len(self.addresses)), counters)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredDelta:
    """Which rows of two versions differ; ``before`` and ``after`` are the same ids."""

    inserted: StoredRows
    deleted: StoredRows
    before: StoredRows
    after: StoredRows


def find_stored_delta(lost: Selection | None, gained: Selection | None, counters: Counters, told: Check) -> StoredDelta:
    """Return how two selections differ.

    One column is compared at a time, so that memory holds the ids and one column of both sides, never whole tables.
    """
    old, new = _keys(lost, counters), _keys(gained, counters)
    held = old.nbytes + new.nbytes
    told(held)
    places = places_of(old.column(KEY), new.column(KEY))
    is_kept = places >= 0
    partners = places[is_kept]
    is_other = np.zeros(len(partners), dtype=np.bool_)
    if lost is not None and gained is not None and len(partners):
        kept, taken = pa.array(is_kept), pa.array(partners)
        for name in lost.table.schema.names:
            if name != KEY:
                was, will = (side.read((name,), counters).column(0) for side in (lost, gained))
                told(held + was.nbytes + will.nbytes)
                is_other |= ~columns_equal(was.filter(kept), will.take(taken))
    return StoredDelta(
        inserted=_rows(gained, new, np.flatnonzero(is_unnamed(places, new.num_rows))),
        deleted=_rows(lost, old, np.flatnonzero(~is_kept)),
        before=_rows(lost, old, np.flatnonzero(is_kept)[is_other]),
        after=_rows(gained, new, partners[is_other]),
    )


def places_of(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Places:
    """Return where each id of ``old`` stands in ``new``, -1 for those that do not."""
    whole = new.chunk(0) if new.num_chunks == 1 else pa.concat_arrays([pa.array([], new.type), *new.chunks])
    found = pc.index_in(old, value_set=whole)
    places: Places = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return places


def is_unnamed(places: Places, count: int) -> npt.NDArray[np.bool_]:
    """Return which of ``count`` rows no place names."""
    mask = np.ones(count, dtype=np.bool_)
    mask[places[places >= 0]] = False
    return mask


def _keys(side: Selection | None, counters: Counters) -> pa.Table:
    if side is None:
        return pa.table({KEY: pa.array([], pa.string()), ROW_ADDRESS: pa.array([], pa.uint64())})
    return side.read((KEY, ROW_ADDRESS), counters)


def _rows(side: Selection | None, keys: pa.Table, places: Places) -> StoredRows:
    chosen = keys.take(pa.array(places))
    chosen = chosen.take(pc.sort_indices(chosen.column(KEY)))
    addresses: Addresses = chosen.column(ROW_ADDRESS).to_numpy() if len(places) else _NONE
    return StoredRows(selection=side, ids=chosen.column(KEY), addresses=addresses)
