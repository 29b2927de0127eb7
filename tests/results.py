"""Results made by hand, without a graph behind them."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.engine.results import ReadInfo, Result

INFO = ReadInfo(query_name="q", branch="main")


def column(of: pa.DataType, values) -> pa.Array:
    """An array; for Date and DateTime the values are counts, as they are stored."""
    if pa.types.is_date32(of):
        return pa.array(values, pa.int32()).view(of)
    if pa.types.is_date64(of):
        return pa.array(values, pa.int64()).view(of)
    if pa.types.is_list(of) and pa.types.is_date(of.value_type):
        width = pa.int32() if pa.types.is_date32(of.value_type) else pa.int64()
        return pa.array(values, pa.list_(width)).cast(of)
    return pa.array(values, of)


def batch_of(*columns: tuple[str, pa.DataType, list]) -> pa.RecordBatch:
    """One batch of named columns; names may repeat."""
    schema = pa.schema([pa.field(name, of) for name, of, _ in columns])
    return pa.RecordBatch.from_arrays([column(of, values) for _, of, values in columns], schema=schema)


def result_of(*columns: tuple[str, pa.DataType, list], info: ReadInfo = INFO) -> Result:
    """A result of one batch."""
    batch = batch_of(*columns)
    return Result(batch.schema, [batch], info)
