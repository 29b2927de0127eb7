"""Rows of the result as other jobs of Spark take them: the types that the data source gives the same values.

Instants are timestamps in UTC, unsigned integers wider ones, vectors arrays.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.ir.model import ReadPlan
from omnigraph.records import record
from omnigraph.spark.query.shown import shown_schema, shown_wire
from omnigraph.spark.query.wire import aligned, decode

_NATURAL = {
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.date64(): pa.timestamp("us", tz="UTC"),
}


@record
class NaturalTask:
    """Gives rows of the result the types that Spark has for their values."""

    read: ReadPlan

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, under the names that they travel by."""
        return pa.schema([pa.field(field.name, natural_type(field.type)) for field in shown_schema(self.read)])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same rows."""
        schema, shown = self.schema, shown_schema(self.read)
        for batch in batches:
            rows = decode(aligned(batch, shown_wire(self.read)), shown)
            yield from rows.cast(schema).combine_chunks().to_batches()


def natural_type(of: pa.DataType) -> pa.DataType:
    """Return the type that values of a type have for whoever uses them in Spark."""
    if pa.types.is_list(of) or pa.types.is_fixed_size_list(of):
        return pa.list_(pa.field("element", natural_type(of.value_type), nullable=True))
    return _NATURAL.get(of, of)
