"""Rows by id.

Fragments whose keys are known (see :mod:`omnigraph.store.projections.keys`) are asked for the rows at their places and
for nothing else. Others are asked through an index on the id, the keys of small ones without an index are brought into
memory, and what is left is scanned. Which of these happens changes the cost, never the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.records import record
from omnigraph.store.handles import LOOKUP_STAGES, SCAN_STAGES, metered
from omnigraph.store.projections.coverage import deleted_rows
from omnigraph.store.projections.hashes import hash_text, hash_texts
from omnigraph.store.projections.keys import Candidates, FragmentIds, KeyIndex, build_keys, extend, key_index
from omnigraph.store.tables.layouts import array_of, no_rows, with_schema
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS, ROW_ID, PinnedTable
from omnigraph.store.tables.pins import FragmentRef
from omnigraph.store.tables.row_ids import (
    ADDRESS_BITS,
    RowIds,
    addresses_at,
    find_row_id,
    find_row_ids,
    has_row_ids,
    row_ids_at,
)
from omnigraph.store.tables.tail import KEYS_ROWS, WHOLE_ROWS_BYTES, Block, BlockKey
from omnigraph.store.tables.writing import blob_handling

# Beyond this many ids one pass over the key column beats a predicate that lists them all.
_IDS_PER_PREDICATE = 10_000
# One pass over the rows of a table is cheaper than fetching so large a share of them one by one.
_FETCHED_SHARE = 2
# Storage is read faster than ids are compared, and what is not taken yet waits in memory.
_READ_AHEAD = 64 << 20
# Keys of so many rows are worth a file. Those of fewer are made in no time, those of many more only by maintenance.
_KEPT_ROWS = 20_000
_LEARNED_ROWS = 4_000_000


# So few ids are looked for one by one, without the arrays that many are worth.
_FEW = 16


@record
class Tail:
    """Fragments that the key index does not cover: those whose rows are in memory, and those too big for that."""

    blocks: tuple[tuple[FragmentRef, Block], ...]
    big: tuple[FragmentRef, ...]


def look_up(table: PinnedTable, ids: Sequence[str] | pa.Array, columns: Sequence[str]) -> pa.Table:
    """Return ``id``, row id, row address and ``columns`` of the rows with these ids."""
    table.datasets.handles.check_process()
    extra = [name for name in columns if name not in {KEY, ROW_ID, ROW_ADDRESS}]
    names = [KEY, ROW_ID, ROW_ADDRESS, *extra]
    empty = no_rows(_result_schema(table, names))
    if not len(ids) or not table.fragments:
        return empty
    wanted = ids if isinstance(ids, pa.Array) else array_of(ids, table.schema.field(KEY).type)
    if len(wanted) > 1:
        wanted = pc.unique(wanted)
    if wanted.null_count:
        wanted = wanted.drop_null()
    if len(wanted) > _FEW:
        return _look_up_some(table, wanted, names, empty)
    remembered = None if extra else _remembered(table, wanted, empty)
    if remembered is not None:
        return remembered
    found = _look_up_some(table, wanted, names, empty)
    _remember(table, wanted, found)
    return found


def _remembered(table: PinnedTable, wanted: pa.Array, empty: pa.Table) -> pa.Table | None:
    """Return what was found of ids before; None when one of them was not looked for yet."""
    rows = []
    for text in wanted.to_pylist():
        place = table.places.get(text, _UNKNOWN)
        if place is _UNKNOWN:
            return None
        if place is not None:
            rows.append((place[1], place[0], text))
    rows.sort()
    columns = [[row[at] for row in rows] for at in (2, 1, 0)]
    arrays = [array_of(column, field.type) for column, field in zip(columns, empty.schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=empty.schema)


def _remember(table: PinnedTable, wanted: pa.Array, found: pa.Table) -> None:
    # A write looks a row up to decide, and again to put another one in its place.
    if len(table.places) >= _MOST_PLACES:
        table.places.clear()
    places: dict[str, tuple[int, int] | None] = dict.fromkeys(wanted.to_pylist())
    if found.num_rows:
        columns = (found.column(name).to_pylist() for name in _PLAIN)
        places.update({text: (row_id, address) for text, row_id, address in zip(*columns, strict=True)})
    table.places.update(places)


_UNKNOWN = (-1, -1)
_MOST_PLACES = 4096


def _look_up_some(table: PinnedTable, wanted: pa.Array, names: list[str], empty: pa.Table) -> pa.Table:
    if len(wanted) > _IDS_PER_PREDICATE:
        return _look_up_many(table, wanted, names, empty)
    index, indexed = _known_keys(table)
    if len(wanted) <= _FEW and not index.missing and not indexed:
        places = [index.find_one(hash_text(text)) for text in wanted.to_pylist()]
        if not any(place is None or place for place in places):
            return empty
    parts = [empty]
    if not index.is_empty:
        candidates = index.find(hash_texts(wanted))
        parts += _rows_of(table, candidates, wanted, names)
        if len(candidates.crowded):
            covered = _others(table, index.missing)
            parts.append(_scan_fragments(table, wanted.take(pa.array(candidates.crowded)), names, covered))
    if indexed:
        parts.append(_through_index(table, wanted, names, indexed))
    unknown = [table.fragments[at] for at in index.missing if table.fragments[at].metadata.id not in indexed]
    if unknown:
        parts.append(_scan_fragments(table, wanted, names, unknown))
    return _joined(parts, empty)


def _look_up_many(table: PinnedTable, wanted: pa.Array, names: list[str], empty: pa.Table) -> pa.Table:
    index = key_index(table)
    row_count = sum(fragment.row_count for fragment in _others(table, index.missing))
    # As many ids as rows take as long to hash as the rows to read.
    if index.is_empty or len(wanted) * _FETCHED_SHARE > row_count:
        return _scan_for(table, wanted, names)
    candidates = index.find(hash_texts(wanted))
    if len(candidates.crowded) or len(candidates.wanted) * _FETCHED_SHARE > row_count:
        return _scan_for(table, wanted, names)
    parts = [empty, *_rows_of(table, candidates, wanted, names)]
    if index.missing:
        missing = [table.fragments[at].metadata.id for at in index.missing]
        parts.append(_scan_for(table, wanted, names, missing))
    return _joined(parts, empty)


def _joined(parts: Sequence[pa.Table], empty: pa.Table) -> pa.Table:
    fitted = [with_schema(part, empty.schema) for part in parts if part.num_rows]
    return pa.concat_tables(fitted) if len(fitted) > 1 else fitted[0] if fitted else empty


def _others(table: PinnedTable, missing: Sequence[int]) -> list[FragmentRef]:
    left_out = frozenset(missing)
    return [fragment for at, fragment in enumerate(table.fragments) if at not in left_out]


def key_candidates(
    table: PinnedTable, entity_id: str, ids: Callable[[], pa.ChunkedArray] | None = None
) -> RowIds | None:
    """Return the row ids of the rows that may have an id; None when no more is known than in the column of ids.

    Rows among them may be deleted, or have another id.

    Args:
        table: the table.
        entity_id: the id.
        ids: gives the ids of all rows in the order of the table, for a caller who has them in memory; what is not
            known yet is then made from them, and kept for other processes if it is much.
    """
    index = key_index(table)
    if index.missing and ids is not None:
        index = _learn(table, index, ids)
    if index.missing:
        return None
    found = index.find_one(hash_text(entity_id))
    if found is None:
        return None
    candidates = set[int]()
    for at, offset in found:
        row_id = find_row_id(table.fragments[at], offset)
        if row_id is None:
            return None
        candidates.add(row_id)
    return np.array(sorted(candidates), dtype=np.uint64)


def all_key_candidates(table: PinnedTable, ids: pa.Array) -> tuple[npt.NDArray[np.int64], RowIds] | None:
    """Return the rows that may have one of some ids: the position of the id, and the row id of the row.

    They are what :func:`key_candidates` finds for each; None when it finds nothing for one of them.
    """
    index = key_index(table)
    if index.missing:
        return None
    candidates = index.find(hash_texts(ids))
    if len(candidates.crowded):
        return None
    row_ids = np.zeros(len(candidates.wanted), dtype=np.uint64)
    for at in np.unique(candidates.fragments).tolist():
        mine = candidates.fragments == at
        found = find_row_ids(table.fragments[at].metadata, candidates.offsets[mine])
        if found is None:
            return None
        row_ids[mine] = found
    return candidates.wanted, row_ids


def known_candidates(table: PinnedTable, ids: pa.Array) -> Candidates | None:
    """Return the places of the rows that may have one of some ids; None when keys of the table are not known.

    Keys of small new fragments are brought into memory. Rows among the candidates may be deleted, or have another id.
    """
    index, _ = _known_keys(table)
    return None if index.missing else index.find(hash_texts(ids))


def _missing_rows(table: PinnedTable, index: KeyIndex) -> int:
    return sum(table.fragments[at].row_count for at in index.missing)


def _learn(table: PinnedTable, index: KeyIndex, ids: Callable[[], pa.ChunkedArray]) -> KeyIndex:
    if _missing_rows(table, index) >= _KEPT_ROWS:
        # Nobody makes what another process has stored already; a local folder is looked at each time.
        if not table.datasets.storage.is_local:
            index = key_index(table, fetch=True)
        elif table.row_count <= _LEARNED_ROWS:
            has_deletions = any(fragment.metadata.deletion_file is not None for fragment in table.fragments)
            build_keys(table, ids=None if has_deletions else ids())
            index = key_index(table)
    if _missing_rows(table, index) > _LEARNED_ROWS or not index.missing:
        return index
    missing = {at: table.fragments[at] for at in index.missing}
    bounds = np.cumsum([0, *(fragment.row_count for fragment in table.fragments)])
    known: dict[int, FragmentIds] = {}
    for at, fragment in missing.items():
        offsets = np.arange(fragment.metadata.physical_rows, dtype=np.uint32)
        known[at] = (
            ids().slice(bounds[at], fragment.row_count),
            np.delete(offsets, deleted_rows(table, fragment)),
        )
    return extend(table, index, known)


def _known_keys(table: PinnedTable) -> tuple[KeyIndex, frozenset[int]]:
    """Return the keys of a table, of its small new fragments too, and which others an index on the id covers."""
    index = key_index(table)
    if not index.missing:
        return index, frozenset()
    places = {table.fragments[at].metadata.id: at for at in index.missing}
    indexed = key_coverage(table) & places.keys()
    tail = read_tail(table, [table.fragments[at] for number, at in places.items() if number not in indexed])
    if tail.blocks:
        known = {places[item.metadata.id]: (block.ids, block.offsets) for item, block in tail.blocks}
        index = extend(table, index, known)
    return index, indexed


def _rows_of(table: PinnedTable, candidates: Candidates, wanted: pa.Array, names: list[str]) -> list[pa.Table]:
    """Return the candidates that are there and have one of the ids, from memory where they are in memory."""
    parts, row_ids, addresses = [], list[RowIds](), list[RowIds]()
    bounds = np.flatnonzero(np.diff(candidates.fragments)) + 1
    for group in np.split(np.arange(len(candidates.wanted)), bounds):
        if not len(group):
            continue
        fragment = table.fragments[int(candidates.fragments[group[0]])]
        offsets = candidates.offsets[group]
        block = table.datasets.tails.get(BlockKey.of(fragment.metadata, table.fields))
        if block is not None and (block.rows is not None or len(names) == len(_PLAIN)):
            at = _positions(block, offsets)
            texts = _chosen(block.ids, at)
            at = at[pc.is_in(texts, value_set=wanted).to_numpy(zero_copy_only=False)]
            parts.append(_rows_at(fragment, block, at, names))
        else:
            found = find_row_ids(fragment.metadata, offsets)
            if found is None:
                parts.append(_scan_fragments(table, wanted.take(pa.array(candidates.wanted[group])), names, [fragment]))
                continue
            row_ids.append(found)
            addresses.append(addresses_at(fragment.metadata, offsets))
    if row_ids:
        parts.append(_fetched(table, np.concatenate(row_ids), np.concatenate(addresses), wanted, names))
    return parts


_PLAIN = (KEY, ROW_ID, ROW_ADDRESS)


def _positions(block: Block, offsets: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Return where the rows at these offsets stand in a block; rows that it has not are left out."""
    at = np.searchsorted(block.offsets, offsets)
    inside = at < len(block.offsets)
    at = at[inside]
    kept: npt.NDArray[np.intp] = at[block.offsets[at] == offsets[inside]]
    return np.unique(kept) if len(kept) > 1 else kept


