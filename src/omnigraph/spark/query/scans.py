"""Tasks that read tables: the nodes that pass, and edges as they are walked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ir.model import Direction, Predicate
from omnigraph.records import record
from omnigraph.spark.query.held import Given
from omnigraph.spark.query.layout import Layout
from omnigraph.spark.query.row_tasks import passing
from omnigraph.spark.query.wire import encode, to_wire
from omnigraph.spark.states import StateTable

# The columns of edges as they are walked.
SOURCE, TARGET = "source", "target"


@record
class TableParts:
    """A table, cut into groups of fragments that are read by one task each."""

    stored: StateTable
    groups: tuple[tuple[int, ...], ...]
    row_count: int

    def whole(self) -> TableParts:
        """Return the table as one part."""
        return replace(self, groups=(tuple(number for group in self.groups for number in group),))

    def read(self, part: int, columns: list[str], asked: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one group, those that storage lets through."""
        return self.stored.read(self.groups[part], columns, filter=asked)


@record
class NodesTask:
    """Reads the nodes of some fragments that pass, with the columns that the read goes on with.

    Args:
        table: where they are.
        given: what the request brought.
        layout: every column that is looked at here.
        kept: the columns that come out.
        predicates: what decides.
        asked: what storage is asked; it may let through too much.
    """

    table: TableParts
    given: Given
    layout: Layout
    kept: Layout
    predicates: tuple[Predicate, ...] = ()
    asked: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.kept.wire

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the nodes of the parts that are numbered."""
        properties = [prop for _, prop in self.layout.columns]
        for part in _parts(batches):
            for batch in self.table.read(part, properties, self.asked):
                rows = pa.Table.from_arrays(batch.select(properties).columns, schema=self.layout.schema)
                found = passing(self.given, self.layout, self.predicates, rows)
                if found.num_rows:
                    yield encode(found.select(self.kept.names))


@record
class EdgesTask:
    """Reads edges as a walk in one direction meets them: from where, to where, and the properties of a named edge.

    Undirected, an edge is met from both its ends, one to itself once. ``is_distinct`` leaves every linked pair of a
    part once.
    """

    table: TableParts
    direction: Direction
    kept: Layout
    is_distinct: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        ends = [pa.field(SOURCE, pa.string()), pa.field(TARGET, pa.string())]
        return pa.schema([*ends, *self.kept.wire])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the edges of the parts that are numbered."""
        if not self.is_distinct:
            yield from self._edges(batches)
            return
        pairs = pa.Table.from_batches(list(self._edges(batches)), self.schema)
        yield from pairs.group_by([SOURCE, TARGET], use_threads=False).aggregate([]).cast(self.schema).to_batches()

    def _edges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        properties = [prop for _, prop in self.kept.columns]
        for part in _parts(batches):
            for batch in self.table.read(part, list(dict.fromkeys(["src", "dst", *properties]))):
                values = [to_wire(batch[prop]) for prop in properties]
                out = pa.RecordBatch.from_arrays([batch["src"], batch["dst"], *values], schema=self.schema)
                back = pa.RecordBatch.from_arrays([batch["dst"], batch["src"], *values], schema=self.schema)
                if self.direction != "in":
                    yield out
                if self.direction == "both":
                    back = back.filter(pc.not_equal(back[SOURCE], back[TARGET]))
                if self.direction != "out":
                    yield back


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
