"""Tasks on rows of the match: filter them, keep the first ones, show them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.engine.query.output.ordering import ordered
from omnigraph.engine.query.run import project, result_schema
from omnigraph.engine.query.values.predicates import evaluate
from omnigraph.ir.model import PRIVATE_MARK, Predicate, ReadPlan
from omnigraph.records import record
from omnigraph.spark.query.held import CarriedRows, Given, HeldRows, gathered
from omnigraph.spark.query.layout import Layout
from omnigraph.spark.query.shown import encode_shown, shown_wire
from omnigraph.spark.query.wire import aligned, decode, encode

# Rows that are looked at together: enough to pay for a call, few enough to stay in the cache.
_TOGETHER = 1 << 16
# Rows that may gather before they are cut down to those that can still be among the first.
_GATHERED_ROWS = 1 << 18
_PLACE = f"{PRIVATE_MARK}place"


@record
class FilterTask:
    """Keeps the rows that pass predicates, and the columns that are still needed."""

    given: Given
    layout: Layout
    predicates: tuple[Predicate, ...]
    kept: Layout

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.kept.wire

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that pass."""
        for rows in gathered(batches, self.layout.wire, _TOGETHER):
            found = passing(self.given, self.layout, self.predicates, decode(rows, self.layout.schema))
            yield encode(found.select(self.kept.names))


def passing(given: Given, layout: Layout, predicates: tuple[Predicate, ...], rows: pa.Table) -> pa.Table:
    """Return those rows that pass predicates."""
    for predicate in predicates:
        if not rows.num_rows:
            break
        mask = evaluate(predicate, CarriedRows(given, layout, rows))
        rows = rows if mask.all() else rows.filter(pa.array(mask))
    return rows


@record
class FirstRowsTask:
    """Orders the rows of a part, and keeps those that can be among the first of all."""

    given: Given
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
        for rows in gathered(batches, self.schema, max(_GATHERED_ROWS, 4 * limit)):
            best = pa.Table.from_batches(self._first(pa.concat_tables([best, rows])), self.schema)
        yield from best.to_batches()

    def _first(self, rows: pa.Table) -> list[pa.RecordBatch]:
        if not rows.num_rows:
            return []
        held = HeldRows.of(self.given, self.layout, rows)
        # The places of rows travel with them and say afterwards which ones were taken.
        placed = held.frame.binding({_PLACE: np.arange(rows.num_rows)})
        chosen = ordered(held, self.read, iter([placed]), cuts_early=False)
        batches: list[pa.RecordBatch] = rows.take(pa.array(chosen.ids[_PLACE])).combine_chunks().to_batches()
        return batches


@record
class ShowTask:
    """Makes the columns of the result; ``is_last`` orders the rows first, all of which are in this part then."""

    given: Given
    layout: Layout
    read: ReadPlan
    is_last: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return shown_wire(self.read)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of the result."""
        if self.is_last:
            batches = FirstRowsTask(given=self.given, layout=self.layout, read=self.read).run(batches)
        schema = result_schema(self.read)
        for rows in gathered(batches, self.layout.wire, _TOGETHER):
            held = HeldRows.of(self.given, self.layout, rows)
            yield encode_shown(self.read, project(held, self.read, held.frame, None, schema))
