"""Work on one version of a table that any process can do: what goes out and what comes back is plain data."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import CompactionTask

from omnigraph.errors import Effect, InternalError
from omnigraph.records import record
from omnigraph.runtime import LRUCache, Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.handles import CacheSizes
from omnigraph.store.location import Storage
from omnigraph.store.staging.change import carry_row_ids
from omnigraph.store.staging.codec import index_from_json, index_to_json
from omnigraph.store.staging.indexes import (
    IndexBuild,
    IndexPlan,
    SkippedIndex,
    build_index,
    finish_index,
    has_vectors,
    plan_index,
)
from omnigraph.store.tables.pinned import ROW_ADDRESS, ROW_ID
from omnigraph.store.tables.pins import TablePin, data_paths, fragment_from_json, fragment_to_json
from omnigraph.store.tables.store import TableStore
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.writing import fit, write_into
from omnigraph.store.translate import translating
from omnigraph.store.versions import dataset_folder

_Key = tuple[str, tuple[tuple[str, str], ...]]

# Each holds a session with caches of its own; a worker serves one graph, rarely a second.
_KEPT = 4
# What works on whole tables meets each page once, and a version seldom again.
_CACHES = CacheSizes(index_bytes=16 << 20, metadata_bytes=8 << 20, versions=16)
_lock = threading.Lock()
_kept: LRUCache[_Key, TableStore] = LRUCache(_KEPT)


def stores_of(storage: Storage) -> TableStore:
    """Return this process's stores of a graph.

    Raises:
        ForkedProcessError: they were opened before this process was forked off.
    """
    key = (storage.root, tuple(sorted(storage.options.items())))
    with _lock:
        stores = _kept.get(key)
        if stores is None:
            datasets = DatasetStore(storage, Runtime.system(), _CACHES)
            stores = TableStore(datasets, datasets.control)
            _kept.put(key, stores)
    stores.datasets.handles.check_process()
    return stores


@record
class TableTicket:
    """Names a version of a table and how to reach it. It can be pickled, credentials included, and shows none."""

    storage: Storage
    pin: TablePin

    def open(self) -> Table:
        """Return the table; each process opens it once.

        Raises:
            TableMissingError: no such table or branch.
            VersionMissingError: the table is there, the version is not.
        """
        return stores_of(self.storage).open(self.pin)


_MAX_ROWS = 1 << 20


def write_fragments_for(
    ticket: TableTicket, batches: Iterable[pa.RecordBatch] | pa.Table, *, max_rows: int = _MAX_ROWS
) -> list[str]:
    """Upload rows beside a table, as they come, and return their fragments as JSON texts; none for no rows.

    Args:
        ticket: the table, at the version or fork that the rows are meant for.
        batches: whole rows; columns are brought into the order and types of the table. What they raise comes out.
        max_rows: rows per fragment at most.
    """
    table = ticket.open()
    stream = _Stream(table.schema, batches.to_batches() if isinstance(batches, pa.Table) else batches)
    if stream.is_empty:
        return []
    try:
        with translating("write a fragment", table.pin.location, effect=Effect.STAGED):
            written: list[FragmentMetadata] = write_fragments(
                pa.RecordBatchReader.from_batches(table.schema, stream),
                table.handle,
                schema=table.schema,
                max_rows_per_file=max_rows,
            )
    except Exception:
        # Lance hands on no more than the text of what the rows themselves failed with.
        if stream.failure is not None:
            raise stream.failure from None
        raise
    return [_text(fragment) for fragment in written]


def carried_fragments(ticket: TableTicket, rows: pa.Table, row_ids: npt.NDArray[np.uint64]) -> list[str]:
    """Upload rows of which the leading ones replace stored rows and keep their row ids.

    Args:
        ticket: the version that the row ids were looked up in.
        rows: the rows that replace others, in the order of ``row_ids``, then those that are added.
        row_ids: the row ids of the leading rows.
    """
    table = ticket.open()
    if len(row_ids) > rows.num_rows:
        raise InternalError(f"'{table.pin.location}' has more row ids than rows")
    carried = np.asarray(row_ids, dtype=np.uint64)
    if carried.size > 1 and not np.all(carried[:-1] <= carried[1:]):
        # Ascending row ids are stored as ranges, which keeps the table's manifest small.
        order = np.argsort(carried, kind="stable")
        leading = rows.slice(0, carried.size).take(pa.array(order))
        rows, carried = pa.concat_tables([leading, rows.slice(carried.size)]), carried[order]
    written = write_into(table.handle, rows, table.pin.location)
    return [_text(fragment) for fragment in carry_row_ids(written, carried)]


def shrink_fragment(ticket: TableTicket, fragment_id: int, offsets: npt.NDArray[np.uint32]) -> str | None:
    """Upload the deletion list of a fragment that loses the rows at ``offsets``; None when it loses all of them."""
    table = ticket.open()
    with translating("write a deletion list", table.pin.location, effect=Effect.STAGED):
        fragment = table.handle.get_fragment(fragment_id)
        if fragment is None:
            raise InternalError(f"fragment {fragment_id} of '{table.pin.location}' was not found")
        shrunk = fragment.delete_rows(offsets.tolist())
    return None if shrunk is None else _text(shrunk)


def read_fragments(
    ticket: TableTicket,
    fragment_ids: Sequence[int] | None,
    columns: Sequence[str] | None,
    *,
    filter: str | None = None,  # noqa: A002 - the word that Arrow and Lance use for it
    with_row_id: bool = False,
    with_row_address: bool = False,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Stream rows of some fragments, of all when none are named.

    Args:
        ticket: the version to read.
        fragment_ids: which fragments.
        columns: which columns, all of them when not given.
        filter: a Lance SQL predicate.
        with_row_id: add the row id.
        with_row_address: add the row address: fragment in the upper, offset in the lower half.
        batch_rows: rows per batch at most.
    """
    if fragment_ids is not None and not fragment_ids:
        return
    table = ticket.open()
    names = list(table.schema.names if columns is None else columns)
    names += [ROW_ID] if with_row_id else []
    names += [ROW_ADDRESS] if with_row_address else []
    yield from table.scan(names, filter, fragment_ids=fragment_ids, batch_size=batch_rows)


