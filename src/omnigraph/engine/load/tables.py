"""Batches of a table file, CSV or Parquet, into rows of one type.

A reader of Parquet, and whoever hands over batches, may give columns whose bytes contradict their types: texts that are
not UTF-8, offsets that run backwards, indices beyond their dictionary. Once stored, such a column makes every other row
of its type unreadable, so nothing goes on before it has been looked at in full.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import FLOATS, INTEGERS, Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.load.sources import Source
from omnigraph.engine.rows import DecodedChunk, DecodedRow, RowDecoder, RowProblem, TypeRows, join, rows_of
from omnigraph.engine.rows.cells import MAX_PROBLEMS, kind_of, show
from omnigraph.engine.rows.changes import (
    DELETE,
    OP,
    SEQ,
    MarkedColumns,
    Marking,
    can_mark,
    mark_at,
    mark_columns,
    read_marking,
)
from omnigraph.engine.rows.columnar import ColumnChecker, ParsedColumns, complete_upserts, mask_of
from omnigraph.engine.rows.columns import Flavour, Mask, json_type
from omnigraph.errors import BadValue, MissingThing, TypeMissingError, UsageError
from omnigraph.records import record
from omnigraph.values.decimals import MAX_PRECISION, WrittenFloat

_ENDPOINT_SPELLINGS = {"src": ("from", "src"), "dst": ("to", "dst")}
_HEADER_LINE = 1


@record
class ColumnBinding:
    """The type of a file's rows, and the file's column for each table column that it gives.

    ``marks`` are the columns of operations and sequences that a change log has; None for rows of another kind.
    """

    owner: NodeType | EdgeType
    columns: Mapping[str, str]
    marks: Mapping[str, str] | None = None


def owner_of(source: Source, catalog: Catalog) -> NodeType | EdgeType:
    """Return the type that all rows of a table file belong to.

    Raises:
        TypeMissingError: the schema has no type of that name.
        UsageError: a node type and an edge type share the name.
    """
    named = source.type_name or source.stem
    kind, colon, name = named.partition(":")
    if not colon:
        kind, name = "", named
    node = catalog.node(name) if kind in {"", "node"} else None
    edge = catalog.edge(name) if kind in {"", "edge"} else None
    if node is not None and edge is not None:
        details = BadValue(what="type", value=name, expected=f"node:{name} or edge:{name}")
        raise UsageError(f"'{name}' is both a node type and an edge type", details=details)
    owner = node if node is not None else edge
    if owner is None:
        near = tuple(difflib.get_close_matches(name, [*catalog.nodes, *catalog.edges], n=3))
        details_missing = MissingThing(what="type", name=name, near=near)
        hint = f"did you mean {near[0]}?" if near else "name the type of the file, as in Person=people.csv"
        raise TypeMissingError(
            f"the schema has no type '{name}' for file '{source.name}'", details=details_missing, hint=hint
        )
    return owner


def bind(source: Source, owner: NodeType | EdgeType, header: Sequence[str]) -> ColumnBinding | RowProblem:
    """Match the columns of a file with those of the type; every column must be one of them."""
    known = _known_columns(owner, is_exported=source.is_exported)
    if source.takes_changes:
        known |= {name: name for name in (OP, SEQ)}
    wanted: dict[str, str] = {}
    for name, column in source.columns.items():
        if name not in known:
            return _problem(owner, f"unknown input field '{name}' for {owner.name}", name)
        if column not in header:
            return _problem(
                owner, f"property '{name}' is mapped to column '{column}', which the file does not have", name
            )
        wanted[column] = known[name]
    columns: dict[str, str] = {}
    for column in header:
        target = wanted.get(column) or known.get(column)
        if target is None:
            near = difflib.get_close_matches(column, list(known), n=1)
            advice = f"; did you mean '{near[0]}'?" if near else ""
            return _problem(owner, f"unknown input field '{column}' for {owner.name}{advice}", column)
        if target in columns:
            return _problem(owner, f"two columns map to '{target}': '{columns[target]}' and '{column}'", column)
        columns[target] = column
    marks = {name: columns.pop(name) for name in (OP, SEQ) if name in columns} if source.takes_changes else None
    # Deletes by id do without ends; whether a row is one stands in the row.
    ends = ("src", "dst") if isinstance(owner, EdgeType) and not (marks and OP in marks) else ()
    for target in ends:
        if target not in columns:
            return _problem(owner, f"edge {owner.name} requires field '{_ENDPOINT_SPELLINGS[target][0]}'", target)
    return ColumnBinding(owner=owner, columns=columns, marks=marks)


def mark_misfits(binding: ColumnBinding, schema: pa.Schema) -> list[RowProblem]:
    """Return a problem for a column that is named like an operation or a sequence and can hold none."""
    found = []
    for name, column in (binding.marks or {}).items():
        given = schema.field(column).type
        if not can_mark(name, given):
            expected = "text" if name == OP else "whole numbers, instants or text"
            text = f"column '{name}' must hold {expected}, got a column of {given}"
            found.append(
                RowProblem(line=_HEADER_LINE, rule="type", message=text, type_name=binding.owner.name, property=name)
            )
    return found


def _known_columns(owner: NodeType | EdgeType, *, is_exported: bool) -> dict[str, str]:
    known = {"id": "id", **{prop.name: prop.name for prop in owner.properties}}
    if isinstance(owner, EdgeType) and is_exported:
        known |= {column: column for column in _ENDPOINT_SPELLINGS}
    elif isinstance(owner, EdgeType):
        for column, spellings in _ENDPOINT_SPELLINGS.items():
            # A property of the same name, which the schema language allows, gives way to the endpoint.
            known |= dict.fromkeys(spellings, column)
    return known


def _problem(owner: NodeType | EdgeType, message: str, column: str) -> RowProblem:
    return RowProblem(line=_HEADER_LINE, rule="field", message=message, type_name=owner.name, property=column)


_BINARY = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


@record
class SoundRows:
    """The rows that are as their types say, with their lines, and a problem for each of the others."""

    batch: pa.RecordBatch
    numbers: npt.NDArray[np.int64]
    problems: tuple[RowProblem, ...] = ()


def sound_rows(
    owner: NodeType | EdgeType, targets: Mapping[str, str], batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]
) -> SoundRows:
    """Return the sound rows of a batch; ``targets`` has the property of each of its columns.

    A column that is broken as a whole leaves no row, and its problem has the line of the first one.
    """
    if _flaw(batch) is None:
        return SoundRows(batch=batch, numbers=numbers)
    problems: dict[int, RowProblem] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        flaw = _flaw(column)
        if flaw is None:
            continue
        broken = _broken_texts(column)
        if not broken:
            text = f"column '{name}' is damaged: {flaw}"
            problem = RowProblem(
                line=int(numbers[0]), rule="arrow", message=text, type_name=owner.name, property=targets.get(name)
            )
            return SoundRows(batch=batch.slice(0, 0), numbers=numbers[:0], problems=(problem,))
        for at, value in broken.items():
            problem = RowProblem(
                line=int(numbers[at]),
                rule="arrow",
                message=f"invalid UTF-8 in column '{name}'",
                type_name=owner.name,
                property=targets.get(name),
                value=show(value),
            )
            problems.setdefault(at, problem)
    # Without a copy of the buffers of the broken rows, which would be looked at again.
    keep = np.setdiff1d(np.arange(batch.num_rows), list(problems))
    return SoundRows(
        batch=batch.take(pa.array(keep)),
        numbers=numbers[keep],
        problems=tuple(problems[at] for at in sorted(problems)),
    )


def _flaw(data: pa.RecordBatch | pa.Array) -> str | None:
    try:
        data.validate(full=True)
    except pa.ArrowException as error:
        return (str(error).splitlines() or ["unknown reason"])[0]
    return None


def _broken_texts(column: pa.Array) -> dict[int, Any]:
    """Return the rows whose texts are not UTF-8, each with what it holds; none when something else is wrong."""
    try:
        plain = _as_bytes(column)
    except (pa.ArrowException, ValueError):
        return {}
    if plain is None or _flaw(plain) is not None:
        return {}
    return {at: value for at, value in enumerate(plain.to_pylist()) if _is_broken(value)}


def _as_bytes(column: pa.Array) -> pa.Array | None:
    if pa.types.is_dictionary(column.type):
        values = _as_bytes(column.dictionary)
        return None if values is None else pa.DictionaryArray.from_arrays(column.indices, values)
    wanted = _bytes_type(column.type)
    return None if wanted is None else column.view(wanted)


def _bytes_type(given: pa.DataType) -> pa.DataType | None:
    if pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given):
        item = _bytes_type(given.value_type)
        if item is None:
            return None
        if pa.types.is_fixed_size_list(given):
            return pa.list_(item, given.list_size)
        return pa.large_list(item) if pa.types.is_large_list(given) else pa.list_(item)
    return _BINARY.get(given)


def _is_broken(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_broken, value))
    if not isinstance(value, bytes):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False


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

    def __init__(
        self, catalog: Catalog, binding: ColumnBinding, parse: Parse, *, is_patch: bool, truncate: bool = False
    ) -> None:
        self._binding = binding
        self._owner = binding.owner
        self._targets = {column: target for target, column in binding.columns.items()}
        self._parse = parse
        self._takes_changes = binding.marks is not None
        is_patch = is_patch or self._takes_changes
        self._is_patch = is_patch
        self._decoder = RowDecoder(catalog, is_patch=is_patch, truncate=truncate, takes_changes=self._takes_changes)
        self._checker = ColumnChecker(binding.owner, is_patch=is_patch, truncate=truncate)

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
                marks=self._marks(batch),
            )
        )
        problems: list[RowProblem] = []
        exact: list[DecodedRow] = []
        for row in self._decode(parsed, sure.doubtful, numbers, batch):
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
        decoded = DecodedChunk(types={self._owner.table_key: join(parts)}, problems=tuple(problems))
        return complete_upserts(decoded) if self._takes_changes else decoded

    def _marks(self, batch: pa.RecordBatch) -> MarkedColumns | None:
        marks = self._binding.marks
        if marks is None:
            return None
        ops, sequences = (batch.column(marks[name]) if name in marks else None for name in (OP, SEQ))
        return mark_columns(ops, sequences, batch.num_rows)

    def _given(self, count: int) -> Mapping[str, pa.Array]:
        # A column that the file has is given for every row; an empty cell gives null.
        return {
            prop.name: pa.array(np.full(count, prop.name in self._binding.columns)) for prop in self._owner.properties
        }

    def _decode(
        self,
        parsed: Mapping[str, ParsedColumn],
        doubtful: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int64],
        batch: pa.RecordBatch,
    ) -> Iterator[DecodedRow | RowProblem]:
        for at in doubtful.tolist():
            line = int(numbers[at])
            cells = {target: column.value_at(at) for target, column in parsed.items()}
            if self._binding.marks is None:
                yield self._decode_row(cells, line, None)
                continue
            marking = read_marking(
                {name: mark_at(batch.column(at_)[at]) for name, at_ in self._binding.marks.items()}, line
            )
            if isinstance(marking, RowProblem):
                yield replace(marking, type_name=self._owner.name)
            else:
                yield self._decode_row(cells, line, marking)

    def _decode_row(self, cells: dict[str, Any], line: int, marking: Marking | None) -> DecodedRow | RowProblem:
        ends = {target: cells.pop(target, None) for target in _ENDPOINTS} if isinstance(self._owner, EdgeType) else {}
        is_delete = marking is not None and marking.op == DELETE
        for target, value in ends.items():
            if not isinstance(value, str) and not (value is None and is_delete):
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
        src, dst = ends.get("src"), ends.get("dst")
        if marking is None:
            return self._decoder.decode_row(self._owner, cells, line, src=src, dst=dst)
        return self._decoder.decode_change(self._owner, cells, line, marking, src=src, dst=dst)


def column_kind(owner: NodeType | EdgeType, target: str) -> PropertyType:
    """Return the type of a table's column: that of its property, text for ids."""
    prop = owner.get(target) if target not in {"id", "src", "dst"} else None
    return _TEXT if prop is None else prop.type


