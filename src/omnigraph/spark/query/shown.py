"""Rows of the result on their way: columns by number, since their names may be any text and may repeat."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.engine.query.run import result_schema
from omnigraph.ir.model import ReadPlan
from omnigraph.spark.query.wire import decode, encode, wire_schema

# Rows without a column could not be counted on their way.
_NOTHING = pa.schema([pa.field("nothing", pa.bool_())])


def shown_schema(read: ReadPlan) -> pa.Schema:
    """Return the columns of the result under the names that they travel by."""
    schema = result_schema(read)
    return pa.schema([pa.field(f"r{at}", field.type) for at, field in enumerate(schema)]) if len(schema) else _NOTHING


def shown_wire(read: ReadPlan) -> pa.Schema:
    """Return the columns of the result as they travel."""
    return wire_schema(shown_schema(read))


def encode_shown(read: ReadPlan, rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of the result as they travel."""
    if not rows.num_columns:
        return pa.record_batch([pa.nulls(rows.num_rows, pa.bool_())], schema=_NOTHING)
    return encode(pa.Table.from_arrays(rows.columns, schema=shown_schema(read)))


def decode_shown(read: ReadPlan, rows: pa.Table) -> pa.Table:
    """Return rows of the result that travelled, under their own names."""
    schema = result_schema(read)
    if not len(schema):
        return pa.Table.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
    return pa.Table.from_arrays(decode(rows, shown_schema(read)).columns, schema=schema)
