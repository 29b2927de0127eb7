"""Tasks on groups: make partial ones of a part's rows, merge those of all parts, order and cut."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from omnigraph.engine.query.output.aggregates import finish_groups, merge_groups, partial_groups
from omnigraph.engine.query.output.ordering import order_table
from omnigraph.engine.query.run import result_schema
from omnigraph.ir.model import ReadPlan
from omnigraph.records import record
from omnigraph.spark.queries.layout import Layout
from omnigraph.spark.queries.tasks.rows import TaskParameters, TaskRows, gathered
from omnigraph.spark.queries.tasks.wire import (
    aligned,
    decode,
    decode_output,
    encode,
    encode_output,
    output_wire_schema,
    wire_schema,
)

# Rows that are grouped together.
_GROUPED_ROWS = 1 << 17
# Partial groups that gather before they are merged.
_PARTIAL_ROWS = 1 << 19


@record(slots=False)
class GroupTask:
    """Groups the rows of one part, leaving what can be merged with the groups of other parts."""

    given: TaskParameters
    layout: Layout
    read: ReadPlan

    @cached_property
    def groups(self) -> pa.Schema:
        """The columns of partial groups, those that name the group first; read off the groups of no rows."""
        return _renamed(self._partial(self.layout.wire.empty_table())).schema

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that name the group."""
        return tuple(self.groups.names[: len(self.read.groups or ())])

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return wire_schema(self.groups)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield partial groups; without group columns a part without rows has one too."""
        held: list[pa.Table] = []
        count = merged = 0
        for rows in gathered(batches, self.layout.wire, _GROUPED_ROWS):
            held.append(self._partial(rows))
            count += held[-1].num_rows
            if count > max(_PARTIAL_ROWS, 2 * merged):
                held = [self._merged(held)]
                count = merged = held[0].num_rows
        yield encode(_renamed(self._merged(held)))

    def merge(self, rows: pa.Table) -> pa.Table:
        """Return whole groups, as columns of the result, of all the partial ones that travelled."""
        partial = decode(rows, self.groups)
        names = [*self.keys, *(name.replace(_SAFE, _MARK) for name in partial.column_names[len(self.keys) :])]
        return finish_groups(self.read, merge_groups(self._nothing, self.read, partial.rename_columns(names)))

    def _partial(self, rows: pa.Table) -> pa.Table:
        context = TaskRows.of(self.given, self.layout, rows)
        return partial_groups(context, self.read, iter([context.frame]))

    def _merged(self, groups: list[pa.Table]) -> pa.Table:
        return groups[0] if len(groups) == 1 else merge_groups(self._nothing, self.read, pa.concat_tables(groups))

    @property
    def _nothing(self) -> TaskRows:
        return TaskRows.of(self.given, self.layout, self.layout.wire.empty_table())


# Names of columns that travel are plain words.
_MARK, _SAFE = "#", "m_"


def _renamed(groups: pa.Table) -> pa.Table:
    return groups.rename_columns([name.replace(_MARK, _SAFE) for name in groups.column_names])


@record(slots=False)
class MergeGroupsTask:
    """Makes whole groups of the partial ones that have come together, and keeps those that can be among the first."""

    grouping: GroupTask

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return output_wire_schema(self.grouping.read)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield groups as rows of the result."""
        wire, read = self.grouping.schema, self.grouping.read
        rows = pa.Table.from_batches([aligned(batch, wire) for batch in batches], wire)
        yield encode_output(read, _first_groups(read, self.grouping.merge(rows)))


@record(slots=False)
class NoRowsTask:
    """Makes the partial groups of no rows, so that there is a part to merge even where Spark drops all of them."""

    grouping: GroupTask

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.grouping.schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield them once for every number."""
        for _ in batches:
            yield from self.grouping.run(iter(()))


@record
class FirstGroupsTask:
    """Orders whole groups, all of which are in this part, and cuts them at the limit."""

    read: ReadPlan

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return output_wire_schema(self.read)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield groups in order."""
        rows = pa.Table.from_batches([aligned(batch, self.schema) for batch in batches], self.schema)
        yield encode_output(self.read, _first_groups(self.read, decode_output(self.read, rows)))


def _first_groups(read: ReadPlan, groups: pa.Table) -> pa.Table:
    table = pa.Table.from_arrays(groups.columns, schema=result_schema(read))
    return table.take(pa.array(order_table(read, table)))