def _fetched(table: PinnedTable, row_ids: RowIds, addresses: RowIds, wanted: pa.Array, names: list[str]) -> pa.Table:
    # A row that was changed has its row id at two places, of which only one is that of the version.
    _, firsts = np.unique(row_ids, return_index=True)
    asked = row_ids[np.sort(firsts)]
    if table.blobs.isdisjoint(names):
        rows = table.take(asked.tolist(), names)
    else:
        listed = ", ".join(map(str, asked.tolist()))
        rows = table.read(names, f"{ROW_ID} IN ({listed})")
    is_there = np.isin(rows.column(ROW_ADDRESS).to_numpy(), addresses)
    has_id = pc.is_in(rows.column(KEY), value_set=wanted).to_numpy()
    is_found = is_there & has_id
    return rows if is_found.all() else rows.filter(pa.array(is_found))


def key_coverage(table: PinnedTable) -> frozenset[int]:
    """Return the fragments that an index on the id covers."""
    return index_coverage(table, KEY)


def index_coverage(table: PinnedTable, column: str) -> frozenset[int]:
    """Return the fragments that an ordered index on the column covers."""
    covered = [
        index.fragment_ids for index in table.indexes() if index.kind.upper() == "BTREE" and index.columns == (column,)
    ]
    return frozenset().union(*covered)


