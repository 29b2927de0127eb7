"""Tables as the rest of the program holds them: pinned, scanned, and asked by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.tables.lookup import (
    Tail,
    all_key_candidates,
    index_coverage,
    is_small,
    key_candidates,
    look_up,
    read_tail,
)
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
from omnigraph.store.tables.row_ids import RowIds, row_ids_at

__all__ = ["KEY", "ROW_ADDRESS", "ROW_ID", "ROW_META", "IndexSegment", "Search", "Table", "TableIndex"]


class Table(PinnedTable):
    """One immutable version of a table. Safe to share between threads."""

    # Whether a scan takes predicates on properties.
    pushes_predicates = True

    def lookup(self, ids: Sequence[str] | pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return ``id``, row id, row address and ``columns`` of the rows with these ids; unknown ids are left out.

        Where the keys of the table are known, only the rows themselves are read.
        """
        return look_up(self, ids, columns)

    def key_candidates(self, entity_id: str, ids: Callable[[], pa.ChunkedArray] | None = None) -> RowIds | None:
        """Return the row ids of the few rows that may have an id; None when the keys of the table are not known.

        Args:
            entity_id: the id.
            ids: gives the ids of all rows in the order of the table, for a caller who has them in memory: the keys are
                made from them when they are not known.
        """
        return key_candidates(self, entity_id, ids)

    def all_key_candidates(self, ids: pa.Array) -> tuple[npt.NDArray[np.int64], RowIds] | None:
        """Return the few rows that may have one of some ids: the position of the id, and the row id of the row.

        None when the keys of the table are not known.
        """
        return all_key_candidates(self, ids)

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
        parts.extend(_matching_in_memory(tail, column, mask, names))
    return pa.concat_tables([part.cast(schema) for part in parts])


def _matching_in_memory(
    tail: Tail, column: str, mask: Callable[[pa.ChunkedArray], pa.ChunkedArray], names: list[str]
) -> Iterator[pa.Table]:
    """Yield ``names`` of the matching rows of each block that has some; most of many small blocks have none."""
    blocks = [(item, block, block.rows) for item, block in tail.blocks if block.rows is not None]
    values = pa.concat_tables([rows.select([column]) for _, _, rows in blocks]).column(column)
    found = pc.indices_nonzero(mask(values)).to_numpy().astype(np.int64)
    ends = np.cumsum([rows.num_rows for _, _, rows in blocks])
    owners = np.searchsorted(ends, found, side="right")
    for owner in np.unique(owners).tolist():
        fragment, block, rows = blocks[owner]
        at = found[owners == owner] - (ends[owner] - rows.num_rows)
        chosen = rows.take(pa.array(at))
        if ROW_ID in names:
            chosen = chosen.append_column(ROW_ID, pa.array(row_ids_at(fragment.metadata, block.offsets[at])))
        yield chosen.select(names)