_INTEGER = r"-?[0-9]+"
_NUMBER = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
# Instants outside of the calendar's years have no other text.
_COUNT = r"[+-][0-9]{1,19}"
_WORDS = {"true": True, "false": False}
_JSON = msgspec.json.Decoder(float_hook=WrittenFloat)


def parse_texts(kind: PropertyType, texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Return the cells in the type of :func:`json_type`, and those that are not of it."""
    if kind.is_list or kind.is_vector:
        # Cells hold JSON arrays; only the exact decoder is strict about their items.
        return pa.nulls(len(texts), json_type(kind, "text")), mask_of(texts.is_valid())
    if kind.scalar in INTEGERS:
        return _numbers(kind, texts, _INTEGER)
    if kind.scalar in FLOATS:
        return _numbers(kind, texts, _NUMBER)
    if kind.is_decimal:
        return read_decimals(kind, texts)
    if kind.scalar is Scalar.BOOL:
        is_word = pc.is_in(texts, value_set=pa.array(list(_WORDS)))
        bad = mask_of(pc.and_not(texts.is_valid(), is_word))
        return pc.if_else(texts.is_valid(), pc.equal(texts, "true"), None), bad if bad.any() else None
    return texts, None


def read_decimals(kind: PropertyType, texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Return the decimals that plain texts write, and the rows whose text the exact decoder has to look at."""
    precision, scale = kind.digits
    # What Arrow makes of an exponent or of more digits than a type has is not always right.
    plain = rf"^[+-]?0*[0-9]{{0,{precision - scale}}}(\.[0-9]{{0,{scale}}})?$"
    is_plain = pc.and_(
        pc.match_substring_regex(texts, plain),
        pc.and_(pc.match_substring_regex(texts, "[0-9]"), pc.less_equal(pc.utf8_length(texts), MAX_PRECISION)),
    )
    bad = mask_of(pc.fill_null(pc.invert(is_plain), fill_value=False))
    chosen = texts if not bad.any() else pc.if_else(is_plain, texts, None)
    return chosen.cast(arrow_type(kind.single)), bad if bad.any() else None


def value_of_text(kind: PropertyType, text: str) -> Any:
    """Return the JSON value that a cell stands for; the text itself when it stands for none."""
    if kind.is_list or kind.is_vector:
        try:
            return _JSON.decode(text)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return text
    if kind.scalar in INTEGERS and re.fullmatch(_INTEGER, text, re.ASCII) and len(text) <= 64:
        return int(text)
    if kind.scalar in FLOATS and re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if kind.scalar is Scalar.BOOL:
        return _WORDS.get(text, text)
    if kind.scalar is Scalar.DATETIME and re.fullmatch(_COUNT, text, re.ASCII):
        return int(text)
    return text


def _numbers(kind: PropertyType, texts: pa.Array, form: str) -> tuple[pa.Array, Mask | None]:
    wanted = json_type(kind, "text")
    is_number = pc.match_substring_regex(texts, f"^{form}$")
    bad = mask_of(pc.fill_null(pc.invert(is_number), fill_value=False))
    plain = texts if not bad.any() else pc.if_else(is_number, texts, None)
    try:
        return plain.cast(wanted), bad if bad.any() else None
    except pa.ArrowInvalid:
        # One of them is out of range; the exact decoder finds which.
        return pa.nulls(len(texts), wanted), mask_of(texts.is_valid())