def fragment_sizes(table: Table) -> list[tuple[int, int]]:
    """Return the number of each fragment and how many live rows it has."""
    return [(fragment.metadata.id, fragment.row_count) for fragment in table.fragments]


def discard_fragments(ticket: TableTicket, fragments: Sequence[str]) -> None:
    """Remove the files of fragments that were uploaded and that no commit will ever name.

    Args:
        ticket: where they were uploaded to.
        fragments: their JSON texts.
    """
    control, root = stores_of(ticket.storage).control, dataset_folder(ticket.pin)
    for fragment in fragments:
        for name in data_paths(fragment_from_json(json.loads(fragment))):
            control.delete(f"{root}/data/{name}")


def fragment_rows(fragment: str) -> int:
    """Return how many live rows the fragment of a JSON text has."""
    return int(fragment_from_json(json.loads(fragment)).num_rows)


class _Stream:
    """Batches in the shape of a table; remembers what drawing them failed with."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = iter(batches)
        self._first = self._next_filled()
        self.failure: Exception | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        return self._first is None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            batch = self._first
            while batch is not None:
                yield from fit(pa.Table.from_batches([batch]), self._schema).to_batches()
                batch = self._next_filled()
        except Exception as error:
            self.failure = error
            raise

    def _next_filled(self) -> pa.RecordBatch | None:
        return next((batch for batch in self._batches if batch.num_rows), None)


def _text(fragment: FragmentMetadata) -> str:
    return json.dumps(fragment_to_json(fragment))


# Each look-up asks every segment, and later ones extend the index by more of them.
_MAX_GROUPS = 4


@record
class IndexWork:
    """An index to build: one segment per group of fragments; ``rebuilds``: in place of what is there."""

    build: IndexBuild
    groups: tuple[tuple[int, ...], ...]
    rebuilds: bool


def run_compaction_task(ticket: TableTicket, task: str) -> str:
    """Write the compacted fragments of one planned task and return what became of them, as a JSON text."""
    table = ticket.open()
    with translating("compact a table", table.pin.location, effect=Effect.STAGED):
        # Lance's own type stubs know neither way between a task and its JSON.
        kind: Any = CompactionTask
        return str(kind.from_json(task).execute(table.handle).json())


def index_work(table: Table, build: IndexBuild, *, group_rows: int, plan: IndexPlan | None = None) -> IndexWork | None:
    """Return the work of bringing an index up to date; None when it is, or has no vector to hold.

    Args:
        table: the version to index.
        build: the index.
        group_rows: rows of a group of fragments at least, except where there are no more.
        plan: what :func:`plan_index` says, if that is known.
    """
    found = plan_index(table, build) if plan is None else plan
    if isinstance(found, SkippedIndex):
        return None
    plan = found
    if build.kind == "ann":
        # Segments that were trained apart have partitions of their own, and cannot be merged.
        return IndexWork(build=build, groups=(plan.fragment_ids,), rebuilds=plan.rebuilds)
    rows = dict(fragment_sizes(table))
    wanted = max(group_rows, -(-sum(rows[number] for number in plan.fragment_ids) // _MAX_GROUPS))
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    gathered = 0
    for number in plan.fragment_ids:
        group.append(number)
        gathered += rows[number]
        if gathered >= wanted and _can_build(table, build, group):
            groups.append(tuple(group))
            group, gathered = [], 0
    if group and groups and not _can_build(table, build, group):
        groups[-1] = (*groups[-1], *group)
    elif group or not groups:
        groups.append(tuple(group))
    return IndexWork(build=build, groups=tuple(groups), rebuilds=plan.rebuilds)


def build_segment(ticket: TableTicket, build: IndexBuild, fragment_ids: Sequence[int]) -> str:
    """Write the segment of one group of fragments and return it as a JSON text; see :func:`merge_segments`."""
    return json.dumps(index_to_json(build_index(ticket.open(), build, fragment_ids)))


def merge_segments(ticket: TableTicket, build: IndexBuild, segments: Sequence[str]) -> str:
    """Make one segment of several. A full-text index needs that, even of a single one, before it can be committed."""
    written = [index_from_json(json.loads(segment)) for segment in segments]
    return json.dumps(index_to_json(finish_index(ticket.open(), build, written)))


def _can_build(table: Table, build: IndexBuild, fragment_ids: Sequence[int]) -> bool:
    return build.kind != "vector" or has_vectors(table, build.column, fragment_ids)
