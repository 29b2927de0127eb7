"""Runs: immutable files beside the tables that say how far the entities of a change log have come.

A row of a run is about one entity: its table, the kind of its sequences, the highest one that was applied, and of a
node the highest one of a delete. Several runs may tell of the same entity; the highest numbers hold. Rows are sorted by
table and id, and no row group has rows of two tables, so that a look at a few entities reads a few row groups.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.errors import Effect, OmnigraphError, StorageCorruptError, StorageFault
from omnigraph.records import record
from omnigraph.runtime import LRUCache, current_counters
from omnigraph.store.location import Storage
from omnigraph.store.scratch import object_file
from omnigraph.store.tables.portable import stores_of
from omnigraph.store.translate import translating

SEQUENCES_PREFIX = "__sequences"
RUN_COLUMNS = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("died", pa.int64()),
    ]
)

_GROUP_ROWS = 1 << 14
# A million rows: ids are looked for in all of them together.
_GROUPS_AT_ONCE = 64
# A run of so many rows is read at once, and stays in memory: the next call of the stream asks it again.
_SMALL_ROWS = 1 << 15
_CACHE_BYTES = 64 << 20
# Looking for each id among the bounds of row groups pays off for so many.
_FEW_IDS = 10_000

_cache: LRUCache[tuple[str, str], pa.Table] = LRUCache(
    max_size=_CACHE_BYTES, size_of=lambda rows: max(1, int(rows.nbytes))
)


@record
class SequencePlace:
    """Where the runs of a graph are. It can be pickled."""

    storage: Storage
    is_durable: bool = True

    def write(self, name: str, rows: pa.Table) -> None:
        """Write a run of rows in :data:`RUN_COLUMNS`, one for each entity; it is on the disk when this returns.

        Raises:
            OmnigraphError: it cannot be written; whatever is left of it nothing names.
        """
        rows = rows.sort_by([("table", "ascending"), ("id", "ascending")])
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, RUN_COLUMNS, compression="zstd") as writer:
            for key in pc.unique(rows.column("table")).to_pylist():
                writer.write_table(rows.filter(pc.equal(rows.column("table"), key)), row_group_size=_GROUP_ROWS)
        try:
            stores_of(self.storage).control.put(run_key(name), sink.getvalue(), sync=self.is_durable)
        except OmnigraphError as error:
            error.effect = Effect.STAGED
            raise
        if rows.num_rows <= _SMALL_ROWS:
            _cache.put((self.storage.root, name), rows)

    def read(self, name: str) -> pa.Table:
        """Return all rows of a run.

        Raises:
            StorageCorruptError: there is no such run.
        """
        known = _cache.get((self.storage.root, name))
        if known is not None:
            return known
        key = run_key(name)
        data = stores_of(self.storage).control.get(key)
        if data is None:
            raise _missing(key)
        with translating("read a run of sequences", key):
            rows = pq.read_table(pa.BufferReader(data)).cast(RUN_COLUMNS)
        if rows.num_rows <= _SMALL_ROWS:
            _cache.put((self.storage.root, name), rows)
        return rows

    def find(self, name: str, count: int, table: str, ids: pa.Array) -> Iterator[pa.Table]:
        """Yield rows of a run of ``count`` rows, all that tell of these entities of a table among them.

        Raises:
            StorageCorruptError: there is no such run.
        """
        if count <= _SMALL_ROWS:
            rows = self.read(name)
            yield rows.filter(pc.equal(rows.column("table"), table))
            return
        key = run_key(name)
        with translating("read a run of sequences", key):
            try:
                file = pq.ParquetFile(object_file(stores_of(self.storage).control.reader(key)))
            except FileNotFoundError as error:
                raise _missing(key) from error
            groups = list(_groups(file.metadata, table, ids))
            # The end of the file, where its groups are told, and then the groups.
            current_counters().add_calls("control.get", 2 + len(groups))
            current_counters().add_serial_stages(2 + len(groups))
            for start in range(0, len(groups), _GROUPS_AT_ONCE):
                yield file.read_row_groups(groups[start : start + _GROUPS_AT_ONCE]).cast(RUN_COLUMNS)


def run_key(name: str) -> str:
    """Return the key of the object that a run is."""
    return f"{SEQUENCES_PREFIX}/{name}.parquet"


def highest(parts: Iterable[pa.Table]) -> pa.Table:
    """Return one row for each entity that rows of runs tell of, with its highest numbers."""
    rows = pa.concat_tables([RUN_COLUMNS.empty_table(), *parts])
    found = rows.group_by(["table", "kind", "id"]).aggregate([("seq", "max"), ("died", "max")])
    return pa.table([found.column(name) for name in ("table", "kind", "id", "seq_max", "died_max")], RUN_COLUMNS)


def _groups(metadata: Any, table: str, ids: pa.Array) -> Iterator[int]:
    """Yield the row groups that can tell of some ids of a table."""
    bounds = pc.min_max(ids)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    few: Sequence[str] = sorted(ids.to_pylist()) if len(ids) <= _FEW_IDS else ()
    at_table, at_id = RUN_COLUMNS.get_field_index("table"), RUN_COLUMNS.get_field_index("id")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        tables, told = group.column(at_table).statistics, group.column(at_id).statistics
        if tables is not None and tables.has_min_max and tables.min != table:
            continue
        if told is not None and told.has_min_max:
            if low is None or told.max < low or told.min > high:
                continue
            if few:
                place = bisect_left(few, told.min)
                if place == len(few) or few[place] > told.max:
                    continue
        yield number


def _missing(key: str) -> StorageCorruptError:
    details = StorageFault(doing="read a run of sequences", location=key, reason="the object is missing")
    return StorageCorruptError(f"run '{key}' of remembered sequences is missing", details=details)