def read_tail(table: PinnedTable, fragments: Iterable[FragmentRef]) -> Tail:
    """Bring the rows of uncovered fragments into memory as far as they are small; free of calls when they are there."""
    blocks: dict[int, Block] = {}
    missing: list[FragmentRef] = []
    big: list[FragmentRef] = []
    uncovered = list(fragments)
    for fragment in uncovered:
        known = table.datasets.tails.get(BlockKey.of(fragment.metadata, table.fields))
        is_listed = has_row_ids(fragment.metadata)
        if known is not None and is_listed:
            blocks[fragment.metadata.id] = known
        elif fragment.metadata.physical_rows > KEYS_ROWS or not is_listed:
            big.append(fragment)
        else:
            missing.append(fragment)
    # A data file does not tell how much its blobs hold beside it.
    small = [] if table.blobs else [item for item in missing if is_small(item)]
    blocks.update(_read_blocks(table, small, whole=True))
    blocks.update(_read_blocks(table, [item for item in missing if item not in small], whole=False))
    return Tail(
        blocks=tuple((item, blocks[item.metadata.id]) for item in uncovered if item.metadata.id in blocks),
        big=tuple(big),
    )


def is_small(fragment: FragmentRef) -> bool:
    """Whether a fragment's whole rows are worth keeping in memory."""
    return sum(file.file_size_bytes or WHOLE_ROWS_BYTES for file in fragment.metadata.files) <= WHOLE_ROWS_BYTES


