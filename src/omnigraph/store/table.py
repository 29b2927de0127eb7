"""Tables as the rest of the program holds them: pinned, scanned, and asked by id."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.runtime import Counters
from omnigraph.store.lookup import look_up
from omnigraph.store.pinned import KEY, ROW_ADDRESS, ROW_ID, ROW_META, IndexSegment, PinnedTable, Search, TableIndex

__all__ = ["KEY", "ROW_ADDRESS", "ROW_ID", "ROW_META", "IndexSegment", "Search", "Table", "TableIndex"]


class Table(PinnedTable):
    """One immutable version of a table. Safe to share between threads."""

    def lookup(self, ids: Sequence[str] | pa.Array, columns: Sequence[str], counters: Counters) -> pa.Table:
        """Return ``id``, row id, row address and ``columns`` of the rows with these ids; unknown ids are left out.

        Fragments that an index on the id covers are asked through it, small ones without an index in memory.
        """
        return look_up(self, ids, columns, counters)
