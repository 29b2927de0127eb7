"""Tasks on rows of the match: filter them, keep the first ones, show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.functions.kernels import cast_to
from omnigraph.engine.query.output.ordering import ordered
from omnigraph.engine.query.output.relational import decoded
from omnigraph.engine.query.predicates import evaluate
from omnigraph.engine.query.run import project, result_schema
from omnigraph.engine.query.values import compute
from omnigraph.ir.model import PRIVATE_MARK, Predicate, ReadPlan, Scalarlike
from omnigraph.records import record
from omnigraph.spark.queries.layout import VALUE, Layout, Property
from omnigraph.spark.queries.tasks.rows import (
    BATCH_ROWS,
    CUT_ROWS,
    CarriedRows,
    KeptColumns,
    TaskParameters,
    TaskRows,
    gathered,
)
from omnigraph.spark.queries.tasks.wire import (
    aligned,
    decode,
    encode,
    encode_output,
    output_wire_schema,
)

_PLACE = f"{PRIVATE_MARK}place"


@record
class FilterTask(KeptColumns):
    """Keeps the rows that pass predicates, and the columns that are still needed."""

    given: TaskParameters
    layout: Layout
    predicates: tuple[Predicate, ...]
    kept: Layout

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that pass."""
        for rows in gathered(batches, self.layout.wire, BATCH_ROWS):
            found = passing(self.given, self.layout, self.predicates, decode(rows, self.layout.schema))
            yield encode(found.select(self.kept.names))


def passing(given: TaskParameters, layout: Layout, predicates: tuple[Predicate, ...], rows: pa.Table) -> pa.Table:
    """Return those rows that pass predicates."""
    for predicate in predicates:
        if not rows.num_rows:
            break
        mask = evaluate(predicate, CarriedRows(given, layout, rows))
        rows = rows if mask.all() else rows.filter(pa.array(mask))
    return rows


@record
class BindTask(KeptColumns):
    """Gives the entities of a variable another name, or other columns, and keeps those of one type if that is asked.

    Args:
        layout: the columns of the rows.
        kept: the columns that come out.
        copies: where a column that comes out is taken from; from itself unless it is here.
        type_name: what the columns :data:`TYPE` that the rows do not have say.
        only: the column of a type, and the type that rows must have there.
    """

    layout: Layout
    kept: Layout
    copies: Mapping[Property, Property]
    type_name: str = ""
    only: tuple[Property, str] | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the columns that come out."""
        for travelled in gathered(batches, self.layout.wire, BATCH_ROWS):
            rows = decode(travelled, self.layout.schema)
            if self.only is not None:
                asked, name = self.only
                rows = rows.filter(pc.equal(rows.column(self.layout.name(*asked)), name))
            columns = [self._column(rows, key, of) for key, (_, of) in self.kept.columns.items()]
            columns += [rows.column(name) for name in self.kept.weights]
            yield encode(pa.Table.from_arrays(columns, schema=self.kept.schema))

    def _column(self, rows: pa.Table, key: Property, of: pa.DataType) -> pa.Array | pa.ChunkedArray:
        source = self.copies.get(key, key)
        if source not in self.layout.columns:
            return pa.repeat(pa.scalar(self.type_name, pa.string()), rows.num_rows)
        return decoded(rows.column(self.layout.name(*source)), of)


@record
class UnwindTask(KeptColumns):
    """Makes one row per item of a list; a list that is NULL has none."""

    given: TaskParameters
    layout: Layout
    items: Scalarlike
    item: str
    kept: Layout

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their items."""
        for travelled in gathered(batches, self.layout.wire, BATCH_ROWS):
            rows = decode(travelled, self.layout.schema)
            lists = compute(self.items, CarriedRows(self.given, self.layout, rows))
            if pa.types.is_null(lists.type):
                continue
            made = rows.take(pc.list_parent_indices(lists))
            if (VALUE, self.item) in self.kept.columns:
                name, of = self.kept.columns[VALUE, self.item]
                made = made.append_column(pa.field(name, of), cast_to(pc.list_flatten(lists), of))
            yield encode(made.select(self.kept.names))


@record
class BlockValueTask(KeptColumns):
    """Makes the value of a block of the number of its solutions, which is NULL where there are none."""

    layout: Layout
    count: str
    kept: Layout
    is_count: bool

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the value."""
        for travelled in gathered(batches, self.schema_in, BATCH_ROWS):
            counts = pc.fill_null(travelled.column(self.count), 0)
            found = counts if self.is_count else pc.greater(counts, 0)
            at = travelled.column_names.index(self.count)
            yield from travelled.set_column(at, self.count, found).select(self.kept.names).combine_chunks().to_batches()

    @property
    def schema_in(self) -> pa.Schema:
        """The columns that come in: those of the rows, and the number."""
        return pa.schema([*self.layout.wire, pa.field(self.count, pa.int64())])


@record
class FirstRowsTask:
    """Orders the rows of a part, and keeps those that can be among the first of all."""

    given: TaskParameters
    layout: Layout
    read: ReadPlan

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.layout.wire

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the first rows, in order."""
        limit = self.read.limit
        if limit is None:
            yield from self._first(pa.Table.from_batches([aligned(item, self.schema) for item in batches], self.schema))
            return
        best = self.schema.empty_table()
        for rows in gathered(batches, self.schema, max(CUT_ROWS, 4 * limit)):
            best = pa.Table.from_batches(self._first(pa.concat_tables([best, rows])), self.schema)
        yield from best.to_batches()

    def _first(self, rows: pa.Table) -> list[pa.RecordBatch]:
        if not rows.num_rows:
            return []
        held = TaskRows.of(self.given, self.layout, rows)
        # The places of rows travel with them and say afterwards which ones were taken.
        placed = held.frame.binding({_PLACE: np.arange(rows.num_rows)})
        chosen = ordered(held, self.read, iter([placed]), cuts_early=False)
        batches: list[pa.RecordBatch] = rows.take(pa.array(chosen.ids[_PLACE])).combine_chunks().to_batches()
        return batches


@record
class OutputTask:
    """Makes the columns of the result; ``is_last`` orders the rows first, all of which are in this part then."""

    given: TaskParameters
    layout: Layout
    read: ReadPlan
    is_last: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return output_wire_schema(self.read)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of the result."""
        if self.is_last:
            batches = FirstRowsTask(given=self.given, layout=self.layout, read=self.read).run(batches)
        schema = result_schema(self.read)
        for rows in gathered(batches, self.layout.wire, BATCH_ROWS):
            held = TaskRows.of(self.given, self.layout, rows)
            yield encode_output(self.read, project(held, self.read, held.frame, None, schema))