def _rows_at(fragment: FragmentRef, block: Block, at: npt.NDArray[np.intp], names: Sequence[str]) -> pa.Table:
    offsets = block.offsets[at]
    found = {
        KEY: _chosen(block.ids, at),
        ROW_ID: pa.array(row_ids_at(fragment.metadata, offsets)),
        ROW_ADDRESS: pa.array(addresses_at(fragment.metadata, offsets)),
    }
    if block.rows is not None:
        rows = _chosen(block.rows, at)
        found |= {name: rows[name] for name in names if name not in found}
    return pa.table({name: found[name] for name in names})


_Rows = TypeVar("_Rows", pa.Array, pa.Table)


def _chosen(rows: _Rows, at: npt.NDArray[np.intp]) -> _Rows:
    """Return the rows at these places; one row is not copied."""
    return rows.slice(int(at[0]), 1) if len(at) == 1 else rows.take(pa.array(at))


def _read_blocks(table: PinnedTable, fragments: Sequence[FragmentRef], *, whole: bool) -> dict[int, Block]:
    if not fragments:
        return {}
    columns = [*(table.schema.names if whole else [KEY]), ROW_ADDRESS]
    rows = table.read(columns, fragment_ids=[item.metadata.id for item in fragments])
    addresses = rows[ROW_ADDRESS].to_numpy()
    owners = addresses >> ADDRESS_BITS
    plain = rows.drop_columns([ROW_ADDRESS])
    blocks = {}
    for fragment in fragments:
        at = np.flatnonzero(owners == fragment.metadata.id)
        mine = plain.take(pa.array(at)).combine_chunks()
        block = Block(
            ids=pa.concat_arrays(mine[KEY].chunks) if mine[KEY].num_chunks else pa.array([], mine[KEY].type),
            offsets=(addresses[at] & 0xFFFFFFFF).astype(np.uint32),
            rows=mine if whole else None,
        )
        table.datasets.tails.put(BlockKey.of(fragment.metadata, table.fields), block)
        blocks[fragment.metadata.id] = block
    return blocks


