"""Rows as plain values in the encoding of an export, the row's id and ends told apart from its properties."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadValue, ChangeValueError
from omnigraph.records import record
from omnigraph.store.table import KEY

SRC, DST = "src", "dst"
_BLOB = "base64:"


@record
class Endpoints:
    """The two ends of an edge."""

    source: str
    target: str

    def to_json(self) -> dict[str, Any]:
        """Return the ends as JSON values."""
        return {"from": self.source, "to": self.target}


@record
class Image:
    """A row as it was or is: its properties in export encoding, and its ends when it is an edge."""

    properties: Mapping[str, Any]
    endpoints: Endpoints | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the image as JSON values."""
        ends = {} if self.endpoints is None else {"endpoints": self.endpoints.to_json()}
        return {"properties": dict(self.properties), **ends}


def row_images(rows: pa.Table, *, is_edge: bool) -> list[Image]:
    """Return the image of every row.

    Raises:
        ChangeValueError: a float is not finite.
    """
    return list(iter_images(rows, is_edge=is_edge))


def iter_images(rows: pa.Table, *, is_edge: bool) -> Iterator[Image]:
    """Yield the image of every row in order; columns are converted at once."""
    names = property_names(rows.schema, is_edge=is_edge)
    columns = [export_values(rows.column(name), name) for name in names]
    ends = list(_endpoints(rows)) if is_edge else [None] * rows.num_rows
    values = zip(*columns, strict=True) if columns else iter([()] * rows.num_rows)
    for row, end in zip(values, ends, strict=True):
        yield Image(properties=dict(zip(names, row, strict=True)), endpoints=end)


def property_names(schema: pa.Schema, *, is_edge: bool) -> tuple[str, ...]:
    """Return the columns that are properties, in the table's order."""
    system = {KEY, SRC, DST} if is_edge else {KEY}
    return tuple(name for name in schema.names if name not in system)


def export_values(column: pa.ChunkedArray | pa.Array, name: str) -> list[Any]:
    """Return a column's values in export encoding: days and milliseconds as integers, blobs as base64 text."""
    found: list[Any] = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        found += _values(chunk, name)
    return found


def _endpoints(rows: pa.Table) -> Iterator[Endpoints]:
    for source, target in zip(rows.column(SRC).to_pylist(), rows.column(DST).to_pylist(), strict=True):
        yield Endpoints(source=source, target=target)


def _values(array: pa.Array, name: str) -> list[Any]:
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        items = _values(array.flatten(), name)
        lengths = [kind.list_size] * len(array)
        return _regrouped(items, lengths, array.is_valid().to_pylist())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_pylist()
        return _regrouped(_values(array.flatten(), name), lengths, array.is_valid().to_pylist())
    if pa.types.is_date32(kind):
        days: list[Any] = array.view(pa.int32()).to_pylist()
        return days
    if pa.types.is_date64(kind):
        instants: list[Any] = array.view(pa.int64()).to_pylist()
        return instants
    if pa.types.is_floating(kind):
        return _floats(array, name)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if value is None else _BLOB + base64.b64encode(value).decode() for value in array.to_pylist()]
    plain: list[Any] = array.to_pylist()
    return plain


def _floats(array: pa.Array, name: str) -> list[Any]:
    numbers = array.drop_null().to_numpy(zero_copy_only=False)
    if not np.isfinite(numbers).all():
        found = str(numbers[~np.isfinite(numbers)][0])
        details = BadValue(what=name, value=found, expected="a finite number")
        raise ChangeValueError(f"a value cannot be exported property={name} value={found}", details=details)
    values: list[Any] = array.to_pylist()
    return values


def _regrouped(items: list[Any], lengths: list[int], valid: list[bool]) -> list[Any]:
    """Cut what was flattened into lists again; flattening leaves out what stands in a null."""
    groups: list[Any] = []
    start = 0
    for length, is_valid in zip(lengths, valid, strict=True):
        if not is_valid:
            groups.append(None)
            continue
        groups.append(items[start : start + length])
        start += length
    return groups
