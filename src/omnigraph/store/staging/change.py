"""Inserts, updates and deletes of a table as one strict Lance ``Update``.

Lance rebases an ``Update`` over commits that touch other fragments. Every change therefore also touches the
*sentinel*, the smallest fragment of its base version: two changes built on one version always meet there, and
exactly one of them lands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from lance.schema import LanceSchema

from omnigraph.errors import Effect, ExistingKeys, InternalError, KeyExistsError
from omnigraph.records import record
from omnigraph.runtime import Runtime, current_counters, in_context
from omnigraph.store.handles import UPLOAD_STAGES, collect
from omnigraph.store.memory import give_back_memory
from omnigraph.store.projections.keys import learn_written
from omnigraph.store.staging.commit import Origin, StagedCommit, data_files, staged_on
from omnigraph.store.tables.layouts import array_of, no_rows
from omnigraph.store.tables.lookup import is_small, key_coverage, read_tail
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS, ROW_ID
from omnigraph.store.tables.pins import FragmentRef
from omnigraph.store.tables.row_ids import row_ids_at
from omnigraph.store.tables.row_versions import flattened
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.tail import BlockKey, are_all_different, block_of_rows
from omnigraph.store.tables.writing import fit, write_into
from omnigraph.store.translate import translating

# A folded fragment that outgrows this is left alone, so that a fold never rewrites much.
_FOLDED_ROWS = 8192


@record
class Folded:
    """Fragments that go, and their surviving rows with their row ids, to be written again."""

    removed: tuple[int, ...]
    rows: pa.Table
    row_ids: npt.NDArray[np.uint64]


def fold_tail(
    table: Table, touched: Mapping[int, npt.NDArray[np.uint32]], *, adds_fragment: bool, tail_limit: int
) -> Folded:
    """Fold the small uncovered fragments when the change would leave more than ``tail_limit`` of them.

    Args:
        table: the version that the change builds on.
        touched: offsets, by fragment, of rows that the change deletes or writes anew; they are not carried over.
        adds_fragment: whether the change writes a fragment of its own.
        tail_limit: how many small uncovered fragments may stay.
    """
    nothing = Folded(removed=(), rows=no_rows(table.schema), row_ids=np.array([], dtype=np.uint64))
    covered = key_coverage(table)
    small = [
        fragment
        for fragment in table.fragments
        if fragment.metadata.id not in covered
        and fragment.metadata.physical_rows <= _FOLDED_ROWS
        and is_small(fragment)
    ]
    if len(small) + adds_fragment <= tail_limit or len(small) < 2:
        return nothing
    removed, rows, row_ids = [], [nothing.rows], [nothing.row_ids]
    for fragment, block in read_tail(table, small).blocks:
        gone = touched.get(fragment.metadata.id)
        kept = block if gone is None else block.without(gone)
        if kept.rows is None:
            continue
        removed.append(fragment.metadata.id)
        rows.append(kept.rows)
        row_ids.append(row_ids_at(fragment.metadata, kept.offsets))
    return Folded(removed=tuple(removed), rows=pa.concat_tables(rows), row_ids=np.concatenate(row_ids))


DEFAULT_TAIL_LIMIT = 16
_SHOWN_KEYS = 20
_WORKERS = 8
_FEW_FILES = 2
# Keys of so few written rows are kept at once.
_LEARNED_ROWS = 4096
# So few ids are compared sooner than a kernel is called.
_FEW_IDS = 32
_NO_ROW_IDS = np.zeros(0, dtype=np.uint64)
# Ids that are looked up at once where they are many more, and rows that are put in order and written at once.
_LOOKED_UP = 1 << 20
_WRITTEN_AT_ONCE = 1 << 18

Offsets = dict[int, npt.NDArray[np.uint32]]


@record
class _Hits:
    """Which of the touched ids exist: their row ids in the same order, and where their rows stand."""

    ids: pa.Array
    row_ids: npt.NDArray[np.uint64]
    offsets: Offsets


def stage_change(
    table: Table,
    *,
    upserts: pa.Table | None = None,
    deletes: Sequence[str] | pa.Array = (),
    operation_id: str,
    runtime: Runtime,
    expect_new: bool = False,
    assume_new: bool = False,
    tail_limit: int = DEFAULT_TAIL_LIMIT,
) -> StagedCommit:
    """Stage all changes of a table for one commit; its head does not move.

    Rows whose id exists replace the stored row and keep its row id, others are inserted. An id that is upserted and
    deleted is upserted; deleting an unknown id changes nothing.

    Args:
        table: the version to build on.
        upserts: whole rows with distinct ids.
        deletes: ids to delete.
        operation_id: written into the commit, so that recovery knows it as ours.
        runtime: where the commit's uuid comes from.
        expect_new: fail when one of the upserted ids exists.
        assume_new: do not look whether the upserted ids exist, because they were made up for these rows.
        tail_limit: how many small uncovered fragments the table may have; the change that would add one more folds
            them into its own.

    Raises:
        KeyExistsError: ``expect_new`` and some ids exist; nothing was written.
    """
    table.datasets.handles.check_process()
    origin = Origin(operation_id=operation_id, runtime=runtime)
    with translating("fit rows to a table", table.pin.location):
        rows = no_rows(table.schema) if upserts is None else fit(upserts, table.schema)
    leaving = deletes if isinstance(deletes, pa.Array) else array_of(deletes, table.schema.field(KEY).type)
    if rows.num_rows + len(leaving) > _LOOKED_UP and table.fragments:
        return _stage_in_parts(table, rows, leaving, origin, expect_new=expect_new, assume_new=assume_new)
    ids = _distinct_ids(table, rows)
    if not table.fragments:
        return _stage_first_rows(table, rows, origin)
    hits = _find(table, leaving if assume_new else pa.concat_arrays([ids, leaving]) if len(leaving) else ids)
    # Where an id stands among the hits; -1 for one that is new.
    places = _places(ids, hits)
    if expect_new:
        _refuse_existing(table, ids.filter(pa.array(places >= 0)))
    folded = fold_tail(table, hits.offsets, adds_fragment=len(ids) > 0, tail_limit=tail_limit)
    remaining = {fragment: offsets for fragment, offsets in hits.offsets.items() if fragment not in folded.removed}
    new_rows, carried = _ordered(rows, places, hits, folded)
    written, updated, removed = _write(table, new_rows, remaining)
    new = carry_row_ids(written, carried)
    _remember(table, new, new_rows, updated, remaining)
    removed = [*folded.removed, *removed]
    return _staged(table, origin, new, updated, removed, row_count=table.row_count + len(ids) - len(hits.ids))


def _staged(
    table: Table,
    origin: Origin,
    new: list[FragmentMetadata],
    updated: list[FragmentMetadata],
    removed: list[int],
    *,
    row_count: int,
) -> StagedCommit:
    operation = LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=_with_short_versions(table, _with_sentinel(table, updated, removed), removed),
        new_fragments=new,
        # An empty list lets Lance extend a full-text index over rewritten rows and then answer with their old text.
        fields_for_preserving_frag_bitmap=field_ids(table),
        update_mode="rewrite_rows",
    )
    return staged_on(
        table,
        operation,
        kind="change",
        origin=origin,
        row_count=row_count,
        files=(*data_files(new), *deletion_files(updated)),
    )


def _stage_in_parts(
    table: Table, rows: pa.Table, leaving: pa.Array, origin: Origin, *, expect_new: bool, assume_new: bool
) -> StagedCommit:
    """Stage a change of very many rows, of which memory holds some at a time; the rows may lie in a file.

    The key column of the table is read once for each part of the ids. Small fragments are left for the next change to
    fold, and that no id stands in two parts is for the caller to know.
    """
    places_by_owner: dict[int, list[npt.NDArray[np.uint32]]] = {}
    new: list[FragmentMetadata] = []

    def find(ids: pa.Array) -> _Hits:
        give_back_memory()
        hits = _find(table, ids)
        give_back_memory()
        for owner, offsets in hits.offsets.items():
            places_by_owner.setdefault(owner, []).append(offsets)
        return hits

    nothing = Folded(removed=(), rows=no_rows(table.schema), row_ids=np.array([], dtype=np.uint64))
    for start in range(0, rows.num_rows, _LOOKED_UP):
        part = rows.slice(start, _LOOKED_UP)
        ids = _distinct_ids(table, part)
        hits = find(ids.slice(0, 0) if assume_new else ids)
        if expect_new:
            _refuse_existing(table, hits.ids)
        for at in range(0, part.num_rows, _WRITTEN_AT_ONCE):
            some = part.slice(at, _WRITTEN_AT_ONCE)
            ordered, carried = _ordered(some, _places(ids.slice(at, _WRITTEN_AT_ONCE), hits), hits, nothing)
            written, _, _ = _write(table, ordered, {})
            new += carry_row_ids(written, carried)
    for start in range(0, len(leaving), _LOOKED_UP):
        find(leaving.slice(start, _LOOKED_UP))
    # An id that is upserted and deleted is upserted, and its row is named twice here.
    offsets = {owner: np.unique(np.concatenate(found)) for owner, found in places_by_owner.items()}
    _, updated, removed = _write(table, nothing.rows, offsets)
    _remember(table, [], nothing.rows, updated, offsets)
    gone = sum(map(len, offsets.values()))
    return _staged(table, origin, new, updated, removed, row_count=table.row_count + rows.num_rows - gone)


def field_ids(table: Table) -> list[int]:
    """Return the ids of all fields of a table, nested ones too."""
    return field_numbers(table.handle.lance_schema)


def field_numbers(schema: LanceSchema) -> list[int]:
    """Return the ids of all fields of a schema, nested ones too."""

    def walk(fields: Sequence[Any]) -> list[int]:
        return [number for field in fields for number in (field.id(), *walk(field.children()))]

    return walk(schema.fields())


def deletion_files(fragments: Sequence[FragmentMetadata]) -> tuple[str, ...]:
    """Return the deletion files of fragments, relative to their dataset."""
    return tuple(item.deletion_file.path(item.id) for item in fragments if item.deletion_file is not None)


def sentinel_of(table: Table) -> FragmentMetadata:
    """Return the fragment that every change of this version touches: the smallest, whose metadata costs least."""
    return min((fragment.metadata for fragment in table.fragments), key=lambda item: (item.physical_rows, item.id))


def carry_row_ids(written: Sequence[FragmentMetadata], carried: npt.NDArray[np.uint64]) -> list[FragmentMetadata]:
    """Give the leading rows of freshly written fragments the row ids that they had before."""
    for fragment in written:
        mine, carried = carried[: fragment.physical_rows], carried[fragment.physical_rows :]
        if mine.size:
            fragment.row_id_meta = RowIdSequence(pa.array(mine)).to_inline_metadata()
    return list(written)


def _with_sentinel(table: Table, updated: list[FragmentMetadata], removed: Sequence[int]) -> list[FragmentMetadata]:
    sentinel = sentinel_of(table)
    is_touched = sentinel.id in removed or any(item.id == sentinel.id for item in updated)
    return updated if is_touched else [sentinel, *updated]


def _with_short_versions(
    table: Table, updated: Sequence[FragmentMetadata], removed: Sequence[int]
) -> list[FragmentMetadata]:
    """Shorten the row versions of fragments that gathered many: no file is touched, and each is met once.

    A fragment that a change writes gets its row versions from Lance when the change lands, so that only one of the
    changes after it can shorten them.
    """
    touched = {item.id for item in updated}
    others = (item.metadata for item in table.fragments if item.metadata.id not in touched.union(removed))
    return [*(flattened(item) or item for item in updated), *filter(None, map(flattened, others))]


def _distinct_ids(table: Table, rows: pa.Table) -> pa.Array:
    column = rows[KEY]
    ids = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.array([], column.type), *column.chunks])
    if ids.null_count or not are_all_different(ids):
        raise InternalError(f"rows to upsert into '{table.pin.location}' repeat an id or lack one")
    return ids


def _stage_first_rows(table: Table, rows: pa.Table, origin: Origin) -> StagedCommit:
    # Without a fragment there is no sentinel; a Merge conflicts with every other data commit instead.
    new = write_into(table.handle, rows, table.pin.location)
    _remember(table, new, rows, [], {})
    return staged_on(
        table,
        LanceOperation.Merge(new, table.handle.lance_schema),
        kind="change",
        origin=origin,
        row_count=rows.num_rows,
        files=data_files(new),
    )


def _find(table: Table, ids: pa.Array) -> _Hits:
    found = table.lookup(ids, ())
    if not found.num_rows:
        return _Hits(ids=ids.slice(0, 0), row_ids=_NO_ROW_IDS, offsets={})
    addresses = found[ROW_ADDRESS].to_numpy()
    owners, offsets = addresses >> 32, (addresses & 0xFFFFFFFF).astype(np.uint32)
    return _Hits(
        ids=pa.concat_arrays([pa.array([], ids.type), *found[KEY].chunks]),
        row_ids=found[ROW_ID].to_numpy().astype(np.uint64),
        offsets={int(owner): np.sort(offsets[owners == owner]) for owner in np.unique(owners)},
    )


def _places(ids: pa.Array, hits: _Hits) -> npt.NDArray[np.int64]:
    if not len(hits.ids):
        return np.full(len(ids), -1, dtype=np.int64)
    if len(ids) + len(hits.ids) <= _FEW_IDS:
        known = {text: at for at, text in enumerate(hits.ids.to_pylist())}
        return np.array([known.get(text, -1) for text in ids.to_pylist()], dtype=np.int64)
    places: npt.NDArray[np.int64] = pc.fill_null(pc.index_in(ids, value_set=hits.ids), -1).to_numpy().astype(np.int64)
    return places


def _refuse_existing(table: Table, taken: pa.Array) -> None:
    if len(taken):
        shown = tuple(taken.slice(0, _SHOWN_KEYS).to_pylist())
        raise KeyExistsError(
            f"{len(taken)} of the ids already exist in '{table.pin.location}', starting with {shown[0]!r}",
            details=ExistingKeys(location=table.pin.location, ids=shown, count=len(taken)),
        )


def _ordered(
    rows: pa.Table, places: npt.NDArray[np.int64], hits: _Hits, folded: Folded
) -> tuple[pa.Table, npt.NDArray[np.uint64]]:
    """Return all rows to write, those that keep a row id first and ascending by it, and these row ids."""
    known = places >= 0
    if not known.any() and not folded.rows.num_rows:
        # Nothing to bring into order, and big inserts are not copied.
        return rows, folded.row_ids
    if known.all() and len(known) == 1 and not folded.rows.num_rows:
        return rows, hits.row_ids[places]
    updates = rows.filter(pa.array(known))
    inserts = rows.filter(pa.array(~known))
    carried = np.concatenate([folded.row_ids, hits.row_ids[places[known]]])
    keeping = pa.concat_tables([folded.rows, updates]) if folded.rows.num_rows else updates
    # Ascending row ids are stored as ranges, which keeps the table's manifest small.
    order = np.argsort(carried, kind="stable")
    return pa.concat_tables([keeping.take(pa.array(order)), inserts]).combine_chunks(), carried[order]


def _write(
    table: Table, rows: pa.Table, offsets: Offsets
) -> tuple[list[FragmentMetadata], list[FragmentMetadata], list[int]]:
    """Upload new rows and deletion vectors side by side; return new fragments, shrunk fragments, emptied ids."""
    handle = table.handle

    def upload() -> list[FragmentMetadata]:
        return write_fragments(rows, handle, schema=rows.schema) if rows.num_rows else []

    def shrink(fragment_id: int) -> FragmentMetadata | None:
        fragment = handle.get_fragment(fragment_id)
        if fragment is None:
            raise InternalError(f"a fragment of '{table.pin.location}' disappeared after it was looked up")
        return fragment.delete_rows(offsets[fragment_id].tolist())

    shrinking = sorted(offsets)
    with translating("write a change", table.pin.location, effect=Effect.STAGED, handle=table.handle):
        try:
            if not shrinking:
                return upload(), [], []
            if table.datasets.storage.is_local and len(shrinking) <= _FEW_FILES:
                # To hand a small file of a local disk to another thread takes longer than to write it.
                written, shrunk = upload(), [shrink(fragment_id) for fragment_id in shrinking]
                return _split(written, shrinking, shrunk)
            with ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="omnigraph-stage") as pool:
                jobs = [pool.submit(in_context(shrink), fragment_id) for fragment_id in shrinking]
                written = upload()
                shrunk = [job.result() for job in jobs]
        finally:
            if rows.num_rows or shrinking:
                reads = collect(handle, stages=UPLOAD_STAGES)
                # A deletion file that is there already is read before its successor is written, unless it is known.
                current_counters().add_serial_stages(1 if reads else 0)
    return _split(written, shrinking, shrunk)


def _split(
    written: list[FragmentMetadata], shrinking: Sequence[int], shrunk: Sequence[FragmentMetadata | None]
) -> tuple[list[FragmentMetadata], list[FragmentMetadata], list[int]]:
    """Return the new fragments, and of those that lose rows what is left of them and which are empty."""
    updated = [metadata for metadata in shrunk if metadata is not None]
    emptied = [number for number, metadata in zip(shrinking, shrunk, strict=True) if metadata is None]
    return written, updated, emptied


def _remember(
    table: Table,
    new: Sequence[FragmentMetadata],
    rows: pa.Table,
    updated: Sequence[FragmentMetadata],
    offsets: Offsets,
) -> None:
    """Put what was written into the tail cache, so that the next change of this process need not read it."""
    tails, start = table.datasets.tails, 0
    for fragment in new:
        block = block_of_rows(rows.slice(start, fragment.physical_rows))
        start += fragment.physical_rows
        if block is not None:
            tails.put(BlockKey.of(fragment, table.fields), block)
            if len(block.ids) <= _LEARNED_ROWS:
                learn_written(table, FragmentRef.of(fragment), block.ids)
    before = {fragment.metadata.id: fragment.metadata for fragment in table.fragments}
    for fragment in updated:
        known = tails.get(BlockKey.of(before[fragment.id], table.fields))
        if known is not None:
            tails.put(BlockKey.of(fragment, table.fields), known.without(offsets[fragment.id]))
