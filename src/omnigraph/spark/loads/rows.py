"""Rows that were put aside, written to their tables: compared with what is stored, and in the order that is asked for.

A row whose id is stored replaces that row and keeps its row id; one that is stored exactly so is left alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ENDPOINTS, Catalog, EdgeType, PropertyType, Scalar
from omnigraph.engine.equality import rows_equal
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.loads.leftovers import note_fragments
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.loads.written import ROW, RowsFile
from omnigraph.spark.runner import Runner
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS, ROW_ID
from omnigraph.store.tables.portable import TableTicket, carried_fragments, shrink_fragment, write_fragments_for
from omnigraph.store.tables.table import Table
from omnigraph.values import checked_names, meant, unfit

# As many ids as one look-up through an index takes.
_IDS_PER_LOOKUP = 10_000
# Looking up one id in an index costs about as much as reading so many of them in a row.
_SCANNED_PER_LOOKUP = 20
# Fetching single rows pays as long as they are so few of all rows.
_FETCHED_OF = 10
_OFFSETS = pa.schema([("fragment", pa.uint32()), ("offset", pa.uint32())])


@record
class MergeRowsTask:
    """Rows of one table to write.

    Args:
        scratch: where the rows are.
        ticket: the version of the table that they are compared with, and where they go.
        table_key: the table.
        files: the rows.
        losers: files with the numbers of rows that do not count, because a later one has their id.
        is_new: none of the ids can be stored.
        sort_by: the column that new rows are ordered by.
        fragment_rows: rows per fragment at most.
    """

    scratch: ScratchPlace
    ticket: TableTicket
    table_key: str
    files: tuple[RowsFile, ...]
    losers: tuple[str, ...] = ()
    is_new: bool = False
    sort_by: str | None = None
    fragment_rows: int = 1 << 20


@record
class MergedRows:
    """What became of the rows of a task; ``offsets`` holds the places of stored rows that they replace."""

    fragments: tuple[str, ...] = field(repr=False)
    unchanged: int = 0
    replaced: int = 0
    offsets: str | None = None
    touched: tuple[int, ...] = ()


@record
class ShrinkTask:
    """Fragments that lose rows, and the files that say which."""

    scratch: ScratchPlace
    ticket: TableTicket
    table_key: str
    fragments: tuple[int, ...]
    offsets: tuple[str, ...]


def merge_rows(task: MergeRowsTask) -> MergedRows:
    """Write the rows of a task beside their table."""
    if task.is_new and task.sort_by is None:
        batches = (_without_place(batch) for batch in _counting(task))
        return MergedRows(fragments=_write_new(task, batches))
    given = _without_place(pa.Table.from_batches(_counting(task)))
    if task.sort_by is not None:
        given = given.take(pc.sort_indices(given, sort_keys=[(task.sort_by, "ascending")]))
    if task.is_new:
        return MergedRows(fragments=_write_new(task, given))
    table = task.ticket.open()
    stored = _stored(table, given.column(KEY).combine_chunks())
    place = pc.fill_null(pc.index_in(given.column(KEY), value_set=stored.column(KEY)), -1).to_numpy()
    known = np.flatnonzero(place >= 0)
    old = stored.take(pa.array(place[known]))
    is_same = rows_equal(old.select(given.column_names).cast(given.schema), given.take(pa.array(known)))
    changed = known[~is_same]
    old = old.filter(pa.array(~is_same))
    row_ids = old.column(ROW_ID).to_numpy().astype(np.uint64)
    rows = pa.concat_tables([given.take(pa.array(changed)), given.filter(pa.array(place < 0))])
    name, touched = _write_offsets(task, old.column(ROW_ADDRESS).to_numpy())
    fragments = carried_fragments(task.ticket, rows, row_ids) if rows.num_rows else []
    note_fragments(task.scratch, task.ticket, fragments)
    return MergedRows(
        fragments=tuple(fragments),
        unchanged=int(np.count_nonzero(is_same)),
        replaced=len(row_ids),
        offsets=name,
        touched=touched,
    )


def remove_rows(task: MergeRowsTask) -> MergedRows:
    """Find the rows whose ids a task has, so that their fragments can do without them."""
    ids = pa.Table.from_batches(_counting(task)).column(KEY).combine_chunks()
    addresses = task.ticket.open().lookup(ids, ()).column(ROW_ADDRESS).to_numpy()
    name, touched = _write_offsets(task, addresses)
    return MergedRows(fragments=(), replaced=len(addresses), offsets=name, touched=touched)


def shrink_fragments(task: ShrinkTask) -> list[tuple[int, str | None]]:
    """Return the fragments without the rows that were replaced; None for one that has no row left."""
    wanted = pa.array(task.fragments, pa.uint32())
    found = [
        batch.filter(pc.is_in(batch.column("fragment"), value_set=wanted))
        for name in task.offsets
        for batch in task.scratch.read_arrow(name)
    ]
    places = pa.Table.from_batches(found, _OFFSETS)
    owners, offsets = places.column("fragment").to_numpy(), places.column("offset").to_numpy()
    return [
        (number, shrink_fragment(task.ticket, number, np.sort(offsets[owners == number]))) for number in task.fragments
    ]


def group_files(files: Sequence[RowsFile], *, rows: int, size_bytes: int) -> list[tuple[RowsFile, ...]]:
    """Return files in groups of about as many rows and bytes, in their order."""
    groups: list[tuple[RowsFile, ...]] = []
    group: list[RowsFile] = []
    for file in files:
        held = [*group, file]
        if group and (sum(item.rows for item in held) > rows or sum(item.size_bytes for item in held) > size_bytes):
            groups.append(tuple(group))
            group = []
        group.append(file)
    return [*groups, tuple(group)] if group else groups


def _write_new(task: MergeRowsTask, rows: pa.Table | Iterator[pa.RecordBatch]) -> tuple[str, ...]:
    fragments = write_fragments_for(task.ticket, rows, max_rows=task.fragment_rows)
    note_fragments(task.scratch, task.ticket, fragments)
    return tuple(fragments)


def _without_place(rows: Any) -> Any:
    """Return rows, a table or a batch, without their places in the input; those of a merge have none."""
    return rows.drop_columns([ROW]) if ROW in rows.schema.names else rows


def _counting(task: MergeRowsTask) -> Iterator[pa.RecordBatch]:
    losers = [batch.column("row") for name in task.losers for batch in task.scratch.read_arrow(name)]
    left_out = pa.concat_arrays(losers) if losers else None
    for file in task.files:
        for batch in task.scratch.read_arrow(file.name):
            if left_out is None:
                yield batch
            else:
                yield batch.filter(pc.invert(pc.is_in(batch.column(ROW), value_set=left_out)))


def _stored(table: Table, ids: pa.Array) -> pa.Table:
    """Return whole rows of these ids, with row id and address."""
    names = list(table.schema.names)
    if len(ids) <= _IDS_PER_LOOKUP:
        return table.lookup(ids, names)
    if len(ids) * _SCANNED_PER_LOOKUP < table.row_count and _has_key_index(table):
        slices = (ids.slice(start, _IDS_PER_LOOKUP) for start in range(0, len(ids), _IDS_PER_LOOKUP))
        return pa.concat_tables([table.lookup(some, names) for some in slices])
    if len(ids) >= table.row_count:
        # Most rows that are stored may be asked for, so that a look at the ids alone first would be a pass too many.
        return table.lookup(ids, names)
    hits = table.lookup(ids, ())
    if table.blobs or hits.num_rows * _FETCHED_OF > table.row_count:
        return table.lookup(ids, names) if hits.num_rows else table.lookup(ids.slice(0, 0), names)
    rows = table.take(hits.column(ROW_ID).to_pylist(), names)
    order = pc.index_in(rows.column(ROW_ID), value_set=hits.column(ROW_ID))
    return rows.append_column(ROW_ADDRESS, hits.column(ROW_ADDRESS).take(order))


def _has_key_index(table: Table) -> bool:
    indexed = [index for index in table.indexes() if index.columns == (KEY,)]
    covered = frozenset[int]().union(*(index.fragment_ids for index in indexed))
    return all(fragment.metadata.id in covered for fragment in table.fragments)


def _write_offsets(task: MergeRowsTask, addresses: npt.NDArray[np.uint64]) -> tuple[str | None, tuple[int, ...]]:
    if not addresses.size:
        return None, ()
    owners = (addresses >> np.uint64(32)).astype(np.uint32)
    offsets = (addresses & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    name = f"offsets/{Runtime.system().ids.ulid()}"
    task.scratch.put(name, pa.table([pa.array(owners), pa.array(offsets)], schema=_OFFSETS))
    return name, tuple(np.unique(owners).tolist())


# A column by type, or the word for the usual ones.
ClusterBy = Literal["key"] | Mapping[str, str]

_SAMPLES = 256


def cluster_columns(catalog: Catalog, wanted: ClusterBy | None) -> dict[str, str]:
    """Return the column by which each table's rows are ordered, by table key.

    Raises:
        UsageError: a type or a column is not there, or its values have no order.
    """
    if wanted is None:
        return {}
    if wanted == "key":
        nodes = {node.table_key: node.key[0] if node.key else "id" for node in catalog.nodes.values()}
        return nodes | {edge.table_key: "src" for edge in catalog.edges.values()}
    if not isinstance(wanted, Mapping):
        raise unfit("cluster_by", wanted, "'key' or a column by type", meant(wanted, ("key",)))
    checked_names("cluster_by", (*wanted, *wanted.values()))
    chosen = {}
    for name, column in wanted.items():
        owner = catalog.node(name) or catalog.edge(name)
        spelt = {"from": "src", "to": "dst"}.get(column, column)
        prop = None if owner is None else owner.get(spelt)
        is_id = spelt == "id" or (isinstance(owner, EdgeType) and spelt in ENDPOINTS)
        if owner is None or not (is_id or (prop is not None and _has_order(prop.type))):
            expected = "a column of the type whose values have an order"
            details = BadValue(what="cluster_by", value=f"{name}={column}", expected=expected)
            raise UsageError(f"rows of type '{name}' cannot be ordered by column '{column}'", details=details)
        chosen[owner.table_key] = spelt
    return chosen


@record
class ClusterTask:
    """Where a task finds the rows that it looks at, and the column that decides."""

    scratch: ScratchPlace
    column: str


def cluster_rows(
    runner: Runner, scratch: ScratchPlace, files: Sequence[RowsFile], column: str, settings: SparkLoadSettings
) -> list[tuple[RowsFile, ...]]:
    """Return the rows in groups, each a range of the column's values of about a fragment's size."""
    rows, size = sum(file.rows for file in files), sum(file.size_bytes for file in files)
    count = max(-(-rows // settings.fragment_rows), -(-size // settings.flush_bytes), 1)
    if count == 1:
        return [tuple(files)] if files else []
    task = ClusterTask(scratch=scratch, column=column)
    sampled = runner.run(partial(sample_rows, task), files, "sample the rows to cluster")
    weighted = [(value, file.rows / len(some)) for file, some in zip(files, sampled, strict=True) for value in some]
    splits = _quantiles(weighted, count)
    ranged = runner.run(partial(split_rows, task, splits), files, "cluster the rows")
    groups = [tuple(part[number] for part in ranged if number in part) for number in range(len(splits) + 1)]
    return [group for group in groups if group]


def sample_rows(task: ClusterTask, file: RowsFile) -> list[Any]:
    """Return values of the column that stand for all values of a file."""
    column = _read(task, file).column(task.column).drop_null()
    ordered = column.take(pc.sort_indices(column))
    places = np.unique(np.linspace(0, max(len(ordered) - 1, 0), _SAMPLES).astype(np.int64))
    values: list[Any] = ordered.take(pa.array(places)).to_pylist() if len(ordered) else []
    return values


def split_rows(task: ClusterTask, splits: Sequence[Any], file: RowsFile) -> dict[int, RowsFile]:
    """Write the rows of a file into one file per range that they meet, and return those by the range's number."""
    rows = _read(task, file)
    order = pc.array_sort_indices(rows.column(task.column).combine_chunks(), null_placement="at_start")
    rows = rows.take(order)
    column, nulls = rows.column(task.column), rows.column(task.column).null_count
    attempt = Runtime.system().ids.ulid()
    found, start = {}, 0
    for number in range(len(splits) + 1):
        end = rows.num_rows
        if number < len(splits):
            end = bisect_right(range(rows.num_rows), splits[number], lo=nulls, key=lambda at: column[at].as_py())
        part = rows.slice(start, end - start)
        if part.num_rows:
            name = f"{file.name}-{attempt}-{number}"
            task.scratch.put(name, part)
            found[number] = RowsFile(table_key=file.table_key, name=name, rows=part.num_rows, size_bytes=part.nbytes)
        start = end
    return found


def _has_order(kind: PropertyType) -> bool:
    return not (kind.is_list or kind.is_vector or kind.scalar is Scalar.BLOB)


def _read(task: ClusterTask, file: RowsFile) -> pa.Table:
    return pa.Table.from_batches(task.scratch.read_arrow(file.name))


def _quantiles(weighted: list[tuple[Any, float]], count: int) -> list[Any]:
    """Return the values that cut all rows into ``count`` ranges of about the same size, each once."""
    ordered = sorted(weighted, key=lambda item: item[0])
    total = sum(weight for _, weight in ordered)
    splits: list[Any] = []
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        if len(splits) < count - 1 and passed >= total * (len(splits) + 1) / count and splits[-1:] != [value]:
            splits.append(value)
    return splits
