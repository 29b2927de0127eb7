"""Rows of one type as Arrow columns, with the line each of them came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.arrow import arrow_schema, arrow_type
from omnigraph.catalog.model import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.rows.decoder import DecodedRow
from omnigraph.records import record

LINE = pa.int64()


@record
class TypeRows:
    """Decoded rows of a type.

    Args:
        owner: the type.
        rows: the columns of its table in order; an id that has to be made up is null.
        lines: the line of each row, ascending.
        given: per property whether the row says anything about it; only kept for a patch.
    """

    owner: NodeType | EdgeType
    rows: pa.Table
    lines: pa.Array
    given: pa.Table | None = None


def open_schema(owner: NodeType | EdgeType, *, is_patch: bool = False) -> pa.Schema:
    """Return the columns of a type's table while ids, and in a patch required values, may still be missing."""
    schema = arrow_schema(owner)
    loose = [field.with_nullable(True) if is_patch or field.name == "id" else field for field in schema]
    return pa.schema(loose, metadata=schema.metadata)


def rows_of(owner: NodeType | EdgeType, decoded: Sequence[DecodedRow], *, is_patch: bool = False) -> TypeRows:
    """Return rows that were decoded one by one as columns."""
    columns: dict[str, pa.Array] = {"id": pa.array([row.id for row in decoded], pa.string())}
    if isinstance(owner, EdgeType):
        columns["src"] = pa.array([row.src for row in decoded], pa.string())
        columns["dst"] = pa.array([row.dst for row in decoded], pa.string())
    for prop in owner.properties:
        columns[prop.name] = column_of(prop.type, [row.values.get(prop.name) for row in decoded])
    schema = open_schema(owner, is_patch=is_patch)
    given = None
    if is_patch:
        flags = {
            prop.name: pa.array([prop.name in row.values for row in decoded], pa.bool_()) for prop in owner.properties
        }
        given = flags_table(owner, flags, len(decoded))
    return TypeRows(
        owner=owner,
        rows=pa.table([columns[name] for name in schema.names], schema=schema),
        lines=pa.array([row.line for row in decoded], LINE),
        given=given,
    )


def flags_table(owner: NodeType | EdgeType, flags: dict[str, pa.Array], count: int) -> pa.Table:
    """Return the columns of :attr:`TypeRows.given`; a type without properties still has as many rows."""
    schema = pa.schema([pa.field(prop.name, pa.bool_()) for prop in owner.properties])
    if not schema.names:
        return pa.table({"": pa.array(np.zeros(count, dtype=bool))})
    return pa.table([flags[name] for name in schema.names], schema=schema)


def column_of(kind: PropertyType, values: Sequence[Any]) -> pa.Array:
    """Return stored values (counts for dates) as the column of a type."""
    counts = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}.get(kind.scalar)
    if counts is None:
        return pa.array(values, arrow_type(kind))
    if not kind.is_list:
        return pa.array(values, counts).view(arrow_type(kind))
    lists = pa.array(values, pa.list_(pa.field("item", counts)))
    return relist(lists, lists.values.view(arrow_type(kind).value_type), kind)


def relist(lists: pa.Array, values: pa.Array, kind: PropertyType) -> pa.Array:
    """Return ``lists`` with other items of the same number in the same places."""
    missing = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(lists.offsets, values, type=arrow_type(kind), mask=missing)


def join(parts: Sequence[TypeRows]) -> TypeRows:
    """Return the rows of several parts of one type, in the order of their lines."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([part.rows for part in parts])
    lines = pa.concat_arrays([part.lines for part in parts])
    flags = [part.given for part in parts if part.given is not None]
    given = pa.concat_tables(flags) if flags else None
    numbers = lines.to_numpy()
    if np.any(numbers[1:] < numbers[:-1]):
        order = pa.array(np.argsort(numbers, kind="stable"))
        rows, lines = rows.take(order), lines.take(order)
        given = given if given is None else given.take(order)
    return TypeRows(owner=parts[0].owner, rows=rows, lines=lines, given=given)
