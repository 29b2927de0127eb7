"""Walks of many hops by the embedded engine's own code, over edges that every worker holds.

While one worker can hold the edges of a type, walking there replaces a join for every hop.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import one_array
from omnigraph.engine.query.topology import Adjacency, reach
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.spark.query.layout import Layout
from omnigraph.spark.query.reading import Bounds
from omnigraph.spark.query.scans import SOURCE, TARGET, EdgesTask
from omnigraph.spark.query.task_rows import gathered

# Walks that go together, and what they may find together in the worst case.
_WALKED_ROWS = 8192
_FOUND_ROWS = 1 << 24
# Tables that a worker keeps from one task to the next.
_KEPT_TABLES = 2


@record
class WalkTask:
    """Joins every row with what its source reaches.

    Args:
        edges: how the edges are read, all parts of them.
        bounds: how far to go.
        layout: the columns of the rows.
        source: the variable where walks begin.
        end: the column for what is reached; none when nobody looks at it.
    """

    edges: EdgesTask
    bounds: Bounds
    layout: Layout
    source: str
    end: Layout

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.layout.plus(self.end).wire

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with what they reach."""
        near = _held(self.edges)
        together = max(1, min(_WALKED_ROWS, _FOUND_ROWS // max(1, len(near.ids))))
        for gathering in gathered(batches, self.layout.wire, together):
            for start in range(0, gathering.num_rows, together):
                yield from self._walk(near, gathering.slice(start, together))

    def _walk(self, near: _HeldEdges, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        sources = one_array(rows.column(self.layout.name(self.source)))
        codes = pc.fill_null(pc.index_in(sources, value_set=near.ids), -1).to_numpy(zero_copy_only=False)
        # Whoever has no edge is not among the ids and reaches nothing.
        known = np.flatnonzero(codes >= 0)
        at, found = reach(
            near.adjacency,
            codes[known].astype(np.int64),
            self.bounds.min_hops,
            self.bounds.max_hops,
            same_type=True,
            is_backward=self.bounds.is_backward,
            check=_unchecked,
        )
        if not len(at):
            return
        reached = rows.take(pa.array(known[at]))
        for name, _ in self.end.columns.values():
            reached = reached.append_column(name, near.ids.take(pa.array(found)))
        # The end belongs before the weights.
        yield from reached.select(self.schema.names).combine_chunks().to_batches()


@record
class _HeldEdges:
    """Adjacency over the nodes that have edges, and their ids."""

    ids: pa.Array
    adjacency: Adjacency


_kept: LRUCache[Hashable, _HeldEdges] = LRUCache(_KEPT_TABLES)


def _held(edges: EdgesTask) -> _HeldEdges:
    ticket = edges.table.stored.ticket
    key = (ticket.storage.root, ticket.pin, edges.direction)
    found = _kept.get(key)
    if found is None:
        found = _read(edges)
        _kept.put(key, found)
    return found


def _read(edges: EdgesTask) -> _HeldEdges:
    parts = pa.record_batch({"id": pa.array(range(len(edges.table.groups)), pa.int64())})
    table = pa.Table.from_batches(list(edges.run(iter([parts]))), edges.schema)
    ends = pa.concat_arrays([one_array(table.column(name)) for name in (SOURCE, TARGET)]).dictionary_encode()
    codes = ends.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    count = len(ends.dictionary)
    adjacency = Adjacency.of_pairs(
        codes[: table.num_rows],
        codes[table.num_rows :],
        np.arange(table.num_rows),
        node_count=count,
        target_count=count,
    )
    return _HeldEdges(ids=ends.dictionary, adjacency=adjacency)


def _unchecked(_: int) -> None:
    """What a walk may find is bounded by how many go together."""
