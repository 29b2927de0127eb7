"""The state that a merge would make, readable before it is published: the target with the rows of the plan on top.

Tables that the plan leaves alone are read as the target has them. Of the others the read engine gets a copy, made when
a query asks for it from parts of bounded size: stored rows as they stream by, then the rows that the plan writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType, Scalar
from omnigraph.engine.mutate.overlay import OverlaidState, PendingCopies, types_read
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.query.runner import PendingRead
from omnigraph.history.merge.planning import MergePlan
from omnigraph.history.merge.schemas import SideTable, side_table
from omnigraph.ir.model import ReadPlan
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import RowChange, as_id_array, id_array
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import CommitId

# How much of a table is in memory at once while it is copied.
_PART_BYTES = 64 << 20


@record(eq=False)
class MergeCandidate:
    """A merge that breaks no rule of the schema, as it would be.

    Args:
        source: the state that it merges.
        target: the state that it would be published on.
        plan: what it does to the target; None when the target has everything already.
        catalog: the schema that the merged state follows.
        commit: the commit that it would be; None when it is only looked at.
    """

    source: GraphSnapshot
    target: GraphSnapshot
    plan: MergePlan | None
    catalog: Catalog
    commit: CommitId | None = None

    @contextmanager
    def reading(self, graph: OpenGraph) -> Iterator[PendingRead]:
        """Give what runs reads on the merged state; copies that they need go with the block."""
        rows = _MergedRows(self)
        with PendingCopies(graph.runtime) as copies, self.target.reading():

            def overlay(read: ReadPlan) -> OverlaidState:
                return copies.overlay(rows, types_read(read, self.catalog))

            yield PendingRead(
                snapshot=self.target,
                overlay=overlay,
                now_ms=graph.runtime.clock.now_ms(),
                catalog=self.catalog,
            )


class _MergedRows:
    """What a plan does to tables, as copies are made of it."""

    def __init__(self, candidate: MergeCandidate) -> None:
        self.snapshot = candidate.target
        plan = candidate.plan
        self._changes = {} if plan is None else plan.rows
        self._schemas = None if plan is None else plan.schemas

    def depend_on(self, table_key: str) -> None:
        """Nothing to take down: the merge is checked again on every state that it is about to be published on."""

    def has_changed(self, owner: NodeType | EdgeType) -> bool:
        """Whether the plan changes rows of a type, or makes its table, or gives it another name or other columns."""
        side = self._side(owner.table_key)
        is_as_stored = side is not None and side.pair is None and side.entry.table_key == owner.table_key
        return owner.table_key in self._changes or not is_as_stored

    def _side(self, table_key: str) -> SideTable | None:
        return side_table("target", self.snapshot, table_key, self._schemas)

    def revision(self, owner: NodeType | EdgeType) -> int:
        """A plan never changes."""
        del owner
        return 0

    def readable_parts(self, owner: NodeType | EdgeType) -> Iterator[pa.Table]:
        """Yield all rows of a type after the merge."""
        blobs = {prop.name for prop in owner.properties if prop.type.scalar is Scalar.BLOB}
        schema = pa.schema([field for field in arrow_schema(owner) if field.name not in blobs])
        change = self._changes.get(owner.table_key)
        yield schema.empty_table() if change is None else _fitted(change.written, schema)
        side = self._side(owner.table_key)
        if side is not None:
            yield from _in_parts(self._stored(side.table, change, schema))

    def _stored(self, table: Table, change: RowChange | None, schema: pa.Schema) -> Iterator[pa.Table]:
        none = pa.array([], pa.string())
        hidden = none if change is None else pa.concat_arrays([id_array(change.written), as_id_array(change.deletes)])
        present = [name for name in schema.names if name in table.schema.names]
        for batch in table.scan(present):
            rows = pa.Table.from_batches([batch])
            yield _fitted(rows.filter(pc.invert(pc.is_in(rows.column(KEY), value_set=hidden))), schema)


def _fitted(rows: pa.Table | None, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly these columns; those that they lack are NULL."""
    if rows is None:
        return schema.empty_table()
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _in_parts(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    size = 0
    for part in rows:
        held.append(part)
        size += part.nbytes
        if size >= _PART_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)
