"""Rows by the value of a column, cheap while a table grows small fragments that no index covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from omnigraph.runtime import Counters
from omnigraph.store.fragments import FragmentRef
from omnigraph.store.lookup import is_small, read_tail, row_ids_at
from omnigraph.store.pinned import ROW_ID, PinnedTable, Search
from omnigraph.store.tail import Block


def rows_matching(
    table: PinnedTable,
    column: str,
    predicate: str,
    matches: Callable[[pa.ChunkedArray], pa.ChunkedArray],
    columns: Sequence[str],
    counters: Counters,
) -> pa.Table:
    """Return ``columns`` of the rows that a predicate on one column selects.

    Fragments that an index on the column covers are asked through it, small ones without an index in memory.

    Args:
        table: where to look.
        column: the only column that the predicate names.
        predicate: the condition as Lance reads it.
        matches: the same condition on an Arrow column.
        columns: what to return; the row id may be one of them.
        counters: where the calls go.
    """
    names = list(columns)
    row_id = pa.field(ROW_ID, pa.uint64())
    schema = pa.schema([row_id if name == ROW_ID else table.schema.field(name) for name in names])
    covered = index_coverage(table, column, counters)
    loose = [item for item in table.fragments if item.metadata.id not in covered]
    tail = read_tail(table, [item for item in loose if is_small(item)], counters)
    in_memory = {item.metadata.id for item, block in tail.blocks if block.rows is not None}
    parts = [schema.empty_table()]
    if len(loose) < len(table.fragments):
        parts.append(table.read(names, predicate, counters=counters, search=Search(fast=True)))
    unread = [item.metadata.id for item in loose if item.metadata.id not in in_memory]
    if unread:
        parts.append(table.read(names, predicate, counters=counters, fragment_ids=unread))
    if in_memory:
        rows = pa.concat_tables(
            [_with_row_ids(item, block, block.rows) for item, block in tail.blocks if block.rows is not None]
        )
        parts.append(rows.filter(matches(rows.column(column))).select(names))
    return pa.concat_tables([part.cast(schema) for part in parts])


def _with_row_ids(fragment: FragmentRef, block: Block, rows: pa.Table) -> pa.Table:
    return rows.append_column(ROW_ID, pa.array(row_ids_at(fragment.metadata, block.offsets)))


def index_coverage(table: PinnedTable, column: str, counters: Counters) -> frozenset[int]:
    """Return the fragments that an ordered index on the column covers."""
    covered = [
        index.fragment_ids
        for index in table.indexes(counters)
        if index.kind.upper() == "BTREE" and index.columns == (column,)
    ]
    return frozenset().union(*covered)
