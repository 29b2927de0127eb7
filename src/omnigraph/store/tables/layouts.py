"""Small tables and arrays, and rows under another schema of the same types: what every write asks for.

Arrow makes an array for each column of an empty table, and a cast calls a kernel for each column even where nothing has
to be converted: on one row that takes longer than what is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_TEXT = pa.string()
_MOST_KNOWN = 64
_known: list[pa.Table] = []


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return the empty table of a schema."""
    for known in _known:
        if known.schema.equals(schema, check_metadata=True):
            return known
    made = schema.empty_table()
    # Others may be going through the list, which is therefore replaced in one step.
    _known[:] = [made, *_known[: _MOST_KNOWN - 1]]
    return made


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array, as ``pa.array`` does, which for a few texts takes five times as long.

    >>> array_of(["a", None], pa.string()).to_pylist(), array_of([None], pa.int32()).to_pylist()
    (['a', None], [None])
    """
    if kind == _TEXT:
        builder = pa.lib.StringBuilder()
        builder.append_values(values)
        return builder.finish()
    if not any(value is not None for value in values):
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)


def with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, in its order and types, under what it says about them.

    >>> with_schema(pa.table({"a": ["x"], "b": ["y"]}), pa.schema([("b", pa.string())])).column_names
    ['b']
    """
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    columns = [rows.column(name) for name in schema.names]
    # What must not be null is left to the cast to refuse.
    if all(
        column.type == field.type and (field.nullable or not column.null_count)
        for column, field in zip(columns, schema, strict=True)
    ):
        return pa.Table.from_arrays(columns, schema=schema)
    return rows.select(schema.names).cast(schema)
