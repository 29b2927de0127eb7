"""Plain JSONL: lines that are rows of one type, whose members are its columns; no envelope names the type.

As in the load format a chunk is first read in columns, and what is not certainly right, or cannot be read so, line by
line.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.catalog.model import Catalog
from omnigraph.engine.comparison import one_array
from omnigraph.engine.load.reading.parquet import plain_value
from omnigraph.engine.load.reading.tables import column_kind, decode_cells, known_columns, owner_of, takes_integers
from omnigraph.engine.load.reading.texts import usual_dates
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.rows import DecodedChunk, DecodedRow, RowDecoder, RowProblem, TypeRows, join, rows_of
from omnigraph.engine.rows.cells import MAX_PROBLEMS, as_one, show
from omnigraph.engine.rows.changes import OP, SEQ, mark_columns, read_marking
from omnigraph.engine.rows.columnar import ColumnChecker, ParsedColumns, SureRows, complete_upserts, mask_of
from omnigraph.engine.rows.columns import TEMPORAL, Flavour, json_type
from omnigraph.engine.rows.decoder import read_object
from omnigraph.engine.rows.lines import is_blank, split_objects, text_of

# Which column of a text that was read is a number in fact, or the other way round.
_CHANGED = re.compile(r"Column\(/(.+?)(?:/\[\])?\) changed from (string to number|number to string)")


class PlainDecoder:
    """Decodes chunks of whole lines that are rows of one source's type. Threads may share it.

    Args:
        source: where the lines come from; its type, columns and dialect count.
        catalog: the accepted schema.
        is_patch: rows may leave out required properties, and it matters which ones they give.
        truncate: cut instants that are finer than a millisecond; otherwise they are problems.
        is_front: the lines are those of the source from its front on, and not of a later part that counts its own.

    Raises:
        TypeMissingError: the schema has no such type.
        UsageError: a node type and an edge type share the name.
    """

    def __init__(
        self,
        source: Source,
        catalog: Catalog,
        *,
        is_patch: bool = False,
        truncate: bool = False,
        is_front: bool = True,
    ) -> None:
        self._source = source
        self._is_front = is_front
        self._owner = owner_of(source, catalog)
        # Rows of a change log are patches until it is known which of them are whole.
        self._is_patch = is_patch or source.takes_changes
        self._decoder = RowDecoder(
            catalog, is_patch=self._is_patch, truncate=truncate, takes_changes=source.takes_changes
        )
        self._checker = ColumnChecker(self._owner, is_patch=self._is_patch, truncate=truncate)
        self._known = known_columns(source, self._owner)
        # A column that is mapped means nothing else, whatever its name.
        mapped = set(source.columns.values())
        self._targets: dict[str, tuple[str, ...]] = {
            name: (target,) for name, target in self._known.items() if name not in mapped
        }
        for name, column in source.columns.items():
            if name in self._known:
                self._targets[column] = (*self._targets.get(column, ()), self._known[name])
        self._mistakes = self._find_mistakes()
        # Of columns whose numbers may as well be texts: those that were numbers in the chunk before.
        self._numeric = frozenset(name for name, targets in self._targets.items() if SEQ in targets)

    def decode(self, data: bytes, first_line: int) -> DecodedChunk:
        """Return what the lines of ``data`` hold; its last byte is a line break."""
        if self._mistakes:
            # Told once, with the first lines.
            is_first = self._is_front and first_line == self._source.first_row
            return DecodedChunk(types={}, problems=self._mistakes if is_first else ())
        if is_blank(data):
            return DecodedChunk(types={}, problems=())
        lines, plain, odd = split_objects(data)
        sure = self._read(lines, plain, first_line)
        parts: list[TypeRows] = [] if sure is None else [sure.rows]
        exact = np.sort(np.concatenate([plain if sure is None else plain[sure.doubtful], odd]))
        problems: list[RowProblem] = []
        rows: list[DecodedRow] = []
        for at in exact.tolist():
            row = self._decode(lines[at].as_py(), first_line + at)
            if isinstance(row, DecodedRow):
                rows.append(row)
                continue
            problems.append(row)
            if len(problems) >= MAX_PROBLEMS:
                break
        if rows:
            parts.append(rows_of(self._owner, rows, is_patch=self._is_patch))
        types = {self._owner.table_key: join(parts)} if parts else {}
        chunk = DecodedChunk(types=types, problems=tuple(problems))
        return complete_upserts(chunk) if self._source.takes_changes else chunk

    def _find_mistakes(self) -> tuple[RowProblem, ...]:
        """Return what is wrong with the mapping of columns, whatever the rows hold."""
        return tuple(
            self._problem(
                self._source.header_line,
                f"unknown input field '{show(name)[1:-1]}' for {self._owner.name}{self._near(name)}",
                name,
            )
            for name in self._source.columns
            if name not in self._known
        )

    def _near(self, name: str) -> str:
        near = difflib.get_close_matches(name[:200], list(self._known), n=1)
        return f"; did you mean '{near[0]}'?" if near else ""

    def _decode(self, line: bytes, number: int) -> DecodedRow | RowProblem:
        row = read_object(line, number)
        if isinstance(row, RowProblem):
            return row
        cells: dict[str, Any] = {}
        problems: list[RowProblem] = []
        dialect = self._source.dialect
        for written, value in row.items():
            name = written.strip() if dialect.trim else written
            targets = self._targets.get(name)
            if targets is None and not dialect.ignore_extra_columns:
                text = f"unknown input field '{show(name)[1:-1]}' for {self._owner.name}{self._near(name)}"
                problems.append(self._problem(number, text, name))
            for target in targets or ():
                if target in cells:
                    problems.append(self._problem(number, f"two fields map to '{target}'", name))
                cells[target] = self._meant(target, dialect.clean_value(value))
        decoded = self._decode_cells(cells, number)
        if isinstance(decoded, RowProblem):
            problems += (replace(decoded, more=()), *decoded.more)
        return as_one(problems) or decoded

    def _decode_cells(self, cells: dict[str, Any], number: int) -> DecodedRow | RowProblem:
        if not self._source.takes_changes:
            return decode_cells(self._decoder, self._owner, cells, number)
        marking = read_marking({name: cells.pop(name, None) for name in (OP, SEQ)}, number)
        if isinstance(marking, RowProblem):
            return replace(marking, type_name=self._owner.name)
        return decode_cells(self._decoder, self._owner, cells, number, marking)

    def _problem(self, number: int | None, message: str, name: str) -> RowProblem:
        shown = show(name)[1:-1]
        return RowProblem(line=number, rule="field", message=message, type_name=self._owner.name, property=shown)

    def _meant(self, target: str, value: Any) -> Any:
        if target in {OP, SEQ}:
            return value
        if isinstance(value, int) and not isinstance(value, bool) and takes_integers(self._owner, target):
            return str(value)
        kind = column_kind(self._owner, target)
        return value if kind.is_list or kind.is_vector else plain_value(kind, value)

    def _read(self, lines: pa.Array, plain: npt.NDArray[np.int64], first_line: int) -> SureRows | None:
        """Return the rows of plain lines that are certainly right; None when all of them are doubtful."""
        if not len(plain) or any(len(targets) > 1 for targets in self._targets.values()):
            return None
        is_run = plain[-1] - plain[0] == len(plain) - 1
        mine = lines.slice(int(plain[0]), len(plain)) if is_run else lines.take(plain)
        found = self._parse(text_of(mine))
        if found is None or found[0].num_rows != len(mine):
            return None
        table, self._numeric = found
        doubt = np.zeros(len(mine), dtype=bool)
        must_tell = self._is_patch or self._checker.has_defaults
        if must_tell:
            # A null that was written and a member that was left out look alike, and must be told apart here.
            doubt |= mask_of(pc.match_substring(mine, b"null"))
        values: dict[str, pa.Array] = {}
        marks: dict[str, pa.Array] = {}
        flavours: dict[str, Flavour] = {}
        for name, (target,) in self._targets.items():
            raw = one_array(table[name])
            if raw.null_count == len(raw) and target in values:
                # The other name of an endpoint.
                continue
            if target in values and values[target].null_count < len(raw):
                return None
            column = self._source.dialect.clean(raw)
            if target in {OP, SEQ}:
                marks[target] = column
                continue
            if must_tell and column.null_count > raw.null_count:
                doubt |= mask_of(pc.and_(column.is_null(), raw.is_valid()))
            values[target], flavours[target] = self._typed(target, column, is_numeric=name in found[1])
        return self._checker.check(
            ParsedColumns(
                values=values,
                flavours=flavours,
                doubt=doubt,
                numbers=plain + first_line,
                nulls_are_absent=True,
                marks=mark_columns(marks.get(OP), marks.get(SEQ), len(mine)) if self._source.takes_changes else None,
            )
        )

    def _typed(self, target: str, column: pa.Array, *, is_numeric: bool) -> tuple[pa.Array, Flavour]:
        kind = column_kind(self._owner, target)
        if kind.scalar not in TEMPORAL:
            return column.cast(pa.string()) if is_numeric else column, "text"
        if is_numeric or kind.is_list:
            return column, "count" if is_numeric else "text"
        return usual_dates(column), "text"

    def _parse(self, text: pa.Buffer) -> tuple[pa.Table, frozenset[str]] | None:
        """Return the columns of a text, and those of them that hold numbers instead of texts."""
        numeric = self._numeric
        tried = [numeric]
        behavior = "ignore" if self._source.dialect.ignore_extra_columns else "error"
        while True:
            try:
                table = pj.read_json(
                    pa.BufferReader(text),
                    read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                    parse_options=pj.ParseOptions(
                        explicit_schema=self._schema(numeric), unexpected_field_behavior=behavior
                    ),
                )
            except pa.ArrowInvalid as error:
                changed = _CHANGED.search(str(error))
                name = changed[1] if changed else ""
                numeric = numeric ^ {name}
                if not self._may_be_numeric(name) or numeric in tried:
                    return None
                tried.append(numeric)
            else:
                return table, numeric

    def _may_be_numeric(self, name: str) -> bool:
        targets = self._targets.get(name, ())
        return any(
            target == SEQ or takes_integers(self._owner, target) or column_kind(self._owner, target).scalar in TEMPORAL
            for target in targets
        )

    def _schema(self, numeric: frozenset[str]) -> pa.Schema:
        return pa.schema([pa.field(name, self._json_type(name, numeric)) for name in self._targets])

    def _json_type(self, name: str, numeric: frozenset[str]) -> pa.DataType:
        if self._targets[name][0] in {OP, SEQ}:
            return pa.int64() if name in numeric else pa.string()
        kind = column_kind(self._owner, self._targets[name][0])
        if name not in numeric:
            return json_type(kind, "text")
        return json_type(kind, "count") if kind.scalar in TEMPORAL else pa.int64()
