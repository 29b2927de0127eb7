"""Tasks of stages: compute columns, make groups, order and cut. What is computed, the embedded engine's code computes.

Between these tasks rows have columns under the names that the embedded engine gives them: values, and entities that go
on to the next stage, each under the name of the value that stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.functions.kernels import cast_to
from omnigraph.engine.query.output.relational import (
    NUMBER,
    Measure,
    RelationalKernel,
    RowStream,
    SortKey,
    decoded,
    encoded,
)
from omnigraph.engine.query.run import result_schema
from omnigraph.engine.query.values import compute, passing
from omnigraph.engine.relational import EnginePool
from omnigraph.ir.model import Condition, ReadPlan, Scalarlike
from omnigraph.records import record
from omnigraph.spark.queries.layout import VALUE, Layout
from omnigraph.spark.queries.relations import Task
from omnigraph.spark.queries.tasks.rows import (
    BATCH_ROWS,
    CUT_ROWS,
    CarriedRows,
    KeptColumns,
    TaskContext,
    TaskParameters,
    first_rows,
    gathered,
)
from omnigraph.spark.queries.tasks.wire import decode, encode, encode_output, output_wire_schema

_POSITION = "#position"


@contextmanager
def _kernel(given: TaskParameters) -> Iterator[RelationalKernel]:
    context = TaskContext(given)
    with closing(EnginePool()) as engines:
        kernel = RelationalKernel(engines, context.options.most_memory_bytes, context.limits)
        try:
            yield kernel
        finally:
            kernel.close()


@record
class ComputeTask(KeptColumns):
    """Computes columns of the rows that pass.

    Args:
        given: what the request brought.
        layout: the columns of the rows.
        values: what is computed, by name.
        entities: the entities that go along, by their new names.
        having: what rows must satisfy.
        kept: the columns that come out.
    """

    given: TaskParameters
    layout: Layout
    values: Mapping[str, Scalarlike]
    entities: Mapping[str, str]
    having: Scalarlike | None
    kept: Layout

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the computed rows."""
        for travelled in gathered(batches, self.layout.wire, BATCH_ROWS):
            table = decode(travelled, self.layout.schema)
            rows = CarriedRows(self.given, self.layout, table)
            if self.having is not None:
                mask = passing(Condition(value=self.having), rows)
                table = table.filter(pa.array(mask))
                rows = CarriedRows(self.given, self.layout, table)
            columns = []
            for (owner, prop), (_, of) in self.kept.columns.items():
                if owner == VALUE:
                    columns.append(cast_to(_one_nan(encoded(compute(self.values[prop], rows))), of))
                else:
                    columns.append(table.column(self.layout.name(self.entities[owner], prop)))
            yield encode(pa.Table.from_arrays(columns, schema=self.kept.schema))


