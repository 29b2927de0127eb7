"""Tables as the rest of the program holds them: pinned, scanned, and asked by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, RowIdSequence

from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.store.handles import LOOKUP_STAGES, SCAN_STAGES, metered
from omnigraph.store.tables.pinned import (
    KEY,
    ROW_ADDRESS,
    ROW_ID,
    ROW_META,
    IndexSegment,
    PinnedTable,
    Search,
    TableIndex,
)
from omnigraph.store.tables.pins import FragmentRef
from omnigraph.store.tables.tail import KEYS_ROWS, WHOLE_ROWS_BYTES, Block, BlockKey
from omnigraph.store.tables.writing import blob_handling

# Beyond this many ids one pass over the key column beats a predicate that lists them all.
_IDS_PER_PREDICATE = 10_000
_ADDRESS_BITS = 32
# Storage is read faster than ids are compared, and what is not taken yet waits in memory.
_READ_AHEAD = 64 << 20


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
    empty = _result_schema(table, names).empty_table()
    if not len(ids) or not table.fragments:
        return empty
    wanted = pc.unique(ids if isinstance(ids, pa.Array) else pa.array(ids, type=table.schema.field(KEY).type))
    if len(wanted) > _IDS_PER_PREDICATE:
        return _scan_for(table, wanted, names)
    covered = key_coverage(table)
    parts = [empty]
    if any(fragment.metadata.id in covered for fragment in table.fragments):
        parts.append(_through_index(table, wanted, names))
    tail = read_tail(table, [item for item in table.fragments if item.metadata.id not in covered])
    unread = list(tail.big)
    for fragment, block in tail.blocks:
        at = np.flatnonzero(pc.is_in(block.ids, value_set=wanted).to_numpy(zero_copy_only=False))
        if not at.size:
            continue
        if block.rows is None and extra:
            unread.append(fragment)
        else:
            parts.append(_rows_at(fragment, block, at, names))
    if unread:
        parts.append(_scan_fragments(table, wanted, names, unread))
    return pa.concat_tables([part.select(names).cast(empty.schema) for part in parts])


def key_coverage(table: PinnedTable) -> frozenset[int]:
    """Return the fragments that an index on the id covers."""
    covered = [
        index.fragment_ids for index in table.indexes() if index.kind.upper() == "BTREE" and index.columns == (KEY,)
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
        has_row_ids = _row_id_sequence(fragment.metadata) is not None
        if known is not None and has_row_ids:
            blocks[fragment.metadata.id] = known
        elif fragment.metadata.physical_rows > KEYS_ROWS or not has_row_ids:
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


def row_ids_at(metadata: FragmentMetadata, offsets: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Return the stable row ids of the rows at these offsets of a fragment."""
    sequence = _row_id_sequence(metadata)
    if sequence is None:
        raise InternalError("a fragment without inline row ids was taken for a small one")
    row_ids: npt.NDArray[np.uint64] = sequence.to_pyarrow().to_numpy(zero_copy_only=False)
    return row_ids[offsets]


