"""Values on their way through Spark: every type of ours in one that Spark carries unchanged, and back.

Spark only joins on ids and moves the rest, so numbers and dates travel as the bits they are.

Instants are timestamps in UTC, unsigned integers wider ones, vectors arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import one_array
from omnigraph.engine.query.run import result_schema
from omnigraph.ir.model import ReadPlan
from omnigraph.records import record

# Type of ours, and the type of the same width in which its bits travel.
# Floats travel so as well: Spark takes every NaN, and both zeros, for the same where it compares.
_SAME_BITS = {
    pa.uint64(): pa.int64(),
    pa.date32(): pa.int32(),
    pa.date64(): pa.int64(),
    pa.float32(): pa.int32(),
    pa.float64(): pa.int64(),
}
# Spark has no such numbers, and a column that is NULL throughout has to have a type.
_WIDER = {pa.uint32(): pa.int64(), pa.null(): pa.bool_()}


def wire_type(of: pa.DataType) -> pa.DataType:
    """Return the type in which values of a type travel."""
    if _is_list(of):
        return pa.list_(pa.field("element", wire_type(of.value_type), nullable=True))
    return _WIDER.get(of) or _SAME_BITS.get(of, of)


def wire_schema(of: pa.Schema) -> pa.Schema:
    """Return the schema in which rows of a schema travel."""
    return pa.schema([pa.field(field.name, wire_type(field.type)) for field in of])


def to_wire(values: pa.Array) -> pa.Array:
    """Return values as they travel."""
    of = values.type
    if _is_list(of):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        items = to_wire(values.flatten())
        return pa.ListArray.from_arrays(offsets, items, type=wire_type(of), mask=values.is_null())
    if of in _SAME_BITS:
        return values.view(_SAME_BITS[of])
    return values.cast(wire_type(of)) if of != wire_type(of) else values


def from_wire(values: pa.Array, of: pa.DataType) -> pa.Array:
    """Return values that travelled as what they are."""
    if _is_list(of):
        plain = values.cast(wire_type(of))
        lengths = pc.fill_null(pc.list_value_length(plain), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        items = from_wire(plain.flatten(), of.value_type)
        lists = pa.ListArray.from_arrays(offsets, items, mask=plain.is_null())
        return lists.cast(of)
    if of in _SAME_BITS:
        return values.view(of)
    if pa.types.is_null(of):
        return pa.nulls(len(values))
    return values.cast(of) if values.type != of else values


def encode(rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as one batch that travels; a row without columns travels as nothing but its number."""
    columns = [to_wire(one_array(column)) for column in rows.columns]
    schema = wire_schema(rows.schema)
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def aligned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch that Spark gives with exactly these columns: it may order them and name list items otherwise."""
    return batch.select(schema.names).cast(schema)


def decode(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Return rows that travelled, in the types of ``schema``, whose names are those of the columns in any order."""
    columns = [from_wire(one_array(rows.column(field.name)), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _is_list(of: pa.DataType) -> bool:
    return bool(pa.types.is_list(of) or pa.types.is_fixed_size_list(of))


# Rows without a column could not be counted on their way.
_NOTHING = pa.schema([pa.field("nothing", pa.bool_())])


def output_schema(read: ReadPlan) -> pa.Schema:
    """Return the columns of the result under the names that they travel by."""
    schema = result_schema(read)
    return pa.schema([pa.field(f"r{at}", field.type) for at, field in enumerate(schema)]) if len(schema) else _NOTHING


def spark_names(columns: Sequence[str]) -> list[str]:
    """Return the names of columns as Spark has them: without dots, which mean a part of a column there.

    >>> spark_names(["p.code", "n", "p.code"])
    ['p_code', 'n', 'p_code']
    """
    return [name.replace(".", "_") for name in columns]


def spark_result_schema(read: ReadPlan) -> pa.Schema:
    """Return the columns of a read by the names that they have in Spark."""
    schema = result_schema(read)
    return pa.schema([field.with_name(name) for field, name in zip(schema, spark_names(schema.names), strict=True)])


def output_wire_schema(read: ReadPlan) -> pa.Schema:
    """Return the columns of the result as they travel."""
    return wire_schema(output_schema(read))


def encode_output(read: ReadPlan, rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of the result as they travel."""
    if not rows.num_columns:
        return pa.record_batch([pa.nulls(rows.num_rows, pa.bool_())], schema=_NOTHING)
    return encode(pa.Table.from_arrays(rows.columns, schema=output_schema(read)))


def decode_output(read: ReadPlan, rows: pa.Table) -> pa.Table:
    """Return rows of the result that travelled, under their own names."""
    schema = result_schema(read)
    if not len(schema):
        return pa.Table.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
    return pa.Table.from_arrays(decode(rows, output_schema(read)).columns, schema=schema)


_NATURAL = {
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.date64(): pa.timestamp("us", tz="UTC"),
}


@record
class SparkTypesTask:
    """Gives rows of the result the types that Spark has for their values."""

    read: ReadPlan

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, under the names that they travel by."""
        return pa.schema([pa.field(field.name, spark_column_type(field.type)) for field in output_schema(self.read)])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same rows."""
        schema, shown = self.schema, output_schema(self.read)
        for batch in batches:
            rows = decode(aligned(batch, output_wire_schema(self.read)), shown)
            yield from rows.cast(schema).combine_chunks().to_batches()


def spark_column_type(of: pa.DataType) -> pa.DataType:
    """Return the type that values of a type have for whoever uses them in Spark."""
    if pa.types.is_list(of) or pa.types.is_fixed_size_list(of):
        return pa.list_(pa.field("element", spark_column_type(of.value_type), nullable=True))
    return _NATURAL.get(of, of)