def _through_index(table: PinnedTable, wanted: pa.Array, names: list[str], fragments: frozenset[int]) -> pa.Table:
    with table.reading("look up ids"), metered(table.handle, at_most=LOOKUP_STAGES):
        found: pa.Table = table.handle.scanner(
            columns=names,
            filter=_one_of(wanted),
            fast_search=True,
            blob_handling=blob_handling(names, table.blobs),
        ).to_table()
    owners = found.column(ROW_ADDRESS).to_numpy() >> ADDRESS_BITS
    # The index also has rows of fragments whose keys are known.
    is_asked = np.isin(owners, np.fromiter(fragments, dtype=np.uint64, count=len(fragments)))
    return found if is_asked.all() else found.filter(pa.array(is_asked))


def _scan_fragments(
    table: PinnedTable, wanted: pa.Array, names: list[str], fragments: Sequence[FragmentRef]
) -> pa.Table:
    chosen = {fragment.metadata.id for fragment in fragments}
    with (
        table.reading("look up ids"),
        metered(table.handle, at_most=SCAN_STAGES, side_by_side=len(fragments)),
    ):
        handles = [item for item in table.handle.get_fragments() if item.fragment_id in chosen]
        found: pa.Table = table.handle.scanner(
            columns=names,
            filter=_one_of(wanted),
            fragments=handles,
            use_scalar_index=False,
            blob_handling=blob_handling(names, table.blobs),
        ).to_table()
        return found


def filter_stream(
    reader: pa.RecordBatchReader, matches: Callable[[pa.Table], pa.ChunkedArray], *, wanted_count: int
) -> pa.Table:
    """Return the rows of a stream that match, asked in pieces of at least ``wanted_count`` rows.

    Asking whether a value is one of many starts with a hash table of all of them, so each time must pay for as many
    rows.
    """
    found, waiting, count = [reader.schema.empty_table()], list[pa.RecordBatch](), 0
    for batch in reader:
        waiting.append(batch)
        count += batch.num_rows
        if count >= wanted_count:
            rows = pa.Table.from_batches(waiting)
            found.append(rows.filter(matches(rows)))
            waiting, count = [], 0
    if waiting:
        rows = pa.Table.from_batches(waiting)
        found.append(rows.filter(matches(rows)))
    return pa.concat_tables(found)


def _scan_for(
    table: PinnedTable, wanted: pa.Array, names: list[str], fragment_ids: Sequence[int] | None = None
) -> pa.Table:
    found = filter_stream(
        table.scan(names, fragment_ids=fragment_ids, read_ahead_bytes=_READ_AHEAD),
        lambda rows: pc.is_in(rows.column(KEY), value_set=wanted),
        wanted_count=len(wanted),
    )
    return found.select(names).cast(_result_schema(table, names))


def _one_of(wanted: pa.Array) -> str:
    quoted = ("'" + value.replace("'", "''") + "'" for value in wanted.to_pylist())
    return f"{KEY} IN ({', '.join(quoted)})"


def _result_schema(table: PinnedTable, names: Sequence[str]) -> pa.Schema:
    row_meta = {ROW_ID, ROW_ADDRESS}
    return pa.schema([pa.field(n, pa.uint64()) if n in row_meta else table.schema.field(n) for n in names])