def addresses_at(metadata: FragmentMetadata, offsets: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Return the row addresses of the rows at these offsets of a fragment."""
    return (np.uint64(metadata.id) << np.uint64(_ADDRESS_BITS)) | offsets.astype(np.uint64)


def _row_id_sequence(metadata: FragmentMetadata) -> RowIdSequence | None:
    """Return the row ids of a fragment, packed: to list them takes time that only a hit is worth."""
    if metadata.row_id_meta is None:
        return None
    try:
        return RowIdSequence.from_inline_metadata(metadata.row_id_meta)
    except (ValueError, OSError, NotImplementedError):
        # Very long sequences live in a file of their own; such a fragment is no small one.
        return None


def _rows_at(fragment: FragmentRef, block: Block, at: npt.NDArray[np.intp], names: Sequence[str]) -> pa.Table:
    offsets = block.offsets[at]
    found = {
        KEY: block.ids.take(pa.array(at)),
        ROW_ID: pa.array(row_ids_at(fragment.metadata, offsets)),
        ROW_ADDRESS: pa.array(addresses_at(fragment.metadata, offsets)),
    }
    if block.rows is not None:
        rows = block.rows.take(pa.array(at))
        found |= {name: rows[name] for name in names if name not in found}
    return pa.table({name: found[name] for name in names})


def _read_blocks(table: PinnedTable, fragments: Sequence[FragmentRef], *, whole: bool) -> dict[int, Block]:
    if not fragments:
        return {}
    columns = [*(table.schema.names if whole else [KEY]), ROW_ADDRESS]
    rows = table.read(columns, fragment_ids=[item.metadata.id for item in fragments])
    addresses = rows[ROW_ADDRESS].to_numpy()
    owners = addresses >> _ADDRESS_BITS
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


def _through_index(table: PinnedTable, wanted: pa.Array, names: list[str]) -> pa.Table:
    with table.reading("look up ids"), metered(table.handle, at_most=LOOKUP_STAGES):
        found: pa.Table = table.handle.scanner(
            columns=names,
            filter=_one_of(wanted),
            fast_search=True,
            blob_handling=blob_handling(names, table.blobs),
        ).to_table()
        return found


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


def _scan_for(table: PinnedTable, wanted: pa.Array, names: list[str]) -> pa.Table:
    found = filter_stream(
        table.scan(names, read_ahead_bytes=_READ_AHEAD),
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


__all__ = ["KEY", "ROW_ADDRESS", "ROW_ID", "ROW_META", "IndexSegment", "Search", "Table", "TableIndex"]


class Table(PinnedTable):
    """One immutable version of a table. Safe to share between threads."""

    # Whether a scan takes predicates on properties.
    pushes_predicates = True

    def lookup(self, ids: Sequence[str] | pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return ``id``, row id, row address and ``columns`` of the rows with these ids; unknown ids are left out.

        Fragments that an index on the id covers are asked through it, small ones without an index in memory.
        """
        return look_up(self, ids, columns)

    def matching(
        self,
        column: str,
        predicate: str,
        mask: Callable[[pa.ChunkedArray], pa.ChunkedArray],
        columns: Sequence[str],
    ) -> pa.Table:
        """Return ``columns`` of the rows that a predicate on one column selects.

        Fragments that an index on the column covers are asked through it, small ones without an index in memory.

        Args:
            column: the only column that the predicate names.
            predicate: the condition as Lance reads it.
            mask: the same condition on an Arrow column.
            columns: what to return; the row id may be one of them.
        """
        return _rows_matching(self, column, predicate, mask, columns)


def _rows_matching(
    table: PinnedTable,
    column: str,
    predicate: str,
    mask: Callable[[pa.ChunkedArray], pa.ChunkedArray],
    columns: Sequence[str],
) -> pa.Table:
    names = list(columns)
    row_id = pa.field(ROW_ID, pa.uint64())
    schema = pa.schema([row_id if name == ROW_ID else table.schema.field(name) for name in names])
    covered = index_coverage(table, column)
    loose = [item for item in table.fragments if item.metadata.id not in covered]
    tail = read_tail(table, [item for item in loose if is_small(item)])
    in_memory = {item.metadata.id for item, block in tail.blocks if block.rows is not None}
    parts = [schema.empty_table()]
    if len(loose) < len(table.fragments):
        parts.append(table.read(names, predicate, search=Search(fast=True)))
    unread = [item.metadata.id for item in loose if item.metadata.id not in in_memory]
    if unread:
        parts.append(table.read(names, predicate, fragment_ids=unread))
    if in_memory:
        rows = pa.concat_tables(
            [_with_row_ids(item, block, block.rows) for item, block in tail.blocks if block.rows is not None]
        )
        parts.append(rows.filter(mask(rows.column(column))).select(names))
    return pa.concat_tables([part.cast(schema) for part in parts])


def _with_row_ids(fragment: FragmentRef, block: Block, rows: pa.Table) -> pa.Table:
    return rows.append_column(ROW_ID, pa.array(row_ids_at(fragment.metadata, block.offsets)))


def index_coverage(table: PinnedTable, column: str) -> frozenset[int]:
    """Return the fragments that an ordered index on the column covers."""
    covered = [
        index.fragment_ids for index in table.indexes() if index.kind.upper() == "BTREE" and index.columns == (column,)
    ]
    return frozenset().union(*covered)
