"""Which rows of two versions of a table can differ, told by their files and deletions alone.

A data file never changes, and neither does a deletion file. What both versions list under the same files and the
same deletions is equal without being read; where only deletions differ, so do only the rows they name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.records import record
from omnigraph.store.tables.lookup import filter_stream
from omnigraph.store.tables.pinned import ROW_ADDRESS, ROW_ID
from omnigraph.store.tables.pins import FragmentRef
from omnigraph.store.tables.row_ids import addresses_at
from omnigraph.store.tables.row_versions import read_deletions
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.tail import BlockKey

Offsets = npt.NDArray[np.uint32]
Addresses = npt.NDArray[np.uint64]

# Beyond this, listing rows to storage costs more than reading the fragments they stand in.
_LISTED_ROWS = 10_000
_ADDRESS_BITS = 32
_LOW_HALF = 0xFFFFFFFF
# Addresses alone are small; many at a time keep the scan from being all overhead.
_BATCH_ROWS = 1 << 18
# A row with blobs may be large.
_BLOB_ROWS = 64
# Storage is read faster than rows are sorted, and what is not taken yet waits in memory.
_READ_AHEAD = 64 << 20
_NONE: Offsets = np.zeros(0, dtype=np.uint32)
_NO_ADDRESSES: Addresses = np.zeros(0, dtype=np.uint64)


@record(eq=False)
class Selection:
    """Rows of one version: all of some fragments, and single rows of others.

    Args:
        table: the version.
        whole: fragments that are selected with all their live rows.
        picked: row addresses of the single rows, ascending.
    """

    table: Table
    whole: tuple[FragmentRef, ...]
    picked: Addresses

    @property
    def row_count(self) -> int:
        """How many rows are selected."""
        return sum(fragment.row_count for fragment in self.whole) + len(self.picked)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return columns of the selected rows, in stored order within each of the two kinds."""
        schema = _schema_of(self.table, columns)
        parts = [schema.empty_table()]
        if self.whole:
            ids = [fragment.metadata.id for fragment in self.whole]
            parts.append(self.table.read(columns, fragment_ids=ids))
        if len(self.picked):
            parts.append(self._read_picked(columns))
        return pa.concat_tables([part.select(list(columns)).cast(schema) for part in parts])

    def stream(self, columns: Sequence[str], *, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield columns of the selected rows batch by batch, in no order; memory holds one batch."""
        size = batch_rows or (_BLOB_ROWS if self.table.blobs.intersection(columns) else None)
        names = list(columns)
        if self.whole:
            ids = [fragment.metadata.id for fragment in self.whole]
            yield from self.table.scan(names, fragment_ids=ids, batch_size=size, read_ahead_bytes=_READ_AHEAD)
        if not len(self.picked):
            return
        owners = np.unique(self.picked >> np.uint64(_ADDRESS_BITS)).tolist()
        asked = list(dict.fromkeys((*names, ROW_ADDRESS)))
        for batch in self.table.scan(asked, fragment_ids=owners, batch_size=size, read_ahead_bytes=_READ_AHEAD):
            addresses = batch.column(asked.index(ROW_ADDRESS)).to_numpy()
            places = np.minimum(np.searchsorted(self.picked, addresses), len(self.picked) - 1)
            found = batch.filter(pa.array(self.picked[places] == addresses))
            if found.num_rows:
                yield found.select(names)

    def only(self, addresses: Addresses) -> Selection:
        """Return the selection of single rows, given by address."""
        return Selection(table=self.table, whole=(), picked=np.sort(addresses))

    def _read_picked(self, columns: Sequence[str]) -> pa.Table:
        known = _from_memory(self.table, self.picked, columns)
        if known is not None:
            return known
        owners = np.unique(self.picked >> np.uint64(_ADDRESS_BITS)).tolist()
        if len(self.picked) <= _LISTED_ROWS:
            listed = f"{ROW_ADDRESS} IN ({', '.join(map(str, self.picked.tolist()))})"
            return self.table.read(columns, listed, fragment_ids=owners)
        names = list(dict.fromkeys((*columns, ROW_ADDRESS)))
        wanted = pa.array(self.picked)
        found = filter_stream(
            self.table.scan(names, fragment_ids=owners),
            lambda rows: pc.is_in(rows.column(ROW_ADDRESS), value_set=wanted),
            wanted_count=len(wanted),
        )
        return found.select(list(columns))


@record(eq=False)
class FragmentPair:
    """Where two versions can differ: one fragment with other deletions in each, or one that only one of them has."""

    before: FragmentRef | None
    after: FragmentRef | None

    @property
    def row_count(self) -> int:
        """About how many rows of it differ; deletion files would tell."""
        old, new = (0 if one is None else one.row_count for one in (self.before, self.after))
        return max(abs(old - new), 1)

    @property
    def ids(self) -> tuple[int | None, int | None]:
        """The numbers of the fragments."""
        old, new = (None if one is None else one.metadata.id for one in (self.before, self.after))
        return old, new


def select_differing(before: Table | None, after: Table | None) -> tuple[Selection | None, Selection | None]:
    """Return the rows of each version that the other one does not share; all rows when there is no other."""
    return select_pairs(before, after, differing_fragments(before, after))


def differing_fragments(before: Table | None, after: Table | None) -> list[FragmentPair]:
    """Return where two versions can differ, told by the lists of their files; no call is made."""
    if before is None or after is None:
        lost = [FragmentPair(before=item, after=None) for item in (() if before is None else before.fragments)]
        return lost + [FragmentPair(before=None, after=item) for item in (() if after is None else after.fragments)]
    if before.pin == after.pin:
        return []
    old, new = _by_key(before), _by_key(after)
    shared = old.keys() & new.keys()
    old_rest = {_files(key): item for key, item in old.items() if key not in shared}
    new_rest = {_files(key): item for key, item in new.items() if key not in shared}
    common = sorted(old_rest.keys() & new_rest.keys())
    pairs = [FragmentPair(before=old_rest.pop(files), after=new_rest.pop(files)) for files in common]
    pairs += [FragmentPair(before=item, after=None) for item in old_rest.values()]
    return pairs + [FragmentPair(before=None, after=item) for item in new_rest.values()]


def select_pairs(
    before: Table | None, after: Table | None, pairs: Sequence[FragmentPair]
) -> tuple[Selection | None, Selection | None]:
    """Return the rows that two versions do not share, of some of the fragments that can differ."""
    met = [(pair.before, pair.after) for pair in pairs if pair.before is not None and pair.after is not None]
    lost, gained = _NO_ADDRESSES, _NO_ADDRESSES
    if met and before is not None and after is not None:
        lost, gained = _lives_that_differ(before, [old for old, _ in met], after, [new for _, new in met])
    old = tuple(pair.before for pair in pairs if pair.after is None and pair.before is not None)
    new = tuple(pair.after for pair in pairs if pair.before is None and pair.after is not None)
    return (
        None if before is None else Selection(table=before, whole=old, picked=lost),
        None if after is None else Selection(table=after, whole=new, picked=gained),
    )


def deleted_offsets(table: Table, fragments: Sequence[FragmentRef]) -> dict[int, Offsets]:
    """Return by fragment the places whose rows are deleted, ascending; reads deletion files and nothing else."""
    found: dict[int, Offsets] = {}
    unknown: dict[int, FragmentRef] = {}
    for fragment in fragments:
        block = table.datasets.tails.get(BlockKey.of(fragment.metadata, table.fields))
        if block is not None:
            found[fragment.metadata.id] = _gaps(block.offsets, fragment.metadata.physical_rows)
            continue
        listed = read_deletions(table, fragment.metadata)
        if listed is None:
            unknown[fragment.metadata.id] = fragment
        else:
            found[fragment.metadata.id] = listed
    if unknown:
        reader = table.scan([ROW_ADDRESS], fragment_ids=list(unknown), batch_size=_BATCH_ROWS)
        addresses = np.concatenate([batch.column(0).to_numpy() for batch in reader] or [np.zeros(0, dtype=np.uint64)])
        # Fragments come one after another, each in stored order.
        owners = (addresses >> np.uint64(_ADDRESS_BITS)).astype(np.int64)
        bounds = np.flatnonzero(np.diff(owners, prepend=-1, append=-1))
        for start, stop in pairwise(bounds.tolist()):
            number = int(owners[start])
            offsets = addresses[start:stop].astype(np.uint32)
            found[number] = _gaps(offsets, unknown.pop(number).metadata.physical_rows)
        # What a scan does not mention has no live row.
        found.update({number: _gaps(_NONE, item.metadata.physical_rows) for number, item in unknown.items()})
    return found


_Files = tuple[tuple[str, ...], tuple[tuple[int, str], ...]]


def _files(key: BlockKey) -> _Files:
    return key.files, key.fields


def _by_key(table: Table) -> dict[BlockKey, FragmentRef]:
    return {BlockKey.of(item.metadata, table.fields): item for item in table.fragments}


def _lives_that_differ(
    before: Table, old: Sequence[FragmentRef], after: Table, new: Sequence[FragmentRef]
) -> tuple[Addresses, Addresses]:
    """Return the addresses of rows that live in one version only, of fragments that both have the files of."""
    old_gone, new_gone = deleted_offsets(before, old), deleted_offsets(after, new)
    lost, gained = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.uint64)]
    for one, other in zip(old, new, strict=True):
        was, will = old_gone[one.metadata.id], new_gone[other.metadata.id]
        lost.append(addresses_at(one.metadata, np.setdiff1d(will, was, assume_unique=True)))
        gained.append(addresses_at(other.metadata, np.setdiff1d(was, will, assume_unique=True)))
    return np.sort(np.concatenate(lost)), np.sort(np.concatenate(gained))


def _gaps(live: Offsets, count: int) -> Offsets:
    """Return the places below ``count`` that are not among the ascending ``live`` ones."""
    is_gone = np.ones(count, dtype=np.bool_)
    is_gone[live] = False
    return np.flatnonzero(is_gone).astype(np.uint32)


def _from_memory(table: Table, picked: Addresses, columns: Sequence[str]) -> pa.Table | None:
    """Return single rows when all of their fragments are in memory for other reasons."""
    if {ROW_ID, ROW_ADDRESS} & set(columns):
        return None
    owners = picked >> np.uint64(_ADDRESS_BITS)
    by_id = {item.metadata.id: item for item in table.fragments}
    parts = []
    for number in np.unique(owners).tolist():
        block = table.datasets.tails.get(BlockKey.of(by_id[number].metadata, table.fields))
        if block is None or block.rows is None:
            return None
        wanted = (picked[owners == number] & np.uint64(_LOW_HALF)).astype(np.uint32)
        parts.append(block.rows.take(pa.array(np.searchsorted(block.offsets, wanted))).select(list(columns)))
    return pa.concat_tables(parts)


def _schema_of(table: Table, columns: Sequence[str]) -> pa.Schema:
    meta = {ROW_ID, ROW_ADDRESS}
    return pa.schema([pa.field(n, pa.uint64()) if n in meta else table.schema.field(n) for n in columns])
