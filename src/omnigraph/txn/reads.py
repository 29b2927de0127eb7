"""What a write was decided on: whole tables, rows by their ids, and edges by the nodes at their ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import TableMissingError, VersionMissingError
from omnigraph.store.tables.moves import EdgeEnds, edges_added, have_ends, rows_moved
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import RowChange, as_id_array, id_array

# A write that was decided on more rows of a table was decided on the table.
MOST_ROWS = 10_000


class SupportsTables(Protocol):
    """A state whose tables can be opened."""

    def table(self, table_key: str) -> Table:
        """Open a table as the state has it."""


class Reads:
    """What a write was decided on. A table stands in one place only: as a whole, or by rows and ends.

    ``tables`` are decided on as a whole. Of those in ``rows`` only these rows count, there or not; none of them if the
    write adds rows whatever the table holds. Of tables in ``ends`` every edge with such ends counts, those that there
    are by their rows, too.
    """

    def __init__(self) -> None:
        self.tables: set[str] = set()
        self.rows: dict[str, set[str]] = {}
        self.ends: dict[str, set[EdgeEnds]] = {}

    def __bool__(self) -> bool:
        """Whether it was decided on anything."""
        return bool(self.tables or any(self.rows.values()) or any(self.ends.values()))

    @property
    def table_keys(self) -> frozenset[str]:
        """Every table that it knows of."""
        return frozenset({*self.tables, *self.rows, *self.ends})

    def is_by_rows(self, table_key: str) -> bool:
        """Whether it is known which rows of a table count."""
        return table_key in self.rows or table_key in self.ends

    def add_table(self, table_key: str) -> None:
        """Count every row of a table."""
        self.tables.add(table_key)
        self.rows.pop(table_key, None)
        self.ends.pop(table_key, None)

    def add_rows(self, table_key: str, ids: Iterable[str]) -> None:
        """Count some rows of a table."""
        if table_key not in self.tables:
            rows = self.rows.setdefault(table_key, set())
            rows.update(ids)
            self._bound(table_key, len(rows))

    def add_ends(self, table_key: str, ends: Iterable[EdgeEnds]) -> None:
        """Count the edges with some ends."""
        if table_key not in self.tables:
            known = self.ends.setdefault(table_key, set())
            known.update(ends)
            self._bound(table_key, len(known))

    def _bound(self, table_key: str, count: int) -> None:
        if count > MOST_ROWS:
            self.add_table(table_key)

    def merge(self, other: Reads) -> None:
        """Count what another one counts, too."""
        for table_key in other.tables:
            self.add_table(table_key)
        for table_key, ids in other.rows.items():
            self.add_rows(table_key, ids)
        for table_key, ends in other.ends.items():
            self.add_ends(table_key, ends)

    def clear(self) -> None:
        """Forget everything."""
        self.tables, self.rows, self.ends = set(), {}, {}

    def depends_on(self, change: RowChange) -> bool:
        """Whether a change writes or removes rows that count."""
        table_key = change.table_key
        if table_key in self.tables:
            return True
        rows, ends = self.rows.get(table_key), self.ends.get(table_key)
        if rows:
            wanted = pa.array(rows, pa.string())
            touched = (id_array(change.inserts), id_array(change.upserts), as_id_array(change.deletes))
            if any(_meet(ids, wanted) for ids in touched):
                return True
        written = change.written
        return bool(ends) and written is not None and bool(pc.any(have_ends(written, ends or ())).as_py())

    def have_moved(self, table_key: str, before: SupportsTables, after: SupportsTables) -> bool:
        """Whether rows of a table that count by themselves may be others in ``after`` than in ``before``."""
        rows, ends = self.rows.get(table_key, set()), self.ends.get(table_key, set())
        if not rows and not ends:
            return False
        try:
            old, new = before.table(table_key), after.table(table_key)
            return rows_moved(old, new, rows) or edges_added(old, new, ends, rows)
        except (VersionMissingError, TableMissingError):
            # What it was decided on is gone, and nobody can tell any more.
            return True


def _meet(ids: pa.Array | pa.ChunkedArray, wanted: pa.Array) -> bool:
    return bool(len(ids)) and bool(pc.any(pc.is_in(ids, value_set=wanted)).as_py())
