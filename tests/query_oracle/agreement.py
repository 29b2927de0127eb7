"""Whether an engine's result is one that the oracle allows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tests.query_oracle.evaluate import Answer
from tests.query_oracle.faults import Fault
from tests.query_oracle.schema import Kind
from tests.query_oracle.values import PATH

_ARROW = {
    "String": pa.string(),
    "Bool": pa.bool_(),
    "I32": pa.int32(),
    "I64": pa.int64(),
    "U32": pa.uint32(),
    "U64": pa.uint64(),
    "F32": pa.float32(),
    "F64": pa.float64(),
    "Date": pa.date32(),
    "DateTime": pa.date64(),
}


def disagreement(answer: Answer, found: pa.Table) -> str | None:
    """Return what is wrong with a result, or None: columns, types, rows, and their order where there is one."""
    if tuple(found.column_names) != answer.columns:
        return f"columns: expected {answer.columns}, found {tuple(found.column_names)}"
    for field, kind in zip(found.schema, answer.kinds, strict=True):
        if str(arrow_kind(field.type)) != str(kind):
            return f"type of {field.name}: expected {kind}, found {field.type}"
    expected = [_comparable(row) for row in answer.rows]
    rows = [_comparable(row) for row in table_rows(found)]
    count = len(expected) if answer.limit is None else min(answer.limit, len(expected))
    if len(rows) != count:
        return f"number of rows: expected {count}, found {len(rows)}\nexpected {expected}\nfound {rows}"
    if answer.is_ordered:
        return None if rows == expected[:count] else f"expected in order {expected[:count]}\nfound {rows}"
    extra = Counter(rows) - Counter(expected)
    return f"unexpected rows {list(extra.elements())}\nexpected {expected}\nfound {rows}" if extra else None


def outcome_disagreement(expected: Answer | Fault, found: pa.Table | Exception) -> str | None:
    """Return what is wrong with what a read came to, an error included, or None.

    Args:
        expected: the answer of the oracle, or why it has none.
        found: the result of an engine, or the runtime error it raised.
    """
    if isinstance(expected, Fault):
        is_right = isinstance(found, Exception) or not expected.is_certain
        return None if is_right else f"expected to fail, {expected}; found {table_rows(found)}"
    if isinstance(found, Exception):
        return None if expected.may_fail else f"expected {list(expected.rows)}; failed, {found}"
    return disagreement(expected, found)


def table_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of an Arrow table as plain values, dates as numbers."""
    columns = [_plain(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def arrow_kind(found: pa.DataType) -> Kind:
    """Return the type of values that an Arrow column holds."""
    if pa.types.is_struct(found):
        return PATH
    if pa.types.is_fixed_size_list(found):
        return Kind(scalar="Vector", dimension=found.list_size)
    if pa.types.is_list(found):
        return replace(arrow_kind(found.value_type), is_list=True)
    if pa.types.is_decimal128(found):
        return Kind(scalar="Decimal", digits=(found.precision, found.scale))
    return Kind(scalar=next(scalar for scalar, kind in _ARROW.items() if kind == found))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    return [value for chunk in column.chunks for value in _plain_array(chunk)]


def _plain_array(array: pa.Array) -> list[Any]:
    if pa.types.is_date32(array.type):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_date64(array.type):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_list(array.type) and pa.types.is_date(array.type.value_type):
        return [_plain_array(item.values) if item.is_valid else None for item in array]
    return array.to_pylist()


def _comparable(value: Any) -> Any:
    """The value up to the last digits of a float, which the order of an addition may decide."""
    if isinstance(value, list | tuple):
        return tuple(_comparable(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _comparable(item)) for name, item in sorted(value.items()))
    # Both zeros are one number.
    return float(f"{value:.12g}") + 0.0 if isinstance(value, float) else value
