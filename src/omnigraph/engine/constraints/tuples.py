"""Tuples of values as texts: equal texts are what ``@unique`` calls equal values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.entity_ids import canonical_texts
from omnigraph.catalog.model import ENDPOINTS, FLOATS, EdgeType, NodeType, PropertyType, Scalar

WRITTEN_TUPLES = pa.schema([("row", pa.int64()), ("id", pa.string()), ("value", pa.string())])
# One part of a tuple's text: everything up to a separator that is not escaped.
_PART = re.compile(r"(?:^|\|)((?:[^\\|]|\\.)*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_STRING = PropertyType(scalar=Scalar.STRING)


def column_type(owner: NodeType | EdgeType, column: str) -> PropertyType:
    """Return the type of a column that a constraint names; endpoints and ids are text."""
    prop = owner.get(column)
    if prop is None or (isinstance(owner, EdgeType) and column in ENDPOINTS):
        return _STRING
    return prop.type


def tuples_of(owner: NodeType | EdgeType, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return ``row``, ``id`` and the text of the tuple for every row that has all of its values.

    Rows with a number that has no text are left out as well: they break another rule already.
    """
    kinds = {column: column_type(owner, column) for column in columns}
    batches, start = [], 0
    # Batch by batch: all texts of a column side by side may be longer than one Arrow array can hold.
    for batch in rows.select(["id", *(name for name in columns if name != "id")]).to_batches():
        positions = pa.array(np.arange(start, start + batch.num_rows))
        start += batch.num_rows
        numbered = batch.append_column("row", positions)
        whole = _whole(numbered, kinds)
        if whole.num_rows:
            value = _texts([canonical_texts(kind, whole.column(name)) for name, kind in kinds.items()])
            batches.append(pa.record_batch([whole.column("row"), whole.column("id"), value], schema=WRITTEN_TUPLES))
    return pa.Table.from_batches(batches, schema=WRITTEN_TUPLES)


def display_tuple(owner: NodeType | EdgeType, rows: pa.Table, row: int, columns: Sequence[str]) -> str:
    """Return the tuple of one row as messages show it.

    >>> from omnigraph.catalog.model import NodeType, PropertyDef
    >>> props = tuple(PropertyDef(name=name, type=PropertyType(scalar=Scalar.I32)) for name in "ab")
    >>> rows = pa.table({"id": ["x"], "a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    >>> display_tuple(NodeType(name="T", properties=props), rows, 0, ("a", "b"))
    '(1, 2)'
    """
    one = rows.slice(row, 1)
    texts = [canonical_texts(column_type(owner, name), one.column(name))[0].as_py() for name in columns]
    return _shown(texts)


def display_text(value: str, count: int) -> str:
    r"""Return the text of a tuple of ``count`` values as messages show it.

    >>> display_text("a\\|b|c", 2), display_text("a|b", 1)
    ('(a|b, c)', 'a|b')
    """
    return _shown(tuple_parts(value, count))


def tuple_parts(value: str, count: int) -> list[str]:
    r"""Return the texts of the single values of a tuple's text.

    >>> tuple_parts("a\\|b|c\\\\", 2)
    ['a|b', 'c\\']
    """
    if count == 1:
        return [value]
    return [_ESCAPED.sub(r"\1", part) for part in _PART.findall(value)]


def _shown(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _whole(batch: pa.RecordBatch, kinds: dict[str, PropertyType]) -> pa.RecordBatch:
    for name, kind in kinds.items():
        if kind.scalar in FLOATS:
            batch = batch.filter(pc.fill_null(pc.is_finite(batch.column(name)), fill_value=False))
        elif batch.column(name).null_count:
            batch = batch.filter(pc.is_valid(batch.column(name)))
    return batch


def _texts(parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    # The separator cannot be part of an escaped text, so different tuples cannot read the same.
    escaped = [pc.replace_substring(pc.replace_substring(part, "\\", "\\\\"), "|", "\\|") for part in parts]
    return pc.binary_join_element_wise(*escaped, "|")
