"""The columnar reader: all lines of one type at once.

It reads with Arrow's JSON reader under an explicit schema, which refuses unknown and repeated members and wrong JSON
types by itself. What that reader lets pass (NaN, missing members, null items, any number as a double) is looked at
afterwards, column by column.

A row is either taken over exactly as the exact decoder would give it, or *doubtful* and left to that decoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.catalog.entity_ids import entity_ids
from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyDef
from omnigraph.engine.comparison import one_array
from omnigraph.engine.rows.cells import MAX_PROBLEMS, RowProblem
from omnigraph.engine.rows.changes import DELETE, OP, SEQ, UPSERT, MarkedColumns, mark_columns
from omnigraph.engine.rows.columns import (
    TEMPORAL,
    Flavour,
    Mask,
    TypeRows,
    default_scalar,
    flags_table,
    join,
    json_type,
    open_schema,
    read_column,
    rows_of,
)
from omnigraph.engine.rows.decoder import ENDPOINT_FIELDS, RESERVED, DecodedRow, RowDecoder, required_problem
from omnigraph.engine.rows.lines import Head, LineArray, is_blank, split, text_of
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
        nulls_are_absent: a null stands for a property that the row does not mention; in a table it was written.
        marks: the operations and sequences of a change log.
    """

    values: Mapping[str, pa.Array]
    flavours: Mapping[str, Flavour]
    doubt: Mask
    numbers: npt.NDArray[np.int64]
    given: Mapping[str, pa.Array] | None = None
    nulls_are_absent: bool = False
    marks: MarkedColumns | None = None


class ColumnChecker:
    """Checks parsed columns of one type. Threads may share it."""

    def __init__(self, owner: NodeType | EdgeType, *, is_patch: bool = False, truncate: bool = False) -> None:
        self._owner = owner
        self._is_patch = is_patch
        self._truncate = truncate
        self._schema = open_schema(owner, is_patch=is_patch)
        found = {} if is_patch else {prop.name: default_scalar(prop) for prop in owner.properties}
        self._defaults = {name: default for name, default in found.items() if default is not None}

    @property
    def has_defaults(self) -> bool:
        """Whether it matters if a null was written or the property left out."""
        return bool(self._defaults)

    def check(self, parsed: ParsedColumns) -> SureRows:
        """Return the rows that are certainly right."""
        doubt = parsed.doubt.copy()
        columns: dict[str, pa.Array] = {}
        if parsed.marks is not None:
            doubt |= self._unsure_marks(parsed, parsed.marks)
        for name in ("id", "src", "dst") if isinstance(self._owner, EdgeType) else ("id",):
            columns[name] = self._column(parsed, name)
            if name != "id" and columns[name].null_count:
                doubt |= mask_of(columns[name].is_null())
        for prop in self._owner.properties:
            column, bad = self._column(parsed, prop.name), None
            if prop.name in parsed.values:
                flavour = parsed.flavours.get(prop.name, "text")
                column, bad = read_column(prop, column, flavour, truncate=self._truncate)
            if bad is not None:
                doubt |= bad
            if prop.name in self._defaults and (parsed.nulls_are_absent or prop.name not in parsed.values):
                column = pc.fill_null(column, self._defaults[prop.name])
            if self._is_needed(prop) and column.null_count:
                doubt |= mask_of(column.is_null())
            columns[prop.name] = column
        given = None
        if self._is_patch:
            given = {
                prop.name: columns[prop.name].is_valid() if parsed.given is None else parsed.given[prop.name]
                for prop in self._owner.properties
            }
        marks = None if parsed.marks is None else parsed.marks.columns
        return self._sure(parsed.numbers, columns, given, marks, doubt)

    def _unsure_marks(self, parsed: ParsedColumns, marks: MarkedColumns) -> Mask:
        if self._owner.key is not None:
            return marks.doubt
        # What is deleted must be named.
        is_delete = mask_of(pc.equal(one_array(marks.columns.column("op")), DELETE))
        unsure: Mask = marks.doubt | (is_delete & mask_of(self._column(parsed, "id").is_null()))
        return unsure

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
        marks: pa.Table | None,
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
            marks=None if marks is None else marks.take(pa.array(at)),
        )
        return SureRows(rows=rows, doubtful=np.flatnonzero(doubt))


def mask_of(flags: pa.Array) -> Mask:
    """Return flags without nulls as a mask."""
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask


