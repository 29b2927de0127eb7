"""Keeping the tail of a table short: many small fragments become one, inside a change that is under way anyhow."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.lookup import is_small, key_coverage, read_tail, row_ids_at
from omnigraph.store.table import Table

# A folded fragment that outgrows this is left alone, so that a fold never rewrites much.
_FOLDED_ROWS = 8192


@record
class Folded:
    """Fragments that go, and their surviving rows with their row ids, to be written again."""

    removed: tuple[int, ...]
    rows: pa.Table
    row_ids: npt.NDArray[np.uint64]


def fold_tail(
    table: Table,
    touched: Mapping[int, npt.NDArray[np.uint32]],
    *,
    adds_fragment: bool,
    tail_limit: int,
    counters: Counters,
) -> Folded:
    """Fold the small uncovered fragments when the change would leave more than ``tail_limit`` of them.

    Args:
        table: the version that the change builds on.
        touched: offsets, by fragment, of rows that the change deletes or writes anew; they are not carried over.
        adds_fragment: whether the change writes a fragment of its own.
        tail_limit: how many small uncovered fragments may stay.
        counters: where the calls go; none when the rows are in memory.
    """
    nothing = Folded(removed=(), rows=table.schema.empty_table(), row_ids=np.array([], dtype=np.uint64))
    covered = key_coverage(table, counters)
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
    for fragment, block in read_tail(table, small, counters).blocks:
        kept = block.without(touched.get(fragment.metadata.id, np.array([], dtype=np.uint32)))
        if kept.rows is None:
            continue
        removed.append(fragment.metadata.id)
        rows.append(kept.rows)
        row_ids.append(row_ids_at(fragment.metadata, kept.offsets))
    return Folded(removed=tuple(removed), rows=pa.concat_tables(rows), row_ids=np.concatenate(row_ids))