def _one_nan(values: pa.Array) -> pa.Array:
    """Return values in which every NaN has the same bits, by which rows are told apart on their way."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)


@record
class MarkTask:
    """Makes one row that is none, all NULL, so that there is a part even where Spark drops all of them."""

    layout: Layout

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, and the mark."""
        return self.layout.wire

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield it once for every number."""
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in self.schema], schema=self.schema)


@record
class StageGroupsTask(KeptColumns):
    """Makes groups of the computed rows of a part: whole ones, or some that are merged later.

    Args:
        given: what the request brought.
        layout: the columns of the rows.
        keys: the names of what groups are made by, entities among them.
        measures: what is computed for every group.
        order: the names of what lists of values are ordered by.
        mark: the value that is NULL in the row that is none, if there is such a row.
        kept: the columns that come out.
    """

    given: TaskParameters
    layout: Layout
    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    order: tuple[str, ...]
    mark: str | None
    kept: Layout

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the groups."""
        pieces: Iterator[pa.Table] = (
            self._without_mark(decode(rows, self.layout.schema)) for rows in self._pieces(batches)
        )
        held = pa.table({})
        if self.layout.variables:
            # Groups name their entities by row: those rows are needed afterwards.
            held = pa.concat_tables(pieces)
            pieces = iter([held])
        with _kernel(self.given) as kernel:
            stream = RowStream(self._stream_schema, self._numbered(pieces))
            found = kernel.group(stream, self.keys, self.measures, self.order)
        columns = []
        for (owner, prop), (_, of) in self.kept.columns.items():
            if owner == VALUE:
                columns.append(decoded(found.column(prop), of))
            else:
                at = found.column(owner).to_numpy()
                columns.append(held.column(self.layout.name(owner, prop)).take(pa.array(at, mask=at < 0)))
        yield encode(pa.Table.from_arrays(columns, schema=self.kept.schema))

    def _pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        return gathered(batches, self.layout.wire, BATCH_ROWS)

    def _without_mark(self, rows: pa.Table) -> pa.Table:
        return rows if self.mark is None else rows.filter(rows.column(self.layout.name(VALUE, self.mark)).is_valid())

    @property
    def _names(self) -> Mapping[str, str]:
        return {prop: name for prop, (name, _) in self.layout.of(VALUE).items()}

    @property
    def _stream_schema(self) -> pa.Schema:
        values = [pa.field(prop, of) for prop, (_, of) in self.layout.of(VALUE).items()]
        return pa.schema([*values, *(pa.field(name, pa.int64()) for name in (*self.layout.variables, NUMBER))])

    def _numbered(self, pieces: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        done, schema = 0, self._stream_schema
        for rows in pieces:
            columns = [rows.column(name) for name in self._names.values()]
            identities = map(self.layout.identity, self.layout.variables)
            columns += [first_rows([rows.column(name) for name in names]) for names in identities]
            columns.append(np.arange(done, done + rows.num_rows))
            done += rows.num_rows
            yield from pa.Table.from_arrays(list(map(_array, columns)), schema=schema).combine_chunks().to_batches()


def _array(column: pa.ChunkedArray | np.ndarray) -> pa.ChunkedArray | pa.Array:
    return pa.array(column, pa.int64()) if isinstance(column, np.ndarray) else column


@record
class ArrangeTask(KeptColumns):
    """Orders the computed rows of a part and cuts them.

    Args:
        given: what the request brought.
        layout: the columns of the rows.
        order: what they are ordered by.
        per: what each cut is made by; one cut for all rows without any.
        offset: how many rows are left out.
        limit: how many stay at most.
        place: the value that says where each row stands, if one is wanted.
        kept: the columns that come out.
    """

    given: TaskParameters
    layout: Layout
    order: tuple[SortKey, ...]
    per: tuple[str, ...] = ()
    offset: int = 0
    limit: int | None = None
    place: str | None = None
    kept: Layout

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that stay, in order."""
        with _kernel(self.given) as kernel:
            rows = self._first(kernel, self._few(kernel, batches), self.offset, self.limit)
        if self.place is not None:
            field = pa.field(self.kept.name(VALUE, self.place), pa.int64())
            rows = rows.append_column(field, pa.array(np.arange(rows.num_rows), pa.int64()))
        yield encode(rows.select(self.kept.names))

    def _few(self, kernel: RelationalKernel, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        """Return no more rows than can be among the first, where that is known."""
        wire, schema = self.layout.wire, self.layout.schema
        if self.limit is None or self.per:
            return pa.concat_tables(decode(rows, schema) for rows in gathered(batches, wire, BATCH_ROWS))
        most = self.offset + self.limit
        best = schema.empty_table()
        for rows in gathered(batches, wire, max(CUT_ROWS, 4 * most)):
            both = pa.concat_tables([best, decode(rows, schema)])
            best = self._first(kernel, both, 0, most) if both.num_rows > most else both
        return best

    def _first(self, kernel: RelationalKernel, rows: pa.Table, offset: int, limit: int | None) -> pa.Table:
        if not rows.num_rows:
            return rows
        names = dict.fromkeys([*(key.column for key in self.order), *self.per])
        asked = {name: rows.column(self.layout.name(VALUE, name)) for name in names}
        table = pa.table({**asked, _POSITION: pa.array(np.arange(rows.num_rows), pa.int64())})
        found = kernel.arrange(
            RowStream(table.schema, table.to_batches()),
            [_POSITION],
            is_distinct=False,
            order=self.order,
            per=self.per,
            offset=offset,
            limit=limit,
        )
        return rows.take(found.column(_POSITION))


@record
class ResultTask:
    """Makes rows of the result of computed rows, whose values have the names ``shown``."""

    read: ReadPlan
    layout: Layout
    shown: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return output_wire_schema(self.read)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of the result."""
        types = [field.type for field in result_schema(self.read)]
        for travelled in gathered(batches, self.layout.wire, BATCH_ROWS):
            rows = decode(travelled, self.layout.schema)
            names = (self.layout.name(VALUE, name) for name in self.shown)
            columns = [decoded(rows.column(name), of) for name, of in zip(names, types, strict=True)]
            if columns:
                yield encode_output(self.read, pa.Table.from_arrays(columns, schema=result_schema(self.read)))
            else:
                yield pa.RecordBatch.from_arrays([pa.nulls(rows.num_rows, pa.bool_())], schema=self.schema)


@record
class ChainTask:
    """Tasks one after the other, over the rows of one part."""

    tasks: tuple[Task, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out of the last one."""
        return self.tasks[-1].schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the last task yields."""
        for task in self.tasks:
            batches = task.run(batches)
        return batches
