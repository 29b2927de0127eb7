"""Values on their way through Spark: every type of ours in one that Spark carries unchanged, and back.

Spark only joins on ids and moves the rest, so numbers and dates travel as the bits they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.arrays import one_array

# Type of ours, and the type of the same width in which its bits travel.
_SAME_BITS = {pa.uint64(): pa.int64(), pa.date32(): pa.int32(), pa.date64(): pa.int64()}


def wire_type(of: pa.DataType) -> pa.DataType:
    """Return the type in which values of a type travel."""
    if _is_list(of):
        return pa.list_(pa.field("element", wire_type(of.value_type), nullable=True))
    if of == pa.uint32():
        return pa.int64()
    return _SAME_BITS.get(of, of)


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
