"""Walks of many hops by the embedded engine's own code, over edges that every worker holds.

While one worker can hold the edges of a type, walking there replaces a join for every hop.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import one_array
from omnigraph.engine.query.frame import Mask, Positions
from omnigraph.engine.query.operators.walk import ConditionedWalk, is_about_edges, is_total
from omnigraph.engine.query.predicates import evaluate
from omnigraph.engine.query.topology import Adjacency, reach
from omnigraph.ir.model import Walk
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.spark.queries.layout import Layout
from omnigraph.spark.queries.reading import Bounds
from omnigraph.spark.queries.scans import SOURCE, TARGET, EdgesTask
from omnigraph.spark.queries.tasks.rows import CarriedRows, TaskContext, TaskParameters, gathered
from omnigraph.spark.queries.tasks.wire import decode

# Walks that go together, and what they may find together in the worst case.
_WALKED_ROWS = 8192
_FOUND_ROWS = 1 << 24
# Tables that a worker keeps from one task to the next.
_KEPT_TABLES = 2


@record
class WalkTask:
    """Joins every row with what its source reaches.

    Args:
        edges: how the edges of each type are read, all parts of them, with what a condition asks of them.
        bounds: how far to go.
        layout: the columns of the rows.
        source: the variable where walks begin.
        end: the column for what is reached; none when nobody looks at it.
        conditioned: the walk whose condition the edges have to satisfy, if it has one.
        given: what the request brought.
        is_same_type: whether edges can be walked again from where they lead.
    """

    edges: tuple[EdgesTask, ...]
    bounds: Bounds
    layout: Layout
    source: str
    end: Layout
    given: TaskParameters
    conditioned: Walk | None = None
    is_same_type: bool = True

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.layout.plus(self.end).wire

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with what they reach."""
        near = _held(self.edges)
        asked = self.conditioned
        is_asked_by_row = asked is not None
        if asked is not None and asked.condition is not None and asks_edges_alone(asked):
            # If every edge is asked before the first walk, none is asked twice.
            passes = evaluate(asked.condition, CarriedRows(self.given, self.edges[0].kept, near.edges))
            near = replace(near, adjacency=near.adjacency.restricted(passes))
            is_asked_by_row = False
        together = max(1, min(_WALKED_ROWS, _FOUND_ROWS // max(1, len(near.ids))))
        for gathering in gathered(batches, self.layout.wire, together):
            for start in range(0, gathering.num_rows, together):
                piece = gathering.slice(start, together)
                yield from self._walk(near, piece, is_asked_by_row=is_asked_by_row)

    def _walk(self, near: _HeldEdges, rows: pa.Table, *, is_asked_by_row: bool) -> Iterator[pa.RecordBatch]:
        sources = one_array(rows.column(self.layout.name(self.source)))
        codes = pc.fill_null(pc.index_in(sources, value_set=near.ids), -1).to_numpy(zero_copy_only=False)
        # Whoever has no edge is not among the ids and reaches nothing.
        known = np.flatnonzero(codes >= 0)
        starts = codes[known].astype(np.int64)
        if is_asked_by_row and self.conditioned is not None:
            at, found = self._ask(near, rows.take(pa.array(known)), self.conditioned, starts)
        else:
            at, found = reach(
                near.adjacency,
                starts,
                self.bounds.min_hops,
                self.bounds.max_hops,
                same_type=self.is_same_type,
                check=_unchecked,
                on_new_nodes=self.bounds.on_new_nodes,
            )
        if not len(at):
            return
        reached = rows.take(pa.array(known[at]))
        for name, _ in self.end.columns.values():
            reached = reached.append_column(name, near.ids.take(pa.array(found)))
        # The end belongs before the weights.
        yield from reached.select(self.schema.names).combine_chunks().to_batches()

    def _ask(self, near: _HeldEdges, rows: pa.Table, step: Walk, starts: Positions) -> tuple[Positions, Positions]:
        """Walk along the edges that satisfy a condition for the row that comes to them."""
        condition = step.condition
        assert condition is not None  # noqa: S101 - asked before
        both = self.layout.plus(self.edges[0].kept)
        values = decode(rows, self.layout.schema)

        def allows(at: Positions, edges: Positions) -> Mask:
            columns = [*values.take(pa.array(at)).columns, *near.edges.take(pa.array(edges)).columns]
            asked = pa.Table.from_arrays(columns, names=[*values.column_names, *near.edges.column_names])
            return evaluate(condition, CarriedRows(self.given, both, asked))

        walk = ConditionedWalk(step=step, adjacency=near.adjacency, allows=allows, is_same_type=self.is_same_type)
        return walk.run(TaskContext(self.given), starts)


def asks_edges_alone(step: Walk) -> bool:
    """Whether the edges that satisfy the condition of a walk are the same for all rows, and asking each never fails."""
    condition = step.condition
    return condition is None or (is_about_edges(condition, step.edge_variable) and is_total(condition))


@record
class _HeldEdges:
    """Adjacency over the nodes that have edges, their ids, and the properties of the edges that are asked."""

    ids: pa.Array
    adjacency: Adjacency
    edges: pa.Table


_kept: LRUCache[Hashable, _HeldEdges] = LRUCache(_KEPT_TABLES)


def _held(edges: tuple[EdgesTask, ...]) -> _HeldEdges:
    tickets = [one.table.stored.ticket for one in edges]
    pins = tuple((ticket.storage.root, ticket.pin) for ticket in tickets)
    kept = edges[0].kept
    key = (pins, edges[0].direction, tuple(prop for _, prop in kept.columns))
    found = _kept.get(key)
    if found is None:
        found = _read(edges)
        _kept.put(key, found)
    # What is kept was read under the names of another read.
    return replace(found, edges=found.edges.rename_columns([SOURCE, *kept.names]))


def _read(edges: tuple[EdgesTask, ...]) -> _HeldEdges:
    batches: list[pa.RecordBatch] = []
    for one in edges:
        parts = pa.record_batch({"id": pa.array(range(len(one.table.groups)), pa.int64())})
        batches += one.run(iter([parts]))
    table = pa.Table.from_batches(batches, edges[0].schema)
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
    schema = pa.schema([pa.field(SOURCE, pa.string()), *edges[0].kept.schema])
    return _HeldEdges(ids=ends.dictionary, adjacency=adjacency, edges=decode(table, schema))


def _unchecked(_: int) -> None:
    """What a walk may find is bounded by how many go together."""