_CHANGED = re.compile(r"Column\(/data/([A-Za-z0-9_]+)(?:/\[\])?\) changed from (?:string to number|number to string)")
_SEQUENCES_CHANGED = re.compile(rf"Column\(/{SEQ}\) changed from (?:string to number|number to string)")
_UNEXPECTED = "unexpected field"


@record
class _Habits:
    """How a file writes its rows: dates as text or as counts, and whether rows say their id."""

    flavours: Mapping[str, Flavour]
    gives_ids: bool = False
    sequences: Flavour = "count"

    def after(self, error: str) -> _Habits | None:
        """Return the habits that explain why lines could not be parsed; None when nothing does."""
        if _UNEXPECTED in error:
            return None if self.gives_ids else replace(self, gives_ids=True)
        if _SEQUENCES_CHANGED.search(error):
            return replace(self, sequences="count" if self.sequences == "text" else "text")
        changed = _CHANGED.search(error)
        name = changed[1] if changed else ""
        if name not in self.flavours:
            return None
        other: Flavour = "count" if self.flavours[name] == "text" else "text"
        return replace(self, flavours={**self.flavours, name: other})


class ColumnarReader:
    """Reads lines of one type. Threads may share it."""

    def __init__(
        self,
        owner: NodeType | EdgeType,
        *,
        is_patch: bool = False,
        truncate: bool = False,
        takes_changes: bool = False,
    ) -> None:
        self._owner = owner
        self._is_patch = is_patch or takes_changes
        self._takes_changes = takes_changes
        self._checker = ColumnChecker(owner, is_patch=self._is_patch, truncate=truncate)
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
        if self._is_patch or self._checker.has_defaults:
            # A null that was written and a member that was left out look alike, and must be told apart here.
            doubt |= mask_of(pc.match_substring(lines, b"null"))
        marks = None
        if self._takes_changes:
            marks = mark_columns(one_array(parsed[OP]), one_array(parsed[SEQ]), len(lines))
        return self._checker.check(
            ParsedColumns(
                values=values,
                flavours=found[1].flavours,
                doubt=doubt,
                numbers=numbers,
                nulls_are_absent=True,
                marks=marks,
            )
        )

    def _parse(self, text: pa.Buffer) -> tuple[pa.Table, _Habits] | None:
        habits = self._habits
        tried = [habits]
        while True:
            try:
                table = pj.read_json(
                    pa.BufferReader(text),
                    read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                    parse_options=pj.ParseOptions(
                        explicit_schema=self._json_schema(habits), unexpected_field_behavior="error"
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

    def _json_schema(self, habits: _Habits) -> pa.Schema:
        schema = _json_schema(self._owner, habits)
        if not self._takes_changes:
            return schema
        sequence = pa.int64() if habits.sequences == "count" else pa.string()
        return schema.append(pa.field(OP, pa.string())).append(pa.field(SEQ, sequence))


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


@record
class DecodedChunk:
    """Rows by table key, and the lines that are no rows, in the order of the file."""

    types: Mapping[str, TypeRows]
    problems: tuple[RowProblem, ...]


def complete_upserts(chunk: DecodedChunk) -> DecodedChunk:
    """Return the rows of a change log, upserts made whole: what they leave out is the default of the property.

    Upserts without a value that is required become problems.
    """
    types: dict[str, TypeRows] = {}
    problems = list(chunk.problems)
    for key, part in chunk.types.items():
        found = _whole_upserts(part)
        types[key] = found[0]
        problems += found[1]
    return DecodedChunk(types=types, problems=tuple(sorted(problems, key=lambda problem: problem.line or 0)))


def _whole_upserts(part: TypeRows) -> tuple[TypeRows, list[RowProblem]]:
    if part.marks is None or part.given is None:
        return part, []
    is_upsert = pc.equal(one_array(part.marks.column("op")), UPSERT)
    rows, given = part.rows, part.given
    lacking: dict[int, RowProblem] = {}
    for prop in part.owner.properties:
        is_given = one_array(given.column(prop.name))
        column = one_array(rows.column(prop.name))
        default = default_scalar(prop)
        if default is not None:
            column = pc.if_else(pc.and_not(is_upsert, is_given), default, column)
            rows = rows.set_column(rows.schema.get_field_index(prop.name), rows.schema.field(prop.name), column)
        if not prop.type.nullable and column.null_count:
            for at in np.flatnonzero(mask_of(pc.and_(is_upsert, column.is_null()))).tolist():
                line, was_given = part.lines[at].as_py(), is_given[at].as_py()
                lacking.setdefault(at, required_problem(part.owner, prop, line, is_given=was_given))
        given = given.set_column(given.schema.get_field_index(prop.name), prop.name, pc.or_(is_given, is_upsert))
    return replace(part, rows=rows, given=given), [lacking[at] for at in sorted(lacking)]


class ChunkDecoder:
    """Decodes chunks of whole lines against a catalog. Threads may share it.

    Args:
        catalog: the accepted schema.
        is_patch: rows may leave out required properties, and it matters which ones they give.
        truncate: cut instants that are finer than a millisecond; otherwise they are problems.
        takes_changes: the lines are those of a change log, or of a feed.
    """

    def __init__(
        self, catalog: Catalog, *, is_patch: bool = False, truncate: bool = False, takes_changes: bool = False
    ) -> None:
        self._decoder = RowDecoder(catalog, is_patch=is_patch, truncate=truncate, takes_changes=takes_changes)
        self._truncate = truncate
        self._catalog = catalog
        self._is_patch = is_patch or takes_changes
        self._takes_changes = takes_changes
        self._readers: dict[str, ColumnarReader] = {}

    def decode(self, data: bytes, first_line: int) -> DecodedChunk:
        """Return what the lines of ``data`` hold; its last byte is a line break.

        After the first :data:`MAX_PROBLEMS` problems the rest is not looked at.
        """
        if is_blank(data):
            return DecodedChunk(types={}, problems=())
        lines = split(data)
        parts: dict[str, list[TypeRows]] = {}
        exact = [lines.odd]
        for head, at in lines.by_head:
            owner = self._owner(head)
            doubtful = at
            if owner is not None:
                doubtful = self._read(owner, lines, at, first_line, parts)
            exact.append(doubtful)
        return self._finish(lines, np.sort(np.concatenate(exact)), first_line, parts)

    def decode_exactly(self, data: bytes, first_line: int) -> DecodedChunk:
        """Return the same as :meth:`decode`, line by line; slower, and what it is measured against."""
        lines = split(data)
        every = np.sort(np.concatenate([lines.odd, *(at for _, at in lines.by_head)]))
        return self._finish(lines, every, first_line, {})

    def _owner(self, head: Head) -> NodeType | EdgeType | None:
        return self._catalog.edge(head.name) if head.is_edge else self._catalog.node(head.name)

    def _read(
        self,
        owner: NodeType | EdgeType,
        lines: LineArray,
        at: npt.NDArray[np.int64],
        first_line: int,
        parts: dict[str, list[TypeRows]],
    ) -> npt.NDArray[np.int64]:
        made = ColumnarReader(
            owner, is_patch=self._is_patch, truncate=self._truncate, takes_changes=self._takes_changes
        )
        reader = self._readers.setdefault(owner.table_key, made)
        is_run = at[-1] - at[0] == len(at) - 1
        mine = lines.whole.slice(int(at[0]), len(at)) if is_run else lines.whole.take(at)
        fast = reader.read(mine, at + first_line)
        if fast is None:
            return at
        parts.setdefault(owner.table_key, []).append(fast.rows)
        return at[fast.doubtful]

    def _finish(
        self, lines: LineArray, exact: npt.NDArray[np.int64], first_line: int, parts: dict[str, list[TypeRows]]
    ) -> DecodedChunk:
        problems: list[RowProblem] = []
        rows: dict[str, list[DecodedRow]] = {}
        for decoded in self._decode_lines(lines, exact, first_line):
            if isinstance(decoded, RowProblem):
                problems.append(decoded)
                if len(problems) >= MAX_PROBLEMS:
                    break
            else:
                rows.setdefault(decoded.owner.table_key, []).append(decoded)
        for table_key, some in rows.items():
            parts.setdefault(table_key, []).append(rows_of(some[0].owner, some, is_patch=self._is_patch))
        types = {key: join(parts[key]) for key in sorted(parts)}
        decoded_chunk = DecodedChunk(types=types, problems=tuple(problems))
        return complete_upserts(decoded_chunk) if self._takes_changes else decoded_chunk

    def _decode_lines(
        self, lines: LineArray, exact: npt.NDArray[np.int64], first_line: int
    ) -> Iterable[DecodedRow | RowProblem]:
        for at in exact.tolist():
            yield from self._decoder.decode_all(lines.whole[at].as_py(), first_line + at)
