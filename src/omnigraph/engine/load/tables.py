"""Batches of a table file, CSV or Parquet, into rows of one type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.load.binding import Binding
from omnigraph.engine.load.soundness import sound_rows
from omnigraph.engine.rows import DecodedChunk, DecodedRow, RowDecoder, RowProblem, TypeRows, join, rows_of
from omnigraph.engine.rows.checking import ColumnChecker, ParsedColumns
from omnigraph.engine.rows.columns import Flavour, Mask
from omnigraph.engine.rows.problem import MAX_PROBLEMS, kind_of, show
from omnigraph.records import record

_TEXT = PropertyType(scalar=Scalar.STRING)
_ENDPOINTS = {"src": "from", "dst": "to"}


@record
class ParsedColumn:
    """A column after its first parsing, and how to get the value of one of its cells for a closer look."""

    values: pa.Array
    flavour: Flavour
    bad: Mask | None
    value_at: Callable[[int], Any]


Parse = Callable[[PropertyType, pa.Array], ParsedColumn]


class TableReader:
    """Turns batches of bound columns into rows; what does not fit is named by the exact decoder."""

    def __init__(self, catalog: Catalog, binding: Binding, parse: Parse, *, is_patch: bool) -> None:
        self._binding = binding
        self._owner = binding.owner
        self._targets = {column: target for target, column in binding.columns.items()}
        self._parse = parse
        self._is_patch = is_patch
        self._decoder = RowDecoder(catalog, is_patch=is_patch)
        self._checker = ColumnChecker(binding.owner, is_patch=is_patch)

    def read(self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]) -> DecodedChunk:
        """Return the rows of a batch, whose lines are ``numbers``. Nothing in it is believed before it is validated."""
        sound = sound_rows(self._owner, self._targets, batch, numbers)
        batch, numbers = sound.batch, sound.numbers
        count = batch.num_rows
        parsed = {
            target: self._parse(column_kind(self._owner, target), batch.column(name))
            for target, name in self._binding.columns.items()
        }
        doubt = np.zeros(count, dtype=bool)
        for column in parsed.values():
            if column.bad is not None:
                doubt |= column.bad
        sure = self._checker.check(
            ParsedColumns(
                values={target: column.values for target, column in parsed.items()},
                flavours={target: column.flavour for target, column in parsed.items()},
                doubt=doubt,
                numbers=numbers,
                given=self._given(count) if self._is_patch else None,
            )
        )
        problems: list[RowProblem] = []
        exact: list[DecodedRow] = []
        for row in self._decode(parsed, sure.doubtful, numbers):
            if isinstance(row, RowProblem):
                problems.append(row)
                if len(problems) >= MAX_PROBLEMS:
                    break
            else:
                exact.append(row)
        parts: list[TypeRows] = [sure.rows]
        if exact:
            parts.append(rows_of(self._owner, exact, is_patch=self._is_patch))
        problems = sorted((*sound.problems, *problems), key=lambda problem: problem.line)
        return DecodedChunk(types={self._owner.table_key: join(parts)}, problems=tuple(problems))

    def _given(self, count: int) -> Mapping[str, pa.Array]:
        # A column that the file has is given for every row; an empty cell gives null.
        return {
            prop.name: pa.array(np.full(count, prop.name in self._binding.columns)) for prop in self._owner.properties
        }

    def _decode(
        self, parsed: Mapping[str, ParsedColumn], doubtful: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
    ) -> Iterator[DecodedRow | RowProblem]:
        for at in doubtful.tolist():
            cells = {target: column.value_at(at) for target, column in parsed.items()}
            yield self._decode_row(cells, int(numbers[at]))

    def _decode_row(self, cells: dict[str, Any], line: int) -> DecodedRow | RowProblem:
        ends = {target: cells.pop(target, None) for target in _ENDPOINTS} if isinstance(self._owner, EdgeType) else {}
        for target, value in ends.items():
            if not isinstance(value, str):
                return RowProblem(
                    line=line,
                    rule="envelope",
                    message=f"field '{_ENDPOINTS[target]}' must be a string, got {kind_of(value)}",
                    type_name=self._owner.name,
                    property=_ENDPOINTS[target],
                    value=show(value),
                )
        if cells.get("id", "") is None:
            del cells["id"]
        return self._decoder.decode_row(self._owner, cells, line, src=ends.get("src"), dst=ends.get("dst"))


def column_kind(owner: NodeType | EdgeType, target: str) -> PropertyType:
    """Return the type of a table's column: that of its property, text for ids."""
    prop = owner.get(target) if target not in {"id", "src", "dst"} else None
    return _TEXT if prop is None else prop.type
