"""A type's change as the set rules see it: the last row of each id, and the stored rows that it replaces or removes."""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.change import TypeChange
from omnigraph.engine.constraints.kernel import Kernel
from omnigraph.engine.constraints.proofs import are_distinct
from omnigraph.engine.constraints.set_rules import FINAL_IMAGE
from omnigraph.records import record

_IDS = pa.schema([("id", pa.string())])
_Ids = TypeVar("_Ids", pa.Array, pa.ChunkedArray)


@record
class Image:
    """What a change leaves behind of one type.

    Args:
        part: the type's change as it was handed over.
        rows: the rows that are written, the last one of each id.
        positions: the number of each of these rows in the change.
        replaced: one column ``id``: stored rows with these ids do not survive as they are.
        deletes: the ids that are removed without a row taking their place.
        has_repeated_ids: the change holds several rows of one id.
    """

    part: TypeChange
    rows: pa.Table
    positions: pa.Array
    replaced: pa.Table
    deletes: pa.Array
    has_repeated_ids: bool = False
    _counts: dict[str, pa.StructArray] = field(default_factory=dict)

    @property
    def type(self) -> NodeType | EdgeType:
        """The type that the change is about."""
        return self.part.type

    @property
    def replaces_all(self) -> bool:
        """Whether no stored row survives."""
        return self.part.replaces_all

    def written(self, *columns: str) -> pa.Table:
        """Return ``row`` and these columns of the written rows."""
        chosen = self.rows.select(list(columns))
        return chosen.add_column(0, "row", self.positions)

    def counts(self, column: str) -> pa.StructArray:
        """Return the ``values`` of a column and their ``counts``, nulls left out; counted once."""
        if column not in self._counts:
            counted = pc.value_counts(self.rows.column(column))
            if self.rows.column(column).null_count:
                counted = counted.filter(pc.is_valid(counted.field("values")))
            self._counts[column] = counted
        return self._counts[column]


def image_of(part: TypeChange, kernel: Kernel) -> Image:
    """Return the image of a type's change; of several rows with one id only the last counts."""
    names = ["id", "src", "dst"] if isinstance(part.type, EdgeType) else ["id"]
    deletes = pa.array(part.deletes, pa.string())
    if part.rows is None:
        rows = pa.schema([(name, pa.string()) for name in names]).empty_table()
        return _image(part, rows, pa.array([], pa.int64()), deletes)
    positions = pa.array(np.arange(part.rows.num_rows), pa.int64())
    if not part.has_fresh_ids:
        ids = part.rows.column("id")
        written = pa.table({"row": positions, "id": ids})
        last = kernel.find(FINAL_IMAGE, lambda: {"written": written}, unless=lambda: are_distinct([ids]))
        if last is not None and last.num_rows < part.rows.num_rows:
            positions = last.column("row").combine_chunks()
            return _image(part, part.rows.take(positions), positions, deletes, has_repeated_ids=True)
    return _image(part, part.rows, positions, deletes)


def _image(
    part: TypeChange, rows: pa.Table, positions: pa.Array, deletes: pa.Array, *, has_repeated_ids: bool = False
) -> Image:
    gone = [deletes] if len(deletes) else []
    replaced = pa.chunked_array([*rows.column("id").chunks, *gone], pa.string())
    return Image(
        part=part,
        rows=rows,
        positions=positions,
        replaced=pa.table([replaced], schema=_IDS),
        deletes=deletes,
        has_repeated_ids=has_repeated_ids,
    )


def ids_table(*parts: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return ids as a relation."""
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.table([pa.chunked_array(chunks, pa.string())], schema=_IDS)


def difference(ids: _Ids, minus: pa.Array | pa.ChunkedArray) -> _Ids:
    """Return those of ``ids`` that are not in ``minus``."""
    if not len(ids) or not len(minus):
        return ids
    return ids.filter(pc.invert(pc.is_in(ids, value_set=minus)))


def without(rows: pa.Table, replaced: pa.Table) -> pa.Table:
    """Return the rows whose ``id`` is not among those of ``replaced``."""
    if not rows.num_rows or not replaced.num_rows:
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=replaced.column("id"))))
