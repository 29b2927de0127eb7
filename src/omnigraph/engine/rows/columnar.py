"""The columnar reader: all lines of one type at once.

It reads with Arrow's JSON reader under an explicit schema, which refuses unknown and repeated members and wrong JSON
types by itself. What that reader lets pass (NaN, missing members, null items, any number as a double) is looked at
afterwards, column by column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.arrays import one_array
from omnigraph.engine.rows.checking import ColumnChecker, ParsedColumns, SureRows, mask_of
from omnigraph.engine.rows.columns import TEMPORAL, Flavour, Mask, json_type
from omnigraph.engine.rows.decoder import ENDPOINT_FIELDS, RESERVED
from omnigraph.engine.rows.lines import text_of
from omnigraph.records import record

_CHANGED = re.compile(r"Column\(/data/([A-Za-z0-9_]+)(?:/\[\])?\) changed from (?:string to number|number to string)")
_UNEXPECTED = "unexpected field"


@record
class _Habits:
    """How a file writes its rows: dates as text or as counts, and whether rows say their id."""

    flavours: Mapping[str, Flavour]
    gives_ids: bool = False

    def after(self, error: str) -> _Habits | None:
        """Return the habits that explain why lines could not be parsed; None when nothing does."""
        if _UNEXPECTED in error:
            return None if self.gives_ids else replace(self, gives_ids=True)
        changed = _CHANGED.search(error)
        name = changed[1] if changed else ""
        if name not in self.flavours:
            return None
        other: Flavour = "count" if self.flavours[name] == "text" else "text"
        return replace(self, flavours={**self.flavours, name: other})


class ColumnarReader:
    """Reads lines of one type. Threads may share it."""

    def __init__(self, owner: NodeType | EdgeType, *, is_patch: bool = False) -> None:
        self._owner = owner
        self._is_patch = is_patch
        self._checker = ColumnChecker(owner, is_patch=is_patch)
        # All rows of a file are written alike: what the last chunk had is tried first.
        self._habits = _Habits(
            flavours={prop.name: "text" for prop in owner.properties if prop.type.scalar in TEMPORAL}
        )

    def read(self, lines: pa.Array, numbers: npt.NDArray[np.int64]) -> SureRows | None:
        """Return the rows of ``lines`` with their line numbers; None when all of them are doubtful."""
        text = text_of(lines)
        found = self._parse(text)
        if found is None or found[0].num_rows != len(lines):
            return None
        parsed, self._habits = found
        data = one_array(parsed["data"])
        values = {field.name: data.field(at) for at, field in enumerate(data.type)}
        doubt = _perhaps_null(lines, text, data, b'"data"')
        if "id" in values:
            doubt |= _perhaps_null(lines, text, values["id"], b'"id"')
        if isinstance(self._owner, EdgeType):
            values |= {column: one_array(parsed[field]) for field, column in ENDPOINT_FIELDS.items()}
        if self._is_patch:
            # A null that was written and a member that was left out look alike, and a patch must tell them apart.
            doubt |= mask_of(pc.match_substring(lines, b"null"))
        flavours = found[1].flavours
        return self._checker.check(ParsedColumns(values=values, flavours=flavours, doubt=doubt, numbers=numbers))

    def _parse(self, text: pa.Buffer) -> tuple[pa.Table, _Habits] | None:
        habits = self._habits
        tried = [habits]
        while True:
            try:
                table = pj.read_json(
                    pa.BufferReader(text),
                    read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                    parse_options=pj.ParseOptions(
                        explicit_schema=_json_schema(self._owner, habits), unexpected_field_behavior="error"
                    ),
                )
            except pa.ArrowInvalid as error:
                other = habits.after(str(error))
                if other is None or other in tried:
                    return None
                habits = other
                tried.append(habits)
            else:
                return table, habits


def _json_schema(owner: NodeType | EdgeType, habits: _Habits) -> pa.Schema:
    members = [
        pa.field(prop.name, json_type(prop.type, habits.flavours.get(prop.name, "text")))
        for prop in owner.properties
        if prop.name not in RESERVED
    ]
    if habits.gives_ids:
        members.insert(0, pa.field("id", pa.string()))
    data = pa.field("data", pa.struct(members))
    if isinstance(owner, EdgeType):
        return pa.schema([pa.field(name, pa.string()) for name in ("edge", *ENDPOINT_FIELDS)] + [data])
    return pa.schema([pa.field("type", pa.string()), data])


def _perhaps_null(lines: pa.Array, text: pa.Buffer, column: pa.Array, name: bytes) -> Mask:
    """Rows that may hold an explicit null, which is an error where leaving the member out is none."""
    named = np.zeros(len(lines), dtype=bool)
    if column.null_count:
        plain = text.to_pybytes()
        # The name can only be spelt otherwise with an escape of an ASCII letter.
        for spelling in (name, b"\\u00"):
            if spelling in plain:
                named |= mask_of(pc.match_substring(lines, spelling))
    return mask_of(column.is_null()) & named
