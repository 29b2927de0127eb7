"""What a mutation has done to one table so far, on top of the stored rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.mutate.values import rows_of
from omnigraph.store.table import KEY


class PendingTable:
    """Pending rows and removed ids of one table. Per id only the last version exists.

    Inserted rows wait as plain values until somebody wants to see them, so that many inserts cost one conversion.
    """

    def __init__(self, owner: NodeType | EdgeType) -> None:
        self.owner = owner
        self.schema = arrow_schema(owner)
        self._rows = self.schema.empty_table()
        self._waiting: dict[str, Mapping[str, Any]] = {}
        self._removed: set[str] = set()
        # Ids that were made up here: no stored row can have them.
        self._made: set[str] = set()
        # Ids that follow from values: a stored row may have them or not, nobody has looked.
        self._derived: set[str] = set()

    @property
    def made(self) -> frozenset[str]:
        """The ids that this mutation made up."""
        return frozenset(self._made)

    @property
    def removed(self) -> frozenset[str]:
        """Ids that must not be stored in the end; of those in :attr:`uncertain` there may be no stored row."""
        return frozenset(self._removed)

    @property
    def uncertain(self) -> frozenset[str]:
        """Removed ids of which nobody knows whether a row was stored under them."""
        return frozenset(self._removed & self._derived)

    def insert(self, entity_id: str, values: Mapping[str, Any], *, is_made: bool) -> None:
        """Put a whole row, in place of any earlier version."""
        (self._made if is_made else self._derived).add(entity_id)
        self._removed.discard(entity_id)
        # The last version also takes the last place.
        self._waiting.pop(entity_id, None)
        self._waiting[entity_id] = {KEY: entity_id, **values}

    def insert_rows(self, rows: pa.Table, *, is_made: bool) -> None:
        """Put whole rows as so many inserts after each other: of several with one id the last counts."""
        ids = rows.column(KEY).to_pylist()
        (self._made if is_made else self._derived).update(ids)
        self._removed.difference_update(ids)
        last = dict(zip(ids, range(len(ids)), strict=True))
        if len(last) < len(ids):
            rows = rows.take(pa.array(sorted(last.values()), pa.int64()))
        self._rows = pa.concat_tables([_without(self.rows(), rows.column(KEY)), rows])

    def put(self, rows: pa.Table) -> None:
        """Put whole rows with distinct ids, in place of any earlier versions."""
        self._rows = pa.concat_tables([_without(self.rows(), rows.column(KEY)), rows.cast(self.schema)])

    def remove(self, ids: Collection[str]) -> None:
        """Remove entities, stored or pending."""
        gone = pa.array(sorted(ids), pa.string())
        self._rows = _without(self.rows(), gone)
        self._removed.update(set(ids) - self._made)

    def rows(self) -> pa.Table:
        """Return the pending rows, each id once."""
        if self._waiting:
            fresh = rows_of(self.owner, list(self._waiting.values()))
            self._waiting.clear()
            self._rows = pa.concat_tables([_without(self._rows, fresh.column(KEY)), fresh])
        return self._rows

    def visible(self, stored: pa.Table) -> pa.Table:
        """Return those stored rows that no pending version hides and no removal took."""
        hidden = pa.concat_arrays([*self.rows().column(KEY).chunks, pa.array(sorted(self._removed), pa.string())])
        return _without(stored, hidden)


def _without(rows: pa.Table, ids: pa.Array | pa.ChunkedArray) -> pa.Table:
    if not rows.num_rows or not len(ids):
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column(KEY), value_set=ids)))
