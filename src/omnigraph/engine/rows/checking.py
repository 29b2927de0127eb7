"""Parsed columns of one type into stored ones, with every row that is not certainly right set aside.

A row is either taken over exactly as the exact decoder would give it, or *doubtful* and left to that decoder.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.entity_ids import entity_ids
from omnigraph.catalog.model import EdgeType, NodeType, PropertyDef
from omnigraph.engine.rows.batch import TypeRows, flags_table, open_schema
from omnigraph.engine.rows.columns import Flavour, Mask, read_column
from omnigraph.records import record


@record
class SureRows:
    """The rows that are certainly right, and which ones (by position) are doubtful."""

    rows: TypeRows
    doubtful: npt.NDArray[np.int64]


@record
class ParsedColumns:
    """Columns as some reader gave them, in the types of :func:`~omnigraph.engine.rows.columns.json_type`.

    Args:
        values: by column name, ``id``, ``src`` and ``dst`` among them; a column that is missing was not given.
        flavours: how dates are written, by property; text unless it says otherwise.
        given: in a patch, which rows say something about a property; None means those that have a value.
        doubt: rows that the reader itself is not sure of.
        numbers: the line of each row.
    """

    values: Mapping[str, pa.Array]
    flavours: Mapping[str, Flavour]
    doubt: Mask
    numbers: npt.NDArray[np.int64]
    given: Mapping[str, pa.Array] | None = None


class ColumnChecker:
    """Checks parsed columns of one type. Threads may share it."""

    def __init__(self, owner: NodeType | EdgeType, *, is_patch: bool = False) -> None:
        self._owner = owner
        self._is_patch = is_patch
        self._schema = open_schema(owner, is_patch=is_patch)

    def check(self, parsed: ParsedColumns) -> SureRows:
        """Return the rows that are certainly right."""
        doubt = parsed.doubt.copy()
        columns: dict[str, pa.Array] = {}
        for name in ("id", "src", "dst") if isinstance(self._owner, EdgeType) else ("id",):
            columns[name] = self._column(parsed, name)
            if name != "id" and columns[name].null_count:
                doubt |= mask_of(columns[name].is_null())
        for prop in self._owner.properties:
            column, bad = self._column(parsed, prop.name), None
            if prop.name in parsed.values:
                column, bad = read_column(prop, column, parsed.flavours.get(prop.name, "text"))
            if bad is not None:
                doubt |= bad
            if self._is_needed(prop) and column.null_count:
                doubt |= mask_of(column.is_null())
            columns[prop.name] = column
        given = None
        if self._is_patch:
            given = {
                prop.name: columns[prop.name].is_valid() if parsed.given is None else parsed.given[prop.name]
                for prop in self._owner.properties
            }
        return self._sure(parsed.numbers, columns, given, doubt)

    def _column(self, parsed: ParsedColumns, name: str) -> pa.Array:
        if name in parsed.values:
            return parsed.values[name]
        return pa.nulls(len(parsed.numbers), self._schema.field(name).type)

    def _is_needed(self, prop: PropertyDef) -> bool:
        if self._is_patch:
            return prop.name in (self._owner.key or ())
        return not prop.type.nullable

    def _sure(
        self,
        numbers: npt.NDArray[np.int64],
        columns: dict[str, pa.Array],
        given: dict[str, pa.Array] | None,
        doubt: Mask,
    ) -> SureRows:
        at = np.arange(len(doubt))
        if doubt.any():
            at = np.flatnonzero(~doubt)
            columns = {name: column.take(pa.array(at)) for name, column in columns.items()}
            numbers = numbers[at]
        if self._owner.key is not None:
            derived = entity_ids(self._owner, columns)
            given_ids, columns["id"] = columns["id"], derived
            differs = mask_of(pc.fill_null(pc.not_equal(given_ids, derived), fill_value=False))
            if differs.any():
                doubt[at[differs]] = True
                columns = {name: column.filter(pa.array(~differs)) for name, column in columns.items()}
                at, numbers = at[~differs], numbers[~differs]
        flags = None
        if given is not None:
            chosen = {name: flag.take(pa.array(at)) for name, flag in given.items()}
            flags = flags_table(self._owner, chosen, len(at))
        rows = TypeRows(
            owner=self._owner,
            rows=pa.table([columns[name] for name in self._schema.names], schema=self._schema),
            lines=pa.array(numbers),
            given=flags,
        )
        return SureRows(rows=rows, doubtful=np.flatnonzero(doubt))


def mask_of(flags: pa.Array) -> Mask:
    """Return flags without nulls as a mask."""
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask
